//! Code in an interpreter of a sandbox: one line of JSON for each thing that comes of it, as it comes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::Request;
use axum::response::Response;
use engine::{CellSpec, Session, SessionError};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use types::{CellResult, Outcome, Timestamp};

use super::contexts::{self, Context, parse};
use super::fault::Fault;
use super::results::Lines;
use super::sandbox::Sandbox;
use super::stream::{Cut, Pieces};
use crate::activity::turned;
use crate::http::{READER_PATIENCE, Shared, read};
use crate::outlet::Outlet;

/// After so long without a word clients are told that nothing is wrong.
const QUIET: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct Execute {
    code: String,
    context_id: Option<String>,
    language: Option<String>,
    env_vars: Option<BTreeMap<String, String>>,
}

pub(super) async fn execute(
    shared: &Arc<Shared>,
    sandbox: &Arc<Sandbox>,
    session: Arc<Session>,
    request: Request,
) -> Result<Response, Fault> {
    let body = read(request.into_body()).await?;
    let asked: Execute = parse(&body)?;
    let context = match (&asked.context_id, &asked.language) {
        (Some(_), Some(_)) => return Err(Fault::bad("Only one of context_id or language can be provided")),
        (Some(id), None) => contexts::named(sandbox, id)?,
        (None, language) => contexts::usual(sandbox, contexts::language(language.as_deref().unwrap_or("python"))?),
    };
    let cell = cell(&session, context, asked);
    let (gone, mut left) = watch::channel(false);
    let (outlet, queue) = Outlet::new(left.clone(), Some(READER_PATIENCE));
    let cut = Cut::default();
    let (shared, owner, cutting) = (Arc::clone(shared), sandbox.owner.clone(), cut.clone());
    let lines = Lines::new(outlet);
    let words = lines.queue();
    let underway = shared.runs.begin();
    tokio::spawn(async move {
        let _underway = underway;
        let ended = session.ended();
        let running = shared.engine.run_in_session_live(&owner, &session, cell, Some(Box::new(lines)));
        tokio::select! {
            result = running => {
                if session.has_ended() {
                    cutting.set();
                } else {
                    conclude(&words, result).await;
                }
            }
            () = ended => cutting.set(),
            // Dropping the run interrupts it.
            () = turned(&mut left) => {}
            () = keep_alive(&words) => {}
        }
    });
    Ok(Pieces { queue, cut, gone }.answer("application/json"))
}

/// The cell as the engine takes it. An interpreter that has to be started first goes where it belongs.
fn cell(session: &Session, context: Context, asked: Execute) -> CellSpec {
    let is_new = !session.contexts().iter().any(|known| known.name == context.id);
    CellSpec {
        code: asked.code,
        language: Some(context.language),
        cwd: is_new.then_some(context.cwd),
        context: Some(context.id),
        env: asked.env_vars.unwrap_or_default(),
        ..CellSpec::default()
    }
}

async fn keep_alive(words: &mpsc::Sender<Vec<u8>>) {
    loop {
        tokio::time::sleep(QUIET).await;
        if words.send(line(&json!({ "type": "keepalive" }))).await.is_err() {
            return;
        }
    }
}

/// The last words about a cell.
async fn conclude(words: &mpsc::Sender<Vec<u8>>, result: Result<CellResult, SessionError>) {
    let last = match result {
        Ok(cell) => {
            let count = json!({ "type": "number_of_executions", "execution_count": cell.execution_count });
            let ended = ending(&cell).map(|(name, value)| error(name, &value));
            ended.into_iter().chain([count]).collect()
        }
        Err(failed) => vec![error("ExecutionError", &failed.to_string())],
    };
    for word in last.into_iter().chain([json!({ "type": "end_of_execution" })]) {
        if words.send(line(&word)).await.is_err() {
            return;
        }
    }
}

/// What ended a cell, where it was no exception of its own.
fn ending(cell: &CellResult) -> Option<(&'static str, String)> {
    if cell.context_lost {
        return Some(("UnexpectedEndOfExecution", "the interpreter has ended; its variables are lost".to_owned()));
    }
    match &cell.run.outcome {
        _ if cell.run.exception.is_some() => None,
        Outcome::LimitExceeded { limit } => {
            Some(("LimitExceeded", format!("the code has reached its {} limit", limit.name())))
        }
        Outcome::Cancelled => Some(("KeyboardInterrupt", "the code was interrupted".to_owned())),
        Outcome::Exited { code } if *code != 0 => Some(("SystemExit", code.to_string())),
        Outcome::Exited { .. } | Outcome::Signaled { .. } | Outcome::Refused { .. } => None,
    }
}

fn error(name: &str, value: &str) -> Value {
    json!({ "type": "error", "name": name, "value": value, "traceback": value })
}

/// One line.
pub(super) fn line(value: &Value) -> Vec<u8> {
    let mut line = value.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// Now, as the clients are told.
pub(super) fn now() -> String {
    Timestamp::from(SystemTime::now()).to_string()
}
