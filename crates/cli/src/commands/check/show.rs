//! Findings for people: what, where, and the line itself.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use engine::RunError;
use types::{CheckResult, Finding};

use crate::failure::{Failure, visible};

/// Longer lines are shown around the place.
const WIDTH: usize = 120;

/// Prints every finding with its line, and what follows from them.
pub(super) fn print(checked: &CheckResult, code: &[u8], name: &str) -> Result<(), Failure> {
    let source = String::from_utf8_lossy(code);
    let lines: Vec<&str> = source.lines().collect();
    let mut text = String::new();
    for finding in &checked.findings {
        one(&mut text, finding, &lines, name);
    }
    text.push_str(&verdict(checked));
    let shown: String = text.chars().map(visible).collect();
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(shown.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|source| RunError::Output { path: "standard output".into(), source }.into())
}

fn one(text: &mut String, finding: &Finding, lines: &[&str], name: &str) {
    let blocks = if finding.blocks { ", blocks" } else { "" };
    // Writing into a text cannot fail.
    let _ = writeln!(
        text,
        "{name}:{}:{}: {} {} ({} points{blocks})\n  {}",
        finding.line,
        finding.column,
        finding.severity.name(),
        finding.rule,
        finding.points,
        finding.message,
    );
    let line = usize::try_from(finding.line).ok().and_then(|line| lines.get(line.checked_sub(1)?));
    if let Some(line) = line {
        let (part, caret) = around(line, usize::try_from(finding.column).unwrap_or(1).saturating_sub(1));
        let number = finding.line.to_string();
        let _ = writeln!(text, "  {number} | {part}\n  {} | {}^", " ".repeat(number.len()), " ".repeat(caret));
    }
}

/// The part of a line that has the place in it, and where in that part it is.
fn around(line: &str, column: usize) -> (String, usize) {
    let start = column.saturating_sub(WIDTH / 2);
    let part = line.chars().skip(start).take(WIDTH).map(|c| if c == '\t' { ' ' } else { c }).collect();
    (part, column - start)
}

fn verdict(checked: &CheckResult) -> String {
    let policy = checked.policy.name();
    match &checked.refused_by {
        Some(rule) => format!("refused under policy {policy} by {rule}: {} points\n", checked.points),
        None if checked.syntax_error.is_some() => "the code cannot be parsed\n".to_owned(),
        None => format!(
            "nothing blocks under policy {policy}: {} findings, {} points\n",
            checked.findings.len(),
            checked.points
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_shown_around_the_place() {
        assert_eq!(around("abc", 1), ("abc".to_owned(), 1));
        let (part, caret) = around(&format!("{}X{}", "a".repeat(500), "b".repeat(500)), 500);
        assert_eq!(part.chars().nth(caret), Some('X'));
        assert_eq!(part.len(), WIDTH);
    }
}
