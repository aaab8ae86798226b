//! Why the server could not start, and how it says no.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::RunError;
use evals::judge::JudgeError;
use serde::Serialize;
use types::{ErrorBody, ErrorCode};

use crate::keys::random_hex;

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Others could connect, and nobody has said how.
    #[error("`{address}` is not a loopback address, and {missing}")]
    NotLoopback {
        /// As asked for.
        address: SocketAddr,
        /// What is missing.
        missing: &'static str,
    },
    /// The certificate or its key cannot be used.
    #[error("cannot use `{}` for TLS: {why}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The address cannot be had.
    #[error("cannot listen on `{address}`: {source}")]
    Listen {
        /// As asked for.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// One is enough.
    #[error("a server is already running for the state folder `{}`", .0.display())]
    Running(PathBuf),
    /// Somebody else could put a socket or a key of theirs into it.
    #[error("the state folder `{}` can be written by others", .0.display())]
    Shared(PathBuf),
    /// The socket, the lock or the key cannot be made.
    #[error("cannot use `{}`: {source}", path.display())]
    State {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The key's file holds something else, or is not the owner's alone.
    #[error("the key `{}` {why}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
}

impl ServeError {
    /// The wire form.
    #[must_use]
    pub fn body(&self) -> ErrorBody {
        let (code, hint) = match self {
            Self::NotLoopback { .. } => (
                ErrorCode::Usage,
                "listen on 127.0.0.1, or set `hosts` and `tls` (or `behind_proxy`) in [server] of the settings: docs/SERVER.md",
            ),
            Self::Tls { .. } => {
                (ErrorCode::InvalidSettings, "`tls` in [server] names two files in PEM: `certificate`, `key`")
            }
            Self::Listen { .. } => {
                (ErrorCode::CannotListen, "choose another address with --listen, such as 127.0.0.1:0")
            }
            Self::Running(_) => {
                (ErrorCode::CannotListen, "use that one, stop it, or set SAGGAR_HOME to another folder")
            }
            Self::Shared(_) => (ErrorCode::StateUnwritable, "make it yours alone, with chmod 700, or set SAGGAR_HOME"),
            Self::State { .. } => (ErrorCode::StateUnwritable, "set SAGGAR_HOME to a folder that you may write"),
            Self::Key { .. } => (ErrorCode::StateUnwritable, "remove it, and the next start makes a new one"),
        };
        ErrorBody { code, message: self.to_string(), hint: hint.to_owned() }
    }
}

/// An error as an HTTP answer.
#[derive(Debug)]
pub(crate) struct Refusal {
    body: ErrorBody,
    retry_after: Option<Duration>,
}

#[derive(Serialize)]
struct Wire<'a> {
    error: Identified<'a>,
}

#[derive(Serialize)]
struct Identified<'a> {
    #[serde(flatten)]
    body: &'a ErrorBody,
    request_id: &'a str,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { body: ErrorBody { code, message: message.into(), hint: hint.into() }, retry_after: None }
    }

    /// Its words alone.
    pub(crate) fn into_body(self) -> ErrorBody {
        self.body
    }

    pub(crate) fn status(&self) -> StatusCode {
        status(self.body.code)
    }

    pub(crate) fn message(&self) -> &str {
        &self.body.message
    }

    /// The body, and the id by which the same error is found on the server's stderr.
    pub(crate) fn json(&self) -> (String, Vec<u8>) {
        let (id, json) = self.written();
        if status(self.body.code).is_server_error() {
            // Nobody may be there to read it, and that must not end the server.
            let _ = writeln!(io::stderr(), "saggar: {id} failed: {}", self.body.message.escape_debug());
        }
        (id, json)
    }

    /// The same for what is no fault of ours.
    pub(crate) fn written(&self) -> (String, Vec<u8>) {
        let id = request_id();
        let wire = Wire { error: Identified { body: &self.body, request_id: &id } };
        let json = serde_json::to_vec(&wire).unwrap_or_default();
        (id, json)
    }
}

/// To whoever finds no place for his connection: a whole answer, since nobody reads what he asks.
pub(crate) fn full() -> Vec<u8> {
    let hint = "close connections that you do not need, and come back in a second";
    let (id, json) = Refusal::new(ErrorCode::Busy, "every connection is in use", hint).written();
    let head = format!(
        "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 1\r\nx-request-id: {id}\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        json.len()
    );
    [head.as_bytes(), &json].concat()
}

/// To whoever waits when the server must end.
pub(crate) fn stopping() -> Refusal {
    Refusal::new(ErrorCode::ServerGone, "the server stops", "ask again when it is back")
}

impl From<JudgeError> for Refusal {
    fn from(error: JudgeError) -> Self {
        match error {
            JudgeError::Run(error) => error.into(),
            other => Self { body: other.body(), retry_after: None },
        }
    }
}

impl From<RunError> for Refusal {
    fn from(error: RunError) -> Self {
        Self { body: error.body(), retry_after: error.retry_after() }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (id, json) = self.json();
        let json_type = HeaderValue::from_static("application/json");
        let mut response = (status(self.body.code), [(header::CONTENT_TYPE, json_type)], json).into_response();
        if let Ok(id) = HeaderValue::try_from(id) {
            response.headers_mut().insert("x-request-id", id);
        }
        // Whoever is told to come back is told when.
        let soon = (status(self.body.code) == StatusCode::TOO_MANY_REQUESTS).then_some(Duration::from_secs(1));
        if let Some(time) = self.retry_after.or(soon) {
            // Whole seconds, and not too early.
            let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        if self.body.code == ErrorCode::Unauthorized {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// By which an answer is found again.
pub(crate) fn request_id() -> String {
    format!("req_{}", random_hex::<16>())
}

/// Whether an error is a fault of ours, and not the caller's.
#[cfg(feature = "otel")]
pub(crate) fn is_ours(code: ErrorCode) -> bool {
    status(code).is_server_error()
}

/// The HTTP status of an error.
fn status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::InvalidRequest | ErrorCode::Usage => StatusCode::BAD_REQUEST,
        ErrorCode::Unauthorized => StatusCode::UNAUTHORIZED,
        ErrorCode::WrongHost | ErrorCode::Forbidden => StatusCode::FORBIDDEN,
        ErrorCode::NotFound => StatusCode::NOT_FOUND,
        ErrorCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        ErrorCode::TooSlow => StatusCode::REQUEST_TIMEOUT,
        ErrorCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::InvalidLimit
        | ErrorCode::UnknownLanguage
        | ErrorCode::InputUnreadable
        | ErrorCode::InterpreterMissing
        | ErrorCode::ProgramMissing
        | ErrorCode::ReviewUnavailable
        | ErrorCode::BuildFailed
        | ErrorCode::Unsupported => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorCode::RateLimited | ErrorCode::Busy => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::IsolationUnavailable
        | ErrorCode::ResourcesExhausted
        | ErrorCode::AuditUnavailable
        | ErrorCode::GeneratorFailed
        | ErrorCode::ServerGone => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::InvalidSettings
        | ErrorCode::StateUnwritable
        | ErrorCode::OutputUnwritable
        | ErrorCode::CheckFailed
        | ErrorCode::SandboxFailed
        | ErrorCode::CannotListen => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
