//! Which programs are one: those that differ in comments, blanks and quotes alone are not run twice.

use ruff_python_ast::comparable::ComparableStmt;
use ruff_python_parser::parse_module;

use super::bundle;
use super::task::sha256;

/// A hash of what the program is, whatever its text looks like. A program that does not parse is its text.
pub(crate) fn shape(code: &str, is_python: bool) -> String {
    if let Some(files) = bundle::split(code) {
        let of_file = |(path, text): &(&str, &str)| format!("{path} {}", shape(text, is_python && is_module(path)));
        return sha256(&files.iter().map(of_file).collect::<Vec<_>>().join("\n"));
    }
    let of_tree = |code: &str| {
        let parsed = parse_module(code).ok()?;
        let body: Vec<ComparableStmt<'_>> = parsed.suite().iter().map(Into::into).collect();
        Some(sha256(&format!("{body:?}")))
    };
    if is_python && let Some(hash) = policy::bounded_python(code, of_tree).flatten() {
        return hash;
    }
    let lines: Vec<&str> = code.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    sha256(&lines.join("\n"))
}

/// Whether a file of a tree is Python.
pub(crate) fn is_module(path: &str) -> bool {
    engine::for_file_name(path) == Some("python")
}

/// Whether mutators can read a program, or some file of it.
pub(crate) fn is_mutable(code: &str) -> bool {
    match bundle::split(code) {
        Some(files) => files.iter().any(|(path, text)| is_module(path) && is_python(text)),
        None => is_python(code),
    }
}

/// Whether a text is a Python program that mutators can read.
pub(crate) fn is_python(code: &str) -> bool {
    policy::bounded_python(code, |code| parse_module(code).is_ok()).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_program_does_not_matter_and_its_meaning_does() {
        let shape = |code: &str| shape(code, true);
        assert_eq!(shape("x = 'a' # why\n\n\ny = (1)\n"), shape("x = \"a\"\ny = 1"));
        assert_ne!(shape("x = 1"), shape("x = 2"));
        assert_ne!(shape("x = 1"), shape("x = 1.0"));
        assert_ne!(shape("if a:\n    b\nc"), shape("if a:\n    b\n    c"));
        assert_ne!(shape("def ("), shape("def (("));
        assert_eq!(super::shape("int x; \n\n", false), super::shape("int x;", false));
        let tree = |a: &str, b: &str| bundle::join([("main.py", a), ("data.txt", b)]);
        assert_eq!(shape(&tree("x = 1 # one", "# x")), shape(&tree("x = 1", "# x")));
        assert_ne!(shape(&tree("x = 1", "# x")), shape(&tree("x = 1", "# y")));
    }
}
