//! Sandboxes that stay, made ahead of need, with an interpreter that waits in each.
//!
//! One of them is nobody's until it is asked for: it has no owner, is in no list and no record. What it was made with must be
//! what is asked for, to the last limit; else a new one is made. No code of a caller has run in it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use types::BackendKind;

use super::registry::Plan;
use super::{Session, SessionSpec, State};
use crate::backend::{Origin, Place, PlaceSpec};
use crate::engine::{Caller, Engine};
use crate::interpreter::{Driver, Interpreter};

/// After so long without a session of that kind those that wait are let go of.
const IDLE: Duration = Duration::from_mins(10);

/// What waits.
#[derive(Default)]
pub(crate) struct Shelf {
    ready: Mutex<Vec<Ready>>,
    /// Whether somebody fills it.
    filling: AtomicBool,
    /// Whether somebody lets go of what nobody asks for.
    watched: AtomicBool,
    /// When it was last asked.
    asked: Mutex<Option<Instant>>,
}

/// A sandbox that waits, and its interpreter.
pub(super) struct Ready {
    env: BTreeMap<String, String>,
    pub(super) place_spec: PlaceSpec,
    pub(super) place: Arc<dyn Place>,
    pub(super) interpreter: Interpreter,
}

impl Ready {
    /// Whether it is what would be made of this.
    fn is(&self, plan: &Plan, spec: &SessionSpec) -> bool {
        let (own, other) = (&self.place_spec, &plan.place_spec);
        let image = |spec: &PlaceSpec| spec.image.as_ref().map(|held| held.image.clone());
        self.env == spec.env
            && own.limits == other.limits
            && own.accept == other.accept
            && own.extra_roots == other.extra_roots
            && own.digest == other.digest
            && image(own) == image(other)
    }
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, Vec<Ready>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that is what would be made, and lives.
    pub(super) fn take(&self, plan: &Plan, spec: &SessionSpec) -> Option<Ready> {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        loop {
            let mut ready = self.lock();
            let at = ready.iter().position(|ready| ready.is(plan, spec))?;
            let taken = ready.swap_remove(at);
            drop(ready);
            if taken.interpreter.is_alive() {
                return Some(taken);
            }
        }
    }

    /// Lets go of all.
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *self.lock());
        // Dropped outside of the lock: that kills what is inside.
        drop(all);
    }

    fn is_idle(&self) -> bool {
        let asked = *self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.is_none_or(|asked| asked.elapsed() >= IDLE)
    }
}

impl Plan {
    /// Whether such a sandbox may be made before anybody asks for it: one that begins empty and reaches nobody.
    pub(super) fn may_wait(&self, spec: &SessionSpec) -> bool {
        let place = &self.place_spec;
        spec.backend == BackendKind::Native && place.origin == Origin::Nothing && place.network.is_none()
    }
}

impl Engine {
    /// Makes sandboxes for sessions like this one ahead of need, until `count` of them wait; they go when nobody has asked for
    /// a while. What cannot be made is left out: whoever asks is told why.
    pub async fn keep_sessions_ready(&self, caller: &Caller, spec: &SessionSpec, count: usize) {
        if count == 0 || self.ahead.filling.swap(true, Ordering::AcqRel) {
            return;
        }
        while self.ready_for(caller, spec).await < count && self.make_ahead(caller, spec).await.is_some() {}
        self.ahead.filling.store(false, Ordering::Release);
        // One looks after them, however many asked.
        if self.ahead.watched.swap(true, Ordering::AcqRel) {
            return;
        }
        while !self.ahead.is_idle() {
            tokio::time::sleep(IDLE).await;
        }
        self.ahead.watched.store(false, Ordering::Release);
        self.ahead.clear();
    }

    async fn ready_for(&self, caller: &Caller, spec: &SessionSpec) -> usize {
        let Ok(plan) = self.plan_session(caller, &mut spec.clone(), None).await else { return usize::MAX };
        self.ahead.lock().iter().filter(|ready| ready.is(&plan, spec)).count()
    }

    async fn make_ahead(&self, caller: &Caller, spec: &SessionSpec) -> Option<()> {
        let plan = self.plan_session(caller, &mut spec.clone(), None).await.ok()?;
        if !plan.may_wait(spec) {
            return None;
        }
        let place = self.stations.native.backend.open(&plan.place_spec).await.ok()?;
        let Plan { place_spec, path } = plan;
        let now = Instant::now();
        // A session for as long as it takes to start the interpreter, the same way as ever.
        let session = Session {
            id: place_spec.id.clone(),
            limits: place_spec.limits.clone(),
            owner: Caller::default(),
            created: SystemTime::now().into(),
            path,
            place_spec,
            state: Mutex::new(State::new(Arc::clone(&place), now + IDLE, None)),
            starting: tokio::sync::Mutex::default(),
            still: tokio::sync::RwLock::default(),
            over: tokio::sync::watch::Sender::new(false),
            audit: self.audit.clone(),
            gate: self.gate(),
            spec: spec.clone(),
        };
        let interpreter = self.begin(&session, Driver::of("python")?).await.ok()?;
        let Session { place_spec, .. } = session;
        self.ahead.lock().push(Ready { env: spec.env.clone(), place_spec, place, interpreter });
        Some(())
    }
}
