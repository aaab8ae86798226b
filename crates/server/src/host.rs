//! What only the owner of the machine is told: the host, the audit trail, what models have cost.

use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use engine::{AuditError, Filter, Reader, RunError};
use tokio::sync::watch;
use types::{ErrorCode, Timestamp, parse_duration};

use crate::error::Refusal;
use crate::events::Events;
use crate::http::{READER_PATIENCE, Shared, json};
use crate::outlet::Outlet;
use crate::query::Query;

/// Entries of the trail in one answer: if nobody says, and at most.
const USUAL: usize = 100;
const MOST: usize = 1000;

pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/doctor", get(doctor))
        .route("/v1/audit", get(audit))
        .route("/v1/audit/verify", get(verify))
        .route("/v1/audit/export", get(export))
        .route("/v1/audit/{entry}", get(show))
        .route("/v1/usage", get(usage))
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
    let filter = filter(&query)?;
    json(&look(&shared, move |reader| reader.newest(&filter, limit.min(MOST))).await?)
}

/// Whether the trail is as it was written.
async fn verify(State(shared): State<Arc<Shared>>) -> Result<Response, Refusal> {
    json(&look(&shared, Reader::verify).await?)
}

async fn show(State(shared): State<Arc<Shared>>, Path(entry): Path<String>) -> Result<Response, Refusal> {
    let found = look(&shared, move |reader| reader.find(&entry)).await?;
    let found = found.ok_or_else(|| {
        Refusal::new(ErrorCode::NotFound, "the audit trail has no such entry", "`GET /v1/audit` has numbers and ids")
    })?;
    json(&found)
}

/// Reads the trail on a thread of its own: it may take a while, and SQLite waits in its own way.
async fn look<T: Send + 'static>(
    shared: &Shared,
    what: impl FnOnce(&Reader) -> Result<T, AuditError> + Send + 'static,
) -> Result<T, Refusal> {
    let state = shared.engine.state().to_owned();
    let read = tokio::task::spawn_blocking(move || what(&Reader::open(&state)?)).await;
    Ok(read.map_err(|_| crate::error::stopping())?.map_err(RunError::from)?)
}

/// Entries as lines, oldest first, as they are read.
async fn export(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Refusal> {
    let filter = filter(&Query::of(&request))?;
    // What cannot be opened is told before anything else is.
    look(&shared, |_| Ok(())).await?;
    let state = shared.engine.state().to_owned();
    let (cancel, cancelled) = watch::channel(false);
    let (mut outlet, queue) = Outlet::new(cancelled, Some(READER_PATIENCE));
    tokio::task::spawn_blocking(move || {
        let told = Reader::open(&state).map_err(Over::from).and_then(|reader| {
            reader.all(&filter, |entry| {
                let mut line = serde_json::to_vec(&entry).unwrap_or_default();
                line.push(b'\n');
                outlet.put(line).map_err(|_| Over::Gone)
            })
        });
        if let Err(Over::Failed(error)) = told {
            // The status was sent long ago: why the lines end here is a line itself.
            let mut line = Refusal::from(RunError::from(error)).json().1;
            line.push(b'\n');
            let _ = outlet.put(line);
        }
    });
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::new(Events { queue, cancel })).into_response())
}

/// Why an export ends early.
enum Over {
    /// Who has stopped reading has heard enough.
    Gone,
    Failed(AuditError),
}

impl From<AuditError> for Over {
    fn from(error: AuditError) -> Self {
        Self::Failed(error)
    }
}

fn filter(query: &Query) -> Result<Filter, Refusal> {
    Ok(Filter {
        since: moment(query, "since")?,
        until: moment(query, "until")?,
        caller: query.get("caller"),
        outcome: query.get("outcome"),
        kind: query.get("kind"),
    })
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
