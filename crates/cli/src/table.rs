//! Tables for people: names to the left, nothing cut.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use crate::failure::{Failure, unheard, visible};

/// Prints rows below a head, or only a line.
pub(crate) fn print(head: &[&str], rows: &[Vec<String>], last: &str) -> Result<(), Failure> {
    let mut lines: Vec<Vec<String>> = Vec::new();
    if !head.is_empty() {
        lines.push(head.iter().map(|&word| word.to_owned()).collect());
    }
    // Names come from archives and may hold anything.
    lines.extend(rows.iter().map(|row| row.iter().map(|cell| cell.chars().map(visible).collect()).collect()));
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let cell_width = |line: &Vec<String>, column: usize| line.get(column).map_or(0, |cell| cell.chars().count());
    let width = |column| lines.iter().map(|line| cell_width(line, column)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    if !last.is_empty() {
        text.extend(last.chars().map(visible));
        text.push('\n');
    }
    io::stdout().lock().write_all(text.as_bytes()).map_err(unheard)
}

/// A size as people read it.
pub(crate) fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "KiB", "MiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{count} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} GiB")
}

/// How long ago something was made, from seconds since 1970.
pub(crate) fn age(made: u64) -> String {
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(made);
    let seconds = then.elapsed().unwrap_or_default().as_secs();
    match seconds {
        0..60 => "now".to_owned(),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ages_have_the_unit_that_fits() {
        let sizes = [0, 1023, 1536, 5 << 20, 3 << 30].map(bytes);
        assert_eq!(sizes, ["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3.0 GiB"]);
        assert_eq!(age(u64::from(u32::MAX)), "now");
    }
}
