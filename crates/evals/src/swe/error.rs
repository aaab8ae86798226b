//! Why patches could not be graded. A patch that does not resolve its instance is a result, never one of these.

use std::path::PathBuf;

use types::ErrorCode;

/// Why patches could not be graded.
#[derive(Debug, thiserror::Error)]
pub enum SweError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not what it should be.
    #[error("{path}{}: {why}", line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Content {
        /// Which.
        path: PathBuf,
        /// Where in it.
        line: Option<usize>,
        /// What is wrong.
        why: String,
    },
    /// Instances that the data set does not have.
    #[error("not in the data set: {}", .0.join(", "))]
    UnknownInstances(Vec<String>),
    /// A name that would leave its folder.
    #[error("`{0}` cannot be the name of a file")]
    Name(String),
}

impl SweError {
    /// What a program matches on.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        ErrorCode::InvalidRequest
    }

    /// What to do next.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::File { .. } => "name a file that is there and may be read",
            Self::Content { .. } => "docs/SWE.md shows the shapes of data sets and predictions",
            Self::UnknownInstances(_) => "leave them out, or name the data set that they are from",
            Self::Name(_) => {
                "ids and models are names of folders in the official layout: use letters, digits, - _ and ."
            }
        }
    }
}
