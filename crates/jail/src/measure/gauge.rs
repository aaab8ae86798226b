//! Free space of a file system, watched: one cheap question in place of a walk over all that lies on it.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, fstatfs, open};
use serde::{Deserialize, Serialize};

/// By how much free space of a file system has fallen since somebody began to look, all falls together: what was freed in
/// between is not set off against them. Whoever writes there has written no more than that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallen {
    /// Bytes.
    pub bytes: u64,
    /// Files that could still be made.
    pub entries: u64,
}

/// File systems that tell of space as soon as something was written, and not when it reaches the disk: ext4, XFS, F2FS,
/// tmpfs; and overlay, which lets that below it speak.
const SEEING: [i128; 5] = [0xEF53, 0x5846_5342, 0xF2F5_2010, 0x0102_1994, 0x794C_7630];

/// Watches one file system.
#[derive(Debug)]
pub struct Gauge {
    folder: Option<OwnedFd>,
    /// Free bytes and entries when it was last looked at.
    last: Option<(u64, u64)>,
    fallen: Fallen,
    is_blind: bool,
}

impl Gauge {
    /// For the file system that a folder is on.
    #[must_use]
    pub fn at(folder: &Path) -> Self {
        let folder = open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok();
        let kind = folder.as_ref().and_then(|folder| fstatfs(folder).ok()).map(|stat| i128::from(stat.f_type));
        let is_blind = !kind.is_some_and(|kind| SEEING.contains(&kind));
        Self { folder, last: None, fallen: Fallen::default(), is_blind }
    }

    /// Whether something may be written there that it does not tell of at once.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.is_blind
    }

    /// What has fallen so far.
    #[must_use]
    pub fn fallen(&self) -> Fallen {
        self.fallen
    }

    /// Looks.
    pub fn look(&mut self) -> Fallen {
        if let Some(stat) = self.folder.as_ref().and_then(|folder| fstatfs(folder).ok()) {
            let block = u64::try_from(stat.f_bsize).unwrap_or(0);
            self.note(stat.f_bfree.saturating_mul(block), stat.f_ffree);
        }
        self.fallen
    }

    /// Takes note of what is free now.
    fn note(&mut self, bytes: u64, entries: u64) {
        let before = self.last.replace((bytes, entries)).unwrap_or((bytes, entries));
        self.fallen.bytes = self.fallen.bytes.saturating_add(before.0.saturating_sub(bytes));
        self.fallen.entries = self.fallen.entries.saturating_add(before.1.saturating_sub(entries));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_frees_hides_nothing_that_another_writes() {
        let mut gauge = Gauge::at(Path::new("/"));
        for (bytes, entries) in [(1000, 50), (900, 50), (5000, 45), (4700, 60), (4700, 59)] {
            gauge.note(bytes, entries);
        }
        assert_eq!(gauge.fallen(), Fallen { bytes: 400, entries: 6 });
    }
}
