//! `SandboxFusion`'s interface, so that its clients need nothing but our address.
//!
//! Its words are kept, its traps too: `Success` means exit code 0 and nothing else, a program that fails is HTTP 200, and
//! trouble of ours is `SandboxError`, which clients take for no answer.

mod extract;
mod jupyter;
mod language;
mod run;
mod submit;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use engine::{Allowance, Caller, RunError, Standing};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use types::{ErrorBody, ErrorCode};

use crate::activity::turned;
use crate::error::{Refusal, stopping};
use crate::http::{Shared, json as answer, read};
use crate::identity::{Identity, Scope, unknown};

/// The routes; where the settings say so, whoever reaches the loopback needs no key for them.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/run_code", post(run_code))
        .route("/run_jupyter", post(run_jupyter))
        .route("/submit", post(submit))
        .route("/v1/ping", get(async || told(StatusCode::OK, &json!("pong"))))
        .layer(Extension(Notebooks(Arc::new(Semaphore::new(MOST_NOTEBOOKS)))))
}

/// Sessions that requests hold at once, of all that there may be: whoever needs no key cannot have them all.
const MOST_NOTEBOOKS: usize = 32;

/// Places for requests that hold a session; others wait in line.
#[derive(Clone)]
struct Notebooks(Arc<Semaphore>);

/// Why there is no answer in the client's own words.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Who asks, how much, how slowly: as with every route.
    Refused(Refusal),
    /// The body is none.
    Unreadable(String),
    /// It is, but asks for what there is not.
    Unsupported(String),
    /// Too much is under way. 504, because that is what its clients try again after.
    Overloaded(ErrorBody, u64),
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let (status, detail) = match self {
            Self::Refused(refusal) => return refusal.into_response(),
            Self::Unreadable(detail) => (StatusCode::UNPROCESSABLE_ENTITY, detail),
            Self::Unsupported(detail) => (StatusCode::BAD_REQUEST, detail),
            Self::Overloaded(body, seconds) => {
                let words = json!({ "detail": format!("{}; {}", body.message, body.hint), "error": body });
                let mut response = told(StatusCode::GATEWAY_TIMEOUT, &words);
                response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
                return response;
            }
        };
        told(status, &json!({ "detail": detail }))
    }
}

fn told(status: StatusCode, words: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], words.to_string()).into_response()
}

/// An error of the engine is an answer too, unless the client should ask again.
fn sandbox_error(error: &RunError) -> Result<String, Trouble> {
    let body = error.body();
    if matches!(body.code, ErrorCode::RateLimited | ErrorCode::Busy) {
        let wait = error.retry_after().unwrap_or_default().as_secs_f64().ceil();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; `as` saturates")]
        return Err(Trouble::Overloaded(body, (wait as u64).max(1)));
    }
    Ok(format!("{}; {}", body.message, body.hint))
}

/// Who asks: by a key, or anybody where the settings let him.
fn who(shared: &Shared, identity: Option<Identity>, scope: Scope) -> Result<Identity, Refusal> {
    let identity = match identity {
        Some(identity) => identity,
        None if !shared.engine.fusion().without_key => return Err(unknown()),
        None if shared.hosts.is_empty() => anybody(),
        None => {
            // Others than those on this machine reach us by these names, through a proxy perhaps.
            let hint = "send a key: `without_key` of [fusion] holds only where [server] names no `hosts`";
            return Err(Refusal::new(ErrorCode::Unauthorized, "the key is missing or wrong", hint));
        }
    };
    identity.must(scope)?;
    Ok(identity)
}

/// Whoever reaches the loopback. He owns nothing of anybody's, and may ask as often as he likes.
fn anybody() -> Identity {
    let standing = Standing::Key { id: "sandboxfusion".to_owned(), allowance: Some(Allowance::default()) };
    let caller = Caller { name: "sandboxfusion".to_owned(), standing, ..Caller::default() };
    Identity { caller, scopes: [Scope::Run, Scope::Judge].into_iter().collect() }
}

async fn parse<T: DeserializeOwned>(request: Request) -> Result<T, Trouble> {
    let body = read(request.into_body()).await?;
    serde_json::from_slice(&body)
        .map_err(|error| Trouble::Unreadable(format!("the body is not as it should be: {error}")))
}

async fn run_code(
    State(shared): State<Arc<Shared>>,
    identity: Option<Identity>,
    request: Request,
) -> Result<Response, Trouble> {
    let _underway = shared.runs.begin();
    let who = who(&shared, identity, Scope::Run)?;
    let request: wire::RunCode = parse(request).await?;
    let give_up = shared.give_up.subscribe();
    Ok(answer(&run::run_code(&shared.engine, &who.caller, request, give_up).await?)?)
}

async fn run_jupyter(
    State(shared): State<Arc<Shared>>,
    Extension(Notebooks(places)): Extension<Notebooks>,
    identity: Option<Identity>,
    request: Request,
) -> Result<Response, Trouble> {
    let _underway = shared.runs.begin();
    let who = who(&shared, identity, Scope::Run)?;
    let request: wire::RunJupyter = parse(request).await?;
    // Nobody closes it, so there always is one in the end.
    let _place = places.acquire().await;
    let mut give_up = shared.give_up.subscribe();
    tokio::select! {
        answered = jupyter::run(&shared.engine, &who.caller, request) => Ok(answer(&answered?)?),
        () = turned(&mut give_up) => Err(stopping().into()),
    }
}

async fn submit(
    State(shared): State<Arc<Shared>>,
    identity: Option<Identity>,
    request: Request,
) -> Result<Response, Trouble> {
    let _underway = shared.runs.begin();
    let who = who(&shared, identity, Scope::Judge)?;
    let request: wire::Submit = parse(request).await?;
    let give_up = shared.give_up.subscribe();
    Ok(answer(&submit::submit(&shared.engine, &who.caller, request, &give_up).await?)?)
}
