//! Entries for the fuzz targets: whatever handles bytes that a sandbox has written.

use std::os::fd::OwnedFd;

use crate::backend::{Output, Stream};
use crate::capture::Capture;
use crate::interpreter::Heard;

/// Keeps `chunks` as output of a run; the text kept and the bytes counted.
#[must_use]
pub fn kept_text(limit: u64, chunks: &[Vec<u8>]) -> (String, u64) {
    let mut capture = Capture::new(limit, None);
    for chunk in chunks {
        let _ = capture.write(Stream::Out, chunk);
    }
    (capture.stdout.text(), capture.stdout.total())
}

/// Unpacks a layer's tar, packed or not, below `folder`; whether it was taken.
#[must_use]
pub fn unpack_layer(folder: OwnedFd, archive: &[u8]) -> bool {
    crate::image::unpack_small(folder, archive).is_ok()
}

/// Takes `chunks` as what a driver said of cell 1; how much of it is kept.
#[must_use]
pub fn heard(chunks: &[Vec<u8>]) -> usize {
    let mut heard = Heard::new(1, 1 << 16);
    for chunk in chunks {
        heard.read(chunk, &mut None);
    }
    heard.kept()
}
