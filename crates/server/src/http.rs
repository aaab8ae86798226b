//! The HTTP doors: extract, call the engine, map.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use engine::{Caller, Delivery, Engine, RunError, Standing};
use serde::Serialize;
use tokio::sync::watch;
use types::{ErrorCode, ExecRequest, ExecResult};

use crate::activity::{Activity, Underway, turned};
use crate::attach;
use crate::error::Refusal;
use crate::events::{Events, Teller};
use crate::guard::{self, Peer, Way};
use crate::key::Key;
use crate::outlet::Outlet;
use crate::sessions;

/// How long a reader of an event stream may take nothing: he holds the place of a run.
pub(crate) const READER_PATIENCE: Duration = Duration::from_secs(30);

/// The most bytes of a request's body.
const MOST_BODY: usize = 64 << 20;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_mins(1);

/// What every request can reach.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) key: Key,
    /// Runs under way.
    pub(crate) runs: Activity,
    /// Turns true when the server gives up the runs that are left.
    pub(crate) give_up: watch::Sender<bool>,
}

/// All routes, behind the guard.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/healthz", get(health))
        .route("/v1/runs", post(run))
        .route(attach::ATTACH_PATH, get(attach::attach))
        .merge(sessions::routes())
        .method_not_allowed_fallback(async || {
            Refusal::new(
                ErrorCode::MethodNotAllowed,
                "not by this method",
                "`POST /v1/runs`, `POST /v1/sessions`, `GET /healthz`",
            )
        })
        .fallback(nothing_here)
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&shared), guard::check))
        .with_state(shared)
}

pub(crate) async fn nothing_here() -> Refusal {
    Refusal::new(
        ErrorCode::NotFound,
        "there is nothing at this path",
        "this version has /v1/runs, /v1/sessions and /healthz",
    )
}

#[derive(Serialize)]
struct Health {
    ok: bool,
    version: &'static str,
}

async fn health() -> Result<Response, Refusal> {
    json(&Health { ok: true, version: crate::VERSION })
}

async fn run(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Refusal> {
    let underway = shared.runs.begin();
    let streamed = wants_events(request.headers());
    let caller = caller(&request);
    let body = read(request.into_body()).await?;
    let request: ExecRequest = serde_json::from_slice(&body).map_err(|error| {
        let hint = "send a run as JSON, such as {\"language\": \"python\", \"code\": \"print(1)\"}";
        Refusal::new(ErrorCode::InvalidRequest, format!("the body is not a request: {error}"), hint)
    })?;
    // Whoever has to wait does not wait with all of it in memory twice.
    drop(body);
    if streamed {
        return Ok(stream(shared, caller, request, underway));
    }
    // A client that goes away drops this future, and the sandbox with it.
    let delivery = Delivery { cancel: Some(shared.give_up.subscribe()), ..Delivery::default() };
    let result = shared.engine.execute(&caller, request, delivery).await?;
    json(&result)
}

/// Whoever has the key, of which there is one; or the owner, by the socket.
pub(crate) fn caller(request: &Request) -> Caller {
    let by_socket = request.extensions().get::<Peer>().is_some_and(|peer| peer.way == Way::Socket);
    let (name, standing) = if by_socket { ("socket", Standing::Owner) } else { ("http", Standing::FirstKey) };
    Caller { name: name.to_owned(), standing, ..Caller::default() }
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

/// Answers at once; the run goes on for as long as somebody reads.
fn stream(shared: Arc<Shared>, caller: Caller, request: ExecRequest, underway: Underway) -> Response {
    let (cancel, cancelled) = watch::channel(false);
    let (outlet, queue) = Outlet::new(cancelled.clone(), Some(READER_PATIENCE));
    let taken_back = cancel.clone();
    tokio::spawn(async move {
        let _underway = underway;
        let mut teller = Teller::new(outlet);
        let delivery = Delivery { live: Some(&mut teller), cancel: Some(cancelled), ..Delivery::default() };
        let result = until_given_up(&shared, &caller, request, delivery, &taken_back).await;
        teller.conclude(result.map_err(Refusal::from)).await;
    });
    event_stream(Events { queue, cancel })
}

/// An answer that goes on for as long as somebody reads.
pub(crate) fn event_stream(events: Events) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::new(events)).into_response()
}

/// Carries out a run, and takes it back when the server must end.
async fn until_given_up(
    shared: &Shared,
    caller: &Caller,
    request: ExecRequest,
    delivery: Delivery<'_>,
    cancel: &watch::Sender<bool>,
) -> Result<ExecResult, RunError> {
    let mut give_up = shared.give_up.subscribe();
    let mut execution = std::pin::pin!(shared.engine.execute(caller, request, delivery));
    tokio::select! {
        result = &mut execution => return result,
        () = turned(&mut give_up) => cancel.send_replace(true),
    };
    execution.await
}

pub(crate) fn json(value: &impl Serialize) -> Result<Response, Refusal> {
    let json = serde_json::to_vec(value).map_err(|error| unspeakable(&error))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

pub(crate) fn unspeakable(error: &serde_json::Error) -> Refusal {
    Refusal::new(ErrorCode::SandboxFailed, format!("the answer has no JSON form: {error}"), "report this as a bug")
}
