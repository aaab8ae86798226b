//! Runs over HTTP: extract, call the engine, map.

mod journal;
mod log;
mod registry;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use axum::routing::{get, post};
use engine::{Admission, Caller, Delivery, Output, RunError};
use types::{ErrorCode, ExecRequest, ExecResult, Outcome};

use crate::activity::{Underway, turned};
use crate::error::Refusal;
use crate::events::{Events, Teller};
use crate::following::{accepted, as_json, told};
use crate::http::{READER_PATIENCE, Shared, caller, event_stream, json, read, unspeakable, wants_events};
use crate::identity::Identity;
use crate::outlet::Outlet;

pub(crate) use log::Log;
pub(crate) use registry::Registry;
use registry::{Going, Ground};

/// How long whoever takes a run back waits for its end.
const END_TIME: Duration = Duration::from_secs(10);

pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/v1/runs", post(run).get(list)).route("/v1/runs/{id}", get(show).delete(cancel))
}

async fn run(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Refusal> {
    let underway = shared.runs.begin();
    let streamed = wants_events(request.headers());
    let ground = if wants_no_answer(request.headers()) { Ground::Back } else { Ground::Fore };
    let caller = caller(&request);
    let body = read(request.into_body()).await?;
    let request: ExecRequest = serde_json::from_slice(&body).map_err(|error| {
        let hint = "send a run as JSON, such as {\"language\": \"python\", \"code\": \"print(1)\"}";
        Refusal::new(ErrorCode::InvalidRequest, format!("the body is not a request: {error}"), hint)
    })?;
    // Whoever has to wait does not wait with all of it in memory twice.
    drop(body);
    let going = shared.known.begin(&caller, ground)?;
    match (ground, streamed) {
        (Ground::Back, _) => background(shared, caller, request, underway, going, streamed).await,
        (Ground::Fore, true) => Ok(stream(shared, caller, request, underway, going)),
        (Ground::Fore, false) => {
            // A client that goes away drops this future, and the sandbox with it.
            let result = carry_out(&shared, &caller, request, None, &going).await?;
            let json = written(&result)?;
            going.end(json.clone());
            Ok(as_json(json))
        }
    }
}

/// `Prefer: respond-async`, as RFC 7240 has it: the run goes on without its client.
fn wants_no_answer(headers: &HeaderMap) -> bool {
    let preferences = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    preferences.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case("respond-async"))
}

/// Answers at once; the run goes on for as long as somebody reads.
fn stream(shared: Arc<Shared>, caller: Caller, request: ExecRequest, underway: Underway, going: Going) -> Response {
    let cancel = going.record.cancel.clone();
    let (outlet, queue) = Outlet::new(cancel.subscribe(), Some(READER_PATIENCE));
    let teller = Teller::logged(Some(outlet), Arc::clone(&going.record.log));
    tokio::spawn(tell(shared, caller, request, underway, going, teller));
    event_stream(Events { queue, cancel })
}

/// Answers at once; the run goes on whoever reads.
async fn background(
    shared: Arc<Shared>,
    caller: Caller,
    request: ExecRequest,
    underway: Underway,
    going: Going,
    streamed: bool,
) -> Result<Response, Refusal> {
    // Whoever asks too much is told now, not when he comes back.
    let pass = shared.engine.admit(&caller, "run").await?;
    let caller = Caller { admission: Admission::Done, ..caller };
    let record = Arc::clone(&going.record);
    let teller = Teller::logged(None, Arc::clone(&record.log));
    tokio::spawn(async move {
        let _pass = pass;
        tell(shared, caller, request, underway, going, teller).await;
    });
    let place = format!("/v1/runs/{}", record.id);
    let mut response = accepted(&place, Arc::clone(&record.log), record.json(), streamed);
    response.headers_mut().insert("preference-applied", HeaderValue::from_static("respond-async"));
    Ok(response)
}

/// Carries out a run in a task of its own, and tells of it.
async fn tell(
    shared: Arc<Shared>,
    caller: Caller,
    request: ExecRequest,
    underway: Underway,
    going: Going,
    mut teller: Teller,
) {
    let _underway = underway;
    teller.start(&going.record.id);
    let result = carry_out(&shared, &caller, request, Some(&mut teller), &going).await;
    teller.flush();
    // It is known before it is told, so that whoever heard it can ask for it.
    let is_cut = *shared.give_up.borrow() && matches!(&result, Ok(ExecResult { outcome: Outcome::Cancelled, .. }));
    match result.map_err(Refusal::from).and_then(|result| written(&result)) {
        Ok(json) if is_cut => {
            going.interrupt();
            teller.finish("result", &json).await;
        }
        Ok(json) => {
            going.end(json.clone());
            teller.finish("result", &json).await;
        }
        Err(refusal) => {
            let json = Bytes::from(refusal.json().1);
            going.fail(json.clone());
            teller.finish("error", &json).await;
        }
    }
}

/// Carries out a run, and takes it back when somebody says so or the server must end.
async fn carry_out(
    shared: &Shared,
    caller: &Caller,
    request: ExecRequest,
    live: Option<&mut Teller>,
    going: &Going,
) -> Result<ExecResult, RunError> {
    let cancel = &going.record.cancel;
    let delivery = Delivery {
        live: live.map(|live| live as &mut dyn Output),
        cancel: Some(cancel.subscribe()),
        id: Some(going.record.id.clone()),
        ..Delivery::default()
    };
    let mut give_up = shared.give_up.subscribe();
    let mut execution = std::pin::pin!(shared.engine.execute(caller, request, delivery));
    tokio::select! {
        result = &mut execution => return result,
        () = turned(&mut give_up) => cancel.send_replace(true),
    };
    execution.await
}

fn written(result: &ExecResult) -> Result<Bytes, Refusal> {
    serde_json::to_vec(result).map(Bytes::from).map_err(|error| unspeakable(&error))
}

async fn list(State(shared): State<Arc<Shared>>, identity: Identity) -> Result<Response, Refusal> {
    json(&shared.known.list(&identity.caller))
}

async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    identity: Identity,
    request: Request,
) -> Result<Response, Refusal> {
    let record = shared.known.get(&identity.caller, &id)?;
    told(&request, Arc::clone(&record.log), record.json())
}

/// Takes a run back, and forgets one that has ended.
async fn cancel(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    identity: Identity,
) -> Result<Response, Refusal> {
    let record = shared.known.get(&identity.caller, &id)?;
    if record.is_running() {
        record.cancel.send_replace(true);
        drop(tokio::time::timeout(END_TIME, record.ended()).await);
    } else {
        shared.known.forget(&record);
    }
    Ok(as_json(record.json()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_background_is_asked_for_by_name() {
        let prefer = |value: &str| HeaderMap::from_iter([("prefer".parse().unwrap(), value.parse().unwrap())]);
        assert!(wants_no_answer(&prefer("respond-async")) && wants_no_answer(&prefer("wait=10, Respond-Async")));
        assert!(!wants_no_answer(&prefer("wait=10")) && !wants_no_answer(&HeaderMap::new()));
    }
}
