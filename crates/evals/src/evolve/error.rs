//! Why an evolution could not go on. A program that scores nothing is a result, never one of these.

use std::io;
use std::path::PathBuf;

use engine::llm::ModelError;
use engine::{DatabaseError, RunError};
use types::{ErrorBody, ErrorCode};

use crate::judge::JudgeError;

/// Why an evolution could not go on. What was done by then is in its folder.
#[derive(Debug, thiserror::Error)]
pub enum EvolveError {
    /// A file that the task names, or the task itself.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Not TOML, or a key that does not exist.
    #[error("the task cannot be read: {}", source.message())]
    Toml {
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A key of the task has no sense.
    #[error("the task is wrong: {0}")]
    Task(String),
    /// The judge cannot do it.
    #[error(transparent)]
    Judge(#[from] JudgeError),
    /// A sandbox cannot be had.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A model that cannot be asked.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The generator has no more to say, and it is not because it is done.
    #[error("the generator failed: {0}")]
    Generator(String),
    /// The history cannot be kept or read.
    #[error("the history cannot be used: {0}")]
    Store(#[from] DatabaseError),
    /// Somebody else's history is there already.
    #[error("the folder `{}` holds the run of another task", .0.display())]
    OtherTask(PathBuf),
    /// Two at once would both write history.
    #[error("another process is at work on this run")]
    Busy,
    /// No such run.
    #[error("there is no run `{0}`")]
    NoRun(String),
    /// A file of ours cannot be written.
    #[error("cannot write `{}`: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl From<rusqlite::Error> for EvolveError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

impl EvolveError {
    /// What a program matches on.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Read { .. } => ErrorCode::InputUnreadable,
            Self::Toml { .. } | Self::Task(_) | Self::OtherTask(_) | Self::NoRun(_) => ErrorCode::InvalidRequest,
            Self::Judge(error) => error.code(),
            Self::Run(error) => error.code(),
            Self::Model(_) | Self::Generator(_) => ErrorCode::GeneratorFailed,
            Self::Store(_) => ErrorCode::StateUnwritable,
            Self::Busy => ErrorCode::Busy,
            Self::Write { .. } => ErrorCode::OutputUnwritable,
        }
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Read { .. } => "paths in a task are looked for beside the task's own file",
            Self::Toml { .. } | Self::Task(_) => "`saggar evolve --help` shows a task; docs/EVOLVE.md has every key",
            Self::Judge(error) => return error.hint(),
            Self::Run(error) => return error.hint(),
            Self::Model(error) => return error.hint(),
            Self::Generator(_) => "what was done is kept: the same command goes on from there",
            Self::Store(DatabaseError::Newer) => "use the newer saggar",
            Self::Store(_) => "see that there is room, and that the file is yours",
            Self::OtherTask(_) => "use another folder; a changed task is a new run",
            Self::Busy => "wait for it, or use another folder",
            Self::NoRun(_) => "name a run's id or its folder; `saggar evolve show` without either shows the last one",
            Self::Write { .. } => "see that the folder is yours and that there is room",
        }
        .to_owned()
    }

    /// The wire form.
    #[must_use]
    pub fn body(&self) -> ErrorBody {
        match self {
            Self::Judge(error) => error.body(),
            Self::Run(error) => error.body(),
            _ => ErrorBody { code: self.code(), message: self.to_string(), hint: self.hint() },
        }
    }
}
