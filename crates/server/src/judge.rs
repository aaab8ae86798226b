//! `POST /v1/judge`: one task, one answer.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use evals::judge::{Judge, Task};
use types::{ErrorCode, ExecRequest};

use crate::activity::turned;
use crate::error::{Refusal, stopping};
use crate::http::{Shared, json, read};
use crate::identity::Identity;

pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/v1/judge", post(judge))
}

/// A client that goes away drops this future, and every sandbox with it.
async fn judge(State(shared): State<Arc<Shared>>, identity: Identity, request: Request) -> Result<Response, Refusal> {
    let _underway = shared.runs.begin();
    let body = read(request.into_body()).await?;
    let text = std::str::from_utf8(&body).map_err(|_| {
        let hint = "send a task as JSON, in UTF-8; docs/JUDGE.md has every field";
        Refusal::new(ErrorCode::InvalidRequest, "the body is not text", hint)
    })?;
    let task = Task::from_any(text)?;
    drop(body);
    let judge = Judge::new(Arc::clone(&shared.engine), identity.caller, ExecRequest::default());
    let mut give_up = shared.give_up.subscribe();
    tokio::select! {
        judged = judge.judge(&task) => json(&judged?),
        () = turned(&mut give_up) => Err(stopping()),
    }
}
