//! The Connect protocol with JSON: one message as a body, or messages in frames of a flag, a length and that many bytes.

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::{BackendError, FileError, RunError, SessionError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use types::ErrorCode;
use types::connect::{END, FrameError, Frames};

use super::fault::{Fault, NOT_FOUND};
use crate::error::Refusal;
use crate::http::read;

/// What went wrong, in the protocol's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Unimplemented,
    Internal,
    Unavailable,
    Unauthenticated,
}

impl Code {
    fn name(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::PermissionDenied => "permission_denied",
            Self::ResourceExhausted => "resource_exhausted",
            Self::FailedPrecondition => "failed_precondition",
            Self::Unimplemented => "unimplemented",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
            Self::Unauthenticated => "unauthenticated",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::InvalidArgument | Self::FailedPrecondition => StatusCode::BAD_REQUEST,
            Self::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::AlreadyExists => StatusCode::CONFLICT,
            Self::PermissionDenied => StatusCode::FORBIDDEN,
            Self::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Self::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
        }
    }
}

/// An RPC that failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) code: Code,
    pub(super) message: String,
}

#[derive(Serialize)]
struct Told<'a> {
    code: &'static str,
    message: &'a str,
}

impl Failure {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    fn told(&self) -> Told<'_> {
        Told { code: self.code.name(), message: &self.message }
    }

    /// The last frame of an answer that was begun.
    pub(super) fn last_frame(&self) -> Vec<u8> {
        frame(END, &serde_json::json!({ "error": self.told() }))
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self.told()).unwrap_or_default();
        (self.code.status(), [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        let code = match &error {
            FileError::Missing(_) => Code::NotFound,
            FileError::Exists(_) => Code::AlreadyExists,
            FileError::Kind { .. } | FileError::TooMany { .. } => Code::InvalidArgument,
            FileError::Full(_) => Code::ResourceExhausted,
            FileError::ReadOnly(_) => Code::PermissionDenied,
            FileError::Io { .. } => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::File(error) => error.into(),
            SessionError::Missing(_) | SessionError::Run(RunError::Backend(BackendError::PlaceGone)) => {
                Self::new(Code::Unavailable, NOT_FOUND)
            }
            SessionError::Run(RunError::Backend(BackendError::Cwd(path))) => {
                Self::new(Code::InvalidArgument, format!("cwd '{path}' does not exist"))
            }
            SessionError::Run(RunError::Backend(BackendError::ProcessGone)) => {
                Self::new(Code::NotFound, error.to_string())
            }
            SessionError::Refused { .. } => Self::new(Code::PermissionDenied, error.to_string()),
            SessionError::Paused | SessionError::NoInput => Self::new(Code::FailedPrecondition, error.to_string()),
            other => {
                let code = match other.code() {
                    ErrorCode::NotFound => Code::NotFound,
                    ErrorCode::InvalidRequest | ErrorCode::InvalidLimit | ErrorCode::ProgramMissing => {
                        Code::InvalidArgument
                    }
                    ErrorCode::RateLimited | ErrorCode::Busy | ErrorCode::ResourcesExhausted => Code::ResourceExhausted,
                    _ => Code::Internal,
                };
                Self::new(code, other.to_string())
            }
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::new(Code::InvalidArgument, refusal.message())
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        let code = if fault.status == StatusCode::UNAUTHORIZED { Code::Unauthenticated } else { Code::InvalidArgument };
        Self::new(code, fault.message)
    }
}

/// The one message of a request.
pub(super) async fn message<T: DeserializeOwned>(request: Request) -> Result<T, Failure> {
    let body = read(request.into_body()).await?;
    parse(if body.is_empty() { b"{}" } else { &body })
}

/// The first message of a request in frames.
pub(super) async fn first<T: DeserializeOwned>(request: Request) -> Result<T, Failure> {
    let body = read(request.into_body()).await?;
    parse(Messages::of(&body).next()?.unwrap_or(b"{}"))
}

/// All messages of a request in frames.
pub(super) async fn all<T: DeserializeOwned>(request: Request) -> Result<Vec<T>, Failure> {
    let mut frames = Messages::of(&read(request.into_body()).await?);
    let mut messages = Vec::new();
    while let Some(frame) = frames.next()? {
        messages.push(parse(frame)?);
    }
    Ok(messages)
}

fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(json).map_err(|error| Failure::new(Code::InvalidArgument, format!("the message: {error}")))
}

/// The answer to a request of one message.
pub(super) fn answer(message: &impl Serialize) -> Response {
    let body = serde_json::to_vec(message).unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// One message of an answer in frames.
pub(super) fn framed(message: &impl Serialize) -> Vec<u8> {
    frame(0, message)
}

/// The last frame of an answer that ended well.
pub(super) fn last() -> Vec<u8> {
    frame(END, &serde_json::json!({}))
}

fn frame(flag: u8, message: &impl Serialize) -> Vec<u8> {
    // What is said here always has a JSON form, and less than 4 GiB of it.
    types::connect::frame(flag, &serde_json::to_vec(message).unwrap_or_default())
}

/// Cuts a whole body into frames.
struct Messages(Frames);

impl Messages {
    fn of(body: &[u8]) -> Self {
        let mut frames = Frames::new(body.len());
        frames.push(body);
        Self(frames)
    }

    fn next(&mut self) -> Result<Option<&[u8]>, Failure> {
        let half = || Failure::new(Code::InvalidArgument, "half a frame");
        if self.0.is_empty() {
            return Ok(None);
        }
        match self.0.next_frame() {
            Ok(Some((flag, _))) if flag & END != 0 => Ok(None),
            Ok(Some((_, message))) => Ok(Some(message)),
            Err(FrameError::Packed) => Err(Failure::new(Code::Unimplemented, FrameError::Packed.to_string())),
            Ok(None) | Err(FrameError::TooLong) => Err(half()),
        }
    }
}

/// How long the client wants to wait, in milliseconds; none if it does not say.
pub(super) fn timeout(headers: &HeaderMap) -> Option<u64> {
    let value = headers.get("connect-timeout-ms")?.to_str().ok()?.parse().ok()?;
    (value > 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in() {
        let body = [framed(&serde_json::json!({"a": 1})), framed(&serde_json::json!([])), last()].concat();
        let mut frames = Messages::of(&body);
        assert_eq!(frames.next().unwrap(), Some(&b"{\"a\":1}"[..]));
        assert_eq!(frames.next().unwrap(), Some(&b"[]"[..]));
        assert_eq!(frames.next().unwrap(), None);
        assert_eq!(frames.next().unwrap(), None);
    }

    #[test]
    fn a_frame_that_is_cut_or_packed_is_refused() {
        let whole = framed(&serde_json::json!({"a": 1}));
        for cut in 1..whole.len() {
            assert_eq!(Messages::of(&whole[..cut]).next().unwrap_err().code, Code::InvalidArgument);
        }
        let packed = [&[types::connect::PACKED][..], &whole[1..]].concat();
        assert_eq!(Messages::of(&packed).next().unwrap_err().code, Code::Unimplemented);
        assert!(Messages::of(&[0, 255, 255, 255, 255]).next().is_err());
    }

    #[test]
    fn an_error_is_the_last_frame() {
        let frame = Failure::new(Code::NotFound, "no").last_frame();
        assert_eq!(frame[0], END);
        assert_eq!(&frame[5..], br#"{"error":{"code":"not_found","message":"no"}}"#);
    }
}
