//! What goes on without its client, a run or a job: how it is accepted, and how it is asked for and followed later.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use types::ErrorCode;

use crate::error::Refusal;
use crate::http::wants_events;
use crate::query::Query;
use crate::runs::Log;

/// 202, or its events from the first on; and its place, where it is found again.
pub(crate) fn accepted(place: &str, log: Arc<Log>, json: impl Into<Body>, streamed: bool) -> Response {
    let mut response = if streamed { log.replay(0) } else { as_json(json) };
    if !streamed {
        *response.status_mut() = StatusCode::ACCEPTED;
    }
    if let Ok(place) = HeaderValue::try_from(place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

/// As it is now, or its events from the one that the client names.
pub(crate) fn told(request: &Request, log: Arc<Log>, json: impl Into<Body>) -> Result<Response, Refusal> {
    Ok(if wants_events(request.headers()) { log.replay(heard(request)?) } else { as_json(json) })
}

/// What is JSON already.
pub(crate) fn as_json(json: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json.into()).into_response()
}

/// The number of the last event that a client has.
fn heard(request: &Request) -> Result<u64, Refusal> {
    let header = request.headers().get("last-event-id").map(|value| value.to_str().unwrap_or("?").to_owned());
    let Some(text) = header.or_else(|| Query::of(request).get("offset")) else { return Ok(0) };
    text.trim().parse().map_err(|_| {
        let hint = "send the `id` of the last event that you have, as `Last-Event-ID` or `?offset=`";
        Refusal::new(ErrorCode::InvalidRequest, "the offset is no number", hint)
    })
}
