//! `POST /v1/check`: what code would do, without running it.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use serde_json::{Value, json};
use types::{ErrorCode, ExecRequest};

use crate::error::Refusal;
use crate::http::{Shared, json as answer, read};
use crate::identity::Identity;

pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/v1/check", post(check))
}

async fn check(State(shared): State<Arc<Shared>>, identity: Identity, request: Request) -> Result<Response, Refusal> {
    let body = read(request.into_body()).await?;
    let wrong = |why: String| {
        let hint = "send code as JSON, such as {\"language\": \"python\", \"code\": \"import os\"}";
        Refusal::new(ErrorCode::InvalidRequest, why, hint)
    };
    let mut value: Value =
        serde_json::from_slice(&body).map_err(|error| wrong(format!("the body is not JSON: {error}")))?;
    // As on the command line: whoever only asks wants to know what would block.
    if let Some(fields) = value.as_object_mut() {
        fields.entry("policy").or_insert_with(|| json!("guard"));
    }
    let request: ExecRequest =
        serde_json::from_value(value).map_err(|error| wrong(format!("the body is not a request: {error}")))?;
    if request.code.is_none() && request.argv.is_none() {
        return Err(wrong("`code` is missing".to_owned()));
    }
    answer(&shared.engine.check(&identity.caller, &request).await?.result())
}
