//! Sessions over HTTP: extract, call the engine, map.

mod body;
mod files;
mod processes;
mod snapshots;
mod terminal;

pub(crate) use body::{Incoming, Outgoing, Slow};

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{delete, get, post};
use engine::{Caller, CellSpec, CommandSpec, Session, SessionError, SessionSpec, Spoken};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use types::ErrorCode;

use crate::activity::turned;
use crate::error::Refusal;
use crate::events::{Events, Teller};
use crate::http::{READER_PATIENCE, Shared, caller, event_stream, json, read, wants_events};
use crate::outlet::Outlet;

/// Every route below `/v1/sessions`.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/sessions", post(create).get(list))
        .route("/v1/sessions/{id}", get(show).delete(kill))
        .route("/v1/sessions/{id}/extend", post(extend))
        .route("/v1/sessions/{id}/pause", post(pause))
        .route("/v1/sessions/{id}/resume", post(resume))
        .route("/v1/sessions/{id}/exec", post(exec))
        .route("/v1/sessions/{id}/run", post(run))
        .route("/v1/sessions/{id}/contexts", get(contexts))
        .route("/v1/sessions/{id}/contexts/{name}", delete(restart))
        .route("/v1/sessions/{id}/contexts/{name}/interrupt", post(interrupt))
        .merge(processes::routes())
        .merge(terminal::routes())
        .merge(files::routes())
        .merge(snapshots::routes())
}

/// A body as JSON.
async fn parse<T: DeserializeOwned>(request: Request, example: &str) -> Result<T, Refusal> {
    let body = read(request.into_body()).await?;
    let bytes: &[u8] = if body.is_empty() { b"{}" } else { &body };
    serde_json::from_slice(bytes).map_err(|error| {
        let hint = format!("send JSON, such as {example}");
        Refusal::new(ErrorCode::InvalidRequest, format!("the body is not as it should be: {error}"), hint)
    })
}

/// Who asks, and the session that he asks about.
fn find(shared: &Shared, request: &Request, id: &str) -> Result<(Caller, Arc<Session>), Refusal> {
    let caller = caller(request);
    let session = shared.engine.session(&caller, id)?;
    Ok((caller, session))
}

async fn create(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Refusal> {
    let _underway = shared.runs.begin();
    let caller = caller(&request);
    let spec: SessionSpec = parse(request, "{\"ttl_ms\": 600000}").await?;
    let session = shared.engine.create_session(&caller, spec).await?;
    json(&session.info())
}

async fn list(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Refusal> {
    json(&shared.engine.list_sessions(&caller(&request)))
}

async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let (_, session) = find(&shared, &request, &id)?;
    json(&session.info_with_usage().await?)
}

async fn kill(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    shared.engine.kill_session(&caller(&request), &id).await?;
    json(&serde_json::json!({ "id": id, "killed": true }))
}

/// How long a session lives from now on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Extension {
    ttl_ms: u64,
}

async fn extend(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let (caller, session) = find(&shared, &request, &id)?;
    let Extension { ttl_ms } = parse(request, "{\"ttl_ms\": 600000}").await?;
    json(&session.extend(&caller, Duration::from_millis(ttl_ms)).await?)
}

async fn pause(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let (caller, session) = find(&shared, &request, &id)?;
    json(&session.pause(&caller).await?)
}

async fn resume(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let (caller, session) = find(&shared, &request, &id)?;
    json(&session.resume(&caller).await?)
}

/// What a command looks like.
const COMMAND: &str = "{\"argv\": [\"ls\", \"-l\"]}";

async fn exec(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let underway = shared.runs.begin();
    let (caller, session) = find(&shared, &request, &id)?;
    let streamed = wants_events(request.headers());
    let command: CommandSpec = parse(request, COMMAND).await?;
    let mut give_up = shared.give_up.subscribe();
    if !streamed {
        // A client that goes away drops this future, and the command with it.
        let spoken = Spoken { cancel: Some(Box::pin(async move { turned(&mut give_up).await })), ..Spoken::default() };
        return json(&shared.engine.exec_in_session(&caller, &session, command, spoken).await?);
    }
    let (cancel, mut cancelled) = watch::channel(false);
    let (outlet, queue) = Outlet::new(cancelled.clone(), Some(READER_PATIENCE));
    tokio::spawn(async move {
        let _underway = underway;
        let mut teller = Teller::new(outlet);
        let given_up = async move {
            tokio::select! {
                () = turned(&mut give_up) => {}
                () = turned(&mut cancelled) => {}
            }
        };
        let spoken = Spoken { live: Some(&mut teller), cancel: Some(Box::pin(given_up)), ..Spoken::default() };
        let result = shared.engine.exec_in_session(&caller, &session, command, spoken).await;
        teller.conclude(result.map_err(Refusal::from)).await;
    });
    Ok(event_stream(Events { queue, cancel }))
}

/// Code in an interpreter that stays. A client that goes away interrupts it.
async fn run(State(shared): State<Arc<Shared>>, Path(id): Path<String>, request: Request) -> Result<Response, Refusal> {
    let _underway = shared.runs.begin();
    let (caller, session) = find(&shared, &request, &id)?;
    let cell: CellSpec = parse(request, "{\"code\": \"1 + 1\"}").await?;
    json(&shared.engine.run_in_session(&caller, &session, cell).await?)
}

async fn contexts(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    json(&find(&shared, &request, &id)?.1.contexts())
}

async fn interrupt(
    State(shared): State<Arc<Shared>>,
    Path((id, name)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Refusal> {
    let (caller, session) = find(&shared, &request, &id)?;
    json(&session.interrupt_context(&caller, &name).await?)
}

async fn restart(
    State(shared): State<Arc<Shared>>,
    Path((id, name)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Refusal> {
    let (caller, session) = find(&shared, &request, &id)?;
    json(&session.restart_context(&caller, &name).await?)
}

impl From<SessionError> for Refusal {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Run(error) => error.into(),
            other => {
                let body = other.body();
                Self::new(body.code, body.message, body.hint)
            }
        }
    }
}
