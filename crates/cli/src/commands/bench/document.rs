//! The document of all measurements: each is made by a command of its own, and none takes another's figures away.

use std::fs;
use std::io;
use std::path::Path;

use engine::RunError;

/// Sections that `saggar bench` does not make itself.
const OF_OTHERS: [&str; 1] = [super::judge::TITLE];

/// Writes what `saggar bench` found, and keeps what other commands have written there.
pub(super) fn write(path: &Path, report: &str) -> Result<(), RunError> {
    let old = read(path)?;
    let kept = OF_OTHERS.iter().filter_map(|title| section(&old, title));
    put(path, &kept.fold(report.to_owned(), |document, section| with_section(&document, section)))
}

/// Writes one section in place of the old one, or at the end.
pub(super) fn write_section(path: &Path, section: &str) -> Result<(), RunError> {
    put(path, &with_section(&read(path)?, section))
}

fn read(path: &Path) -> Result<String, RunError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(RunError::Output { path: path.to_owned(), source }),
    }
}

fn put(path: &Path, text: &str) -> Result<(), RunError> {
    fs::write(path, text).map_err(|source| RunError::Output { path: path.to_owned(), source })
}

/// From a heading to the next one of its kind.
fn section<'d>(document: &'d str, title: &str) -> Option<&'d str> {
    let heading = format!("## {title}\n");
    let start = if document.starts_with(&heading) { 0 } else { document.find(&format!("\n{heading}"))? + 1 };
    let rest = &document[start..];
    Some(rest.find("\n## ").map_or(rest, |end| &rest[..end]))
}

fn with_section(document: &str, new: &str) -> String {
    let new = new.trim_end();
    let title = new.lines().next().and_then(|line| line.strip_prefix("## ")).unwrap_or_default();
    match section(document, title) {
        Some(old) => {
            let (before, after) = document.split_once(old).unwrap_or((document, ""));
            format!("{before}{new}\n{after}")
        }
        None if document.trim().is_empty() => format!("{new}\n"),
        None => format!("{}\n\n{new}\n", document.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_where_it_is_or_added_at_the_end() {
        let document = "# All\n\n## One\n\n1\n\n## Two\n\n2\n\n## Three\n\n3\n";
        assert_eq!(section(document, "Two"), Some("## Two\n\n2\n"));
        assert_eq!(section(document, "T"), None);
        assert_eq!(with_section(document, "## Two\n\n4\n"), document.replace('2', "4"));
        assert_eq!(with_section(document, "## Three\n\n5\n\n"), document.replace('3', "5"));
        assert_eq!(with_section(document, "## Four\n\n4\n"), format!("{document}\n## Four\n\n4\n"));
        assert_eq!(with_section("", "## Four\n\n4"), "## Four\n\n4\n");
    }
}
