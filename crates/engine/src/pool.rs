//! Sandboxes made ahead of need, lent to one run each.
//!
//! A shelf holds a few of one kind: the same visible trees or image, the same interpreter waiting inside, or none. A lease takes
//! one off, and the shelf is filled again while the run goes on. Nothing comes back: what a run has touched is gone.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use types::{Layer, Limits, Start};

use crate::backend::{Backend, Sandbox, SandboxSpec, WorkerKind, WorkerSpec};
use crate::error::BackendError;
use crate::settings::PoolSettings;

/// Shelves of ready sandboxes.
pub(crate) struct Pool {
    backend: Arc<dyn Backend>,
    settings: PoolSettings,
    /// Limits of what is made ahead; a run's own are applied when it is lent.
    defaults: Limits,
    /// One more holder for each lease that is out.
    lent: Arc<()>,
    shelves: Mutex<HashMap<Kind, Shelf>>,
    foresight: Mutex<Foresight>,
}

/// What is known of the runs to come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Foresight {
    /// So many will come.
    pub least: usize,
    /// More will not, where somebody knows that.
    pub most: Option<usize>,
}

impl Foresight {
    /// How many of a kind are kept, where `ready` are if nobody knows anything.
    fn wanted(self, ready: usize, worker: Option<WorkerKind>, proved: bool) -> usize {
        let wanted = match worker {
            // One that was started in its sandbox shares no memory with others.
            Some(WorkerKind::Started) => ready.min(2),
            Some(WorkerKind::Forked) if !proved => ready.max(self.least.min(WHILE_STARTING)),
            Some(WorkerKind::Forked) | None => ready,
        };
        wanted.min(self.most.unwrap_or(usize::MAX))
    }
}

/// What sandboxes of one shelf have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Kind {
    extra_roots: Vec<String>,
    digest: Option<String>,
    worker: Option<WorkerSpec>,
}

#[derive(Default)]
struct Shelf {
    ready: VecDeque<Box<dyn Sandbox>>,
    /// How many are being made.
    making: usize,
    /// When one was last asked for.
    used: Option<Instant>,
    /// Whether one was ever finished: until then their interpreter starts, and whoever waits for it has time to spare.
    proved: bool,
}

/// A sandbox on loan.
pub(crate) struct Lease {
    pub(crate) sandbox: Box<dyn Sandbox>,
    /// Whether it was ready, or forked from what was.
    pub(crate) start: Start,
    /// Whether an interpreter waits in it.
    pub(crate) has_worker: bool,
    /// Fills the shelf again when the run is over.
    pub(crate) refill: Option<Refill>,
}

/// Fills a shelf when it is dropped, or a little later: while a short run goes on alone, nothing is made beside it.
pub(crate) struct Refill {
    _dropped: oneshot::Sender<()>,
    _lent: Arc<()>,
}

/// Sandboxes that wait for an interpreter which starts, where runs enough are known to come.
const WHILE_STARTING: usize = 16;

/// What most runs take less than.
const SHORT: Duration = Duration::from_millis(10);

impl Lease {
    /// One that was made for this run alone.
    pub(crate) fn cold(sandbox: Box<dyn Sandbox>) -> Self {
        Self { sandbox, start: Start::Cold, has_worker: false, refill: None }
    }
}

impl Pool {
    pub(crate) fn new(backend: Arc<dyn Backend>, settings: PoolSettings, defaults: Limits) -> Arc<Self> {
        let (lent, shelves, foresight) = <_>::default();
        let pool = Arc::new(Self { backend, settings, defaults, lent, shelves, foresight });
        tokio::spawn(drain_when_idle(Arc::downgrade(&pool), pool.settings.idle));
        pool
    }

    /// A sandbox for `spec`, off the shelf if one is there.
    pub(crate) async fn lease(self: &Arc<Self>, spec: &SandboxSpec) -> Result<Lease, BackendError> {
        // One that does without a wall is none of those made ahead, nor one of an image
        // or with a way out.
        if spec.image.is_some() || spec.network.is_some() || spec.accept.iter().any(|layer: &Layer| layer.is_wall()) {
            let plain = SandboxSpec { worker: None, ..spec.clone() };
            return Ok(Lease::cold(self.backend.create(&plain).await?));
        }
        let kind =
            Kind { extra_roots: spec.extra_roots.clone(), digest: spec.digest.clone(), worker: spec.worker.clone() };
        let has_worker = kind.worker.is_some();
        if has_worker && self.is_new(&kind) {
            // Whoever comes first waits for the interpreter to start; what is to wait for it too is made meanwhile.
            self.refill(&kind);
        }
        while let Some(mut sandbox) = self.take(&kind) {
            if sandbox.lease(&spec.limits).await.is_ok() {
                let refill = Some(self.refill_later(kind));
                return Ok(Lease { sandbox, start: Start::Warm, has_worker, refill });
            }
        }
        match self.backend.create(spec).await {
            Ok(sandbox) => {
                let start = if has_worker { Start::Warm } else { Start::Cold };
                Ok(Lease { sandbox, start, has_worker, refill: Some(self.refill_later(kind)) })
            }
            // This interpreter cannot be forked, or not now: it is started for this run alone.
            Err(BackendError::NoWorker) => {
                let plain = SandboxSpec { worker: None, ..spec.clone() };
                // One that is ready makes the start of a program no warmer.
                Ok(Lease { start: Start::Cold, ..Box::pin(self.lease(&plain)).await? })
            }
            Err(error) => Err(error),
        }
    }

