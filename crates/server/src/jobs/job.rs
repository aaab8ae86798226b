//! One job: whose it is, how far it is, what was told of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use engine::{Caller, Standing};
use evals::jobs::{Progress, Step};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::watch;
use types::Timestamp;

use super::journal::{Page, PageEnd};
use crate::events::numbered_event;
use crate::runs::Log;

/// Events of a job that was begun again have numbers of their own: a reader from before is told of the gap.
const EVENTS_OF_A_START: u64 = 1_000_000_000;

/// One job.
pub(super) struct Job {
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) owner: Caller,
    created: Timestamp,
    /// How often work on it was begun.
    starts: AtomicU64,
    /// How often in a row the server went away over it.
    crashes: AtomicU64,
    /// Takes it back.
    pub(super) cancel: watch::Sender<bool>,
    told: Mutex<Told>,
    state: watch::Sender<State>,
}

struct Told {
    log: Arc<Log>,
    number: u64,
    progress: Progress,
}

/// How far a job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// Others are before it.
    Queued,
    Running,
    /// Its result, as JSON.
    Ended(Bytes),
    /// The error in its place, as JSON.
    Failed(Bytes),
    /// It cannot go on after a restart; why, as JSON.
    Interrupted(Bytes),
    Cancelled,
}

/// A line of the list.
#[derive(Serialize)]
pub(super) struct Line {
    id: String,
    kind: String,
    state: &'static str,
    pub(super) created: Timestamp,
    progress: Progress,
}

impl Job {
    pub(super) fn new(id: String, kind: &str, owner: &Caller, created: Timestamp, progress: Progress) -> Self {
        Self {
            id,
            kind: kind.to_owned(),
            owner: owner.clone(),
            created,
            starts: AtomicU64::new(0),
            crashes: AtomicU64::new(0),
            cancel: watch::Sender::new(false),
            told: Mutex::new(Told { log: Log::new(), number: 0, progress }),
            state: watch::Sender::new(State::Queued),
        }
    }

    /// As it was written down; one without an end waits again.
    pub(super) fn from_page(page: &Page, owner: &Caller) -> Self {
        let job = Self::new(page.id.clone(), &page.kind, owner, Timestamp(page.created), page.progress);
        job.starts.store(page.starts, Ordering::Relaxed);
        job.crashes.store(page.crashes, Ordering::Relaxed);
        if page.starts > 0 {
            let number = page.starts * EVENTS_OF_A_START;
            *job.told.lock().unwrap_or_else(PoisonError::into_inner) =
                Told { log: Log::after_number(number), number, progress: page.progress };
        }
        let bytes = |json: &RawValue| Bytes::from(json.get().to_owned());
        match &page.end {
            None => {}
            Some(PageEnd::Ended(json)) => job.close(State::Ended(bytes(json))),
            Some(PageEnd::Failed(json)) => job.close(State::Failed(bytes(json))),
            Some(PageEnd::Interrupted(json)) => job.close(State::Interrupted(bytes(json))),
            Some(PageEnd::Cancelled) => job.close(State::Cancelled),
        }
        job.tell_end();
        job
    }

    /// As it is written down.
    pub(super) fn page(&self) -> Page {
        let raw = |json: &Bytes| RawValue::from_string(String::from_utf8_lossy(json).into_owned()).ok();
        let end = match &*self.state.borrow() {
            State::Queued | State::Running => None,
            State::Ended(json) => raw(json).map(PageEnd::Ended),
            State::Failed(json) => raw(json).map(PageEnd::Failed),
            State::Interrupted(json) => raw(json).map(PageEnd::Interrupted),
            State::Cancelled => Some(PageEnd::Cancelled),
        };
        Page {
            id: self.id.clone(),
            kind: self.kind.clone(),
            created: self.created.0,
            caller: self.owner.name.clone(),
            key: self.owner.key().map(str::to_owned),
            starts: self.starts.load(Ordering::Relaxed),
            crashes: self.crashes(),
            progress: self.progress(),
            end,
        }
    }

    pub(super) fn crashes(&self) -> u64 {
        self.crashes.load(Ordering::Relaxed)
    }

    /// Work begins; until somebody says otherwise, the server may go away over it.
    pub(super) fn begin(&self) {
        self.starts.fetch_add(1, Ordering::Relaxed);
        self.crashes.fetch_add(1, Ordering::Relaxed);
        self.state.send_replace(State::Running);
    }

    /// Work stops because the server was told to.
    pub(super) fn pause(&self) {
        self.crashes.store(0, Ordering::Relaxed);
    }

    /// Tells whoever listens, now or later.
    pub(super) fn tell(&self, step: &Step) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.number += 1;
        told.progress = step.progress;
        let data = serde_json::to_vec(&step.data).unwrap_or_default();
        told.log.push(numbered_event(told.number, step.name, &data).into());
    }

    /// Its end, which whoever asks sees.
    pub(super) fn close(&self, state: State) {
        self.state.send_replace(state);
    }

    /// Tells its end to whoever listens, and nothing after it: last, so that nobody who heard it finds anything else.
    pub(super) fn tell_end(&self) {
        let log = self.log();
        match &*self.state.borrow() {
            State::Queued | State::Running => {}
            State::Ended(json) => log.conclude("result", json.clone()),
            State::Failed(json) | State::Interrupted(json) => log.conclude("error", json.clone()),
            State::Cancelled => log.conclude("cancelled", Bytes::from_static(b"{}")),
        }
    }

    pub(super) fn log(&self) -> Arc<Log> {
        Arc::clone(&self.told.lock().unwrap_or_else(PoisonError::into_inner).log)
    }

    pub(super) fn progress(&self) -> Progress {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).progress
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(*self.state.borrow(), State::Queued | State::Running)
    }

    pub(super) fn is(&self, state: &State) -> bool {
        *self.state.borrow() == *state
    }

    /// Waits for its end.
    pub(super) async fn ended(&self) {
        let is_over = |state: &State| !matches!(state, State::Queued | State::Running);
        drop(self.state.subscribe().wait_for(is_over).await);
    }

    pub(super) fn state_name(&self) -> &'static str {
        match *self.state.borrow() {
            State::Queued => "queued",
            State::Running => "running",
            State::Ended(_) => "ended",
            State::Failed(_) => "failed",
            State::Interrupted(_) => "interrupted",
            State::Cancelled => "cancelled",
        }
    }

    pub(super) fn line(&self) -> Line {
        Line {
            id: self.id.clone(),
            kind: self.kind.clone(),
            state: self.state_name(),
            created: self.created,
            progress: self.progress(),
        }
    }

    /// How far it is, with its result or its error.
    pub(super) fn json(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec(&self.line()).unwrap_or_default();
        // A result is a field; an error is an object whose fields fit behind ours.
        let more = match &*self.state.borrow() {
            State::Queued | State::Running | State::Cancelled => return json,
            State::Ended(result) => [b",\"result\":", &result[..], b"}"].concat(),
            State::Failed(error) | State::Interrupted(error) => [b",", error.get(1..).unwrap_or_default()].concat(),
        };
        json.pop();
        json.extend(more);
        json
    }
}

impl Page {
    /// By what right its owner asked, where no key says.
    pub(super) fn first_owner(&self) -> Caller {
        Caller { name: self.caller.clone(), standing: Standing::FirstKey, ..Caller::default() }
    }

    /// Its owner by the id of a key that opens nothing any more.
    pub(super) fn former_owner(&self, id: &str) -> Caller {
        let standing = Standing::Key { id: id.to_owned(), allowance: None };
        Caller { name: self.caller.clone(), standing, ..Caller::default() }
    }
}
