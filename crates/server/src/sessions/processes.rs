//! Programs of a session over HTTP: started, listed, listened to, written to, killed.

use std::ops::ControlFlow;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use engine::{CommandSpec, Heard, Output as _, RunError, SessionError, TerminalSize};
use serde::Deserialize;
use tokio::sync::watch;

use super::{COMMAND, find, parse};
use crate::activity::turned;
use crate::error::Refusal;
use crate::events::{Events, Teller};
use crate::http::{READER_PATIENCE, Shared, event_stream, json, read};
use crate::outlet::Outlet;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/sessions/{id}/processes", get(list).post(start))
        .route("/v1/sessions/{id}/processes/{pid}", get(show).delete(kill))
        .route("/v1/sessions/{id}/processes/{pid}/output", get(output))
        .route("/v1/sessions/{id}/processes/{pid}/stdin", post(write).delete(close))
        .route("/v1/sessions/{id}/processes/{pid}/signal", post(signal))
        .route("/v1/sessions/{id}/processes/{pid}/resize", post(resize))
}

type Named = Path<(String, String)>;

async fn list(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    json(&find(&shared, &request, &id)?.1.processes())
}

async fn start(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let (caller, session) = find(&shared, &request, &id)?;
    let command: CommandSpec = parse(request, COMMAND).await?;
    json(&shared.engine.start_in_session(&caller, &session, command).await?.info())
}

async fn show(
    State(shared): State<Arc<Shared>>,
    Path((id, pid)): Named,
    request: Request,
) -> Result<Response, Refusal> {
    json(&find(&shared, &request, &id)?.1.process(&pid)?.info())
}

async fn kill(
    State(shared): State<Arc<Shared>>,
    Path((id, pid)): Named,
    request: Request,
) -> Result<Response, Refusal> {
    let process = find(&shared, &request, &id)?.1.process(&pid)?;
    process.control().kill().map_err(refused)?;
    json(&process.info())
}

/// From the first piece that is kept to the program's end. A reader who goes away leaves the program alone.
async fn output(
    State(shared): State<Arc<Shared>>,
    Path((id, pid)): Named,
    request: Request,
) -> Result<Response, Refusal> {
    let process = find(&shared, &request, &id)?.1.process(&pid)?;
    let (cancel, mut cancelled) = watch::channel(false);
    let (outlet, queue) = Outlet::new(cancelled.clone(), Some(READER_PATIENCE));
    let mut give_up = shared.give_up.subscribe();
    tokio::spawn(async move {
        let mut teller = Teller::new(outlet);
        let mut listener = process.listen();
        loop {
            let heard = tokio::select! {
                heard = listener.next() => heard,
                () = turned(&mut cancelled) => return,
                () = turned(&mut give_up) => return,
            };
            match heard {
                Some(Heard::Output(stream, bytes)) => {
                    if teller.write(stream, &bytes) == ControlFlow::Break(()) {
                        return;
                    }
                }
                Some(Heard::Lost(_)) => {}
                Some(Heard::Ended(_)) | None => break,
            }
        }
        teller.conclude(Ok(process.info())).await;
    });
    Ok(event_stream(Events { queue, cancel }))
}

async fn write(
    State(shared): State<Arc<Shared>>,
    Path((id, pid)): Named,
    request: Request,
) -> Result<Response, Refusal> {
    let process = find(&shared, &request, &id)?.1.process(&pid)?;
    let bytes = read(request.into_body()).await?;
    process.write(bytes.to_vec()).await?;
    json(&process.info())
}

async fn close(
    State(shared): State<Arc<Shared>>,
    Path((id, pid)): Named,
    request: Request,
) -> Result<Response, Refusal> {
    let process = find(&shared, &request, &id)?.1.process(&pid)?;
    process.close_input();
    json(&process.info())
}

/// A signal by its number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Signal {
    signal: i32,
}

async fn signal(
    State(shared): State<Arc<Shared>>,
    Path((id, pid)): Named,
    request: Request,
) -> Result<Response, Refusal> {
    let process = find(&shared, &request, &id)?.1.process(&pid)?;
    let Signal { signal } = parse(request, "{\"signal\": 15}").await?;
    process.control().signal(signal).map_err(refused)?;
    json(&process.info())
}

async fn resize(
    State(shared): State<Arc<Shared>>,
    Path((id, pid)): Named,
    request: Request,
) -> Result<Response, Refusal> {
    let process = find(&shared, &request, &id)?.1.process(&pid)?;
    let size: TerminalSize = parse(request, "{\"columns\": 80, \"rows\": 24}").await?;
    process.control().resize(size).map_err(refused)?;
    json(&process.info())
}

fn refused(error: engine::BackendError) -> Refusal {
    SessionError::Run(RunError::Backend(error)).into()
}
