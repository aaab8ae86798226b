//! Why a job is not accepted, or comes to no result.

use std::path::Path;

use types::{ErrorBody, ErrorCode};

use crate::evolve::EvolveError;
use crate::swe::SweError;

/// Why a job is not accepted, or comes to no result.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// It is no order.
    #[error("the body is no job: {0}")]
    Form(String),
    /// It names what only the owner of the host may.
    #[error("{what}")]
    NotAllowed {
        /// What it names.
        what: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// More than one job may have.
    #[error("{0}")]
    TooMuch(String),
    /// An evolution.
    #[error(transparent)]
    Evolve(#[from] EvolveError),
    /// Patches.
    #[error(transparent)]
    Swe(#[from] SweError),
    /// One of those, in words that are for others.
    #[error("{}", .0.message)]
    Told(Box<ErrorBody>),
}

impl JobError {
    /// The wire form.
    #[must_use]
    pub fn body(&self) -> ErrorBody {
        let own = |code, hint: &str| ErrorBody { code, message: self.to_string(), hint: hint.to_owned() };
        match self {
            Self::Form(_) => own(ErrorCode::InvalidRequest, "docs/SERVER.md shows what a job looks like"),
            Self::NotAllowed { hint, .. } => own(ErrorCode::Forbidden, hint),
            Self::TooMuch(_) => own(ErrorCode::InvalidLimit, "ask for less, or have it done by several jobs"),
            Self::Evolve(error) => error.body(),
            Self::Swe(error) => ErrorBody { code: error.code(), message: error.to_string(), hint: error.hint() },
            Self::Told(body) => (**body).clone(),
        }
    }

    /// The same with words in place of a path.
    #[must_use]
    pub fn without(self, path: &Path, words: &str) -> Self {
        let mut body = self.body();
        body.message = body.message.replace(&*path.to_string_lossy(), words);
        Self::Told(Box::new(body))
    }
}
