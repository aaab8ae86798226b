//! Snapshots and copies of sandboxes, over E2B's control plane.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use engine::{Snapshot, SnapshotSpec};
use serde::Deserialize;
use serde_json::{Value, json};
use types::Timestamp;

use super::control::{body, find, lives};
use super::envd::json as answer;
use super::fault::{Fault, NOT_FOUND};
use super::{lifecycle, list, shape};
use crate::http::{Shared, caller};
use crate::query::Query;

/// Copies that one call makes.
const MOST_FORKS: u32 = 20;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Wanted {
    name: Option<String>,
}

fn told(snapshot: &Snapshot) -> Value {
    let names: Vec<&String> = snapshot.name.iter().collect();
    json!({ "snapshotID": snapshot.id, "names": names })
}

/// By which a snapshot is known as one of a sandbox: sessions come and go below it.
fn note(sandbox: &str) -> String {
    format!("of sandbox {sandbox}")
}

pub(super) async fn take(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Fault> {
    let sandbox = find(&shared, &request, &id)?;
    let Wanted { name } = body(request).await?;
    let _turn = sandbox.turn.lock().await;
    let session = sandbox.session().ok_or_else(|| Fault::missing(NOT_FOUND))?;
    let spec = SnapshotSpec { name, note: note(&sandbox.id), kill: false };
    let snapshot = shared.engine.snapshot_session(&sandbox.owner, session.id(), spec).await?;
    Ok((StatusCode::CREATED, answer(&told(&snapshot))).into_response())
}

pub(super) async fn all(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Fault> {
    let query = Query::of(&request);
    let mut found = shared.engine.list_snapshots(&caller(&request))?;
    if let Some(id) = query.get("sandboxID") {
        found.retain(|snapshot| snapshot.note == note(&id));
    }
    if let Some(name) = query.get("name") {
        found.retain(|snapshot| snapshot.name.as_ref() == Some(&name));
    }
    let moment =
        |snapshot: &Snapshot| Timestamp(i64::try_from(snapshot.created_ms).unwrap_or(i64::MAX) / 1000 * 1_000_000);
    list::page(&query, found, |snapshot| (moment(snapshot), snapshot.id.clone()), told)
}

/// Snapshots are templates to clients. Images are removed by their owner, not by whoever has a key.
pub(super) async fn delete(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Fault> {
    let caller = caller(&request);
    if shared.engine.snapshot(&caller, &id).is_err() {
        return Err(Fault::missing(format!("template '{}' not found", id.chars().take(100).collect::<String>())));
    }
    shared.engine.delete_snapshot(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Deserialize)]
#[serde(default)]
struct Fork {
    timeout: Option<u64>,
    count: u32,
}

impl Default for Fork {
    fn default() -> Self {
        Self { timeout: None, count: 1 }
    }
}

pub(super) async fn fork(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Fault> {
    let sandbox = find(&shared, &request, &id)?;
    let domain = shape::domain(request.headers());
    let Fork { timeout, count } = body(request).await?;
    if count == 0 || count > MOST_FORKS {
        return Err(Fault::bad(format!("`count` must be from 1 to {MOST_FORKS}")));
    }
    let copies = lifecycle::fork(&shared, &sandbox, count, lives(timeout)?).await?;
    let told: Vec<Value> = copies
        .into_iter()
        .map(|copy| match copy {
            Ok(copy) => json!({ "sandbox": shape::brief(&copy, domain.as_deref()) }),
            Err(fault) => json!({ "error": { "code": fault.status.as_u16(), "message": fault.message } }),
        })
        .collect();
    Ok((StatusCode::CREATED, answer(&told)).into_response())
}
