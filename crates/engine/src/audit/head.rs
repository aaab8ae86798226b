//! The head of the chain, outside the database: without it, nobody could tell that the last entries were cut off.
//!
//! Its lock makes all processes write one after another. It is written after the commit and before the answer, so after
//! `kill -9` it may be behind the database, never before it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::chain::Hash;
use super::error::AuditError;

/// How long another process may hold the trail; a write takes far less than a millisecond.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether one can wait for another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    None,
    Some,
}

impl Patience {
    pub(super) fn time(self) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Some => PATIENCE,
        }
    }
}

/// Twenty digits, a space, 64 hex digits, the end of the line: always as long, so that it is overwritten in one go.
const LENGTH: usize = 86;

/// The last entry that is known to have been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) seq: i64,
    pub(super) hash: Hash,
}

impl Head {
    /// Before the first entry.
    pub(super) fn first() -> Self {
        Self { seq: 0, hash: Hash::first() }
    }

    /// One that no entry follows from.
    pub(super) const LOST: Self = Self { seq: 0, hash: Hash::NONE };

    fn parse(bytes: &[u8]) -> Self {
        let read = || {
            let (seq, hash) = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?.split_once(' ')?;
            Some(Self {
                seq: seq.parse().ok().filter(|seq| (0..i64::MAX / 2).contains(seq))?,
                hash: Hash::from_hex(hash)?,
            })
        };
        read().unwrap_or(Self::LOST)
    }

    fn line(&self) -> String {
        format!("{:020} {}\n", self.seq, self.hash)
    }
}

/// Where the head is kept.
#[derive(Debug, Clone)]
pub(super) struct HeadFile(PathBuf);

/// The head, held: nobody else writes to the trail meanwhile.
pub(super) struct Held {
    file: File,
    of: HeadFile,
}

impl HeadFile {
    pub(super) fn new(state: &Path) -> Self {
        Self(state.join("audit.head"))
    }

    /// Makes the file if it is missing. It appears whole: under another name first, and never in place of another's.
    pub(super) fn create(&self, head: Head) -> Result<(), AuditError> {
        if self.0.exists() {
            return Ok(());
        }
        let temporary = self.0.with_file_name(format!(".audit.head-{}", crate::id::random_hex()));
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)
            .and_then(|file| file.write_all_at(head.line().as_bytes(), 0))
            .and_then(|()| std::fs::hard_link(&temporary, &self.0));
        let _ = std::fs::remove_file(&temporary);
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(self.failed(error)),
            _ => Ok(()),
        }
    }

    /// Holds the trail for a write.
    pub(super) fn hold(&self, patience: Patience) -> Result<Held, AuditError> {
        let file = OpenOptions::new().read(true).write(true).open(&self.0).map_err(|e| self.failed(e))?;
        self.wait(patience, || file.try_lock())?;
        Ok(Held { file, of: self.clone() })
    }

    /// The head as it is; `None` if there is no such file.
    pub(super) fn read(&self) -> Result<Option<Head>, AuditError> {
        let file = match File::open(&self.0) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(error)),
        };
        self.wait(Patience::Some, || file.try_lock_shared())?;
        Held { file, of: self.clone() }.read().map(Some)
    }

    fn wait(&self, patience: Patience, lock: impl Fn() -> Result<(), TryLockError>) -> Result<(), AuditError> {
        let start = Instant::now();
        loop {
            match lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) if start.elapsed() < patience.time() => {
                    thread::sleep(Duration::from_micros(200));
                }
                Err(TryLockError::WouldBlock) => return Err(AuditError::Held),
                Err(TryLockError::Error(error)) => return Err(self.failed(error)),
            }
        }
    }

    fn failed(&self, error: io::Error) -> AuditError {
        AuditError::Head { path: self.0.clone(), source: Arc::new(error) }
    }
}

impl Held {
    pub(super) fn read(&self) -> Result<Head, AuditError> {
        let mut line = [0; LENGTH + 1];
        let mut length = 0;
        while length < line.len() {
            match self.file.read_at(&mut line[length..], length as u64) {
                Ok(0) => break,
                Ok(n) => length += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.of.failed(error)),
            }
        }
        Ok(Head::parse(&line[..length]))
    }

    /// One write within one page: a process that is killed has written all of it or nothing.
    pub(super) fn write(&self, head: Head) -> Result<(), AuditError> {
        let line = head.line();
        let written = self.file.write_all_at(line.as_bytes(), 0);
        // Only somebody else's words are longer.
        let written = written.and_then(|()| match self.file.metadata()?.len() {
            length if length > LENGTH as u64 => self.file.set_len(LENGTH as u64),
            _ => Ok(()),
        });
        written.map_err(|e| self.of.failed(e))
    }
}
