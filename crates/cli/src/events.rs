//! Server-sent events as they come.

use std::io::{self, BufRead, BufReader, Read};

use crate::remote::Body;

/// The longest line of an answer: a whole result.
const MOST_LINE: u64 = 256 << 20;

/// The events of one answer.
pub(crate) struct Events {
    reader: BufReader<Body>,
    line: String,
}

/// One of them.
pub(crate) struct Event<'a> {
    /// Its number, if it has one.
    pub(crate) number: Option<u64>,
    pub(crate) name: &'a str,
    /// JSON, on one line.
    pub(crate) data: &'a str,
}

impl Events {
    pub(crate) fn new(body: Body) -> Self {
        Self { reader: BufReader::new(body), line: String::new() }
    }

    /// Hands each of them to `take` until it has what it wants; `None` if they end before.
    pub(crate) fn each<T>(&mut self, mut take: impl FnMut(&Event<'_>) -> Option<T>) -> io::Result<Option<T>> {
        let (mut name, mut number) = (String::new(), None);
        loop {
            self.line.clear();
            if self.reader.by_ref().take(MOST_LINE).read_line(&mut self.line)? == 0 {
                return Ok(None);
            }
            if let Some(text) = self.line.strip_prefix("id: ") {
                number = text.trim().parse().ok();
            } else if let Some(text) = self.line.strip_prefix("event: ") {
                text.trim_end().clone_into(&mut name);
            } else if let Some(data) = self.line.strip_prefix("data: ")
                && let Some(wanted) = take(&Event { number: number.take(), name: &name, data })
            {
                return Ok(Some(wanted));
            }
        }
    }
}
