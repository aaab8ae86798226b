//! What a batch comes to: counts, the mean score, `pass@k`.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Tasks that are told apart.
const MOST_TASKS: usize = 1 << 20;

/// What became of a batch. A line that could not be judged has neither passed nor failed: it is counted, and left out of
/// everything else.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Lines.
    pub tasks: u64,
    /// Lines whose cases all passed.
    pub all_passed: u64,
    /// Lines that could not be judged.
    pub errors: u64,
    /// The mean score of those that could.
    pub mean_score: f64,
    /// For each `k` that every task has lines for.
    pub pass_at: Vec<PassAt>,
}

/// The chance that one of `k` samples passes, over tasks of one name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PassAt {
    /// How many samples.
    pub k: u64,
    /// The mean over the tasks that have as many judged lines.
    pub share: f64,
    /// How many tasks that are.
    pub tasks: u64,
    /// How many have fewer, because some of their lines could not be judged.
    pub left_out: u64,
}

/// What the summary, and a later call, need of a result.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Found {
    /// By which the line is known again; a line that could not be judged has none.
    pub(super) id: Option<String>,
    pub(super) task_id: serde_json::Value,
    /// None if it could not be judged.
    pub(super) score: Option<f64>,
    pub(super) all_passed: bool,
}

/// What the summary is made of.
#[derive(Default)]
pub(super) struct Tally {
    tasks: u64,
    passed: u64,
    errors: u64,
    score: f64,
    /// By a hash of the task's name.
    samples: HashMap<u64, Samples>,
}

/// Lines of one task.
#[derive(Default)]
struct Samples {
    all: u64,
    judged: u64,
    passed: u64,
}

impl Tally {
    pub(super) fn add(&mut self, found: &Found) {
        self.tasks += 1;
        self.passed += u64::from(found.all_passed);
        self.errors += u64::from(found.score.is_none());
        self.score += found.score.unwrap_or(0.0);
        if found.task_id.is_null() {
            return;
        }
        let hash = Sha256::digest(found.task_id.to_string().as_bytes());
        let key = hash.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes)).unwrap_or_default();
        if self.samples.len() < MOST_TASKS || self.samples.contains_key(&key) {
            let samples = self.samples.entry(key).or_default();
            samples.all += 1;
            samples.judged += u64::from(found.score.is_some());
            samples.passed += u64::from(found.all_passed);
        }
    }

    pub(super) fn summary(self) -> Summary {
        let judged = self.tasks - self.errors;
        let least = self.samples.values().map(|samples| samples.all).min().unwrap_or(0);
        let pass_at = [1, 5, 10, 100].into_iter().filter(|k| *k <= least).filter_map(|k| self.pass_at(k)).collect();
        Summary {
            tasks: self.tasks,
            all_passed: self.passed,
            errors: self.errors,
            mean_score: if judged > 0 { self.score / judged as f64 } else { 0.0 },
            pass_at,
        }
    }

    /// Nothing if no task has as many judged lines.
    fn pass_at(&self, k: u64) -> Option<PassAt> {
        let shares: Vec<f64> = self
            .samples
            .values()
            .filter(|samples| samples.judged >= k)
            .map(|samples| pass_at(samples.judged, samples.passed, k))
            .collect();
        let tasks = shares.len() as u64;
        let share = shares.iter().sum::<f64>() / tasks as f64;
        (tasks > 0).then(|| PassAt { k, share, tasks, left_out: self.samples.len() as u64 - tasks })
    }
}

/// The chance that one of `k` samples passes, without bias: 1 - C(n-c, k) / C(n, k).
fn pass_at(samples: u64, passes: u64, k: u64) -> f64 {
    if samples - passes < k {
        return 1.0;
    }
    1.0 - (samples - passes + 1..=samples).map(|i| 1.0 - k as f64 / i as f64).product::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pass_at_k_is_the_unbiased_estimate() {
        assert!((pass_at(10, 3, 1) - 0.3).abs() < 1e-12);
        assert!((pass_at(5, 2, 3) - (1.0 - 1.0 / 10.0)).abs() < 1e-12);
        assert!((pass_at(4, 0, 2)).abs() < 1e-12);
        assert!((pass_at(4, 3, 2) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_line_that_could_not_be_judged_is_neither_passed_nor_failed() {
        let mut tally = Tally::default();
        let mut add = |task: &str, score: Option<f64>, times: usize| {
            let found = Found { task_id: task.into(), score, all_passed: score == Some(1.0), ..Found::default() };
            (0..times).for_each(|_| tally.add(&found));
        };
        // One of five passes; one of four does, and one broke; all broke.
        for (task, score, times) in [
            ("a", Some(1.0), 1),
            ("a", Some(0.0), 4),
            ("b", Some(1.0), 1),
            ("b", Some(0.5), 3),
            ("b", None, 1),
            ("c", None, 5),
        ] {
            add(task, score, times);
        }
        let summary = tally.summary();
        assert_eq!((summary.tasks, summary.all_passed, summary.errors), (15, 2, 6));
        assert!((summary.mean_score - 3.5 / 9.0).abs() < 1e-12, "{summary:?}");
        let [one, five] = &summary.pass_at[..] else { panic!("{summary:?}") };
        assert_eq!((one.k, one.tasks, one.left_out), (1, 2, 1));
        assert!((one.share - f64::midpoint(0.2, 0.25)).abs() < 1e-12, "{summary:?}");
        // With five judged lines one of which passed, it is among any five.
        assert_eq!((five.k, five.tasks, five.left_out), (5, 1, 2));
        assert!((five.share - 1.0).abs() < 1e-12, "{summary:?}");
    }
}
