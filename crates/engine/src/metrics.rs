//! What the engine has done since it was opened, counted; and what it holds now.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use types::{ErrorCode, ExecResult, Outcome, Start};

use crate::engine::Engine;
use crate::error::RunError;

/// Upper bounds of the buckets of a [`Histogram`], in seconds.
pub const BOUNDS: [f64; 15] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

/// Counters; cheap to clone, and all clones count together.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Arc<Mutex<Counts>>);

/// What was counted so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    /// Runs that have ended, by outcome and, for `limit_exceeded`, by limit. Besides the outcomes of a result there are
    /// `error`, and `gone` for runs whose caller went away before their end.
    pub runs: BTreeMap<(&'static str, &'static str), u64>,
    /// Requests that came to no result, by the error's code.
    pub errors: BTreeMap<String, u64>,
    /// From the request to its answer, for runs that were started, by how.
    pub warm: Histogram,
    /// The same where nothing was ready.
    pub cold: Histogram,
    /// Time in line.
    pub queued: Histogram,
    /// Processor time of all runs together, in seconds.
    pub cpu_seconds: f64,
    /// Judged tasks, by `passed`, `failed` and `error`.
    pub judged: BTreeMap<&'static str, u64>,
    /// Requests under way.
    pub underway: u64,
}

/// How often something took how long.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    /// For each bound, how many took longer than the one before and no longer than this; then those beyond all bounds.
    pub buckets: [u64; BOUNDS.len() + 1],
    /// All of them together.
    pub seconds: f64,
}

impl Histogram {
    fn add(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.buckets[bucket] += 1;
        self.seconds += seconds;
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// What the engine holds now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Runs at once, at most.
    pub places: usize,
    /// Of these, taken.
    pub running: usize,
    /// Runs in line.
    pub waiting: usize,
    /// Sandboxes that wait for a run.
    pub ready: usize,
    /// Sessions that live.
    pub sessions: usize,
}

impl Metrics {
    /// A request has come; it counts as `gone` if nobody says how it ended.
    pub(crate) fn begin(&self) -> Timed {
        self.lock().underway += 1;
        Timed { metrics: self.clone(), asked: Instant::now(), open: true }
    }

    /// A run has had its turn after this long.
    pub(crate) fn queued(&self, time: Duration) {
        self.lock().queued.add(time);
    }

    /// A task was judged: `passed`, `failed` or `error`.
    pub fn judged(&self, end: &'static str) {
        *self.lock().judged.entry(end).or_default() += 1;
    }

    /// As it is now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request under way.
pub(crate) struct Timed {
    metrics: Metrics,
    asked: Instant,
    open: bool,
}

impl Timed {
    /// Counts how it ended.
    pub(crate) fn end(mut self, result: &Result<ExecResult, RunError>) {
        self.open = false;
        let mut counts = self.metrics.lock();
        let name = match result {
            Ok(result) => {
                counts.cpu_seconds += result.usage.cpu_ms / 1000.0;
                if !matches!(result.outcome, Outcome::Refused { .. }) {
                    let times = if result.start == Start::Warm { &mut counts.warm } else { &mut counts.cold };
                    times.add(self.asked.elapsed());
                }
                let limit = match result.outcome {
                    Outcome::LimitExceeded { limit } => limit.name(),
                    _ => "",
                };
                (result.outcome.name(), limit)
            }
            Err(error) => {
                *counts.errors.entry(name(error.code())).or_default() += 1;
                ("error", "")
            }
        };
        *counts.runs.entry(name).or_default() += 1;
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        let mut counts = self.metrics.lock();
        counts.underway -= 1;
        if self.open {
            *counts.runs.entry(("gone", "")).or_default() += 1;
        }
    }
}

/// As it is on the wire.
fn name(code: ErrorCode) -> String {
    serde_json::to_value(code).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

impl Engine {
    /// What was counted.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What is held now.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        let (free, waiting) = self.queue.counts();
        let places = self.settings.pool.running;
        Gauges {
            places,
            running: places.saturating_sub(free),
            waiting,
            ready: self.stations.native.pool.as_ref().map_or(0, |pool| pool.ready()),
            sessions: self.count_sessions(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::AdmissionError;

    #[test]
    fn what_ends_and_what_is_given_up_is_counted_once() {
        let metrics = Metrics::default();
        let error = AdmissionError::Concurrent { most: 1 };
        metrics.begin().end(&Err(error.into()));
        drop(metrics.begin());
        let underway = metrics.begin();
        let counts = metrics.counts();
        assert_eq!(counts.runs, BTreeMap::from([(("error", ""), 1), (("gone", ""), 1)]));
        assert_eq!((counts.errors.get("busy"), counts.underway), (Some(&1), 1));
        drop(underway);
    }

    #[test]
    fn a_time_is_in_one_bucket() {
        let mut times = Histogram::default();
        for time in [0, 1, 3, 70_000] {
            times.add(Duration::from_millis(time));
        }
        assert_eq!((times.buckets[0], times.buckets[2], times.buckets[BOUNDS.len()]), (2, 1, 1));
        assert_eq!(times.count(), 4);
    }
}
