//! The program in a model's completion.

/// The last fenced block of the language, or the last of any; all of the text if there is none. A block that was cut off
/// before its end counts.
#[must_use]
pub fn extract_code(completion: &str, language: &str) -> String {
    let (mut of_language, mut of_any) = (None, None);
    let mut open: Option<(String, String)> = None;
    for line in completion.lines() {
        let fence = line.trim_start();
        match &mut open {
            None if fence.starts_with("```") => {
                let name = fence.trim_start_matches('`').trim().split([' ', ',', '{']).next().unwrap_or_default();
                open = Some((name.to_ascii_lowercase(), String::new()));
            }
            None => {}
            Some(_) if fence.trim_end() == "```" => {
                if let Some(block) = open.take() {
                    keep(block, language, &mut of_language, &mut of_any);
                }
            }
            Some((_, block)) => {
                block.push_str(line);
                block.push('\n');
            }
        }
    }
    if let Some(block) = open {
        keep(block, language, &mut of_language, &mut of_any);
    }
    of_language.or(of_any).unwrap_or_else(|| completion.to_owned())
}

fn keep(
    (name, block): (String, String),
    language: &str,
    of_language: &mut Option<String>,
    of_any: &mut Option<String>,
) {
    if is_language(&name, language) {
        *of_language = Some(block);
    } else if name.is_empty() {
        *of_any = Some(block);
    }
}

fn is_language(name: &str, language: &str) -> bool {
    let names: &[&str] = match language {
        "python" | "python3" | "py" => &["python", "python3", "py"],
        "node" | "javascript" | "js" => &["node", "javascript", "js", "mjs"],
        "typescript" | "ts" => &["typescript", "ts"],
        "cpp" | "c++" | "cxx" => &["cpp", "c++", "cxx"],
        "bash" | "sh" => &["bash", "sh", "shell"],
        other => return name == other,
    };
    names.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_block_of_the_language_is_the_program() {
        for (text, code) in [
            ("x = 1\n", "x = 1\n"),
            ("Try:\n```python\na\n```\nbetter:\n```python\nb\n```\nrun it:\n```bash\nrm\n```\n", "b\n"),
            ("```\na\n```", "a\n"),
            ("```python\na\nb", "a\nb\n"),
            ("```py title=x\na\n```", "a\n"),
        ] {
            assert_eq!(extract_code(text, "python"), code, "{text}");
        }
    }
}
