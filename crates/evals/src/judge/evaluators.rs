//! Evaluators between two measurements: loaded once, they wait for the next program that they are to measure.

use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use types::ExecRequest;

use super::link::Link;
use super::measure::Evaluator;

/// How long one evaluator serves.
const SERVES: Duration = Duration::from_mins(10);
/// Evaluators that wait for their next program.
const MOST_IDLE: usize = 32;
/// How long another one is waited for before one more is started: about what starting it takes on a busy machine.
const PATIENCE: Duration = Duration::from_millis(250);

/// Evaluators that measure nothing at the moment.
#[derive(Default)]
pub(crate) struct Evaluators {
    idle: Mutex<Vec<Idle>>,
    returned: Notify,
    /// Shared by every one that lives, at work or not.
    alive: Arc<()>,
}

/// One that waits, or is about to be loaded.
pub(super) struct Idle {
    pub(super) link: Link,
    evaluator: Evaluator,
    request: ExecRequest,
    /// Whether it has said that it can begin.
    pub(super) is_loaded: bool,
    /// Whether it measures in its own process, which nothing changes.
    pub(super) forgets: bool,
    /// What its orders begin with.
    pub(super) secret: String,
    since: Instant,
    _alive: Arc<()>,
}

impl Evaluators {
    /// One more, behind `link`.
    pub(super) fn hire(
        &self,
        evaluator: &Evaluator,
        request: ExecRequest,
        link: Link,
        secret: String,
        forgets: bool,
    ) -> Idle {
        let (evaluator, since, alive) = (evaluator.clone(), Instant::now(), Arc::clone(&self.alive));
        Idle { link, evaluator, request, is_loaded: false, forgets, secret, since, _alive: alive }
    }

    /// Whether more of them would keep the processors busier.
    fn are_few(&self) -> bool {
        // Asking for their number reads files.
        static PROCESSORS: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, usize::from));
        Arc::strong_count(&self.alive) <= 2 * *PROCESSORS
    }

    /// Whether one should be started before it is needed.
    pub(super) fn is_short_of(&self, evaluator: &Evaluator, request: &ExecRequest) -> bool {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        self.are_few() && !idle.iter().any(|idle| idle.evaluator == *evaluator && idle.request == *request)
    }

    /// One that is idle, or soon becomes so.
    pub(super) async fn wait(&self, evaluator: &Evaluator, request: &ExecRequest) -> Option<Idle> {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut returned = pin!(self.returned.notified());
            // From here on a return is noticed.
            returned.as_mut().enable();
            if let Some(idle) = self.take(evaluator, request) {
                return Some(idle);
            }
            if self.are_few() || timeout_at(until, returned).await.is_err() {
                return None;
            }
        }
    }

    fn take(&self, evaluator: &Evaluator, request: &ExecRequest) -> Option<Idle> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|idle| idle.since.elapsed() < SERVES);
        let index = idle.iter().position(|idle| idle.evaluator == *evaluator && idle.request == *request)?;
        Some(idle.swap_remove(index))
    }

    /// Lets all go that wait.
    pub(super) fn dismiss(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn put(&self, one: Idle) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MOST_IDLE {
            idle.push(one);
        }
        drop(idle);
        self.returned.notify_waiters();
    }
}
