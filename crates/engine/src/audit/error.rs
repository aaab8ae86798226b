//! Why the trail could not be written or read.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use types::{ErrorBody, ErrorCode};

/// Why the trail could not be written or read. Cloned for everybody whose entry was in the same commit.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AuditError {
    /// The database said no.
    #[error("the audit trail `{}` cannot be used: {source}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: Arc<rusqlite::Error>,
    },
    /// The file cannot be made or written.
    #[error("the audit trail `{}` cannot be made: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Arc<io::Error>,
    },
    /// The head of the chain cannot be read or written.
    #[error("the head of the audit trail `{}` cannot be used: {source}", path.display())]
    Head {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Arc<io::Error>,
    },
    /// Another process has held the trail for too long.
    #[error("the audit trail is held by another process")]
    Held,
    /// Made by a later version.
    #[error("the audit trail `{}` has version {found}, this saggar knows {known}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// What it has.
        found: i64,
        /// What we have.
        known: i64,
    },
    /// The thread that writes could not be started, or has ended.
    #[error("the writer of the audit trail is gone")]
    Gone,
}

impl AuditError {
    /// What a program matches on.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode::AuditUnavailable
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Database { .. } | Self::File { .. } | Self::Head { .. } => {
                "nothing runs that cannot be recorded: check the state folder's permissions and free space, \
                 then `saggar audit verify`"
            }
            Self::Held => "look for a saggar that was stopped, or a program that has audit.db open, and end it",
            Self::Newer { .. } => "use the saggar that made it, or another state folder: set SAGGAR_HOME",
            Self::Gone => "start saggar again; if it stays so, the host has no threads left",
        }
        .to_owned()
    }

    /// The wire form.
    #[must_use]
    pub fn body(&self) -> ErrorBody {
        ErrorBody { code: self.code(), message: self.to_string(), hint: self.hint() }
    }
}
