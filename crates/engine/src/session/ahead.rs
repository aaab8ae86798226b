//! Sandboxes that stay, made ahead of need, with an interpreter that waits in each.
//!
//! One of them is nobody's until it is asked for: it has no owner, is in no list and no record. What it was made with must be
//! what is asked for, to the last limit; else a new one is made. No code of a caller has run in it. Of an environment it has
//! what counts as an interpreter begins; the rest is its owner's own and comes with him.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::oneshot;
use types::{BackendKind, Layer, Limits};

use super::registry::Plan;
use super::{Session, SessionSpec, State};
use crate::backend::{Origin, Place, PlaceSpec};
use crate::engine::{Caller, Engine};
use crate::image::Image;
use crate::interpreter::{Driver, Interpreter};
use crate::network::Rules;

/// Kinds that wait at once, each in the number that was asked for. Of more those go that have waited longest.
const MOST_KINDS: usize = 4;
/// Who has just got a sandbox is about to use it: the next one is made a moment later, if another waits meanwhile.
const COURTESY: Duration = Duration::from_millis(50);

/// How the names begin that an interpreter, the C library or what is imported first may read as they begin.
const EARLY: [&str; 30] = [
    "BLIS_",
    "COLUMNS",
    "CONDA",
    "E2B_",
    "FORCE_COLOR",
    "GLIBC_",
    "HOME",
    "IPY",
    "JUPYTER",
    "LANG",
    "LC_",
    "LD_",
    "LINES",
    "MALLOC_",
    "MKL_",
    "MPL",
    "NO_COLOR",
    "OMP_",
    "OPENBLAS_",
    "PATH",
    "PYTHON",
    "TEMP",
    "TERM",
    "TMP",
    "TRAITLETS",
    "TZ",
    "USER",
    "VECLIB_",
    "VIRTUAL_ENV",
    "XDG_",
];

/// What waits.
#[derive(Default)]
pub(crate) struct Shelf(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// Longest first.
    ready: Vec<Ready>,
    /// What there should be more of.
    orders: VecDeque<Order>,
    /// What is being made now.
    making: Option<Making>,
    /// Whether somebody carries out the orders.
    filling: bool,
    /// Whether somebody lets go of what nobody asks for.
    watched: bool,
    /// When it was last asked.
    asked: Option<Instant>,
}

/// Sandboxes to be kept ready.
#[derive(Clone, PartialEq)]
struct Order {
    /// As whom they are planned: what he may have is what they get.
    caller: Caller,
    spec: SessionSpec,
    count: usize,
}

/// A sandbox that will be there soon, and who has asked for it already.
struct Making {
    kind: Kind,
    claim: Option<oneshot::Sender<Ready>>,
}

/// All that a sandbox is made with.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Kind {
    /// Of the environment what is [`EARLY`].
    env: BTreeMap<String, String>,
    limits: Limits,
    accept: Vec<Layer>,
    extra_roots: Vec<String>,
    image: Option<Image>,
    network: Option<Arc<Rules>>,
}

/// A sandbox that waits, and its interpreter.
pub(super) struct Ready {
    kind: Kind,
    pub(super) place_spec: PlaceSpec,
    pub(super) place: Arc<dyn Place>,
    pub(super) interpreter: Interpreter,
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that is what would be made, and lives; also one that is nearly there.
    pub(super) async fn take(&self, kind: &Kind) -> Option<Ready> {
        // Dropped outside of the lock: that kills what is inside.
        let mut dead = Vec::new();
        let soon = {
            let mut kept = self.lock();
            kept.asked = Some(Instant::now());
            while let Some(at) = kept.ready.iter().position(|ready| ready.kind == *kind) {
                let taken = kept.ready.remove(at);
                if taken.interpreter.is_alive() {
                    return Some(taken);
                }
                dead.push(taken);
            }
            let making = kept.making.as_mut().filter(|making| making.kind == *kind && making.claim.is_none())?;
            let (claim, soon) = oneshot::channel();
            making.claim = Some(claim);
            soon
        };
        drop(dead);
        // Where it could not be made there is an end of this too, and who asked makes his own.
        soon.await.ok()
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.lock().ready.len()
    }

    /// Lets go of all.
    pub(super) fn clear(&self) {
        let (all, _) = {
            let mut kept = self.lock();
            (std::mem::take(&mut kept.ready), std::mem::take(&mut kept.orders))
        };
        drop(all);
    }

    /// Notes an order; whether its giver has to carry it out, for nobody else does.
    fn order(&self, order: Order) -> bool {
        let mut kept = self.lock();
        kept.asked = Some(Instant::now());
        if !kept.orders.contains(&order) {
            kept.orders.push_back(order);
            if kept.orders.len() > MOST_KINDS {
                kept.orders.pop_front();
            }
        }
        !std::mem::replace(&mut kept.filling, true)
    }

    /// The next order; without one nobody carries out any from now on.
    fn next(&self) -> Option<Order> {
        let mut kept = self.lock();
        let next = kept.orders.pop_front();
        kept.filling = next.is_some();
        next
    }

    fn count(&self, kind: &Kind) -> usize {
        self.lock().ready.iter().filter(|ready| ready.kind == *kind).count()
    }

