//! Runs over HTTP: extract, call the engine, map.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use engine::{Caller, Delivery, RunError};
use tokio::sync::watch;
use types::{ErrorCode, ExecRequest, ExecResult};

use crate::activity::{Underway, turned};
use crate::error::Refusal;
use crate::events::{Events, Teller};
use crate::http::{READER_PATIENCE, Shared, caller, event_stream, json, read, wants_events};
use crate::outlet::Outlet;

pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/v1/runs", post(run))
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
