//! What E2B's own program in a sandbox answers: processes, files, health.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::{GuestUser, Session, SessionError};
use types::GuestPath;

use super::fault::Fault;
use super::sandbox::Sandbox;
use super::{files, filesystem, metrics, process, upload};
use crate::http::Shared;
use crate::query::Query;

/// A request to one sandbox.
pub(super) struct Asked<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) sandbox: &'a Arc<Sandbox>,
    pub(super) session: Arc<Session>,
}

pub(super) async fn serve(
    shared: &Arc<Shared>,
    sandbox: &Arc<Sandbox>,
    session: Arc<Session>,
    request: Request,
) -> Result<Response, Fault> {
    let asked = Asked { shared, sandbox, session };
    let path = request.uri().path().to_owned();
    if let Some(method) = path.strip_prefix("/process.Process/") {
        return Ok(process::serve(&asked, method, request).await.unwrap_or_else(IntoResponse::into_response));
    }
    if let Some(method) = path.strip_prefix("/filesystem.Filesystem/") {
        return Ok(filesystem::serve(&asked, method, request).await.unwrap_or_else(IntoResponse::into_response));
    }
    match (request.method(), path.as_str()) {
        (&Method::GET | &Method::HEAD, "/health") => Ok(StatusCode::NO_CONTENT.into_response()),
        (&Method::GET, "/metrics") => metrics::now(&asked).await,
        (&Method::GET, "/envs") => Ok(json(&sandbox.wanted.env)),
        (&Method::GET, "/files") => files::download(&asked, request).await,
        (&Method::POST, "/files") => upload::upload(&asked, request).await,
        _ => Err(Fault::missing("there is nothing at this path")),
    }
}

pub(super) fn json(value: &impl serde::Serialize) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], serde_json::to_vec(value).unwrap_or_default()).into_response()
}

/// The user by its name, `user` if there is none.
pub(super) fn user_called(name: Option<&str>) -> Result<GuestUser, Fault> {
    match name.unwrap_or_default() {
        "" | "user" => Ok(GuestUser::User),
        "root" => Ok(GuestUser::Root),
        other => {
            let shown: String = other.chars().take(100).collect();
            Err(Fault::unauthorized(format!("invalid username: '{shown}'")))
        }
    }
}

/// The user that `Authorization: Basic` names; the password means nothing.
pub(super) fn user(headers: &HeaderMap) -> Result<GuestUser, Fault> {
    let basic = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Basic "));
    let Some(basic) = basic else { return Ok(GuestUser::User) };
    let text = STANDARD.decode(basic).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.ok_or_else(|| Fault::unauthorized("the user name cannot be read"))?;
    user_called(text.split(':').next())
}

/// Whose file is meant. An address that carries its own right says that itself, or means `user`: who was given it may add headers,
/// and root's is another file.
pub(super) fn user_of_file(query: &Query, headers: &HeaderMap) -> Result<GuestUser, Fault> {
    match query.get("username") {
        Some(name) => user_called(Some(&name)),
        None if query.get("signature").is_some() => Ok(GuestUser::User),
        None => user(headers),
    }
}

/// Where a user is at home.
pub(super) fn home(user: GuestUser) -> &'static str {
    match user {
        GuestUser::User => "/home/user",
        GuestUser::Root => "/root",
    }
}

/// A path as a user would write it: relative ones begin at home.
pub(super) fn resolved(path: &str, user: GuestUser) -> Result<GuestPath, SessionError> {
    Session::path(path, user, home(user))
}
