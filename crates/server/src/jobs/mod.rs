//! Jobs over HTTP: extract, hand over, map. What a job does is `evals`'s affair.

mod desk;
mod job;
mod journal;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use evals::jobs::{JobError, Order};

pub(crate) use desk::{Counts, Desk};

use crate::error::Refusal;
use crate::following::{accepted, as_json, told};
use crate::http::{Shared, json, read, wants_events};
use crate::identity::Identity;

/// How long whoever takes a job back waits for its end.
const END_TIME: Duration = Duration::from_secs(10);

pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/v1/jobs", post(begin).get(list)).route("/v1/jobs/{id}", get(show).delete(cancel))
}

impl From<JobError> for Refusal {
    fn from(error: JobError) -> Self {
        let body = error.body();
        Self::new(body.code, body.message, body.hint)
    }
}

/// Answers at once; the job goes on whoever reads.
async fn begin(State(shared): State<Arc<Shared>>, identity: Identity, request: Request) -> Result<Response, Refusal> {
    let streamed = wants_events(request.headers());
    let body = read(request.into_body()).await?;
    desk::refuse_at_the_end(&shared.jobs)?;
    let order = Order::read(&body)?;
    let work = shared.jobs.plan(&identity.caller, &order)?;
    // Whoever asks too much is told now, not when he comes back.
    shared.engine.admit(&identity.caller, "job").await?;
    let job = shared.jobs.begin(&identity.caller, order.kind(), &body, work)?;
    Ok(accepted(&format!("/v1/jobs/{}", job.id), job.log(), job.json(), streamed))
}

async fn list(State(shared): State<Arc<Shared>>, identity: Identity) -> Result<Response, Refusal> {
    json(&shared.jobs.list(&identity.caller))
}

async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    identity: Identity,
    request: Request,
) -> Result<Response, Refusal> {
    let job = shared.jobs.get(&identity.caller, &id)?;
    told(&request, job.log(), job.json())
}

/// Takes a job back, and forgets one that has ended.
async fn cancel(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    identity: Identity,
) -> Result<Response, Refusal> {
    let job = shared.jobs.get(&identity.caller, &id)?;
    if job.is_open() {
        shared.jobs.cancel(&job);
        drop(tokio::time::timeout(END_TIME, job.ended()).await);
    } else {
        shared.jobs.forget(&job);
    }
    Ok(as_json(job.json()))
}
