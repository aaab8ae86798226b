//! Rows and columns, for a terminal and for a document.

use std::fmt::Write;

/// One table.
pub(super) struct Table {
    pub(super) title: &'static str,
    pub(super) header: &'static [&'static str],
    pub(super) rows: Vec<Vec<String>>,
    /// What a reader must know to read it.
    pub(super) remark: Option<String>,
}

impl Table {
    /// With columns in line; the last one is as long as it likes.
    pub(super) fn text(&self) -> String {
        let header = self.header.iter().map(|name| (*name).to_owned()).collect();
        let lines: Vec<Vec<String>> = [header].into_iter().chain(self.rows.iter().cloned()).collect();
        let width = |column: usize| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        let mut text = format!("{}\n", self.title);
        for line in &lines {
            let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            let _ = writeln!(text, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        if let Some(remark) = &self.remark {
            let _ = writeln!(text, "  {remark}");
        }
        text
    }

    /// As Markdown.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n", self.title);
        if let Some(remark) = &self.remark {
            let _ = writeln!(text, "{remark}\n");
        }
        let _ = writeln!(text, "| {} |", self.header.join(" | "));
        let _ = writeln!(text, "|{}", "---|".repeat(self.header.len()));
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        text
    }
}

/// A figure with as many decimals as it deserves; `-` if there is none.
pub(super) fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_in_line_and_bars_do_not_break_a_row() {
        let rows = vec![vec!["long name".to_owned(), "1".to_owned()], vec!["a|b".to_owned(), String::new()]];
        let table = Table { title: "T", header: &["who", "n"], rows, remark: None };
        assert_eq!(table.text(), "T\n  who        n\n  long name  1\n  a|b\n");
        assert_eq!(table.markdown(), "## T\n\n| who | n |\n|---|---|\n| long name | 1 |\n| a\\|b |  |\n");
    }

    #[test]
    fn figures_are_as_fine_as_they_deserve() {
        assert_eq!([None, Some(0.034), Some(12.34), Some(1234.5)].map(figure), ["-", "0.03", "12.3", "1234"]);
    }
}
