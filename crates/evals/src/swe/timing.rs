//! How long a run took, beside what its test commands took themselves.

use std::time::Duration;

use serde::Serialize;

use super::evaluation::Told;

/// What a run took. Reports are equal from run to run; this is not, and is a file of its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timing {
    /// Patches at once.
    pub workers: usize,
    /// From the first instance to the last.
    pub seconds: f64,
    /// What the test commands took by themselves, all together.
    pub test_seconds: f64,
    /// How many times as long it was as the test commands spread over the workers; None where no test was run.
    pub ratio: Option<f64>,
    /// Environments and trees that had to be made.
    pub made: usize,
    /// Instances that were run, and not found done.
    pub ran: usize,
    /// Each of them.
    pub instances: Vec<Took>,
}

/// What one instance took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Took {
    /// Which.
    pub instance: String,
    /// From its checkout to its report.
    pub seconds: f64,
    /// Its test commands by themselves.
    pub test_seconds: f64,
}

impl Timing {
    /// Of what was told of a run.
    #[must_use]
    pub fn of(told: &[Told], workers: usize, whole: Duration, made: usize) -> Self {
        let ran = told.iter().filter(|told| told.seconds > 0.0);
        let took = |told: &Told| Took {
            instance: told.instance.clone(),
            seconds: told.seconds,
            test_seconds: told.test_seconds,
        };
        let instances: Vec<Took> = ran.map(took).collect();
        let seconds = whole.as_secs_f64();
        // Nothing at all is 0, and not the -0 that a sum of nothing is.
        let test_seconds = instances.iter().fold(0.0, |all, took| all + took.test_seconds);
        // More workers than there is work for spread nothing.
        let spread = test_seconds / workers.min(instances.len()).max(1) as f64;
        let ratio = (spread > 0.0).then(|| seconds / spread);
        Self { workers, seconds, test_seconds, ratio, made, ran: instances.len(), instances }
    }

    /// In one line, for people.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { workers, seconds, test_seconds, ran, .. } = self;
        let ratio = self.ratio.map(|ratio| format!(": {ratio:.2} times their time by worker")).unwrap_or_default();
        format!("{ran} run in {seconds:.1} s by {workers} workers; test commands took {test_seconds:.1} s{ratio}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::evaluation::State;
    use super::*;

    #[test]
    fn where_nothing_was_run_nothing_is_what_it_took() {
        let line = Timing::of(&[], 2, Duration::from_secs(1), 0).line();
        assert_eq!(line, "0 run in 1.0 s by 2 workers; test commands took 0.0 s");
    }

    #[test]
    fn what_was_done_before_is_no_part_of_the_time() {
        let told = |seconds, test_seconds| Told {
            instance: "a".to_owned(),
            state: State::Resolved,
            seconds,
            test_seconds,
            note: String::new(),
        };
        let timing = Timing::of(&[told(6.0, 5.0), told(0.0, 0.0), told(5.0, 5.0)], 2, Duration::from_secs(6), 0);
        assert_eq!((timing.ran, timing.test_seconds, timing.ratio), (2, 10.0, Some(1.2)));
        assert_eq!(Timing::of(&[told(0.0, 0.0)], 2, Duration::ZERO, 0).ratio, None);
    }
}
