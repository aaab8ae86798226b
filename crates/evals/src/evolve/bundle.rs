//! Programs of several files as one text: what is proposed, kept, compared and shown is always a text.
//!
//! Each file begins with a line of its own that names it. Which files there are is settled by the starting program; a
//! proposal may change them, and can neither add nor remove any.

use std::fmt::Write;

/// What the line before a file begins and ends with.
const BEFORE: &str = "===== FILE: ";
const AFTER: &str = " =====";

/// One text of files.
pub(crate) fn join<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut all = String::new();
    for (path, text) in files {
        // Writing into memory does not fail.
        let _ = write!(all, "{BEFORE}{path}{AFTER}\n{text}");
        if !text.is_empty() && !text.ends_with('\n') {
            all.push('\n');
        }
    }
    all
}

/// The files of a text, in order; nothing if it is the text of one program.
pub(crate) fn split(text: &str) -> Option<Vec<(&str, &str)>> {
    if !text.starts_with(BEFORE) {
        return None;
    }
    let mut files = Vec::new();
    let mut open: Option<(&str, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        if let Some(path) = named(line) {
            files.extend(open.map(|(path, from)| (path, &text[from..start])));
            open = Some((path, at));
        }
    }
    files.extend(open.map(|(path, from)| (path, &text[from..])));
    (!files.is_empty()).then_some(files)
}

/// The file that a line names.
pub(crate) fn named(line: &str) -> Option<&str> {
    let path = line.trim_end().strip_prefix(BEFORE)?.strip_suffix(AFTER)?.trim();
    (!path.is_empty()).then_some(path)
}

/// The parent with those files in place of its own that an answer holds; each may stand in a fenced block.
pub(crate) fn merged(parent: &str, answer: &str) -> Result<String, String> {
    let mut files = split(parent).ok_or("there is no program to change")?;
    let begins = answer.lines().position(|line| named(line).is_some());
    let begins = begins.ok_or_else(|| format!("the answer names no file; put `{BEFORE}path{AFTER}` before each"))?;
    let rest: Vec<&str> = answer.split_inclusive('\n').skip(begins).collect();
    let rest = rest.concat();
    let said = split(&rest).unwrap_or_default();
    for (path, text) in said {
        let own = files.iter_mut().find(|(own, _)| *own == path);
        own.ok_or_else(|| format!("the program has no file `{path}`"))?.1 = unfenced(text);
    }
    Ok(join(files))
}

/// What stands in the first fenced block of a text, or the text.
fn unfenced(text: &str) -> &str {
    let Some(fence) = text.lines().find(|line| !line.trim().is_empty()).filter(|line| line.starts_with("```")) else {
        return text;
    };
    let ticks = &fence[..fence.len() - fence.trim_start_matches('`').len()];
    let body = text.find(fence).map_or(text, |at| &text[at + fence.len()..]);
    let body = body.strip_prefix('\n').unwrap_or(body);
    let mut at = 0;
    for line in body.split_inclusive('\n') {
        if line.trim_end() == ticks {
            return &body[..at];
        }
        at += line.len();
    }
    body
}

/// Whether two texts are of the same files.
pub(crate) fn has_files_of(text: &str, other: &str) -> bool {
    let paths = |text| split(text).map(|files| files.into_iter().map(|(path, _)| path.to_owned()).collect::<Vec<_>>());
    paths(text) == paths(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "===== FILE: main.py =====\nimport lib.a\n===== FILE: lib/a.py =====\nX = 1\n";

    #[test]
    fn a_tree_is_a_text_and_back() {
        assert_eq!(join([("main.py", "import lib.a"), ("lib/a.py", "X = 1\n")]), TREE);
        assert_eq!(split(TREE).unwrap(), [("main.py", "import lib.a\n"), ("lib/a.py", "X = 1\n")]);
        assert_eq!(split("x = 1\n"), None);
        assert_eq!(join(split(TREE).unwrap()), TREE);
        assert_eq!(split(&join([("a", ""), ("b", "")])).unwrap(), [("a", ""), ("b", "")]);
    }

    #[test]
    fn an_answer_changes_the_files_that_it_names_and_no_others() {
        let want = TREE.replace("X = 1", "X = 2");
        for answer in [
            "===== FILE: lib/a.py =====\nX = 2\n",
            "I change one.\n\n===== FILE: lib/a.py =====\n```python\nX = 2\n```\nThat is all.\n",
            want.as_str(),
        ] {
            assert_eq!(merged(TREE, answer).as_deref(), Ok(want.as_str()), "{answer}");
        }
        assert!(merged(TREE, "===== FILE: ../b.py =====\nX = 2\n").unwrap_err().contains("no file `../b.py`"));
        assert!(merged(TREE, "X = 2\n").unwrap_err().contains("names no file"));
        assert!(has_files_of(TREE, &want) && !has_files_of(TREE, "x"));
    }
}
