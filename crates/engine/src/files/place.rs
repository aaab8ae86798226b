//! What was placed in `/work` before a run.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use rustix::fs::Mode;

/// Hashes of placed files, by path: what a later change is measured against.
pub(crate) type Placed = BTreeMap<String, [u8; 32]>;

/// Whether a file may be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executable {
    /// By whoever may read it.
    Yes,
    /// By nobody.
    No,
}

impl Executable {
    /// What the owner's bit says.
    pub(crate) fn of(meta: &Metadata) -> Self {
        if meta.mode() & 0o100 == 0 { Self::No } else { Self::Yes }
    }

    /// The whole mode: set-id bits stay behind.
    pub(crate) fn mode(self) -> Mode {
        Mode::from(if self == Self::Yes { 0o755 } else { 0o644 })
    }
}
