//! Error codes: what a caller can match on.

use serde::{Deserialize, Serialize};

/// Why saggar could not answer with a result. Exit code and HTTP status are one `match` each on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The command line could not be read.
    Usage,
    /// A field of the request is wrong.
    InvalidRequest,
    /// A limit is zero, absurd or above the ceiling.
    InvalidLimit,
    /// No recipe has this name.
    UnknownLanguage,
    /// A file given by the caller cannot be read.
    InputUnreadable,
    /// The settings file is wrong.
    InvalidSettings,
    /// The language is known, its program is not installed.
    InterpreterMissing,
    /// The program to run is not in the sandbox.
    ProgramMissing,
    /// A layer that must be on cannot be had on this host.
    IsolationUnavailable,
    /// The state folder cannot be used.
    StateUnwritable,
    /// Files that the run made cannot be written where they should go.
    OutputUnwritable,
    /// The host has no room or no descriptors left.
    ResourcesExhausted,
    /// Known to the contract, not to this version or this host.
    Unsupported,
    /// The static check itself failed.
    CheckFailed,
    /// The sandbox could not be set up or watched.
    SandboxFailed,
    /// The server's key is missing or wrong.
    Unauthorized,
    /// The server's key is right, but not for this.
    Forbidden,
    /// The request was meant for another host.
    WrongHost,
    /// The server has nothing at this path.
    NotFound,
    /// The server has something at this path, but not by this method.
    MethodNotAllowed,
    /// The request is larger than the server takes.
    TooLarge,
    /// The request took too long to arrive.
    TooSlow,
    /// The server cannot listen where it should.
    CannotListen,
    /// The server went away with a run of ours.
    ServerGone,
    /// A review was asked for and no model is set up for it.
    ReviewUnavailable,
    /// This caller has asked too often; it may come back.
    RateLimited,
    /// This caller has too much under way or in line; it may come back.
    Busy,
    /// The audit trail cannot be written or read: nothing runs without it.
    AuditUnavailable,
    /// Packages of an image cannot be installed: there are none of these names, or no way to them.
    BuildFailed,
    /// Who should propose programs, a model or a command, does not.
    GeneratorFailed,
}

impl ErrorCode {
    /// Exit code of the command line: 2 for the caller's mistake, 125 for our failure.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Usage
            | Self::InvalidRequest
            | Self::InvalidLimit
            | Self::UnknownLanguage
            | Self::InputUnreadable
            | Self::InvalidSettings => 2,
            Self::InterpreterMissing
            | Self::ProgramMissing
            | Self::IsolationUnavailable
            | Self::StateUnwritable
            | Self::OutputUnwritable
            | Self::ResourcesExhausted
            | Self::Unsupported
            | Self::CheckFailed
            | Self::SandboxFailed
            | Self::Unauthorized
            | Self::Forbidden
            | Self::WrongHost
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::TooLarge
            | Self::TooSlow
            | Self::CannotListen
            | Self::ServerGone
            | Self::ReviewUnavailable
            | Self::RateLimited
            | Self::Busy
            | Self::AuditUnavailable
            | Self::BuildFailed
            | Self::GeneratorFailed => 125,
        }
    }
}

/// The wire form of an error: what went wrong and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What a program matches on.
    pub code: ErrorCode,
    /// What a person reads; no host paths but those the caller gave, no secrets.
    pub message: String,
    /// The next step.
    pub hint: String,
}
