//! The record that an interpreter's driver left of the exception that ended a run.

use serde::Deserialize;
use types::Exception;

/// The longest record that is read; the drivers write less.
pub(crate) const MAX_RECORD: u64 = 256 << 10;

#[derive(Deserialize)]
struct Record {
    #[serde(rename = "type")]
    kind: String,
    message: String,
    line: Option<u32>,
    traceback: String,
}

/// Reads a record. The run could have written anything there: what does not fit is no record.
#[must_use]
pub fn parse_report(bytes: &[u8]) -> Option<Exception> {
    let record: Record = serde_json::from_slice(bytes).ok()?;
    if record.kind.is_empty() || record.kind.len() > 200 {
        return None;
    }
    Some(Exception {
        kind: record.kind,
        message: record.message,
        line: record.line.filter(|line| *line > 0),
        traceback: record.traceback,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_and_rubbish_is_not() {
        let good = br#"{"type": "ValueError", "message": "x", "line": 3, "traceback": "..."}"#;
        assert_eq!(parse_report(good).unwrap().line, Some(3));
        for bad in [&b""[..], b"{", b"[]", b"{\"type\": \"\"}", &vec![b'['; 100_000], b"\xff\xfe"] {
            assert!(parse_report(bad).is_none());
        }
    }
}
