//! Sessions: sandboxes that outlive a run.
//!
//! A session has an owner, a time to live, processes and files. What isolates it is a [`Place`](crate::Place) of a backend;
//! everything that is the same for all backends is here.

mod ahead;
mod cells;
mod command;
mod diff;
mod elsewhere;
mod error;
mod full;
mod ground;
mod port;
mod registry;
mod running;
mod snapshots;
mod spec;
mod surroundings;
mod tally;
mod transfer;
mod upkeep;
mod watching;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::{Notify, RwLockWriteGuard, oneshot, watch};
use types::{BackendKind, GuestPath, LimitKind, Limits, Timestamp};

pub(crate) use ahead::Shelf;
pub use cells::{CellSpec, ContextInfo};
pub use command::Spoken;
pub use diff::{Change, Difference, Differences};
pub use error::SessionError;
pub(crate) use registry::Registry;
pub use running::{Heard, Listener, Running};
pub use snapshots::{Snapshot, SnapshotSpec};
pub(crate) use spec::written;
pub use spec::{CommandSpec, ProcessInfo, SessionInfo, SessionSpec, SessionState};
pub use surroundings::{Surroundings, Way};
use tally::Tally;
pub use transfer::Onto;
pub use watching::Watching;

use crate::admission::{Gate, Pass};
use crate::audit::{Audit, Entry, Kind};
use crate::backend::{GuestUser, Place, PlaceFiles, PlaceSpec};
use crate::engine::Caller;
use crate::error::BackendError;
use crate::interpreter::Interpreter;

/// One session.
pub struct Session {
    id: String,
    spec: SessionSpec,
    /// What isolates it.
    backend: BackendKind,
    limits: Limits,
    /// Who created it: by name for the trail, by key for access.
    owner: Caller,
    created: Timestamp,
    /// Folders of interpreters that it sees, for its `PATH`.
    path: Vec<String>,
    /// How its sandbox is made, also the next one.
    place_spec: PlaceSpec,
    state: Mutex<State>,
    /// Held by many to start programs, by one to change the disk under them.
    still: tokio::sync::RwLock<()>,
    /// Held by whoever starts an interpreter, so that there are no two of one name.
    starting: tokio::sync::Mutex<()>,
    /// Turns true when it has ended.
    over: watch::Sender<bool>,
    /// Wakes whoever watches the disks.
    watch: Arc<Notify>,
    audit: Audit,
    gate: Gate,
}

/// What changes.
struct State {
    /// Gone when the session has ended.
    place: Option<Arc<dyn Place>>,
    expires: Instant,
    used: Instant,
    paused: bool,
    running: BTreeMap<u32, Arc<Running>>,
    /// Interpreters that stay, by the name of their context.
    contexts: BTreeMap<String, Interpreter>,
    /// A Python that was started ahead of need, or is just starting; the first context of Python takes it.
    waiting: Option<oneshot::Receiver<Interpreter>>,
    /// What the disk held when it was last counted.
    tally: Tally,
    /// Whether something may be writing to it.
    stirs: bool,
}

impl State {
    fn new(place: Arc<dyn Place>, expires: Instant, waiting: Option<Interpreter>) -> Self {
        let waiting = waiting.map(|there| {
            let (expected, soon) = oneshot::channel();
            // Who takes it is at hand.
            let _ = expected.send(there);
            soon
        });
        Self {
            place: Some(place),
            expires,
            used: Instant::now(),
            paused: false,
            running: BTreeMap::new(),
            contexts: BTreeMap::new(),
            waiting,
            tally: Tally::default(),
            stirs: false,
        }
    }
}

