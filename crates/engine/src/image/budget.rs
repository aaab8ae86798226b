//! How much an image may be. Counted while it is unpacked: what an archive says of its own size is not believed.

use super::ImageError;

/// Bytes of all files of an image.
const BYTES: u64 = 32 << 30;
/// Files, folders and links of an image.
const ENTRIES: u64 = 2_000_000;

/// What is left of it.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    most_bytes: u64,
    most_entries: u64,
    /// Bytes so far.
    pub(super) bytes: u64,
    /// Entries so far.
    pub(super) entries: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(BYTES, ENTRIES)
    }
}

impl Budget {
    pub(super) fn new(most_bytes: u64, most_entries: u64) -> Self {
        Self { most_bytes, most_entries, bytes: 0, entries: 0 }
    }

    pub(super) fn take_bytes(&mut self, bytes: u64) -> Result<(), ImageError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.most_bytes {
            return Err(ImageError::TooLarge { what: "bytes", most: self.most_bytes });
        }
        Ok(())
    }

    pub(super) fn take_entry(&mut self) -> Result<(), ImageError> {
        self.entries += 1;
        if self.entries > self.most_entries {
            return Err(ImageError::TooLarge { what: "files", most: self.most_entries });
        }
        Ok(())
    }
}
