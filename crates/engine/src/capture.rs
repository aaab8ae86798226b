//! Keeping the head and the tail of an output, counting all of it, in constant memory.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use crate::audit::OutputFacts;
use crate::backend::{Output, Stream};

/// Both outputs of a run, and whoever reads along.
pub(crate) struct Capture<'live> {
    pub(crate) stdout: Kept,
    pub(crate) stderr: Kept,
    live: Option<&'live mut dyn Output>,
    /// Whether standard output is not kept but passed on, all of it.
    passes: bool,
}

impl<'live> Capture<'live> {
    /// Keeps `limit` bytes of each stream; `live` gets the same bytes as they come.
    pub(crate) fn new(limit: u64, live: Option<&'live mut dyn Output>) -> Self {
        Self { stdout: Kept::new(limit), stderr: Kept::new(limit), live, passes: false }
    }

    /// Keeps nothing of standard output: whoever reads along gets all of it.
    pub(crate) fn pass_stdout(self) -> Self {
        Self { passes: true, ..self }
    }

    /// Gives the reader along what was held back as a possible tail.
    pub(crate) fn finish(&mut self) {
        let Some(live) = self.live.as_mut().filter(|_| !self.passes) else { return };
        for (stream, kept) in [(Stream::Out, &self.stdout), (Stream::Err, &self.stderr)] {
            let rest = kept.rest();
            if !rest.is_empty() {
                let _ = live.write(stream, &rest);
            }
        }
    }
}

impl Output for Capture<'_> {
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> ControlFlow<()> {
        let kept = match stream {
            Stream::Out if self.passes => {
                return self.live.as_mut().map_or(ControlFlow::Continue(()), |live| live.write(stream, bytes));
            }
            // Who converses reads standard output alone.
            Stream::Err if self.passes => {
                self.stderr.push(bytes);
                return ControlFlow::Continue(());
            }
            Stream::Out => &mut self.stdout,
            Stream::Err => &mut self.stderr,
        };
        let head = kept.push(bytes);
        match &mut self.live {
            Some(live) if head > 0 => live.write(stream, &bytes[..head]),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// The head and the tail of one stream.
pub(crate) struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_limit: usize,
    tail_limit: usize,
    total: u64,
    /// Over all of it, kept or not.
    hasher: blake3::Hasher,
}

impl Kept {
    pub(crate) fn new(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_limit: limit - limit / 2,
            tail_limit: limit / 2,
            total: 0,
            hasher: blake3::Hasher::new(),
        }
    }

    /// Takes bytes; returns how many of them went to the head.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> usize {
        self.total += bytes.len() as u64;
        self.hasher.update(bytes);
        let (head, rest) = bytes.split_at(bytes.len().min(self.head_limit - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let overflow = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..overflow);
        self.tail.extend(rest);
        head.len()
    }

    /// All bytes, kept or not.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// What the audit trail says of it.
    pub(crate) fn facts(&self) -> OutputFacts {
        OutputFacts { blake3: self.hasher.finalize().to_string(), bytes: self.total, truncated: self.is_cut() }
    }

    /// Whether anything was cut.
    pub(crate) fn is_cut(&self) -> bool {
        self.total > (self.head.len() + self.tail.len()) as u64
    }

    /// What stands in place of what was cut.
    fn gap(&self) -> Option<String> {
        let cut = self.total - (self.head.len() + self.tail.len()) as u64;
        (cut > 0).then(|| format!("\n[... {cut} bytes cut ...]\n"))
    }

    /// What a reader along has not seen: the mark of what was cut, and the tail.
    pub(crate) fn rest(&self) -> Vec<u8> {
        let (a, b) = self.tail.as_slices();
        [self.gap().unwrap_or_default().as_bytes(), a, b].concat()
    }

    /// What was kept, as text. Cuts fall between characters; bytes that are no text become replacement characters.
    pub(crate) fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let Some(gap) = self.gap() else {
            return String::from_utf8_lossy(&[&self.head[..], &tail].concat()).into_owned();
        };
        let head = without_partial_end(&self.head);
        let start = tail.iter().take(3).take_while(|byte| is_continuation(**byte)).count();
        format!("{}{gap}{}", String::from_utf8_lossy(head), String::from_utf8_lossy(&tail[start..]))
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// Drops a character whose last bytes were cut off.
fn without_partial_end(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(limit: u64, chunks: &[&[u8]]) -> Kept {
        let mut kept = Kept::new(limit);
        for chunk in chunks {
            kept.push(chunk);
        }
        kept
    }

    #[test]
    fn output_within_the_limit_is_untouched() {
        let kept = kept(10, &[b"hello", b"world"]);
        assert_eq!((kept.text().as_str(), kept.total(), kept.is_cut()), ("helloworld", 10, false));
    }

    #[test]
    fn head_and_tail_of_a_flood_are_kept_and_all_of_it_is_counted() {
        let kept = kept(8, &[b"start-", &vec![b'x'; 100_000], b"-end"]);
        assert_eq!(kept.text(), "star\n[... 100002 bytes cut ...]\n-end");
        assert_eq!((kept.total(), kept.is_cut()), (100_010, true));
    }

    #[test]
    fn the_hash_is_over_all_of_it_whatever_was_kept() {
        let flood = [&b"start-"[..], &vec![b'x'; 100_000], b"-end"];
        let whole = blake3::hash(&flood.concat()).to_string();
        assert_eq!(kept(8, &flood).facts(), OutputFacts { blake3: whole.clone(), bytes: 100_010, truncated: true });
        assert_eq!(kept(1 << 20, &flood).facts().blake3, whole);
    }

    #[test]
    fn cuts_fall_between_characters() {
        let kept = kept(10, &["ééééééééé".as_bytes()]);
        assert_eq!(kept.text(), "éé\n[... 8 bytes cut ...]\néé");
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(kept(10, &[b"a\xff\xfeb"]).text(), "a\u{fffd}\u{fffd}b");
    }

    #[test]
    fn a_reader_along_sees_the_head_at_once_and_the_tail_at_the_end() {
        struct Seen(Vec<u8>);
        impl Output for Seen {
            fn write(&mut self, _: Stream, bytes: &[u8]) -> ControlFlow<()> {
                self.0.extend_from_slice(bytes);
                ControlFlow::Continue(())
            }
        }
        let mut seen = Seen(Vec::new());
        let mut capture = Capture::new(4, Some(&mut seen));
        let _ = capture.write(Stream::Out, b"abcdefgh");
        capture.finish();
        assert_eq!(seen.0, b"ab\n[... 4 bytes cut ...]\ngh");
    }
}
