//! Why something could not be done with a session.

use types::{ErrorBody, ErrorCode, PathError};

use crate::audit::AuditError;
use crate::backend::FileError;
use crate::error::{BackendError, RunError};
use crate::interpreter::InterpreterError;

/// Why something could not be done with a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// There is none of this name, or not for this caller.
    #[error("there is no session `{0}`")]
    Missing(String),
    /// The session has none of this number or name.
    #[error("there is no process `{0}` in the session")]
    NoProcess(String),
    /// The session has no interpreter of this name.
    #[error("there is no context `{0}` in the session")]
    NoContext(String),
    /// There is no such snapshot, or not for this caller.
    #[error("there is no snapshot `{0}`")]
    NoSnapshot(String),
    /// More sessions than the settings allow.
    #[error("there are {most} sessions already, which is the most")]
    TooMany {
        /// The most.
        most: usize,
    },
    /// More folders are watched for this caller than he leaves to others.
    #[error("{held} folders are watched for you already, which is the most for now")]
    TooManyWatched {
        /// How many.
        held: usize,
    },
    /// Its processes are frozen.
    #[error("the session is paused")]
    Paused,
    /// The process was started without input that stays open, or its input has ended.
    #[error("the process takes no more input")]
    NoInput,
    /// The policy refuses the command; nothing was started.
    #[error("the command is refused by `{rule}`")]
    Refused {
        /// The rule.
        rule: String,
    },
    /// A file of it cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A path is none.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The interpreter could not be started, or is gone.
    #[error(transparent)]
    Interpreter(#[from] InterpreterError),
    /// As with any run.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl From<BackendError> for SessionError {
    fn from(error: BackendError) -> Self {
        Self::Run(error.into())
    }
}

impl From<AuditError> for SessionError {
    fn from(error: AuditError) -> Self {
        Self::Run(error.into())
    }
}

impl SessionError {
    /// What a program matches on.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Missing(_) | Self::NoProcess(_) | Self::NoContext(_) | Self::NoSnapshot(_) => ErrorCode::NotFound,
            Self::TooMany { .. } | Self::TooManyWatched { .. } => ErrorCode::Busy,
            Self::Paused | Self::NoInput | Self::Refused { .. } | Self::Path(_) => ErrorCode::InvalidRequest,
            Self::Interpreter(error) => error.code(),
            Self::File(error) => error.code(),
            Self::Run(error) => error.code(),
        }
    }

    /// The wire form.
    #[must_use]
    pub fn body(&self) -> ErrorBody {
        let hint = match self {
            Self::Run(error) => return error.body(),
            Self::Missing(_) => "`saggar session list` shows those that live; `saggar session create` makes one",
            Self::NoProcess(_) => "`saggar session ps ID` shows those that run",
            Self::NoContext(_) => {
                "`saggar session contexts ID` shows those that live; `saggar session run ID` begins one"
            }
            Self::NoSnapshot(_) => "`saggar session snapshots` lists those that there are",
            Self::TooMany { .. } => "end one with `saggar session kill ID`",
            Self::TooManyWatched { .. } => {
                "stop watching one; the kernel's number (sysctl fs.inotify.max_user_instances) is shared by all callers"
            }
            Self::Paused => "`saggar session resume ID` lets it go on",
            Self::NoInput => "start it with `stdin_open`",
            Self::Refused { .. } => "the owner of the server chooses which commands may run",
            Self::Path(_) => "paths in a session begin with /",
            Self::Interpreter(error) => error.hint(),
            Self::File(error) => error.hint(),
        };
        ErrorBody { code: self.code(), message: self.to_string(), hint: hint.to_owned() }
    }
}
