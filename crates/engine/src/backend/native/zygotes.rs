//! Which zygote forks the next worker: a young one that is alive.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jail::ZygoteId;

use crate::backend::WorkerSpec;
use crate::error::BackendError;

/// Forks share the zygote's hash seed and address layout, so no zygote serves for ever.
const MOST_WORKERS: u32 = 1000;
const OLDEST: Duration = Duration::from_mins(10);

/// After so many that failed in a row, wait before another is tried.
const MOST_FAILURES: u32 = 3;
const PATIENCE: Duration = Duration::from_mins(1);

/// The zygotes of one keeper.
#[derive(Default)]
pub(super) struct Zygotes {
    next: ZygoteId,
    current: BTreeMap<WorkerSpec, Zygote>,
}

struct Zygote {
    id: ZygoteId,
    born: Instant,
    used: Instant,
    workers: u32,
    /// Whether it has made a worker.
    proved: bool,
    lost: bool,
    /// How many before it were lost, one after the other.
    failures: u32,
}

/// How long a run waits for a zygote that starts; from then on runs do without it until it has shown that it works.
pub(super) const RUN_WAITS: Duration = Duration::from_secs(2);

/// How long a zygote may take to import everything.
pub(super) const START_TAKES: Duration = Duration::from_mins(1);

/// What has to be said to the keeper.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// The zygote to use.
    pub(super) id: ZygoteId,
    /// Whether it must be started first.
    pub(super) start: bool,
    /// Those that have served.
    pub(super) retire: Vec<ZygoteId>,
}

impl Zygotes {
    /// Chooses the zygote of one more worker; `lost` are those the keeper has lost since the last time. A worker that a run
    /// waits for, one that is not made `ahead`, is not asked of a zygote that has been starting for too long.
    pub(super) fn take(&mut self, spec: &WorkerSpec, lost: &[ZygoteId], ahead: bool) -> Result<Plan, BackendError> {
        let now = Instant::now();
        let starting = self.current.get(spec).filter(|zygote| !zygote.proved && !zygote.lost);
        if !ahead && starting.is_some_and(|zygote| now - zygote.born >= RUN_WAITS) {
            self.note(lost);
            return Err(BackendError::NoWorker);
        }
        self.take_at(spec, lost, now)
    }

    fn note(&mut self, lost: &[ZygoteId]) {
        for zygote in self.current.values_mut().filter(|zygote| lost.contains(&zygote.id)) {
            zygote.lost = true;
        }
    }

    fn take_at(&mut self, spec: &WorkerSpec, lost: &[ZygoteId], now: Instant) -> Result<Plan, BackendError> {
        self.note(lost);
        let mut retire = Vec::new();
        let mut failures = 0;
        if let Some(zygote) = self.current.get_mut(spec) {
            if !zygote.lost && zygote.workers < MOST_WORKERS && now - zygote.born < OLDEST {
                zygote.workers += 1;
                zygote.used = now;
                return Ok(Plan { id: zygote.id, start: false, retire });
            }
            if zygote.lost {
                failures = zygote.failures + 1;
                if failures >= MOST_FAILURES && now - zygote.born < PATIENCE {
                    return Err(BackendError::NoWorker);
                }
            } else {
                retire.push(zygote.id);
            }
        }
        self.next += 1;
        let zygote = Zygote { id: self.next, born: now, used: now, workers: 1, proved: false, lost: false, failures };
        self.current.insert(spec.clone(), zygote);
        Ok(Plan { id: self.next, start: true, retire })
    }

    /// A zygote that made a worker is no failure, whatever comes of it later.
    pub(super) fn proved(&mut self, id: ZygoteId) {
        if let Some(zygote) = self.current.values_mut().find(|zygote| zygote.id == id) {
            zygote.failures = 0;
            zygote.proved = true;
        }
    }

    /// Forgets those that nobody has asked for in a while, and names them.
    pub(super) fn idle(&mut self) -> Vec<ZygoteId> {
        let now = Instant::now();
        let (idle, current) = std::mem::take(&mut self.current)
            .into_iter()
            .partition(|(_, zygote)| !zygote.lost && now - zygote.used >= OLDEST);
        self.current = current;
        BTreeMap::into_values(idle).map(|zygote: Zygote| zygote.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::WorkerKind;

    fn spec() -> WorkerSpec {
        let kind = WorkerKind::Forked;
        WorkerSpec { kind, program: "/usr/bin/python3".to_owned(), argv: Vec::new(), env: Vec::new() }
    }

    #[test]
    fn a_zygote_is_replaced_after_a_thousand_workers() {
        let mut zygotes = Zygotes::default();
        let now = Instant::now();
        let first = zygotes.take_at(&spec(), &[], now).unwrap();
        assert!(first.start);
        for _ in 1..MOST_WORKERS {
            assert_eq!(zygotes.take_at(&spec(), &[], now).unwrap().id, first.id);
        }
        let next = zygotes.take_at(&spec(), &[], now).unwrap();
        assert_eq!(next, Plan { id: first.id + 1, start: true, retire: vec![first.id] });
    }

    #[test]
    fn a_zygote_is_replaced_after_ten_minutes() {
        let mut zygotes = Zygotes::default();
        let now = Instant::now();
        let first = zygotes.take_at(&spec(), &[], now).unwrap();
        let later = now + OLDEST;
        assert_eq!(zygotes.take_at(&spec(), &[], later).unwrap().retire, [first.id]);
    }

    #[test]
    fn a_lost_zygote_is_replaced_and_one_that_never_works_is_given_up_for_a_while() {
        let mut zygotes = Zygotes::default();
        let now = Instant::now();
        for lost in [vec![], vec![1], vec![2]] {
            let plan = zygotes.take_at(&spec(), &lost, now).unwrap();
            assert!(plan.start && plan.retire.is_empty());
        }
        assert!(matches!(zygotes.take_at(&spec(), &[3], now), Err(BackendError::NoWorker)));
        assert!(zygotes.take_at(&spec(), &[], now + PATIENCE).unwrap().start);
    }

    #[test]
    fn one_that_worked_before_it_was_killed_is_replaced_each_time() {
        let mut zygotes = Zygotes::default();
        let now = Instant::now();
        for round in 0..20 {
            let lost = if round == 0 { vec![] } else { vec![round] };
            let plan = zygotes.take_at(&spec(), &lost, now).unwrap();
            zygotes.proved(plan.id);
            assert!(plan.start);
        }
    }
}
