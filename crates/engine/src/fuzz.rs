//! Entries for the fuzz targets: whatever handles bytes that a sandbox has written.

use crate::backend::{Output, Stream};
use crate::capture::Capture;

/// Keeps `chunks` as output of a run; the text kept and the bytes counted.
#[must_use]
pub fn kept_text(limit: u64, chunks: &[Vec<u8>]) -> (String, u64) {
    let mut capture = Capture::new(limit, None);
    for chunk in chunks {
        let _ = capture.write(Stream::Out, chunk);
    }
    (capture.stdout.text(), capture.stdout.total())
}