impl Session {
    /// Its name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its environment's `PATH` folders of interpreters.
    pub(crate) fn interpreter_folders(&self) -> &[String] {
        &self.path
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that somebody asked for something.
    fn touch(&self) {
        self.lock().used = Instant::now();
    }

    /// Something may write to its disk from now on.
    fn stir(&self) {
        self.lock().stirs = true;
        self.watch.notify_one();
    }

    /// What isolates it, for as long as it lives.
    pub(crate) fn place(&self) -> Result<Arc<dyn Place>, SessionError> {
        self.lock().place.clone().ok_or_else(|| BackendError::PlaceGone.into())
    }

    /// The same, where its processes must be able to run.
    pub(crate) fn running_place(&self) -> Result<Arc<dyn Place>, SessionError> {
        if self.lock().paused {
            return Err(SessionError::Paused);
        }
        self.place()
    }

    /// Nothing is started in it as long as what comes back lives.
    async fn hold_still(&self) -> Result<RwLockWriteGuard<'_, ()>, SessionError> {
        let still = self.still.write().await;
        if self.lock().paused { Err(SessionError::Paused) } else { Ok(still) }
    }

    /// Its disk is another one: interpreters enter their folders again, by name, in case they could not be moved.
    fn settle(&self) {
        let contexts: Vec<Interpreter> = {
            let mut state = self.lock();
            state.tally.forget();
            state.contexts.values().cloned().collect()
        };
        for context in contexts {
            // It may be at work for long. One that is gone needs no folder.
            tokio::spawn(async move { drop(context.settle().await) });
        }
    }

    /// Whether a caller may use it: the owner of the machine always, others what they made themselves.
    fn is_for(&self, caller: &Caller) -> bool {
        caller.may_use(&self.owner)
    }

    /// Comes true when it has ended, for whatever reason.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut over = self.over.subscribe();
        async move {
            // The sender goes with the session itself.
            let _ = over.wait_for(|over| *over).await;
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        *self.over.borrow()
    }

    /// As it is now.
    #[must_use]
    pub fn info(&self) -> SessionInfo {
        let state = self.lock();
        let left = state.expires.saturating_duration_since(Instant::now());
        SessionInfo {
            id: self.id.clone(),
            state: if state.paused { SessionState::Paused } else { SessionState::Running },
            backend: self.backend,
            image: self.spec.image.clone(),
            from: self.spec.from.clone(),
            created: self.created,
            expires: Timestamp::from(SystemTime::now() + left),
            idle_ms: self.spec.idle_ms,
            limits: written(&self.limits),
            network: self.spec.network,
            metadata: self.spec.metadata.clone(),
            processes: state.running.values().filter(|running| !running.has_ended()).count(),
            isolation: state.place.as_ref().map(|place| place.isolation()).unwrap_or_default(),
            usage: None,
        }
    }

    /// As it is now, with what it has cost.
    pub async fn info_with_usage(&self) -> Result<SessionInfo, SessionError> {
        let usage = self.place()?.usage().await?;
        Ok(SessionInfo { usage: Some(usage), ..self.info() })
    }

    /// Lets it live so long from now on.
    pub async fn extend(&self, caller: &Caller, ttl: Duration) -> Result<SessionInfo, SessionError> {
        let _pass = self.admit(caller, "extend").await?;
        let ttl = ttl.min(registry::LONGEST);
        self.lock().expires = Instant::now() + ttl;
        self.touch();
        self.record(caller, "extended", serde_json::json!({ "ttl_s": ttl.as_secs() })).await?;
        Ok(self.info())
    }

    /// Freezes its processes; memory is kept.
    pub async fn pause(&self, caller: &Caller) -> Result<SessionInfo, SessionError> {
        let _pass = self.admit(caller, "pause").await?;
        let place = self.running_place()?;
        self.lock().paused = true;
        if let Err(error) = place.freeze().await {
            self.lock().paused = false;
            return Err(error.into());
        }
        self.record(caller, "paused", serde_json::Value::Null).await?;
        Ok(self.info())
    }

    /// Lets its processes go on.
    pub async fn resume(&self, caller: &Caller) -> Result<SessionInfo, SessionError> {
        let _pass = self.admit(caller, "resume").await?;
        self.place()?.thaw().await?;
        self.lock().paused = false;
        self.touch();
        self.stir();
        self.record(caller, "resumed", serde_json::Value::Null).await?;
        Ok(self.info())
    }