    fn begin(&self, kind: &Kind) {
        self.lock().making = Some(Making { kind: kind.clone(), claim: None });
    }

    /// What was begun is there, or is not to be had. Whoever waits for it has it first.
    fn finish(&self, made: Option<Ready>, most: usize) {
        let mut gone = Vec::new();
        {
            let mut kept = self.lock();
            let claim = kept.making.take().and_then(|making| making.claim);
            let Some(made) = made else { return };
            // He may have gone away meanwhile.
            let left = match claim {
                Some(claim) => claim.send(made).err(),
                None => Some(made),
            };
            kept.ready.extend(left);
            let over = kept.ready.len().saturating_sub(most);
            gone.extend(kept.ready.drain(..over));
        }
        drop(gone);
    }

    /// Whether it is to be watched by whoever asks this, for nobody else does.
    fn watch(&self) -> bool {
        !std::mem::replace(&mut self.lock().watched, true)
    }

    /// How long it is until nobody has asked for `idle`; none when that is so, and it is watched no more.
    fn idle_in(&self, idle: Duration) -> Option<Duration> {
        let mut kept = self.lock();
        let left = kept.asked.and_then(|asked| idle.checked_sub(asked.elapsed())).filter(|left| !left.is_zero());
        kept.watched = left.is_some();
        left
    }
}

impl Plan {
    /// What is made by it, where that may be done before anybody asks: here, and beginning empty.
    pub(super) fn kind(&self, spec: &SessionSpec) -> Option<Kind> {
        let place = &self.place_spec;
        (self.backend == BackendKind::Native && place.origin == Origin::Nothing).then(|| Kind {
            env: early(&spec.env),
            limits: place.limits.clone(),
            accept: place.accept.clone(),
            extra_roots: place.extra_roots.clone(),
            image: place.image.as_ref().map(|held| held.image.clone()),
            network: place.network.clone(),
        })
    }
}

impl Ready {
    /// Makes it what was asked for: its interpreter has the rest of the environment from now on.
    pub(super) async fn adopt(&self, spec: &SessionSpec) {
        let mut later = spec.env.clone();
        later.retain(|name, _| !self.kind.env.contains_key(name));
        if !later.is_empty() {
            // If it has ended, whoever brings code starts another.
            let _ = self.interpreter.adopt(later).await;
        }
    }
}

fn early(env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_early = |name: &str| EARLY.iter().any(|start| name.starts_with(start));
    env.iter().filter(|(name, _)| is_early(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

impl Engine {
    /// Makes sandboxes for sessions like this one ahead of need, until `count` of them wait; they go when nobody has asked for
    /// any for so long as `idle`. What cannot be made is left out: whoever asks is told why.
    pub async fn keep_sessions_ready(&self, caller: &Caller, spec: &SessionSpec, count: usize, idle: Duration) {
        if count == 0 {
            return;
        }
        // What one caller says of his own is nothing for the next.
        let spec = SessionSpec { env: early(&spec.env), ..spec.clone() };
        if self.ahead.order(Order { caller: caller.clone(), spec, count }) {
            while let Some(order) = self.ahead.next() {
                while self.make_ahead(&order).await.is_some() {}
            }
        }
        // One looks after them, however many asked.
        if self.ahead.watch() {
            while let Some(left) = self.ahead.idle_in(idle) {
                tokio::time::sleep(left).await;
            }
            self.ahead.clear();
        }
    }

    /// Makes one more; none if there are enough, or it cannot be made.
    async fn make_ahead(&self, order: &Order) -> Option<()> {
        let Order { caller, spec, count } = order;
        let plan = self.plan_session(caller, &mut spec.clone(), None).await.ok()?;
        let kind = plan.kind(spec)?;
        match self.ahead.count(&kind) {
            enough if enough >= *count => return None,
            0 => {}
            _ => tokio::time::sleep(COURTESY).await,
        }
        self.ahead.begin(&kind);
        let made = self.make(plan, kind, spec).await;
        let is_made = made.is_some();
        self.ahead.finish(made, MOST_KINDS * count);
        is_made.then_some(())
    }

    async fn make(&self, plan: Plan, kind: Kind, spec: &SessionSpec) -> Option<Ready> {
        let place = self.stations.native.backend.open(&plan.place_spec).await.ok()?;
        let Plan { backend, place_spec, path } = plan;
        // A session for as long as it takes to start the interpreter, the same way as ever.
        let session = Session {
            id: place_spec.id.clone(),
            backend,
            limits: place_spec.limits.clone(),
            owner: Caller::default(),
            created: SystemTime::now().into(),
            path,
            place_spec,
            state: Mutex::new(State::new(Arc::clone(&place), Instant::now(), None)),
            starting: tokio::sync::Mutex::default(),
            still: tokio::sync::RwLock::default(),
            over: tokio::sync::watch::Sender::new(false),
            watch: self.sessions.watch(),
            audit: self.audit.clone(),
            gate: self.gate(),
            spec: spec.clone(),
        };
        let interpreter = self.begin(&session, Driver::of("python")?).await.ok()?;
        let Session { place_spec, .. } = session;
        Some(Ready { kind, place_spec, place, interpreter })
    }
}
