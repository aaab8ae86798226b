//! So many a minute: the generic cell rate algorithm, which needs one moment for each caller and no timer.
//!
//! Each request moves the moment at which its caller would be even by one interval. Who is further ahead of the clock
//! than the burst allows is turned away, and knows exactly for how long.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::settings::Allowance;

/// Callers that are remembered before those that are even are forgotten.
const MANY: usize = 1024;

/// When each caller will be even.
#[derive(Default)]
pub(super) struct Rate(HashMap<String, Instant>);

impl Rate {
    /// Counts a request, or says how long its caller has to wait.
    pub(super) fn take(&mut self, caller: &str, allowance: &Allowance, now: Instant) -> Result<(), Duration> {
        let Some(per_minute) = allowance.per_minute else { return Ok(()) };
        let interval = Duration::from_mins(1) / per_minute.get();
        let burst = allowance.burst.unwrap_or(per_minute).get();
        if self.0.len() >= MANY {
            self.0.retain(|_, even| *even > now);
        }
        let even = self.0.get(caller).copied().unwrap_or(now).max(now) + interval;
        let most = interval * burst;
        match (even - now).checked_sub(most) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                self.0.insert(caller.to_owned(), even);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn allowance(per_minute: u32, burst: Option<u32>) -> Allowance {
        let burst = burst.and_then(NonZeroU32::new);
        Allowance { per_minute: NonZeroU32::new(per_minute), burst, ..Allowance::default() }
    }

    #[test]
    fn a_minutes_worth_at_once_and_then_one_after_another() {
        let (mut rate, allowance, start) = (Rate::default(), allowance(100, None), Instant::now());
        for _ in 0..100 {
            assert_eq!(rate.take("a", &allowance, start), Ok(()));
        }
        assert_eq!(rate.take("a", &allowance, start), Err(Duration::from_millis(600)));
        // Being turned away costs nothing, and who waits as told gets in.
        let later = start + Duration::from_millis(600);
        assert_eq!(rate.take("a", &allowance, later), Ok(()));
        assert_eq!(rate.take("a", &allowance, later), Err(Duration::from_millis(600)));
        assert_eq!(rate.take("b", &allowance, later), Ok(()), "callers are counted apart");
    }

    #[test]
    fn in_the_long_run_it_is_the_rate_whatever_the_burst() {
        let (mut rate, allowance, start) = (Rate::default(), allowance(60, Some(5)), Instant::now());
        let hour = (0..36_000).map(|tenth| start + Duration::from_millis(100) * tenth);
        let taken = hour.filter(|now| rate.take("a", &allowance, *now).is_ok()).count();
        assert!((3600..=3605).contains(&taken), "{taken}");
    }

    #[test]
    fn callers_that_are_even_are_forgotten() {
        let (mut rate, allowance, start) = (Rate::default(), allowance(60, None), Instant::now());
        for number in 0..MANY {
            rate.take(&number.to_string(), &allowance, start).unwrap();
        }
        rate.take("last", &allowance, start + Duration::from_mins(2)).unwrap();
        assert_eq!(rate.0.len(), 1);
    }
}
