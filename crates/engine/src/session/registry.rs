//! All sessions of an engine: creating, finding, ending.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Notify;
use types::{BackendKind, Limits, LimitsSpec};

use super::error::SessionError;
use super::spec::{SessionInfo, SessionSpec};
use super::surroundings::Surroundings;
use super::{Session, State, full, upkeep};
use crate::audit::{Entry, Kind};
use crate::backend::PlaceSpec;
use crate::engine::{Caller, Engine};
use crate::error::RunError;

/// How long a session lives if nobody says.
const USUAL: Duration = Duration::from_hours(1);
/// How long it may live at most, from each time that it is extended.
pub(super) const LONGEST: Duration = Duration::from_hours(24 * 7);
/// Sessions at once.
const MOST: usize = 200;

/// How the sandbox of a session is made.
pub(super) struct Plan {
    pub(super) backend: BackendKind,
    pub(super) place_spec: PlaceSpec,
    /// Folders of interpreters that it sees.
    pub(super) path: Vec<String>,
}

/// Sessions that live, by name.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    sessions: Arc<Mutex<HashMap<String, Arc<Session>>>>,
    /// Wakes whoever watches the disks of all of them.
    watch: Arc<Notify>,
    /// Whether there is one; read and written by who holds the lock of the sessions.
    is_watched: Arc<AtomicBool>,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn watch(&self) -> Arc<Notify> {
        Arc::clone(&self.watch)
    }

    /// Lets a session live; whether somebody must begin to watch the disks.
    fn begin(&self, session: &Arc<Session>) -> bool {
        let mut sessions = self.lock();
        sessions.insert(session.id.clone(), Arc::clone(session));
        !self.is_watched.swap(true, Ordering::AcqRel)
    }

    /// Those whose disks something may be writing to, for whoever watches them; where no session lives, he is to go.
    pub(super) fn stirring(&self) -> Option<Vec<Arc<Session>>> {
        let sessions = self.lock();
        if sessions.is_empty() {
            self.is_watched.store(false, Ordering::Release);
            return None;
        }
        Some(sessions.values().filter(|session| session.lock().stirs).cloned().collect())
    }

    /// Takes a session out and ends it; whether it was there.
    pub(super) fn end(&self, id: &str) -> Option<Arc<Session>> {
        let session = self.lock().remove(id)?;
        // With the last one, whoever watches them goes.
        self.watch.notify_one();
        // Dropped outside of the lock: that kills what is inside.
        let place = session.lock().place.take();
        session.over.send_replace(true);
        drop(place);
        Some(session)
    }
}

impl Engine {
    /// Creates a session; it is ready when this returns, and lives until its time is over, somebody ends it, or the engine
    /// does.
    pub async fn create_session(&self, caller: &Caller, spec: SessionSpec) -> Result<Arc<Session>, SessionError> {
        self.create_session_in(caller, spec, None).await
    }

