//! The HTTP doors: extract, call the engine, map.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use engine::{Caller, Engine, LogForm, Standing};
use serde::Serialize;
use tokio::sync::watch;
use types::ErrorCode;

use crate::activity::Activity;
use crate::error::Refusal;
use crate::events::Events;
use crate::guard::{identify, mark, only_for};
use crate::identity::{Identity, Scope, unknown};
use crate::keys::Ring;
use crate::metrics::Answers;
use crate::places::Places;
use crate::runs::Registry;
use crate::traces::Traces;
use crate::{
    attach, batch, check, e2b, fusion, host, images, jobs, judge, keys, mcp, metrics, openapi, runs, sessions,
};

/// How long a reader of an event stream may take nothing: he holds the place of a run.
pub(crate) const READER_PATIENCE: Duration = Duration::from_secs(30);

/// The most bytes of a request's body.
pub(crate) const MOST_BODY: usize = 64 << 20;
/// How long a body may take to arrive.
pub(crate) const BODY_TIME: Duration = Duration::from_mins(1);

/// What every request can reach.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) keys: Ring,
    /// Runs by name.
    pub(crate) known: Arc<Registry>,
    /// Work that takes long.
    pub(crate) jobs: Arc<jobs::Desk>,
    pub(crate) answers: Answers,
    /// Held by whoever examines the host.
    pub(crate) examining: tokio::sync::Mutex<()>,
    /// Runs under way.
    pub(crate) runs: Activity,
    /// Turns true when the server gives up the runs that are left.
    pub(crate) give_up: watch::Sender<bool>,
    /// Names by which clients reach us, beside those of the loopback.
    pub(crate) hosts: Vec<String>,
    /// What is said of each request.
    pub(crate) log: LogForm,
    /// What is told to a collector of traces.
    pub(crate) traces: Traces,
    /// Sandboxes of the E2B-compatible door.
    pub(crate) e2b: e2b::Sandboxes,
    /// Connections, by each way in.
    pub(crate) by_tcp: Arc<Places>,
    pub(crate) by_socket: Arc<Places>,
}

/// All routes, behind the guard.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    open()
        .merge(keyed())
        .method_not_allowed_fallback(not_by_this_method)
        .fallback(nothing_here)
        .layer(from_fn_with_state(Arc::clone(&shared), identify))
        .layer(from_fn_with_state(Arc::clone(&shared), e2b::take))
        .layer(from_fn_with_state(Arc::clone(&shared), mark))
        .with_state(shared)
}

/// Routes that everybody on the loopback may ask, or that decide by themselves who may: `Option<Identity>` says who asks.
fn open() -> Router<Arc<Shared>> {
    Router::new()
        .route("/healthz", get(health))
        .merge(openapi::routes())
        .merge(fusion::routes())
        .route(attach::ATTACH_PATH, get(attach::attach))
}

/// Routes that need a key, and for what it must be; `Identity` is there in each of them.
fn keyed() -> Router<Arc<Shared>> {
    Router::new()
        .merge(only_for(Scope::Run, runs::routes().merge(check::routes())))
        .merge(only_for(Scope::Judge, judge::routes().merge(batch::routes()).merge(jobs::routes())))
        .merge(only_for(
            Scope::Admin,
            host::routes().merge(images::routes()).merge(keys::routes()).merge(metrics::routes()),
        ))
        .merge(only_for(Scope::Session, sessions::routes().merge(e2b::routes())))
        .merge(mcp::routes())
}

async fn not_by_this_method(identity: Option<Identity>) -> Refusal {
    match identity {
        Some(_) => {
            Refusal::new(ErrorCode::MethodNotAllowed, "not by this method", "/openapi.json lists paths and methods")
        }
        None => unknown(),
    }
}

/// Whoever has no key does not learn what there is.
pub(crate) async fn nothing_here(identity: Option<Identity>) -> Refusal {
    match identity {
        Some(_) => Refusal::new(
            ErrorCode::NotFound,
            "there is nothing at this path",
            "/openapi.json lists what there is, and /docs shows it",
        ),
        None => unknown(),
    }
}

#[derive(Serialize)]
struct Health {
    ok: bool,
    version: &'static str,
}

async fn health() -> Result<Response, Refusal> {
    json(&Health { ok: true, version: crate::VERSION })
}

/// Who asks, in a route that needs a key.
pub(crate) fn caller(request: &Request) -> Caller {
    // Whoever is not known does not get here; if he did, he would own nothing.
    let nobody = || Caller { standing: Standing::Key { id: String::new(), allowance: None }, ..Caller::default() };
    request.extensions().get::<Identity>().map_or_else(nobody, |found| found.caller.clone())
}

pub(crate) async fn read(body: Body) -> Result<Bytes, Refusal> {
    let read = tokio::time::timeout(BODY_TIME, to_bytes(body, MOST_BODY)).await;
    let read =
        read.map_err(|_| Refusal::new(ErrorCode::TooSlow, "the body did not arrive in time", "send it again"))?;
    read.map_err(|_| {
        let hint = "a run travels in at most 64 MiB; make large inputs inside the run, or use the command line";
        Refusal::new(ErrorCode::TooLarge, "the body is too large, or its end is missing", hint)
    })
}

pub(crate) fn wants_events(headers: &HeaderMap) -> bool {
    let kinds = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    kinds.flat_map(|value| value.split(',')).any(|kind| {
        let kind = kind.split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case("text/event-stream")
    })
}

/// An answer that goes on for as long as somebody reads.
pub(crate) fn event_stream(events: Events) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::new(events)).into_response()
}

pub(crate) fn json(value: &impl Serialize) -> Result<Response, Refusal> {
    let json = serde_json::to_vec(value).map_err(|error| unspeakable(&error))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

pub(crate) fn unspeakable(error: &serde_json::Error) -> Refusal {
    Refusal::new(ErrorCode::SandboxFailed, format!("the answer has no JSON form: {error}"), "report this as a bug")
}
