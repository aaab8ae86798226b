//! How this door says no, outside of its RPC: `{"code", "message"}` and a status.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::{FileError, RunError, SessionError};
use serde_json::json;

use crate::error::Refusal;

/// What the clients look for in the words about a sandbox that is not there.
pub(super) const NOT_FOUND: &str = "The sandbox was not found";

/// An error as an answer.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) status: StatusCode,
    pub(super) message: String,
    retry_after: Option<u64>,
}

impl Fault {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), retry_after: None }
    }

    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, message)
    }

    pub(super) fn missing(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }
}

impl From<SessionError> for Fault {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Missing(_) => Self::missing(NOT_FOUND),
            SessionError::File(error) => error.into(),
            SessionError::Refused { .. } => Self::new(StatusCode::FORBIDDEN, error.to_string()),
            SessionError::Run(error) => error.into(),
            other => Refusal::from(other).into(),
        }
    }
}

impl From<RunError> for Fault {
    fn from(error: RunError) -> Self {
        let retry_after = error.retry_after().map(|time| time.as_secs() + 1);
        Self { retry_after, ..Refusal::from(error).into() }
    }
}

impl From<FileError> for Fault {
    fn from(error: FileError) -> Self {
        match &error {
            FileError::Missing(path) => Self::missing(format!("path '{path}' does not exist")),
            FileError::Kind { path, .. } => Self::bad(format!("path '{path}' is a directory")),
            FileError::Full(_) => Self::new(StatusCode::INSUFFICIENT_STORAGE, "not enough disk space"),
            FileError::Exists(_) | FileError::ReadOnly(_) | FileError::TooMany { .. } => Self::bad(error.to_string()),
            FileError::Io { .. } => Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.status(), refusal.message())
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let body = json!({ "code": self.status.as_u16(), "message": self.message }).to_string();
        let mut response = (self.status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
        response.extensions_mut().insert(Told);
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        } else if self.status == StatusCode::SERVICE_UNAVAILABLE {
            // Clients would ask again and again for what this host cannot do.
            response.headers_mut().insert("should-retry", HeaderValue::from_static("false"));
        }
        response
    }
}

/// What the guard says of a request for the control plane, in the words that its clients understand.
pub(super) async fn translated(response: Response) -> Response {
    let status = response.status();
    if status.is_success() || response.extensions().get::<Told>().is_some() {
        return response;
    }
    let retry_after = response.headers().get(header::RETRY_AFTER).cloned();
    let body = axum::body::to_bytes(response.into_body(), MOST_WORDS).await.unwrap_or_default();
    let words = serde_json::from_slice::<serde_json::Value>(&body).unwrap_or_default();
    let message = words["error"]["message"].as_str().or(status.canonical_reason()).unwrap_or_default();
    let mut response = Fault::new(status, message).into_response();
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}

/// Marks an answer that is in those words already.
#[derive(Debug, Clone)]
struct Told;

/// More than any error of ours has.
const MOST_WORDS: usize = 1 << 20;

/// A sandbox that is not there, or not any more.
pub(super) fn gone(id: &str) -> Response {
    proxied(&json!({ "sandboxId": id, "message": NOT_FOUND, "code": 502 }))
}

/// Nobody listens on a port of a sandbox.
pub(super) fn closed(id: &str, port: u16) -> Response {
    let message = "The sandbox is running but port is not open";
    proxied(&json!({ "sandboxId": id, "message": message, "port": port, "code": 502 }))
}

fn proxied(body: &serde_json::Value) -> Response {
    (StatusCode::BAD_GATEWAY, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