    /// Its files, for somebody who only looks.
    pub fn files(&self) -> Result<Arc<dyn PlaceFiles>, SessionError> {
        self.touch();
        Ok(self.place()?.files())
    }

    /// Its files, for somebody who changes them: that counts as a request of his for as long as he holds the pass.
    pub async fn files_to_change(&self, caller: &Caller) -> Result<(Arc<dyn PlaceFiles>, FilePass), SessionError> {
        let pass = self.admit(caller, "files").await?;
        Ok((self.files()?, FilePass(pass)))
    }

    /// The same for somebody who adds to them: no more than the disk may hold.
    pub async fn files_to_write(&self, caller: &Caller) -> Result<(Arc<dyn PlaceFiles>, FilePass), SessionError> {
        if self.is_full(self.lock().tally.disk) {
            let root = GuestPath::new("/")?;
            return Err(crate::backend::FileError::Full(root).into());
        }
        self.stir();
        self.files_to_change(caller).await
    }

    /// Lets a caller in, or turns him away for now.
    async fn admit(&self, caller: &Caller, act: &str) -> Result<Option<Pass>, SessionError> {
        Ok(self.gate.admit(&self.audit, caller, act).await?)
    }

    /// How many bytes and entries its disk may still take, as it was last counted.
    #[must_use]
    pub fn room(&self) -> (u64, u64) {
        let (bytes, entries) = self.lock().tally.disk;
        (self.limits.disk.saturating_sub(bytes), self.limits.inodes.saturating_sub(entries))
    }

    /// Writes down an act on its files.
    pub async fn record_act(&self, caller: &Caller, act: &str, path: &GuestPath) -> Result<(), SessionError> {
        let path: String = path.as_str().chars().take(300).collect();
        self.record(caller, act, serde_json::json!({ "path": path })).await
    }

    async fn record(&self, caller: &Caller, act: &str, facts: serde_json::Value) -> Result<(), SessionError> {
        let details = serde_json::json!({ "key": caller.key(), "facts": facts }).to_string();
        let caller = caller.name.chars().take(300).collect();
        let entry = Entry { id: self.id.clone(), kind: Kind::Session, caller, outcome: act.to_owned(), details };
        Ok(self.audit.record(entry).await?)
    }

    /// A path as somebody in the session would write it: relative ones begin at the home of the user.
    pub fn path(path: &str, user: GuestUser, base: &str) -> Result<GuestPath, SessionError> {
        let home = match user {
            GuestUser::User => "/home/user",
            GuestUser::Root => "/root",
        };
        let whole = match path {
            "" => base.to_owned(),
            "~" => home.to_owned(),
            path if path.starts_with("~/") => format!("{home}/{}", &path[2..]),
            path if path.starts_with('/') => path.to_owned(),
            path => format!("{}/{path}", base.trim_end_matches('/')),
        };
        Ok(GuestPath::new(plain(&whole))?)
    }

    /// Whether its disk holds more than it may.
    fn is_full(&self, (bytes, entries): (u64, u64)) -> bool {
        bytes > self.limits.disk || entries > self.limits.inodes
    }

    /// Which limit of the disk is exceeded.
    fn exceeded(&self, (bytes, _): (u64, u64)) -> LimitKind {
        if bytes > self.limits.disk { LimitKind::Disk } else { LimitKind::Inodes }
    }
}

/// A change of files under way; it counts among its caller's requests until this is dropped.
pub struct FilePass(#[expect(dead_code, reason = "held, not read")] Option<Pass>);

/// Without `.` and `..`: a name above the root is the root.
fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_where_a_shell_would_begin_them() {
        let path = |text| Session::path(text, GuestUser::User, "/work").unwrap().as_str().to_owned();
        assert_eq!(path(""), "/work");
        assert_eq!(path("a/b"), "/work/a/b");
        assert_eq!(path("~"), "/home/user");
        assert_eq!(path("~/x"), "/home/user/x");
        assert_eq!(path("../../etc"), "/etc");
        assert_eq!(path("/a/./b/../c"), "/a/c");
        assert!(Session::path("a\0b", GuestUser::User, "/work").is_err());
    }
}
