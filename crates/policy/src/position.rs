//! From an offset to line and column.

/// Starts of lines, found once.
pub(crate) struct Lines<'a> {
    source: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(source: &'a str) -> Self {
        let starts = source.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { source, starts: std::iter::once(0).chain(starts).collect() }
    }

    /// Line and column from 1, the column in characters.
    pub(crate) fn place(&self, offset: usize) -> (u32, u32) {
        let offset = offset.min(self.source.len());
        let line = self.starts.partition_point(|start| *start <= offset).saturating_sub(1);
        let start = self.starts.get(line).copied().unwrap_or(0);
        let before = self.source.as_bytes().get(start..offset).unwrap_or_default();
        // A long line with many findings must not be counted from its start each time: bytes are near enough there.
        let column =
            if before.len() > 4096 { before.len() } else { before.iter().filter(|b| (**b & 0xc0) != 0x80).count() };
        let number = |n: usize| u32::try_from(n + 1).unwrap_or(u32::MAX);
        (number(line), number(column))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let lines = Lines::new("a\nü = eval\n");
        assert_eq!(lines.place(0), (1, 1));
        assert_eq!(lines.place(2), (2, 1));
        assert_eq!(lines.place(7), (2, 5));
        assert_eq!(lines.place(1 << 40), (3, 1));
    }
}
