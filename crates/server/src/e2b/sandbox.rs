//! Sandboxes as E2B has them: a session of the engine, a name, a token, a time to end and what happens then.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use engine::{Caller, Session, Watching};
use tokio::sync::watch;
use types::Timestamp;

use super::contexts::Context;
use super::expected::Expected;
use super::metrics::Sample;
use super::template::Builds;
use crate::keys::random_hex;

/// Compares without telling by its time how much was right.
pub(super) fn same(own: &[u8], given: &[u8]) -> bool {
    let differing = own.iter().zip(given).fold(0, |all, (a, b)| std::hint::black_box(all | (a ^ b)));
    own.len() == given.len() && differing == 0
}

/// Every sandbox that this server knows, running or paused.
#[derive(Default)]
pub(crate) struct Sandboxes {
    by_id: Mutex<HashMap<String, Arc<Sandbox>>>,
    pub(super) builds: Builds,
    pub(super) expected: Expected,
}

impl Sandboxes {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Sandbox>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, sandbox: &Arc<Sandbox>) {
        self.lock().insert(sandbox.id.clone(), Arc::clone(sandbox));
    }

    pub(super) fn remove(&self, id: &str) {
        self.lock().remove(id);
    }

    /// A sandbox by its name, which nobody can guess.
    pub(super) fn get(&self, id: &str) -> Option<Arc<Sandbox>> {
        self.lock().get(id).cloned()
    }

    /// Those that a caller may use.
    pub(super) fn of(&self, caller: &Caller) -> Vec<Arc<Sandbox>> {
        self.lock().values().filter(|sandbox| caller.may_use(&sandbox.owner)).cloned().collect()
    }

    /// The first of which something is true. All are looked at, so that time tells nothing.
    pub(super) fn find(&self, is_it: impl Fn(&Sandbox) -> bool) -> Option<Arc<Sandbox>> {
        self.lock().values().filter(|sandbox| is_it(sandbox)).fold(None, |_, found| Some(Arc::clone(found)))
    }
}

/// What a sandbox was asked to be.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) template: String,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) at_end: AtEnd,
    /// Whether a request wakes it.
    pub(super) auto_resume: bool,
    /// Whether its processes and files can be used with its token only.
    pub(super) secure: bool,
    /// Whether its ports can be used with another token only.
    pub(super) private: bool,
    pub(super) internet: Option<bool>,
}

/// What happens when its time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtEnd {
    Kill,
    Pause(Kept),
}

/// What of a paused sandbox is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// Its processes, frozen, and its disk.
    Memory,
    /// Its disk.
    Disk,
}

/// One sandbox.
pub(super) struct Sandbox {
    pub(super) id: String,
    pub(super) token: String,
    pub(super) traffic_token: Option<String>,
    pub(super) owner: Caller,
    pub(super) wanted: Wanted,
    pub(super) created: Timestamp,
    state: Mutex<State>,
    /// Held by whoever pauses, resumes or copies it.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// Turns when its time to end changes.
    pub(super) changed: watch::Sender<u64>,
}

/// What changes.
pub(super) struct State {
    /// Where it runs, or is frozen.
    pub(super) stand: Stand,
    pub(super) ends: SystemTime,
    /// Changes when it begins anew.
    pub(super) boot: String,
    pub(super) watchers: BTreeMap<String, Watcher>,
    pub(super) contexts: Vec<Context>,
    pub(super) samples: Vec<Sample>,
}

/// Events of a folder that wait to be fetched.
pub(super) struct Watcher {
    pub(super) root: String,
    pub(super) entries: bool,
    pub(super) events: Arc<tokio::sync::Mutex<Watching>>,
}

/// Where a sandbox is.
#[derive(Clone)]
pub(super) enum Stand {
    Running(Arc<Session>),
    Frozen(Arc<Session>),
    /// On the disk alone: a snapshot of this name.
    Stored(String),
}

impl Sandbox {
    pub(super) fn new(owner: Caller, wanted: Wanted, session: Arc<Session>, lives: Duration) -> Arc<Self> {
        let state = State {
            stand: Stand::Running(session),
            ends: SystemTime::now() + lives,
            boot: boot_id(),
            watchers: BTreeMap::new(),
            contexts: Vec::new(),
            samples: Vec::new(),
        };
        Arc::new(Self {
            // It goes into names of hosts, and is a secret where there is no token.
            id: format!("i{}", random_hex::<31>()),
            token: random_hex::<64>(),
            traffic_token: wanted.private.then(random_hex::<64>),
            owner,
            wanted,
            created: SystemTime::now().into(),
            state: Mutex::new(state),
            turn: tokio::sync::Mutex::default(),
            changed: watch::Sender::new(0),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its session, where it runs and has not ended.
    pub(super) fn session(&self) -> Option<Arc<Session>> {
        match &self.state().stand {
            Stand::Running(session) if !session.has_ended() => Some(Arc::clone(session)),
            Stand::Running(_) | Stand::Frozen(_) | Stand::Stored(_) => None,
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        !matches!(self.state().stand, Stand::Running(_))
    }

    /// It begins anew, or is somewhere else.
    pub(super) fn stand(&self, stand: Stand) {
        self.state().stand = stand;
        self.changed.send_modify(|count| *count += 1);
    }

    /// Lives so long from now on.
    pub(super) fn live(&self, time: Duration) {
        self.state().ends = SystemTime::now() + time;
        self.changed.send_modify(|count| *count += 1);
    }
}

/// As the kernel writes one.
pub(super) fn boot_id() -> String {
    let hex = random_hex::<32>();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
