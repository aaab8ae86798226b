//! Snapshots over HTTP: made, listed, compared, gone back to, copied, moved elsewhere, deleted.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use engine::{Onto, SnapshotSpec};
use serde::Deserialize;
use types::{BackendKind, ErrorCode};

use super::body::{Incoming, Outgoing, Slow};
use super::parse;
use crate::error::Refusal;
use crate::http::{Shared, caller, json};
use crate::query::Query;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/sessions/{id}/snapshots", post(take))
        .route("/v1/sessions/{id}/rollback", post(rollback))
        .route("/v1/sessions/{id}/fork", post(fork))
        .route("/v1/snapshots", get(list))
        .route("/v1/snapshots/{id}", delete(forget))
        .route("/v1/snapshots/{id}/archive", get(export))
        .route("/v1/snapshots/import", post(import))
        .route("/v1/diff", get(diff))
}

async fn take(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let caller = caller(&request);
    let spec: SnapshotSpec = parse(request, "{\"name\": \"before\"}").await?;
    json(&shared.engine.snapshot_session(&caller, &id, spec).await?)
}

/// What to go back to.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rollback {
    snapshot: String,
}

async fn rollback(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let caller = caller(&request);
    let Rollback { snapshot } = parse(request, "{\"snapshot\": \"snap_4f1c\"}").await?;
    json(&shared.engine.rollback_session(&caller, &id, &snapshot).await?)
}

/// How many copies.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Fork {
    count: u32,
    kill: bool,
}

impl Default for Fork {
    fn default() -> Self {
        Self { count: 1, kill: false }
    }
}

async fn fork(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let caller = caller(&request);
    let Fork { count, kill } = parse(request, "{\"count\": 2}").await?;
    json(&shared.engine.fork_session(&caller, &id, count, kill).await?)
}

async fn list(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Refusal> {
    json(&shared.engine.list_snapshots(&caller(&request))?)
}

async fn forget(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    json(&shared.engine.delete_snapshot(&caller(&request), &id).await?)
}

async fn diff(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Refusal> {
    let query = Query::of(&request);
    let (Some(from), Some(to)) = (query.get("from"), query.get("to")) else {
        let hint = "add ?from=SNAPSHOT&to=SESSION to the address";
        return Err(Refusal::new(ErrorCode::InvalidRequest, "`from` and `to` say what to compare", hint));
    };
    json(&shared.engine.diff(&caller(&request), &from, &to).await?)
}

async fn export(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let archive = shared.engine.export_snapshot(&caller(&request), &id).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/vnd.oci.image.layer.v1.tar".to_owned()),
        (header::CONTENT_LENGTH, archive.bytes.to_string()),
    ];
    Ok((headers, Body::new(Outgoing::new(archive))).into_response())
}

async fn import(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Refusal> {
    let _underway = shared.runs.begin();
    let (caller, query) = (caller(&request), Query::of(&request));
    let spec = SnapshotSpec { name: query.get("name"), note: query.get("note").unwrap_or_default(), kill: false };
    let onto =
        Onto { backend: query.get("backend").map(|name| backend(&name)).transpose()?, image: query.get("image") };
    // What an archive may hold is bounded where it is unpacked.
    let archive = Slow::new(Incoming::new(request.into_body(), u64::MAX));
    json(&shared.engine.import_snapshot(&caller, spec, onto, archive).await?)
}

fn backend(name: &str) -> Result<BackendKind, Refusal> {
    let refused = |_| Refusal::new(ErrorCode::InvalidRequest, "`backend` names none", "native or docker");
    serde_json::from_value(serde_json::Value::from(name)).map_err(refused)
}
