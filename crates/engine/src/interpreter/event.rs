//! What a driver says. Anybody in the sandbox could have written it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use types::{Bundle, Exception};

use crate::backend::Stream;

/// The largest value that is no text: parsed, it takes many times its length.
const MOST_VALUE: usize = 256 << 10;
/// The most forms in which one thing is shown.
const MOST_FORMS: usize = 32;
/// The longest name of a form.
const MOST_NAME: usize = 200;

/// One line from a driver.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// It can take cells.
    Ready { version: String, flavour: String },
    /// Something was written.
    Output { stream: Stream, text: String },
    /// Something was shown; `lost` counts forms that were too large.
    Shown { id: u64, bundle: Bundle, main: bool, lost: u32 },
    /// The cell raised this.
    Raised { id: u64, exception: Exception },
    /// The cell is over.
    Done { id: u64, status: Status, code: i32, count: u64, cpu_ms: f64 },
}

/// How a cell ended, by the driver's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// By itself.
    Ok,
    /// By an exception.
    Error,
    /// By asking to leave, with a code.
    Exit,
    /// By an interrupt.
    Interrupted,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Name {
    Ready,
    Stdout,
    Stderr,
    Result,
    Display,
    Error,
    Done,
}

#[derive(Deserialize)]
struct Wire {
    event: Name,
    #[serde(default)]
    id: u64,
    #[serde(default)]
    version: String,
    #[serde(default)]
    flavour: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    data: BTreeMap<String, Box<RawValue>>,
    #[serde(default)]
    dropped: Vec<String>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    traceback: String,
    line: Option<u32>,
    status: Option<Status>,
    #[serde(default)]
    code: i32,
    #[serde(default)]
    count: u64,
    #[serde(default)]
    cpu_ms: f64,
}

impl Event {
    /// Reads a line; what does not fit is none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        // A driver without a decoder passes on bytes that are no text.
        let text = String::from_utf8_lossy(bytes);
        let line: Wire = serde_json::from_str(&text).ok()?;
        match line.event {
            Name::Ready => {
                let short = |text: String| text.chars().take(MOST_NAME).collect();
                Some(Self::Ready { version: short(line.version), flavour: short(line.flavour) })
            }
            Name::Stdout => Some(Self::Output { stream: Stream::Out, text: line.text }),
            Name::Stderr => Some(Self::Output { stream: Stream::Err, text: line.text }),
            Name::Result => Some(line.shown(true)),
            Name::Display => Some(line.shown(false)),
            Name::Error => line.raised(),
            Name::Done => Some(Self::Done {
                id: line.id,
                status: line.status?,
                code: line.code,
                count: line.count,
                cpu_ms: if line.cpu_ms.is_finite() { line.cpu_ms.max(0.0) } else { 0.0 },
            }),
        }
    }
}

impl Wire {
    fn shown(self, main: bool) -> Event {
        let mut bundle = Bundle::new();
        let mut lost = self.dropped.len();
        for (name, raw) in self.data {
            let raw = raw.get();
            let fits = bundle.len() < MOST_FORMS && name.len() <= MOST_NAME;
            let is_small = raw.starts_with('"') || raw.len() <= MOST_VALUE;
            match (fits && is_small).then(|| serde_json::from_str(raw)) {
                Some(Ok(value)) => {
                    bundle.insert(name, value);
                }
                _ => lost += 1,
            }
        }
        Event::Shown { id: self.id, bundle, main, lost: u32::try_from(lost).unwrap_or(u32::MAX) }
    }

    fn raised(self) -> Option<Event> {
        if self.name.is_empty() || self.name.len() > MOST_NAME {
            return None;
        }
        let line = self.line.filter(|line| *line > 0);
        let exception = Exception { kind: self.name, message: self.value, line, traceback: self.traceback };
        Some(Event::Raised { id: self.id, exception })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_read() {
        let done = br#"{"event": "done", "id": 3, "status": "exit", "code": 4, "count": 2, "cpu_ms": 1.5}"#;
        let expected = Event::Done { id: 3, status: Status::Exit, code: 4, count: 2, cpu_ms: 1.5 };
        assert_eq!(Event::parse(done), Some(expected));
        let shown = br#"{"event": "result", "id": 1, "data": {"text/plain": "1", "application/json": [1]}}"#;
        let bundle: Bundle = serde_json::from_str(r#"{"text/plain": "1", "application/json": [1]}"#).unwrap();
        assert_eq!(Event::parse(shown), Some(Event::Shown { id: 1, bundle, main: true, lost: 0 }));
        let output = Event::Output { stream: Stream::Err, text: "a\u{fffd}".to_owned() };
        assert_eq!(Event::parse(b"{\"event\": \"stderr\", \"text\": \"a\xff\"}"), Some(output));
    }

    #[test]
    fn rubbish_is_no_event() {
        for bad in [
            &b""[..],
            b"{}",
            b"[]",
            b"{\"event\": \"done\"}",
            b"{\"event\": \"error\", \"id\": 1}",
            b"{\"event\": \"other\"}",
            b"{\"event\": \"stdout\", \"text\": 1}",
            b"{\"event\": \"stdout\", \"text\": \"\", \"text\": \"\"}",
            &vec![b'['; 100_000],
        ] {
            assert_eq!(Event::parse(bad), None);
        }
    }

    #[test]
    fn a_value_that_would_grow_is_not_taken() {
        let many = format!("[{}0]", "0,".repeat(MOST_VALUE));
        let line = format!(r#"{{"event": "display", "id": 1, "data": {{"a": {many}, "b": "ok"}}}}"#);
        let bundle: Bundle = serde_json::from_str(r#"{"b": "ok"}"#).unwrap();
        assert_eq!(Event::parse(line.as_bytes()), Some(Event::Shown { id: 1, bundle, main: false, lost: 1 }));
    }
}
