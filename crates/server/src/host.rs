//! What only the owner of the machine is told: the host, the audit trail, what models have cost.

use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;
use engine::{Filter, Reader, RunError};
use types::{ErrorCode, Timestamp, parse_duration};

use crate::error::Refusal;
use crate::http::{Shared, json};
use crate::query::Query;

/// Entries of the trail in one answer: if nobody says, and at most.
const USUAL: usize = 100;
const MOST: usize = 1000;

pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/v1/doctor", get(doctor)).route("/v1/audit", get(audit)).route("/v1/usage", get(usage))
}

/// One at a time: it makes a sandbox for every language.
async fn doctor(State(shared): State<Arc<Shared>>) -> Result<Response, Refusal> {
    let _alone = shared.examining.lock().await;
    json(&shared.engine.examine().await)
}

async fn audit(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Refusal> {
    let query = Query::of(&request);
    let limit = match query.get("limit") {
        Some(text) => text.parse().map_err(|_| wrong("limit"))?,
        None => USUAL,
    };
    let filter = Filter {
        since: moment(&query, "since")?,
        until: moment(&query, "until")?,
        caller: query.get("caller"),
        outcome: query.get("outcome"),
        kind: query.get("kind"),
    };
    let state = shared.engine.state().to_owned();
    // Reading may take a while, and SQLite waits in its own way.
    let read = move || Reader::open(&state)?.newest(&filter, limit.min(MOST));
    let entries = tokio::task::spawn_blocking(read).await.map_err(|_| crate::error::stopping())?;
    json(&entries.map_err(RunError::from)?)
}

async fn usage(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Refusal> {
    let since = match Query::of(&request).get("since") {
        Some(text) => SystemTime::now().checked_sub(parse_duration(&text).map_err(|_| wrong("since"))?),
        None => None,
    };
    let ledger = shared.engine.ledger()?;
    let report = tokio::task::spawn_blocking(move || ledger.report(since)).await;
    json(&report.map_err(|_| crate::error::stopping())?.map_err(RunError::from)?)
}

/// A time in UTC, or so long ago.
fn moment(query: &Query, name: &'static str) -> Result<Option<Timestamp>, Refusal> {
    let Some(text) = query.get(name) else { return Ok(None) };
    let ago = |span| Timestamp::from(SystemTime::now()).before(span);
    parse_duration(&text).ok().map(ago).or_else(|| text.parse().ok()).map(Some).ok_or_else(|| wrong(name))
}

fn wrong(name: &str) -> Refusal {
    let hint = "times are such as 2026-11-15T10:30:00Z, or so long ago, such as 1h; limits are numbers";
    Refusal::new(ErrorCode::InvalidRequest, format!("`{name}` cannot be read"), hint)
}
