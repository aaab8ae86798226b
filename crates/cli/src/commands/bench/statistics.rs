//! Samples to figures, and the order in which contenders take turns.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// A p99 of fewer samples would be the worst one under another name.
pub(super) const LEAST_FOR_P99: usize = 100;

/// What many times come down to, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Summary {
    /// How many.
    pub(super) n: usize,
    /// The median.
    pub(super) p50_ms: f64,
    /// Only from [`LEAST_FOR_P99`] samples on.
    pub(super) p99_ms: Option<f64>,
}

impl Summary {
    /// Nothing for no samples.
    pub(super) fn of(times: &[Duration]) -> Option<Self> {
        let mut sorted: Vec<f64> = times.iter().map(|time| milliseconds(*time)).collect();
        sorted.sort_by(f64::total_cmp);
        let p99_ms = (sorted.len() >= LEAST_FOR_P99).then(|| rank(&sorted, 99));
        Some(Self { n: sorted.len(), p50_ms: tidy(median(&sorted)?), p99_ms })
    }
}

/// The median of sorted values.
pub(super) fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 { Some(upper) } else { Some(f64::midpoint(sorted[middle - 1], upper)) }
}

/// The smallest value that `percent` of all are not above.
fn rank(sorted: &[f64], percent: usize) -> f64 {
    let place = (sorted.len() * percent).div_ceil(100);
    tidy(sorted[place.saturating_sub(1)])
}

/// Milliseconds, as fine as the clock.
pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Three decimals: the rest is noise.
pub(super) fn tidy(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Random numbers good enough to shuffle with.
pub(super) struct Dice(u64);

impl Dice {
    /// Another order each time.
    pub(super) fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::seeded(u64::from(now.subsec_nanos()) ^ now.as_secs().rotate_left(32))
    }

    fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// `SplitMix64`: <https://prng.di.unimi.it/splitmix64.c>
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Everybody once, in an order of its own: who comes after whom must not favour anyone.
    pub(super) fn order(&mut self, of: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..of).collect();
        for last in (1..of).rev() {
            let choices = u64::try_from(last + 1).unwrap_or(u64::MAX);
            order.swap(last, usize::try_from(self.next() % choices).unwrap_or(0));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds_up_to(n: u64) -> Vec<Duration> {
        (1..=n).rev().map(Duration::from_millis).collect()
    }

    #[test]
    fn the_median_is_the_middle_or_between_the_two_middles() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), Some(3.0));
    }

    #[test]
    fn no_samples_give_no_figures_and_few_give_no_p99() {
        assert_eq!(Summary::of(&[]), None);
        let few = Summary { n: 99, p50_ms: 50.0, p99_ms: None };
        assert_eq!(Summary::of(&milliseconds_up_to(99)), Some(few));
        let enough = Summary { n: 100, p50_ms: 50.5, p99_ms: Some(99.0) };
        assert_eq!(Summary::of(&milliseconds_up_to(100)), Some(enough));
        let many = Summary { n: 1000, p50_ms: 500.5, p99_ms: Some(990.0) };
        assert_eq!(Summary::of(&milliseconds_up_to(1000)), Some(many));
    }

    #[test]
    fn every_round_has_everybody_once_and_rounds_differ() {
        let mut dice = Dice::seeded(1);
        let rounds: Vec<Vec<usize>> = (0..20).map(|_| dice.order(7)).collect();
        for round in &rounds {
            let mut sorted = round.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6]);
        }
        for position in 0..7 {
            let firsts: std::collections::BTreeSet<usize> = rounds.iter().map(|round| round[position]).collect();
            assert!(firsts.len() > 3, "position {position} is always one of {firsts:?}");
        }
        assert_eq!(dice.order(0), Vec::<usize>::new());
    }
}
