//! Errors on the command line: one JSON value, or `error:` and `hint:`.

use std::io::{self, Write};
use std::process::ExitCode;

use engine::{AuditError, RunError, SettingsError};
use evals::evolve::EvolveError;
use evals::judge::{BatchError, JudgeError};
use evals::swe::SweError;
use serde::Serialize;
use server::{KeyError, ServeError};
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

    /// Whether a server is not there, at least for now.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.code == ErrorCode::ServerGone
    }

    /// Whether there is nothing of the name that was given.
    pub(crate) fn is_missing(&self) -> bool {
        self.0.code == ErrorCode::NotFound
    }

    /// Prints the failure and gives its exit code.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        if json {
            // Nobody may be there to read it; the exit code says the same.
            let _ = put_json(&Wire { error: &self.0 });
        } else {
            // Names of files may be in it, and those may hold anything.
            let shown: String = self.0.message.chars().map(visible).collect();
            let _ = writeln!(io::stderr(), "error: {shown}\n\nhint: {}", self.0.hint);
        }
        ExitCode::from(self.0.code.exit_code())
    }
}

/// Our own standard output cannot be written.
pub(crate) fn unheard(source: io::Error) -> Failure {
    RunError::Output { path: "standard output".into(), source }.into()
}

/// Prints one JSON value on one line.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    put_json(value).map_err(unheard)
}

fn put_json(value: &impl Serialize) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, value)?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// A character that a terminal shows and does not obey.
pub(crate) fn visible(c: char) -> char {
    if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c }
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

impl From<AuditError> for Failure {
    fn from(error: AuditError) -> Self {
        Self(error.body())
    }
}

impl From<BatchError> for Failure {
    fn from(error: BatchError) -> Self {
        Self(error.body())
    }
}

impl From<JudgeError> for Failure {
    fn from(error: JudgeError) -> Self {
        Self(error.body())
    }
}

impl From<EvolveError> for Failure {
    fn from(error: EvolveError) -> Self {
        Self(error.body())
    }
}

impl From<SweError> for Failure {
    fn from(error: SweError) -> Self {
        Self(ErrorBody { code: error.code(), message: error.to_string(), hint: error.hint() })
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        Self(error.body())
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        Self(error.body())
    }
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Self(error.body())
    }
}
