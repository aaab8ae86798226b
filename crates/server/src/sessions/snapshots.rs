//! Snapshots over HTTP: made, listed, gone back to, copied, deleted.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{delete, get, post};
use engine::SnapshotSpec;
use serde::Deserialize;

use super::parse;
use crate::error::Refusal;
use crate::http::{Shared, caller, json};

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/sessions/{id}/snapshots", post(take))
        .route("/v1/sessions/{id}/rollback", post(rollback))
        .route("/v1/sessions/{id}/fork", post(fork))
        .route("/v1/snapshots", get(list))
        .route("/v1/snapshots/{id}", delete(forget))
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
