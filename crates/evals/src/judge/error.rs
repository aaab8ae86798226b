//! Why a task could not be judged. A wrong answer is a result, never one of these.

use engine::RunError;
use types::{ErrorBody, ErrorCode};

/// Why a task could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// The task is no task.
    #[error("the task cannot be read: {0}")]
    Task(#[source] serde_json::Error),
    /// A case of it is wrong.
    #[error("case `{case}`: {why}")]
    Case {
        /// Its name or number.
        case: String,
        /// What is wrong with it.
        why: String,
    },
    /// The entry is no name.
    #[error("`entry` is `{0}`, which names no function")]
    Entry(String),
    /// A row of a data set lacks something.
    #[error("the row cannot be judged: {0}")]
    Row(String),
    /// A checker is broken: neither right nor wrong can be said.
    #[error("a checker of the task cannot be used: {why}")]
    Checker {
        /// What is wrong with it.
        why: String,
    },
    /// An evaluator that says nothing about any program.
    #[error("the evaluator cannot be used: {why}")]
    Evaluator {
        /// What is wrong with it.
        why: String,
    },
    /// The engine failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The host took the judge's own task away.
    #[error("the judge was interrupted")]
    Interrupted,
}

impl JudgeError {
    /// What a program matches on.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Task(_)
            | Self::Case { .. }
            | Self::Entry(_)
            | Self::Row(_)
            | Self::Checker { .. }
            | Self::Evaluator { .. } => ErrorCode::InvalidRequest,
            Self::Run(error) => error.code(),
            Self::Interrupted => ErrorCode::SandboxFailed,
        }
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Task(_) | Self::Case { .. } => "`saggar judge --help` shows a task; docs/JUDGE.md has every field",
            Self::Entry(_) => "use `f`, `Class.method` or `Class().method`",
            Self::Row(_) => "docs/JUDGE.md lists the rows that are understood",
            Self::Checker { .. } => "it must print a score from 0 to 1 and exit with 0",
            Self::Evaluator { .. } => {
                "it is Python that defines evaluate(program_path) and returns a dictionary of numbers; what it imports \
                 must be installed for the sandbox's interpreter"
            }
            Self::Run(error) => return error.hint(),
            Self::Interrupted => "try again",
        }
        .to_owned()
    }

    /// The wire form.
    #[must_use]
    pub fn body(&self) -> ErrorBody {
        match self {
            Self::Run(error) => error.body(),
            _ => ErrorBody { code: self.code(), message: self.to_string(), hint: self.hint() },
        }
    }

    /// Whether the audit trail has been told already, or cannot be: of a caller who was turned away there is one entry.
    pub(crate) fn is_recorded(&self) -> bool {
        matches!(self, Self::Run(RunError::Admission(_) | RunError::Audit(_)))
    }

    /// Whether the host failed, not the task: another try may succeed.
    #[must_use]
    pub fn is_infrastructure(&self) -> bool {
        matches!(self.code(), ErrorCode::SandboxFailed | ErrorCode::ResourcesExhausted)
    }
}