    /// Says what is to come, in place of what was said before.
    pub(crate) fn foresee(self: &Arc<Self>, foresight: Foresight) {
        *self.foresight.lock().unwrap_or_else(PoisonError::into_inner) = foresight;
        let starting: Vec<Kind> = {
            let shelves = self.shelves();
            shelves.iter().filter(|(_, shelf)| !shelf.proved).map(|(kind, _)| kind.clone()).collect()
        };
        for kind in &starting {
            self.refill(kind);
        }
    }

    /// Whether nobody has asked for one of this kind, or not for long.
    fn is_new(&self, kind: &Kind) -> bool {
        !self.shelves().contains_key(kind)
    }

    /// How many wait.
    pub(crate) fn ready(&self) -> usize {
        self.shelves().values().map(|shelf| shelf.ready.len()).sum()
    }

    fn take(&self, kind: &Kind) -> Option<Box<dyn Sandbox>> {
        let mut shelves = self.shelves();
        let shelf = shelves.entry(kind.clone()).or_default();
        shelf.used = Some(Instant::now());
        loop {
            let sandbox = shelf.ready.pop_front()?;
            if sandbox.is_alive() {
                return Some(sandbox);
            }
        }
    }

    fn refill_later(self: &Arc<Self>, kind: Kind) -> Refill {
        let (sender, dropped) = oneshot::channel::<()>();
        // Beside other runs nothing is gained by waiting: they keep the processors busy anyway, and the next is near.
        let waits = if Arc::strong_count(&self.lent) > 1 { Duration::ZERO } else { SHORT };
        let lent = Arc::clone(&self.lent);
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            // Either way it is time.
            drop(tokio::time::timeout(waits, dropped).await);
            pool.refill(&kind);
        });
        Refill { _dropped: sender, _lent: lent }
    }

    /// Fills a shelf up again, beside whatever goes on.
    fn refill(self: &Arc<Self>, kind: &Kind) {
        let missing = {
            let mut shelves = self.shelves();
            let others: usize = shelves.values().map(|shelf| shelf.ready.len() + shelf.making).sum();
            let shelf = shelves.entry(kind.clone()).or_default();
            let worker = kind.worker.as_ref().map(|worker| worker.kind);
            let wanted = self.foresight().wanted(self.settings.ready, worker, shelf.proved);
            let missing = wanted.saturating_sub(shelf.ready.len() + shelf.making);
            let missing = missing.min(self.settings.most.saturating_sub(others));
            shelf.making += missing;
            missing
        };
        for _ in 0..missing {
            tokio::spawn(Arc::clone(self).make(kind.clone()));
        }
    }

    async fn make(self: Arc<Self>, kind: Kind) {
        let spec = SandboxSpec {
            limits: self.defaults.clone(),
            accept: Vec::new(),
            extra_roots: kind.extra_roots.clone(),
            image: None,
            digest: kind.digest.clone(),
            network: None,
            worker: kind.worker.clone(),
            packages: None,
            ahead: true,
            // Beside others who wait it would only be done earlier.
            rehearse: Arc::strong_count(&self.lent) == 1 && self.foresight().least == 0,
        };
        let made = self.backend.create(&spec).await;
        let mut shelves = self.shelves();
        let shelf = shelves.entry(kind).or_default();
        shelf.making -= 1;
        shelf.proved |= made.is_ok();
        // A failure shows itself when a run is refused for it.
        shelf.ready.extend(made.ok());
    }

    /// Empties shelves that nobody has asked in a while.
    fn drain(&self) {
        let now = Instant::now();
        let idle = |shelf: &Shelf| shelf.used.is_none_or(|used| now - used >= self.settings.idle);
        let mut shelves = self.shelves();
        let emptied: Vec<Shelf> =
            shelves.extract_if(|_, shelf| shelf.making == 0 && idle(shelf)).map(|e| e.1).collect();
        drop(shelves);
        drop(emptied);
        self.backend.drain();
    }

    /// What is known to come.
    pub(crate) fn foresight(&self) -> Foresight {
        *self.foresight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shelves(&self) -> MutexGuard<'_, HashMap<Kind, Shelf>> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn drain_when_idle(pool: Weak<Pool>, idle: Duration) {
    let mut clock = tokio::time::interval((idle / 4).max(Duration::from_millis(10)));
    loop {
        clock.tick().await;
        match pool.upgrade() {
            Some(pool) => pool.drain(),
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_come_decides_how_many_wait() {
        let forked = Some(WorkerKind::Forked);
        let wanted = |least, most, worker, proved| Foresight { least, most }.wanted(4, worker, proved);
        // Nobody knows anything.
        assert_eq!(wanted(0, None, forked, false), 4);
        assert_eq!(wanted(0, None, Some(WorkerKind::Started), true), 2);
        // While the interpreter starts there is time for more, if they are wanted.
        assert_eq!(wanted(200, None, forked, false), WHILE_STARTING);
        assert_eq!(wanted(9, Some(9), forked, false), 9);
        assert_eq!(wanted(200, None, forked, true), 4);
        assert_eq!(wanted(200, None, None, false), 4);
        // None is made that nobody would take.
        assert_eq!(wanted(3, Some(3), forked, true), 3);
        assert_eq!(wanted(0, Some(0), forked, false), 0);
        assert_eq!(wanted(1, Some(1), Some(WorkerKind::Started), true), 1);
    }
}