    /// The same with surroundings that no request can ask for.
    pub async fn create_session_in(
        &self,
        caller: &Caller,
        mut spec: SessionSpec,
        surroundings: Option<Surroundings>,
    ) -> Result<Arc<Session>, SessionError> {
        let _pass = self.admit(caller, "create").await?;
        check(&spec)?;
        if self.sessions.lock().len() >= MOST {
            return Err(SessionError::TooMany { most: MOST });
        }
        let is_plain = surroundings.is_none();
        let plan = self.plan_session(caller, &mut spec, surroundings).await?;
        let ready = match plan.kind(&spec).filter(|_| is_plain) {
            Some(kind) => self.ahead.take(&kind).await,
            None => None,
        };
        let is_ready = ready.is_some();
        let Plan { backend, place_spec, path } = plan;
        let (place_spec, place, waiting) = if let Some(ready) = ready {
            ready.adopt(&spec).await;
            (ready.place_spec, ready.place, Some(ready.interpreter))
        } else {
            let place = self.stations.get(backend, &self.settings)?.backend.open(&place_spec).await?;
            (place_spec, place, None)
        };
        let limits = place_spec.limits.clone();
        // Nothing is started that could not be recorded.
        self.audit.ready().await?;
        let ttl = spec.ttl_ms.map_or(USUAL, Duration::from_millis).min(LONGEST);
        let session = Arc::new(Session {
            id: place_spec.id.clone(),
            backend,
            limits,
            owner: caller.clone(),
            created: SystemTime::now().into(),
            path,
            place_spec,
            state: Mutex::new(State::new(place, Instant::now() + ttl, waiting)),
            starting: tokio::sync::Mutex::default(),
            still: tokio::sync::RwLock::default(),
            over: tokio::sync::watch::Sender::new(false),
            watch: self.sessions.watch(),
            audit: self.audit.clone(),
            gate: self.gate(),
            spec,
        });
        let facts = serde_json::json!({
            "backend": session.backend, "image": session.spec.image, "from": session.spec.from,
            "network": session.spec.network, "limits": super::spec::written(&session.limits),
            "ttl_ms": u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX), "ahead": is_ready,
        });
        session.record(caller, "created", facts).await?;
        if self.sessions.begin(&session) {
            tokio::spawn(full::watch(self.sessions.clone(), self.settings.state.clone()));
        }
        tokio::spawn(upkeep::keep(self.sessions.clone(), Arc::clone(&session)));
        Ok(session)
    }

    /// How the sandbox of a session is made.
    pub(super) async fn plan_session(
        &self,
        caller: &Caller,
        spec: &mut SessionSpec,
        surroundings: Option<Surroundings>,
    ) -> Result<Plan, SessionError> {
        let limits = self.session_limits(&spec.limits)?;
        let ground = self.ground(caller, spec, surroundings).await?;
        let place_spec = PlaceSpec {
            id: crate::id::new_id("ses"),
            origin: ground.origin,
            limits,
            accept: self.accepted(caller),
            extra_roots: ground.extra_roots,
            image: ground.image,
            digest: ground.digest,
            shown: ground.shown,
            network: ground.network,
            state: self.settings.state.clone(),
        };
        Ok(Plan { backend: ground.backend, place_spec, path: ground.path })
    }

    /// A session by its name, for somebody who may use it.
    pub fn session(&self, caller: &Caller, id: &str) -> Result<Arc<Session>, SessionError> {
        let found = self.sessions.lock().get(id).cloned();
        found.filter(|session| session.is_for(caller)).ok_or_else(|| SessionError::Missing(short(id)))
    }

    /// Every session that this caller may use, oldest first.
    #[must_use]
    pub fn list_sessions(&self, caller: &Caller) -> Vec<SessionInfo> {
        let found: Vec<_> = self.sessions.lock().values().filter(|session| session.is_for(caller)).cloned().collect();
        let mut infos: Vec<SessionInfo> = found.iter().map(|session| session.info()).collect();
        infos.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        infos
    }

    /// Ends a session: all its processes are killed, and its disk goes; snapshots stay.
    pub async fn kill_session(&self, caller: &Caller, id: &str) -> Result<(), SessionError> {
        let session = self.session(caller, id)?;
        let gone = session.place().map(|place| place.gone()).ok();
        self.sessions.end(id);
        if let Some(gone) = gone {
            gone.await;
        }
        session.record(caller, "killed", serde_json::Value::Null).await
    }

    /// Writes down something about what outlives a session.
    pub(super) async fn record_of(&self, caller: &Caller, id: &str, act: &str) -> Result<(), SessionError> {
        let details = serde_json::json!({ "key": caller.key() }).to_string();
        let caller = short(&caller.name);
        let entry = Entry { id: id.to_owned(), kind: Kind::Session, caller, outcome: act.to_owned(), details };
        Ok(self.audit.record(entry).await?)
    }

    /// How many sessions live.
    #[must_use]
    pub fn count_sessions(&self) -> usize {
        self.sessions.lock().len()
    }

    /// How many sandboxes wait for sessions to come.
    #[must_use]
    pub fn count_ready_sessions(&self) -> usize {
        self.ahead.len()
    }

    /// Ends every session, for a server that stops.
    pub async fn end_sessions(&self) {
        self.ahead.clear();
        let all: Vec<String> = self.sessions.lock().keys().cloned().collect();
        for id in all {
            let Some(session) = self.sessions.end(&id) else { continue };
            // What cannot be written now is owed by the trail.
            let _ = session.record(&session.owner.clone(), "stopped", serde_json::Value::Null).await;
        }
    }

    /// A session holds more than a run does, if nobody says otherwise.
    fn session_limits(&self, asked: &LimitsSpec) -> Result<Limits, RunError> {
        let run = &self.settings.defaults;
        let most = &self.settings.ceiling.0;
        let defaults = Limits {
            pids: run.pids.max(256).min(most.pids),
            disk: run.disk.max(1 << 30).min(most.disk),
            inodes: run.inodes.max(200_000).min(most.inodes),
            memory: run.memory.max(1 << 30).min(most.memory),
            ..run.clone()
        };
        Ok(asked.resolve(&defaults, &self.settings.ceiling)?)
    }
}

/// Words that nobody could carry are refused before anything is made.
fn check(spec: &SessionSpec) -> Result<(), RunError> {
    check_env(&spec.env)?;
    let size: usize = spec.metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size > 64 << 10 {
        return Err(RunError::Request("`metadata` is more than 64 KiB"));
    }
    if spec.ttl_ms == Some(0) {
        return Err(RunError::Request("`ttl_ms` must be above 0"));
    }
    Ok(())
}

/// What the kernel can carry as an environment.
pub(super) fn check_env(env: &BTreeMap<String, String>) -> Result<(), RunError> {
    if env.keys().any(|name| name.is_empty() || name.contains(['=', '\0'])) {
        return Err(RunError::Request("names in the environment must be non-empty and without `=`"));
    }
    if env.values().any(|value| value.contains('\0')) {
        return Err(RunError::Request("arguments and environment must not contain NUL"));
    }
    // A session's own stays in our memory for as long as it lives.
    if env.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > 1 << 20 {
        return Err(RunError::Request("the environment is more than 1 MiB"));
    }
    Ok(())
}

fn short(text: &str) -> String {
    text.chars().take(100).collect()
}
