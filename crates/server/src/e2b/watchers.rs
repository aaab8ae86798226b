//! Watching folders: as a stream of events, or as events that wait to be fetched.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use engine::{FileChange, FileEvent, GuestUser, Reach, Watching};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use types::GuestPath;

use super::connect::{self, Code, Failure};
use super::entry;
use super::envd::{Asked, resolved};
use super::process::FRAMES;
use super::sandbox::Watcher;
use super::stream::{Cut, Pieces};
use crate::activity::turned;
use crate::keys::random_hex;

/// Folders that one sandbox is watched in, for whoever fetches events.
const MOST: usize = 64;
/// Events of one answer.
const MOST_EVENTS: usize = 10_000;
/// What happened just now is still on its way: so long nothing must come for an answer to be whole, and so long at most.
const SETTLED: Duration = Duration::from_millis(40);
const LONGEST: Duration = Duration::from_millis(400);
const QUEUE: usize = 64;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(super) struct Wanted {
    path: String,
    recursive: bool,
    include_entry: bool,
}

/// Events of a folder as they come, in the wire's words.
struct Events {
    root: String,
    entries: bool,
    /// What was told last: a change of owner and one of mode are one.
    last: Option<FileEvent>,
}

async fn begin(asked: &Asked<'_>, path: &GuestPath, wanted: &Wanted) -> Result<Watching, Failure> {
    let reach = if wanted.recursive { Reach::All } else { Reach::Folder };
    let failed = |error| match Failure::from(error) {
        Failure { code: Code::InvalidArgument, .. } => {
            Failure::new(Code::InvalidArgument, format!("path {path} is not a directory"))
        }
        Failure { code: Code::NotFound, .. } => Failure::new(Code::NotFound, format!("path {path} not found")),
        other => other,
    };
    asked.session.watch(path, reach).await.map_err(failed)
}

impl Events {
    fn new(root: &str, entries: bool) -> Self {
        Self { root: format!("{}/", root.trim_end_matches('/')), entries, last: None }
    }

    async fn told(&mut self, asked: &engine::Session, event: FileEvent) -> Vec<Value> {
        let (kind, renamed) = match event.change {
            FileChange::Create => ("EVENT_TYPE_CREATE", None),
            FileChange::Write => ("EVENT_TYPE_WRITE", None),
            FileChange::Remove => ("EVENT_TYPE_REMOVE", None),
            FileChange::Rename => ("EVENT_TYPE_RENAME", event.to.clone()),
            FileChange::Attributes if self.last.as_ref() == Some(&event) => return Vec::new(),
            FileChange::Attributes => ("EVENT_TYPE_CHMOD", None),
            FileChange::Overflow => return Vec::new(),
        };
        let mut told = vec![self.one(asked, kind, &event.path).await];
        if let Some(to) = renamed {
            told.push(self.one(asked, "EVENT_TYPE_CREATE", &to).await);
        }
        self.last = Some(event);
        told
    }

    async fn one(&self, session: &engine::Session, kind: &str, path: &str) -> Value {
        let name = path.strip_prefix(&self.root).unwrap_or(path);
        let mut told = json!({ "name": name, "type": kind });
        let has_entry = self.entries && !matches!(kind, "EVENT_TYPE_REMOVE" | "EVENT_TYPE_RENAME");
        if has_entry
            && let Ok(files) = session.files()
            && let Ok(path) = GuestPath::new(path)
            && let Ok(entry) = entry::stat(&*files, &path).await
        {
            told["entry"] = entry;
        }
        told
    }
}

/// Tells what happens until the client goes away.
pub(super) async fn stream(asked: &Asked<'_>, request: Request, user: GuestUser) -> Result<Response, Failure> {
    let wanted: Wanted = connect::first(request).await?;
    let path = resolved(&wanted.path, user)?;
    let mut happened = begin(asked, &path, &wanted).await?;
    let mut events = Events::new(path.as_str(), wanted.include_entry);
    let (queue, pieces) = mpsc::channel(QUEUE);
    let (gone, mut left) = watch::channel(false);
    let cut = Cut::default();
    let (session, cutting) = (Arc::clone(&asked.session), cut.clone());
    tokio::spawn(async move {
        let ended = session.ended();
        let telling = async {
            let mut told = queue.send(connect::framed(&json!({ "start": {} }))).await.is_ok();
            while told {
                let Ok(event) = tokio::time::timeout(Duration::from_secs(30), happened.recv()).await else {
                    told = queue.send(connect::framed(&json!({ "keepalive": {} }))).await.is_ok();
                    continue;
                };
                let Some(event) = event else {
                    let _ = queue.send(connect::last()).await;
                    return;
                };
                for one in events.told(&session, event).await {
                    told &= queue.send(connect::framed(&json!({ "filesystem": one }))).await.is_ok();
                }
            }
        };
        tokio::select! {
            () = telling => {}
            () = ended => cutting.set(),
            () = turned(&mut left) => {}
        }
    });
    Ok(Pieces { queue: pieces, cut, gone }.answer(FRAMES))
}

/// Keeps events for whoever fetches them.
pub(super) async fn create(asked: &Asked<'_>, wanted: Wanted, user: GuestUser) -> Result<Response, Failure> {
    let path = resolved(&wanted.path, user)?;
    let events = begin(asked, &path, &wanted).await?;
    let id = format!("w{}", random_hex::<16>());
    let mut state = asked.sandbox.state();
    if state.watchers.len() >= MOST {
        return Err(Failure::new(Code::ResourceExhausted, format!("{MOST} folders are watched already")));
    }
    let events = Arc::new(tokio::sync::Mutex::new(events));
    let watcher = Watcher { root: path.as_str().to_owned(), entries: wanted.include_entry, events };
    state.watchers.insert(id.clone(), watcher);
    Ok(connect::answer(&json!({ "watcherId": id })))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Named {
    watcher_id: String,
}

/// What has happened since somebody last asked.
pub(super) async fn events(asked: &Asked<'_>, Named { watcher_id }: Named) -> Result<Response, Failure> {
    let (root, entries, events) = {
        let state = asked.sandbox.state();
        let watcher = state.watchers.get(&watcher_id).ok_or_else(no_watcher)?;
        (watcher.root.clone(), watcher.entries, Arc::clone(&watcher.events))
    };
    let mut happened = events.lock().await;
    let (mut told, mut words) = (Vec::new(), Events::new(&root, entries));
    let until = tokio::time::Instant::now() + LONGEST;
    while told.len() < MOST_EVENTS && tokio::time::Instant::now() < until {
        let Ok(Some(event)) = tokio::time::timeout(SETTLED, happened.recv()).await else { break };
        told.extend(words.told(&asked.session, event).await);
    }
    Ok(connect::answer(&json!({ "events": told })))
}

pub(super) fn remove(asked: &Asked<'_>, named: &Named) -> Result<Response, Failure> {
    asked.sandbox.state().watchers.remove(&named.watcher_id).ok_or_else(no_watcher)?;
    Ok(connect::answer(&json!({})))
}

fn no_watcher() -> Failure {
    Failure::new(Code::NotFound, "watcher not found")
}
