//! Runs by name: what is under way, and what has ended lately. Every look is by owner and name.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use axum::body::Bytes;
use engine::{AdmissionError, Caller, RunError, new_id};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::watch;
use types::{ErrorCode, Timestamp};

use super::journal::{Journal, Page, PageEnd};
use super::log::Log;
use crate::error::{Refusal, stopping};

/// Of each owner: ended runs that are kept, and the bytes of their results and events.
const MOST_KEPT: usize = 1000;
const MOST_BYTES: usize = 16 << 20;
/// Of each owner: runs in the background that have not ended.
const MOST_IN_BACKGROUND: u32 = 256;

/// One run.
pub(super) struct Record {
    pub(super) id: String,
    owner: Caller,
    created: Timestamp,
    in_background: bool,
    /// Takes it back.
    pub(super) cancel: watch::Sender<bool>,
    pub(super) log: Arc<Log>,
    state: watch::Sender<State>,
}

/// How far a run is.
#[derive(Debug, Clone)]
enum State {
    Running,
    /// Its result, as JSON.
    Ended(Bytes),
    /// The error in its place, as JSON.
    Failed(Bytes),
    /// The server ended before it did; that error, as JSON.
    Interrupted(Bytes),
}

/// A line of the list.
#[derive(Serialize)]
pub(super) struct Line {
    id: String,
    state: &'static str,
    created: Timestamp,
}

/// All of them.
pub(crate) struct Registry {
    inner: Mutex<Inner>,
    journal: Journal,
}

#[derive(Default)]
struct Inner {
    runs: HashMap<String, Arc<Record>>,
    /// By owner, oldest first.
    ended: HashMap<String, Ended>,
}

#[derive(Default)]
struct Ended {
    order: VecDeque<Arc<Record>>,
    bytes: usize,
}

/// A run under way. Dropped before its end it is forgotten: whoever asked is gone.
pub(super) struct Going {
    registry: Arc<Registry>,
    pub(super) record: Arc<Record>,
    open: bool,
}

/// Whether somebody waits for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ground {
    Fore,
    Back,
}

impl Registry {
    /// With what is known of runs in the background from before.
    pub(crate) fn open(state: &Path) -> io::Result<Arc<Self>> {
        let registry = Self { inner: Mutex::default(), journal: Journal::open(state)? };
        for page in registry.journal.read()? {
            let owner = page.owner();
            let end = match page.end {
                Some(PageEnd::Ended(json)) => State::Ended(Bytes::from(json.get().to_owned())),
                Some(PageEnd::Failed(json)) => State::Failed(Bytes::from(json.get().to_owned())),
                None => State::Interrupted(stopping().written().1.into()),
            };
            let record = Arc::new(Record::new(page.id, &owner, Timestamp(page.created), Ground::Back, end));
            registry.lock().runs.insert(record.id.clone(), Arc::clone(&record));
            registry.keep(&record);
        }
        Ok(Arc::new(registry))
    }

    /// A new run of `owner`.
    pub(super) fn begin(self: &Arc<Self>, owner: &Caller, ground: Ground) -> Result<Going, RunError> {
        let created = SystemTime::now().into();
        let record = Arc::new(Record::new(new_id("run"), owner, created, ground, State::Running));
        let mut inner = self.lock();
        if record.in_background {
            let others = inner.runs.values().filter(|other| other.in_background && other.is_running());
            if others.filter(|other| name(&other.owner) == name(owner)).count() >= MOST_IN_BACKGROUND as usize {
                return Err(AdmissionError::Concurrent { most: MOST_IN_BACKGROUND }.into());
            }
        }
        inner.runs.insert(record.id.clone(), Arc::clone(&record));
        drop(inner);
        if record.in_background {
            let written = self.journal.write(&record.page(None));
            written.map_err(|source| RunError::State { path: "background".into(), source })?;
        }
        Ok(Going { registry: Arc::clone(self), record, open: true })
    }

    /// A run by its name, for somebody who may know of it. Others' are like those that never were.
    pub(super) fn get(&self, caller: &Caller, id: &str) -> Result<Arc<Record>, Refusal> {
        let found = self.lock().runs.get(id).cloned();
        found.filter(|record| caller.may_use(&record.owner)).ok_or_else(|| {
            let hint = "`GET /v1/runs` lists those under way and those that have ended lately";
            Refusal::new(ErrorCode::NotFound, "there is no run of this name", hint)
        })
    }

    /// Runs that this caller may know of, newest first.
    pub(super) fn list(&self, caller: &Caller) -> Vec<Line> {
        let mut lines: Vec<Line> = {
            let inner = self.lock();
            let own = inner.runs.values().filter(|record| caller.may_use(&record.owner));
            own.map(|record| Line { id: record.id.clone(), state: record.state_name(), created: record.created })
                .collect()
        };
        lines.sort_by(|a, b| (b.created, &b.id).cmp(&(a.created, &a.id)));
        lines
    }

