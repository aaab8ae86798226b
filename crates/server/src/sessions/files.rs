//! Files of a session over HTTP. Content travels as it is, in pieces.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use engine::{FileError, GuestUser, Session, SessionError};
use types::{ErrorCode, GuestPath};

use super::body::{Incoming, Outgoing};
use super::find;
use super::query::Query;
use crate::error::Refusal;
use crate::http::{Shared, json};

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/sessions/{id}/files", get(download).put(upload).delete(remove))
        .route("/v1/sessions/{id}/entries", get(list))
        .route("/v1/sessions/{id}/entry", get(stat))
        .route("/v1/sessions/{id}/folders", post(make_folder))
        .route("/v1/sessions/{id}/move", post(rename))
}

/// The path that a request names, and whose it will be.
struct Named {
    path: GuestPath,
    user: GuestUser,
    query: Query,
}

fn named(request: &Request, field: &str) -> Result<Named, Refusal> {
    let query = Query::of(request);
    let user = match query.get("user").as_deref() {
        None | Some("user") => GuestUser::User,
        Some("root") => GuestUser::Root,
        Some(_) => return Err(Refusal::new(ErrorCode::InvalidRequest, "there is no such user", "`user` or `root`")),
    };
    let Some(path) = query.get(field) else {
        let hint = format!("add ?{field}=/work/name to the address");
        return Err(Refusal::new(ErrorCode::InvalidRequest, format!("`{field}` is missing"), hint));
    };
    Ok(Named { path: Session::path(&path, user, "/work")?, user, query })
}

async fn download(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let (_, session) = find(&shared, &request, &id)?;
    let Named { path, .. } = named(&request, "path")?;
    let content = session.files()?.read(&path).await.map_err(failed)?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, content.bytes.to_string()),
    ];
    Ok((headers, Body::new(Outgoing::new(content))).into_response())
}

async fn upload(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let _underway = shared.runs.begin();
    let (caller, session) = find(&shared, &request, &id)?;
    let Named { path, user, query } = named(&request, "path")?;
    let mode = query.get("mode").map(|mode| u32::from_str_radix(&mode, 8)).transpose().map_err(|_| {
        Refusal::new(ErrorCode::InvalidRequest, "`mode` is not octal", "three octal digits, such as 755")
    })?;
    let files = session.files_to_write()?;
    let mut content = Incoming::new(request.into_body());
    files.write(&path, user, mode.unwrap_or(0o644), &mut content).await.map_err(failed)?;
    session.record_act(&caller, "put", &path).await?;
    json(&files.stat(&path).await.map_err(failed)?)
}

async fn remove(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let (caller, session) = find(&shared, &request, &id)?;
    let Named { path, .. } = named(&request, "path")?;
    session.files()?.remove(&path).await.map_err(failed)?;
    session.record_act(&caller, "removed", &path).await?;
    json(&serde_json::json!({ "path": path.as_str() }))
}

async fn list(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let (_, session) = find(&shared, &request, &id)?;
    let Named { path, query, .. } = named(&request, "path")?;
    let depth = query.get("depth").and_then(|depth| depth.parse().ok()).unwrap_or(1);
    json(&session.files()?.list(&path, depth).await.map_err(failed)?)
}

async fn stat(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let (_, session) = find(&shared, &request, &id)?;
    let Named { path, .. } = named(&request, "path")?;
    json(&session.files()?.stat(&path).await.map_err(failed)?)
}

async fn make_folder(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let (caller, session) = find(&shared, &request, &id)?;
    let Named { path, user, .. } = named(&request, "path")?;
    let files = session.files_to_write()?;
    files.make_folder(&path, user).await.map_err(failed)?;
    session.record_act(&caller, "made a folder", &path).await?;
    json(&files.stat(&path).await.map_err(failed)?)
}

async fn rename(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let (caller, session) = find(&shared, &request, &id)?;
    let (from, to) = (named(&request, "path")?.path, named(&request, "to")?.path);
    let files = session.files()?;
    files.rename(&from, &to).await.map_err(failed)?;
    session.record_act(&caller, "moved", &to).await?;
    json(&files.stat(&to).await.map_err(failed)?)
}

fn failed(error: FileError) -> Refusal {
    SessionError::File(error).into()
}
