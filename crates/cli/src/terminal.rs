//! Output as it comes: to a pipe as it is, to a terminal with its control sequences shown, not obeyed.

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;

use engine::{Output, Stream};

/// Our own stdout and stderr, reading along with a run.
pub(crate) struct Live {
    stdout: Filter,
    stderr: Filter,
}

impl Live {
    /// `raw` passes control sequences to a terminal, too.
    pub(crate) fn new(raw: bool) -> Self {
        Self {
            stdout: Filter::new(!raw && io::stdout().is_terminal()),
            stderr: Filter::new(!raw && io::stderr().is_terminal()),
        }
    }

    /// Says something to a person, on stderr. Words of the program may be in it, so they are shown, not obeyed.
    pub(crate) fn say(words: &str) {
        let _ = put(&mut io::stderr(), &Filter::new(true).pass(format!("{words}\n").as_bytes()));
    }

    /// Shows bytes of a character that never came to its end.
    pub(crate) fn finish(&mut self) {
        let _ = put(&mut io::stdout(), &self.stdout.finish());
        let _ = put(&mut io::stderr(), &self.stderr.finish());
    }
}

impl Output for Live {
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> ControlFlow<()> {
        let written = match stream {
            Stream::Out => put(&mut io::stdout(), &self.stdout.pass(bytes)),
            Stream::Err => put(&mut io::stderr(), &self.stderr.pass(bytes)),
        };
        // Whoever read our output is gone: so is the reason to run.
        if written.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn put(into: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    into.write_all(bytes)?;
    into.flush()
}

/// Shows what a terminal would obey.
struct Filter {
    active: bool,
    partial: Vec<u8>,
}

impl Filter {
    fn new(active: bool) -> Self {
        Self { active, partial: Vec::new() }
    }

    fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        if !self.active {
            return bytes.to_vec();
        }
        let mut input = std::mem::take(&mut self.partial);
        input.extend_from_slice(bytes);
        let mut shown = Vec::with_capacity(input.len());
        for chunk in input.utf8_chunks() {
            chunk.valid().chars().for_each(|c| show(c, &mut shown));
            let end = std::ptr::eq(chunk.invalid().as_ptr_range().end, input.as_ptr_range().end);
            // Only the last bytes can be the start of a character still to come.
            if end && chunk.invalid().len() < 4 && could_go_on(chunk.invalid()) {
                self.partial = chunk.invalid().to_vec();
            } else {
                chunk.invalid().iter().for_each(|byte| shown.extend(format!("\\x{byte:02x}").bytes()));
            }
        }
        shown
    }

    fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.partial).iter().flat_map(|byte| format!("\\x{byte:02x}").into_bytes()).collect()
    }
}

/// Whether more bytes could make this a character.
fn could_go_on(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

fn show(c: char, shown: &mut Vec<u8>) {
    match c {
        '\n' | '\t' => shown.push(c as u8),
        // A carriage return could overwrite the line that a person has just read; bidirectional marks could turn it around.
        c if c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
        {
            shown.extend(c.escape_default().to_string().bytes());
        }
        c => shown.extend(c.encode_utf8(&mut [0; 4]).bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(chunks: &[&[u8]]) -> String {
        let mut filter = Filter::new(true);
        let mut all: Vec<u8> = chunks.iter().flat_map(|chunk| filter.pass(chunk)).collect();
        all.extend(filter.finish());
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn control_sequences_are_shown_not_obeyed() {
        assert_eq!(shown(&[b"a\x1b]52;c;AAAA\x07b\n"]), "a\\u{1b}]52;c;AAAA\\u{7}b\n");
        assert_eq!(shown(&["\u{9b}31m".as_bytes()]), "\\u{9b}31m");
        assert_eq!(shown(&[b"over\rwrite\ttab"]), "over\\rwrite\ttab");
    }

    #[test]
    fn a_character_split_over_two_reads_stays_whole() {
        assert_eq!(shown(&[b"caf\xc3", b"\xa9!"]), "café!");
        assert_eq!(shown(&[b"\xf0\x9f", b"\x8f", b"\xba"]), "🏺");
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_as_numbers() {
        assert_eq!(shown(&[b"\xff\xfe", b"x\xc3"]), "\\xff\\xfex\\xc3");
    }
}