    /// Forgets a run that has ended.
    pub(super) fn forget(&self, record: &Arc<Record>) {
        self.journal.remove(&record.id);
        let mut inner = self.lock();
        inner.runs.remove(&record.id);
        if let Some(ended) = inner.ended.get_mut(name(&record.owner)) {
            let before = ended.order.len();
            ended.order.retain(|other| other.id != record.id);
            if ended.order.len() < before {
                ended.bytes = ended.bytes.saturating_sub(record.bytes());
            }
        }
    }

    /// Keeps a run that has ended, and lets go of the oldest of its owner.
    fn keep(&self, record: &Arc<Record>) {
        let mut inner = self.lock();
        let Inner { runs, ended } = &mut *inner;
        let ended = ended.entry(name(&record.owner).to_owned()).or_default();
        ended.bytes += record.bytes();
        ended.order.push_back(Arc::clone(record));
        while ended.order.len() > 1 && (ended.order.len() > MOST_KEPT || ended.bytes > MOST_BYTES) {
            let Some(oldest) = ended.order.pop_front() else { return };
            ended.bytes = ended.bytes.saturating_sub(oldest.bytes());
            runs.remove(&oldest.id);
            if oldest.in_background {
                self.journal.remove(&oldest.id);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whose runs are kept together.
fn name(owner: &Caller) -> &str {
    owner.key().unwrap_or_default()
}

impl Going {
    /// It has a result, as JSON.
    pub(super) fn end(self, result: Bytes) {
        self.close(State::Ended(result));
    }

    /// It has none, and why, as JSON.
    pub(super) fn fail(self, error: Bytes) {
        self.close(State::Failed(error));
    }

    /// The server ends before it does.
    pub(super) fn interrupt(self) {
        let error = Bytes::from(stopping().written().1);
        self.close(State::Interrupted(error));
    }

    fn close(mut self, state: State) {
        self.open = false;
        if self.record.in_background {
            // What cannot be written is known until the next start, and interrupted after it.
            let _ = self.registry.journal.write(&self.record.page(Some(&state)));
        }
        self.record.state.send_replace(state);
        // Last, so that nobody who heard of the end finds anything else.
        self.record.tell_end();
        self.registry.keep(&self.record);
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        if self.open {
            self.record.log.close();
            self.registry.lock().runs.remove(&self.record.id);
            if self.record.in_background {
                self.registry.journal.remove(&self.record.id);
            }
        }
    }
}

impl Record {
    /// Tells its end, if it has one, to whoever listens.
    fn tell_end(&self) {
        match &*self.state.borrow() {
            State::Running => {}
            State::Ended(json) => self.log.conclude("result", json.clone()),
            State::Failed(json) | State::Interrupted(json) => self.log.conclude("error", json.clone()),
        }
    }

    fn new(id: String, owner: &Caller, created: Timestamp, ground: Ground, state: State) -> Self {
        let record = Self {
            id,
            owner: owner.clone(),
            created,
            in_background: ground == Ground::Back,
            cancel: watch::Sender::new(false),
            log: Log::new(),
            state: watch::Sender::new(state),
        };
        record.tell_end();
        record
    }

    /// As it is written down.
    fn page(&self, state: Option<&State>) -> Page {
        let raw = |json: &Bytes| RawValue::from_string(String::from_utf8_lossy(json).into_owned()).ok();
        let end = match state {
            Some(State::Ended(json)) => raw(json).map(PageEnd::Ended),
            Some(State::Failed(json)) => raw(json).map(PageEnd::Failed),
            Some(State::Running | State::Interrupted(_)) | None => None,
        };
        let (caller, key) = (self.owner.name.clone(), self.owner.key().map(str::to_owned));
        Page { id: self.id.clone(), created: self.created.0, caller, key, end }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(*self.state.borrow(), State::Running)
    }

    fn state_name(&self) -> &'static str {
        match *self.state.borrow() {
            State::Running => "running",
            State::Ended(_) => "ended",
            State::Failed(_) => "failed",
            State::Interrupted(_) => "interrupted",
        }
    }

    /// Waits for its end.
    pub(super) async fn ended(&self) {
        drop(self.state.subscribe().wait_for(|state| !matches!(state, State::Running)).await);
    }

    /// How far it is, and its result beside that.
    pub(super) fn json(&self) -> Vec<u8> {
        let head = format!("{{\"state\":\"{}\",", self.state_name());
        let own = format!("\"id\":\"{}\",\"created\":\"{}\"", self.id, self.created);
        // A result and an error are objects with fields of their own: what comes after their brace fits behind ours.
        match &*self.state.borrow() {
            State::Running => format!("{head}{own}}}").into_bytes(),
            State::Ended(result) => [head.as_bytes(), result.get(1..).unwrap_or_default()].concat(),
            State::Failed(error) | State::Interrupted(error) => {
                [head.as_bytes(), own.as_bytes(), b",", error.get(1..).unwrap_or_default()].concat()
            }
        }
    }

    fn bytes(&self) -> usize {
        let answer = match &*self.state.borrow() {
            State::Running => 0,
            State::Ended(json) | State::Failed(json) | State::Interrupted(json) => json.len(),
        };
        answer + self.log.bytes()
    }
}

#[cfg(test)]
mod tests {
    use engine::Standing;

    use super::*;

    fn key(id: &str) -> Caller {
        Caller { standing: Standing::Key { id: id.to_owned(), allowance: None }, ..Caller::default() }
    }

    /// One with a folder of its own, which goes with the test.
    fn registry() -> (Arc<Registry>, Folder) {
        let folder = Folder(std::env::temp_dir().join(new_id("saggar-registry")));
        (Registry::open(&folder.0).unwrap(), folder)
    }

    struct Folder(std::path::PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_restart_loses_nothing_that_was_accepted() {
        let (registry, folder) = registry();
        let going = registry.begin(&key("a"), Ground::Back).unwrap();
        let ended = registry.begin(&key("a"), Ground::Back).unwrap();
        let (first, second) = (going.record.id.clone(), ended.record.id.clone());
        ended.end(Bytes::from_static(b"{\"id\":\"x\",\"ok\":true}"));
        drop(registry.begin(&key("a"), Ground::Fore).unwrap());
        let again = Registry::open(&folder.0).unwrap();
        let state = |id: &str| again.get(&key("a"), id).unwrap().state_name();
        assert_eq!((state(&first), state(&second)), ("interrupted", "ended"));
        let told = String::from_utf8(again.get(&key("a"), &second).unwrap().json()).unwrap();
        assert_eq!(told, "{\"state\":\"ended\",\"id\":\"x\",\"ok\":true}");
        assert!(again.get(&key("b"), &first).is_err());
        again.forget(&again.get(&key("a"), &first).unwrap());
        assert_eq!(Registry::open(&folder.0).unwrap().list(&key("a")).len(), 1);
        drop(going);
    }

    #[test]
    fn nobody_sees_what_is_anothers() {
        let (registry, _folder) = registry();
        let going = registry.begin(&key("a"), Ground::Fore).unwrap();
        let id = going.record.id.clone();
        assert!(registry.get(&key("b"), &id).is_err() && registry.list(&key("b")).is_empty());
        assert!(registry.get(&key("a"), &id).is_ok() && registry.get(&Caller::default(), &id).is_ok());
        going.end(Bytes::from_static(b"{\"id\":\"x\"}"));
        assert!(registry.get(&key("b"), &id).is_err());
        let record = registry.get(&key("a"), &id).unwrap();
        assert_eq!(record.json(), b"{\"state\":\"ended\",\"id\":\"x\"}");
        registry.forget(&record);
        assert!(registry.get(&key("a"), &id).is_err());
    }

    #[test]
    fn one_owner_fills_his_own_place_only() {
        let (registry, _folder) = registry();
        registry.begin(&key("a"), Ground::Fore).unwrap().end(Bytes::from_static(b"{\"a\":1}"));
        for _ in 0..40 {
            registry.begin(&key("b"), Ground::Fore).unwrap().end(vec![b'x'; 1 << 20].into());
        }
        assert_eq!((registry.list(&key("a")).len(), registry.list(&key("b")).len()), (1, 16));
        for _ in 0..MOST_KEPT + 5 {
            registry.begin(&key("a"), Ground::Fore).unwrap().end(Bytes::from_static(b"{\"a\":1}"));
        }
        assert_eq!(registry.list(&key("a")).len(), MOST_KEPT);
        drop(registry.begin(&key("c"), Ground::Fore).unwrap());
        assert!(registry.list(&key("c")).is_empty(), "who is gone leaves nothing");
    }

    #[test]
    fn the_background_is_not_without_bounds() {
        let (registry, _folder) = registry();
        let all: Vec<Going> =
            (0..MOST_IN_BACKGROUND).map(|_| registry.begin(&key("a"), Ground::Back).unwrap()).collect();
        assert!(registry.begin(&key("a"), Ground::Back).is_err());
        assert!(registry.begin(&key("b"), Ground::Back).is_ok());
        drop(all);
        assert!(registry.begin(&key("a"), Ground::Back).is_ok());
    }
}
