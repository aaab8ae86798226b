//! Images over HTTP: what sandboxes are made from, for whoever looks after the machine.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use engine::{Admission, Build, Caller, Image, Output, RunError};
use tokio::sync::watch;
use types::ErrorCode;

use crate::activity::{Underway, turned};
use crate::error::{Refusal, stopping};
use crate::events::{Events, Teller};
use crate::http::{READER_PATIENCE, Shared, event_stream, json, read, wants_events};
use crate::identity::Identity;
use crate::outlet::Outlet;
use crate::query::Query;
use crate::sessions::{Incoming, Slow};

pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/images", get(list).delete(remove))
        .route("/v1/images/build", post(build))
        .route("/v1/images/import", post(import))
}

async fn list(State(shared): State<Arc<Shared>>) -> Result<Response, Refusal> {
    json(&shared.engine.images()?.list().map_err(RunError::from)?)
}

async fn remove(State(shared): State<Arc<Shared>>, identity: Identity, request: Request) -> Result<Response, Refusal> {
    let Some(name) = Query::of(&request).get("name") else {
        let hint = "add ?name=IMAGE to the address; `GET /v1/images` lists those there are";
        return Err(Refusal::new(ErrorCode::InvalidRequest, "`name` is missing", hint));
    };
    json(&shared.engine.remove_image(&identity.caller, &name).await?)
}

/// Installs packages. Who goes away takes the build with him.
async fn build(State(shared): State<Arc<Shared>>, identity: Identity, request: Request) -> Result<Response, Refusal> {
    let underway = shared.runs.begin();
    let streamed = wants_events(request.headers());
    let body = read(request.into_body()).await?;
    let order: Build = serde_json::from_slice(&body).map_err(|error| {
        let hint = "send JSON such as {\"name\": \"data\", \"pip\": [\"numpy\"]}; where packages come from is said in [build] \
                    of the server's settings";
        Refusal::new(ErrorCode::InvalidRequest, format!("the body is no image to build: {error}"), hint)
    })?;
    let pass = shared.engine.admit(&identity.caller, "build").await?;
    let caller = Caller { admission: Admission::Done, ..identity.caller };
    if !streamed {
        let _held = (underway, pass);
        return json(&carry_out(&shared, &caller, order, None, watch::channel(false).1).await?);
    }
    let (cancel, cancelled) = watch::channel(false);
    let (outlet, queue) = Outlet::new(cancelled.clone(), Some(READER_PATIENCE));
    tokio::spawn(async move {
        let _held = (underway, pass);
        let mut teller = Teller::new(outlet);
        let built = carry_out(&shared, &caller, order, Some(&mut teller), cancelled).await;
        teller.conclude(built).await;
    });
    Ok(event_stream(Events { queue, cancel }))
}

async fn carry_out(
    shared: &Shared,
    caller: &Caller,
    order: Build,
    live: Option<&mut dyn Output>,
    mut cancelled: watch::Receiver<bool>,
) -> Result<Image, Refusal> {
    let mut give_up = shared.give_up.subscribe();
    tokio::select! {
        built = shared.engine.build_image(caller, order, live) => Ok(built?),
        // Nobody is left to be told.
        () = turned(&mut cancelled) => Err(stopping()),
        () = turned(&mut give_up) => Err(stopping()),
    }
}

/// Makes an image of an archive, as `docker save` writes it or of a root file system.
async fn import(State(shared): State<Arc<Shared>>, identity: Identity, request: Request) -> Result<Response, Refusal> {
    let _underway: Underway = shared.runs.begin();
    let query = Query::of(&request);
    let (name, default) = (query.get("name"), query.get("default_name"));
    // What an archive may hold is bounded where it is read.
    let archive = Slow::new(Incoming::new(request.into_body(), u64::MAX));
    json(&shared.engine.import_sent_image(&identity.caller, name, default, archive).await?)
}
