//! Bytes to lines, in bounded memory.

use super::MOST_LINE;

/// Puts lines together from the chunks in which they come.
#[derive(Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
    /// Whether the rest of a line that was too long is still to come.
    skips: bool,
}

/// A line that was longer than any may be; what there was of it is dropped.
pub(super) struct TooLong;

impl Lines {
    /// Takes a chunk, and hands over each line that ends in it, without its end.
    pub(super) fn push(&mut self, mut chunk: &[u8], mut each: impl FnMut(Result<&[u8], TooLong>)) {
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            let line = &chunk[..end];
            chunk = &chunk[end + 1..];
            if self.skips || self.partial.len() + line.len() > MOST_LINE {
                each(Err(TooLong));
            } else if self.partial.is_empty() {
                each(Ok(line));
            } else {
                self.partial.extend_from_slice(line);
                each(Ok(&self.partial));
            }
            self.partial.clear();
            self.skips = false;
        }
        if self.skips || self.partial.len() + chunk.len() > MOST_LINE {
            self.partial = Vec::new();
            self.skips = true;
        } else {
            self.partial.extend_from_slice(chunk);
        }
        // One long line must not be paid for until the interpreter ends.
        if self.partial.is_empty() && self.partial.capacity() > 1 << 16 {
            self.partial = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> Vec<Option<String>> {
        let (mut lines, mut seen) = (Lines::default(), Vec::new());
        for chunk in chunks {
            lines.push(chunk, |line| seen.push(line.ok().map(|line| String::from_utf8_lossy(line).into_owned())));
        }
        seen
    }

    #[test]
    fn lines_are_whole_however_they_come() {
        let expected = ["one", "", "three"].map(|line| Some(line.to_owned()));
        assert_eq!(lines(&[b"one\n\nthree\nrest"]), expected);
        assert_eq!(lines(&[b"o", b"ne", b"\n\nthr", b"ee\n"]), expected);
    }

    #[test]
    fn a_line_that_is_too_long_is_told_once_and_the_next_is_read() {
        let flood = vec![b'x'; MOST_LINE / 2 + 1];
        assert_eq!(lines(&[&flood, &flood, &flood, b"\nnext\n"]), [None, Some("next".to_owned())]);
        assert_eq!(lines(&[&flood, &flood[..flood.len() - 2], b"\n"]).iter().flatten().count(), 1);
    }
}
