//! Interpreters of a sandbox, as E2B's code interpreter lists them.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use engine::{Driver, Session};
use serde::Deserialize;
use serde_json::json;

use super::envd::{home, json as answer};
use super::execute;
use super::fault::Fault;
use super::sandbox::Sandbox;
use crate::http::{Shared, read};
use crate::keys::random_hex;

/// Those that are there before anybody asks.
const USUAL: [&str; 2] = ["python", "javascript"];

/// Interpreters of one sandbox, whether they have begun or not.
const MOST: usize = 64;
/// The longest path that a kernel takes.
const MOST_PATH: usize = 4096;

/// One interpreter.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct Context {
    pub(super) id: String,
    /// As clients call it.
    pub(super) language: String,
    pub(super) cwd: String,
    /// Whether code without a context runs in it.
    #[serde(skip)]
    usual: bool,
}

impl Context {
    fn new(language: &str, cwd: &str, usual: bool) -> Self {
        Self { id: format!("c{}", random_hex::<24>()), language: language.to_owned(), cwd: cwd.to_owned(), usual }
    }
}

pub(super) async fn serve(
    shared: &Arc<Shared>,
    sandbox: &Arc<Sandbox>,
    session: Arc<Session>,
    request: Request,
) -> Result<Response, Fault> {
    let path = request.uri().path().to_owned();
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match (request.method(), &parts[..]) {
        (&Method::GET, ["health"]) => Ok("OK".into_response()),
        (&Method::POST, ["execute"]) => execute::execute(shared, sandbox, session, request).await,
        (&Method::GET, ["contexts"]) => Ok(answer(&all(sandbox))),
        (&Method::POST, ["contexts"]) => create(sandbox, request).await,
        (&Method::POST, ["contexts", id, "restart"]) => restart(sandbox, &session, id).await,
        (&Method::DELETE, ["contexts", id]) => remove(sandbox, &session, id).await,
        _ => Err(Fault::missing("there is nothing at this path")),
    }
}

/// All of them, the usual ones first, the newest last.
fn all(sandbox: &Sandbox) -> Vec<Context> {
    for language in USUAL {
        usual(sandbox, language);
    }
    sandbox.state().contexts.clone()
}

/// The interpreter for code that names a language only.
pub(super) fn usual(sandbox: &Sandbox, language: &str) -> Context {
    let contexts = &mut sandbox.state().contexts;
    let known = contexts.iter().find(|context| context.usual && context.language == language);
    if let Some(known) = known {
        return known.clone();
    }
    let made = Context::new(language, home(engine::GuestUser::User), true);
    contexts.push(made.clone());
    made
}

/// One by its name.
pub(super) fn named(sandbox: &Sandbox, id: &str) -> Result<Context, Fault> {
    let state = sandbox.state();
    let found = state.contexts.iter().find(|context| context.id == id).cloned();
    found.ok_or_else(|| Fault::missing(format!("Context {} not found", id.chars().take(100).collect::<String>())))
}

/// What a language is called here, if there is an interpreter for it.
pub(super) fn language(asked: &str) -> Result<&'static str, Fault> {
    let wanted = asked.trim().to_ascii_lowercase();
    match Driver::of(&wanted).map(|driver| driver.language) {
        Some("node") => Ok("javascript"),
        Some(language) => Ok(language),
        None => {
            let shown: String = wanted.chars().take(40).collect();
            Err(Fault::bad(format!("there is no interpreter for `{shown}`; there are {}", Driver::languages())))
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Wanted {
    language: Option<String>,
    cwd: Option<String>,
}

async fn create(sandbox: &Sandbox, request: Request) -> Result<Response, Fault> {
    let body = read(request.into_body()).await?;
    let wanted: Wanted = if body.is_empty() { Wanted::default() } else { parse(&body)? };
    let language = language(wanted.language.as_deref().unwrap_or("python"))?;
    let cwd = wanted.cwd.as_deref().unwrap_or(home(engine::GuestUser::User));
    // They stay in our memory for as long as the sandbox lives.
    if cwd.len() > MOST_PATH {
        return Err(Fault::bad("`cwd` is longer than any path"));
    }
    // The usual ones are older.
    all(sandbox);
    let made = Context::new(language, cwd, false);
    let contexts = &mut sandbox.state().contexts;
    if contexts.len() >= MOST {
        return Err(Fault::new(StatusCode::TOO_MANY_REQUESTS, format!("the sandbox has {MOST} contexts already")));
    }
    contexts.push(made.clone());
    Ok(answer(&made))
}

pub(super) fn parse<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(body).map_err(|error| Fault::bad(format!("the body is not as it should be: {error}")))
}

async fn restart(sandbox: &Sandbox, session: &Session, id: &str) -> Result<Response, Fault> {
    let context = named(sandbox, id)?;
    // One that was never used has not begun.
    let _ = session.restart_context(&sandbox.owner, &context.id).await;
    Ok(answer(&json!({})))
}

async fn remove(sandbox: &Sandbox, session: &Session, id: &str) -> Result<Response, Fault> {
    restart(sandbox, session, id).await?;
    sandbox.state().contexts.retain(|context| context.id != id);
    Ok(StatusCode::NO_CONTENT.into_response())
}
