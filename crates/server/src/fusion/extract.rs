//! The program in a completion, as `SandboxFusion` finds it: the first fenced block of the language, else the first of any;
//! failing that one that was cut off; failing that, what looks like code.

/// The program; empty if there is none.
pub(super) fn extract(completion: &str, language: &str) -> String {
    let fenced = fenced(completion);
    if !fenced.is_empty() {
        return first(&fenced, language);
    }
    if let Some((tag, code)) = open_fence(completion) {
        return first(&[(tag, code)], language);
    }
    match language {
        "python" => heuristic_python(completion),
        "bash" => solid_lines(completion).flat_map(|line| [line, "\n"]).collect(),
        _ => String::new(),
    }
}

fn first(blocks: &[(&str, &str)], language: &str) -> String {
    let of_language = blocks.iter().find(|(tag, _)| language_of(tag.trim()) == Some(language));
    of_language.or(blocks.first()).map(|(_, code)| (*code).to_owned()).unwrap_or_default()
}

/// Tag and content of every block that has an end.
fn fenced(text: &str) -> Vec<(&str, &str)> {
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some((tag, content)) = open_fence(rest) {
        let Some((code, after)) = close(content) else { break };
        blocks.push((tag, code));
        rest = after;
    }
    blocks
}

/// The tag of the next fence and all that follows it.
fn open_fence(text: &str) -> Option<(&str, &str)> {
    let (_, after) = text.split_once("```")?;
    after.split_once('\n')
}

/// A block's content up to the line end before its closing fence, and what follows.
fn close(content: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    while let Some(at) = content[from..].find("```").map(|at| from + at) {
        let before = &content[..at];
        let solid = before.trim_end().len();
        if let Some(line_end) = before[solid..].find('\n') {
            return Some((&content[..solid + line_end], &content[at + 3..]));
        }
        from = at + 3;
    }
    None
}

/// What a fence's tag stands for.
fn language_of(tag: &str) -> Option<&'static str> {
    Some(match tag {
        "python" | "Python" | "py" | "Python3" | "python3" | "PY" => "python",
        "cpp" | "c++" | "C++" | "Cpp" | "CPP" => "cpp",
        "javascript" | "Javascript" | "JavaScript" | "JS" | "js" => "nodejs",
        "go" | "Go" => "go",
        "java" | "Java" => "java",
        "php" | "PHP" => "php",
        "bash" | "Bash" | "BASH" | "sh" | "shell" => "bash",
        "typescript" => "typescript",
        "rust" | "Rust" | "rs" => "rust",
        "lua" | "Lua" => "lua",
        "perl" | "Perl" | "PERL" => "perl",
        "R" | "r" => "R",
        "ruby" | "Ruby" => "ruby",
        "c" | "C" => "c",
        _ => return None,
    })
}

fn solid_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').filter(|line| !line.trim().is_empty())
}

/// The first function or class, with imports and comments right before it.
fn heuristic_python(text: &str) -> String {
    let lines: Vec<&str> = solid_lines(text).collect();
    let is_indented = |line: &&&str| line.starts_with(char::is_whitespace);
    let begins = |(at, line): &(usize, &&str)| {
        (line.starts_with("def ") || line.starts_with("class ")) && lines.get(at + 1).as_ref().is_some_and(is_indented)
    };
    let Some((at, _)) = lines.iter().enumerate().find(begins) else { return String::new() };
    let leads = |line: &&&str| ["import", "from", "#"].iter().any(|word| line.starts_with(word));
    let start = at - lines[..at].iter().rev().take_while(leads).count();
    let end = at + 1 + lines[at + 1..].iter().take_while(is_indented).count();
    lines[start..end].iter().flat_map(|line| [*line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_sandboxfusion_finds_them() {
        for (text, language, code) in [
            ("Try:\n```python\na = 1\nb\n```\nor\n```python\nc\n```", "python", "a = 1\nb"),
            ("```cpp\nx\n```\n```python\ny\n```", "python", "y"),
            ("```cpp\nx\n```", "python", "x"),
            ("```\nx\n  ```", "python", "x"),
            ("```python\nx = '```'\n```", "python", "x = '```'"),
            ("```python\nnever ended\n", "python", "never ended\n"),
            ("import os\ndef f(a):\n    return a\nprint(1)", "python", "import os\ndef f(a):\n    return a\n"),
            ("I cannot.", "python", ""),
            ("echo 1\n\necho 2", "bash", "echo 1\necho 2\n"),
            ("x", "go", ""),
        ] {
            assert_eq!(extract(text, language), code, "{text}");
        }
    }
}
