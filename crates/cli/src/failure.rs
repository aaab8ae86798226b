//! Errors on the command line: one JSON value, or `error:` and `hint:`.

use std::io;
use std::process::ExitCode;

use engine::{RunError, SettingsError};
use serde::Serialize;
use types::{ErrorBody, ErrorCode};

/// A failure of saggar itself, or a mistake of the caller.
#[derive(Debug)]
pub(crate) struct Failure(ErrorBody);

#[derive(Serialize)]
struct Wire<'a> {
    error: &'a ErrorBody,
}

impl Failure {
    /// The runtime could not be made: the host has no descriptors or memory left.
    #[expect(clippy::needless_pass_by_value, reason = "used as a function in map_err")]
    pub(crate) fn runtime(error: io::Error) -> Self {
        Self(ErrorBody {
            code: ErrorCode::ResourcesExhausted,
            message: format!("cannot start: {error}"),
            hint: "raise `ulimit -n`, or run fewer programs at once".to_owned(),
        })
    }

    /// A file that the caller named cannot be read.
    pub(crate) fn input(path: &std::path::Path, source: io::Error) -> Self {
        RunError::Input { path: path.to_path_buf(), source }.into()
    }

    /// Prints the failure and gives its exit code.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        if json {
            println!("{}", serde_json::to_string(&Wire { error: &self.0 }).unwrap_or_default());
        } else {
            eprintln!("error: {}\n\nhint: {}", self.0.message, self.0.hint);
        }
        ExitCode::from(self.0.code.exit_code())
    }
}

impl From<ErrorBody> for Failure {
    fn from(body: ErrorBody) -> Self {
        Self(body)
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Self(error.body())
    }
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Self(error.body())
    }
}
