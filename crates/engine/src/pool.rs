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
        let pool = Arc::new(Self { backend, settings, defaults, lent: Arc::default(), shelves: Mutex::default() });
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
            let missing = self.wanted(kind).saturating_sub(shelf.ready.len() + shelf.making);
            let missing = missing.min(self.settings.most.saturating_sub(others));
            shelf.making += missing;
            missing
        };
        for _ in 0..missing {
            tokio::spawn(Arc::clone(self).make(kind.clone()));
        }
    }

    /// How many of a kind wait. One that was started in its sandbox shares no memory with others.
    fn wanted(&self, kind: &Kind) -> usize {
        let started = kind.worker.as_ref().is_some_and(|worker| worker.kind == WorkerKind::Started);
        self.settings.ready.min(if started { 2 } else { usize::MAX })
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
            rehearse: Arc::strong_count(&self.lent) == 1,
        };
        let made = self.backend.create(&spec).await;
        let mut shelves = self.shelves();
        let shelf = shelves.entry(kind).or_default();
        shelf.making -= 1;
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
