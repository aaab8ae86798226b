//! Who may ask now: so many a minute, so many at once, so many in line.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use types::ErrorCode;

use super::rate::Rate;
use crate::audit::Audit;
use crate::engine::{Admission, Caller, Standing};
use crate::error::RunError;
use crate::settings::{AdmissionSettings, Allowance};

/// When to come back where nobody can know: runs are short, as a rule.
const SOON: Duration = Duration::from_secs(1);

/// Why a caller was turned away, for now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// Too often.
    #[error("more than {per_minute} requests a minute")]
    Rate {
        /// What is allowed.
        per_minute: u32,
        /// When there is room for one.
        retry_after: Duration,
    },
    /// Too many today.
    #[error("more than {per_day} requests a day")]
    Quota {
        /// What is allowed.
        per_day: u32,
        /// Until tomorrow.
        retry_after: Duration,
    },
    /// Too many at once.
    #[error("{most} requests of this caller are under way, and no more may be")]
    Concurrent {
        /// What is allowed.
        most: u32,
    },
    /// Too many in line.
    #[error("{most} runs of this caller are in line, and no more may be")]
    Waiting {
        /// What is allowed.
        most: usize,
    },
}

impl AdmissionError {
    /// What a program matches on.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Rate { .. } | Self::Quota { .. } => ErrorCode::RateLimited,
            Self::Concurrent { .. } | Self::Waiting { .. } => ErrorCode::Busy,
        }
    }

    /// When to come back.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::Rate { retry_after, .. } | Self::Quota { retry_after, .. } => *retry_after,
            Self::Concurrent { .. } | Self::Waiting { .. } => SOON,
        }
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> String {
        let wait = self.retry_after().as_secs_f64();
        match self {
            Self::Rate { .. } | Self::Quota { .. } => {
                format!("come back in {wait:.1} s; [admission] of the server's settings has the limits")
            }
            Self::Concurrent { .. } | Self::Waiting { .. } => {
                format!(
                    "come back when one of them has ended, or in {wait:.0} s; [admission] of the server's settings has the limits"
                )
            }
        }
    }
}

/// What everybody passes first. Cheap to clone; all clones count together.
#[derive(Clone)]
pub(crate) struct Gate {
    settings: AdmissionSettings,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Default)]
struct Counts {
    rate: Rate,
    under_way: HashMap<String, u32>,
    /// Which day it is, and how many requests of each caller it has seen.
    today: (u64, HashMap<String, u32>),
}

/// A request under way; it counts until this is dropped.
pub struct Pass {
    caller: String,
    counts: Arc<Mutex<Counts>>,
}

impl Gate {
    pub(crate) fn new(settings: AdmissionSettings) -> Self {
        Self { settings, counts: Arc::default() }
    }

    /// Lets a request in, or says when to come back.
    pub(crate) fn enter(&self, caller: &Caller) -> Result<Option<Pass>, AdmissionError> {
        if caller.admission == Admission::Done {
            return Ok(None);
        }
        let allowance = self.allowance(caller);
        let name = caller.key().unwrap_or(&caller.name);
        let mut counts = lock(&self.counts);
        let under_way = counts.under_way.get(name).copied().unwrap_or(0);
        if let Some(most) = allowance.concurrent.filter(|most| under_way >= most.get()) {
            return Err(AdmissionError::Concurrent { most: most.get() });
        }
        let (day, left) = today();
        if counts.today.0 != day {
            counts.today = (day, HashMap::new());
        }
        let so_far = counts.today.1.get(name).copied().unwrap_or(0);
        if let Some(most) = allowance.per_day.filter(|most| so_far >= most.get()) {
            return Err(AdmissionError::Quota { per_day: most.get(), retry_after: left });
        }
        counts.rate.take(name, &allowance, Instant::now()).map_err(|retry_after| AdmissionError::Rate {
            per_minute: allowance.per_minute.map_or(0, std::num::NonZero::get),
            retry_after,
        })?;
        if allowance.per_day.is_some() {
            counts.today.1.insert(name.to_owned(), so_far + 1);
        }
        if allowance.concurrent.is_none() {
            return Ok(None);
        }
        counts.under_way.insert(name.to_owned(), under_way + 1);
        Ok(Some(Pass { caller: name.to_owned(), counts: Arc::clone(&self.counts) }))
    }

    /// Lets an act in that has no account of its own; who is turned away is in the trail.
    pub(crate) async fn admit(&self, audit: &Audit, caller: &Caller, act: &str) -> Result<Option<Pass>, RunError> {
        match self.enter(caller) {
            Ok(pass) => Ok(pass),
            Err(error) => {
                let error = RunError::from(error);
                audit.turn_away(caller, act, &error).await?;
                Err(error)
            }
        }
    }

    fn allowance(&self, caller: &Caller) -> Allowance {
        match &caller.standing {
            Standing::Owner => self.settings.socket,
            Standing::FirstKey => self.settings.first_key,
            Standing::Key { allowance, .. } => allowance.unwrap_or(self.settings.keys),
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        if let Some(count) = counts.under_way.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                counts.under_way.remove(&self.caller);
            }
        }
    }
}

/// The day's number, and how much of it is left.
fn today() -> (u64, Duration) {
    const DAY: Duration = Duration::from_hours(24);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let day = now.as_secs() / DAY.as_secs();
    (day, Duration::from_secs((day + 1) * DAY.as_secs()).saturating_sub(now))
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn key(id: &str, allowance: Option<Allowance>) -> Caller {
        Caller { standing: Standing::Key { id: id.to_owned(), allowance }, ..Caller::default() }
    }

    #[test]
    fn made_keys_have_a_hundred_a_minute_and_the_owner_has_no_limit() {
        let gate = Gate::new(AdmissionSettings::default());
        let owner = Caller::default();
        let first = Caller { standing: Standing::FirstKey, ..Caller::default() };
        for _ in 0..1000 {
            assert!(gate.enter(&owner).is_ok() && gate.enter(&first).is_ok());
        }
        let taken = (0..1000).filter(|_| gate.enter(&key("a", None)).is_ok()).count();
        // A slow machine may see one or two come free.
        assert!((100..103).contains(&taken), "{taken}");
        assert!(gate.enter(&key("b", None)).is_ok(), "keys are counted apart");
    }

    #[test]
    fn a_days_worth_is_enough_until_tomorrow() {
        let gate = Gate::new(AdmissionSettings::default());
        let caller = key("a", Some(Allowance { per_day: NonZeroU32::new(3), ..Allowance::default() }));
        let taken = (0..10).filter(|_| gate.enter(&caller).is_ok()).count();
        // Midnight may come in between, once.
        assert!(taken == 3 || taken == 6, "{taken}");
        match gate.enter(&caller) {
            Err(AdmissionError::Quota { per_day: 3, retry_after }) => assert!(retry_after <= Duration::from_hours(24)),
            other => assert!(other.is_ok(), "{:?}", other.err()),
        }
    }

    #[test]
    fn a_place_is_free_again_when_its_request_is_over() {
        let gate = Gate::new(AdmissionSettings::default());
        let two = Allowance { concurrent: NonZeroU32::new(2), ..Allowance::default() };
        let caller = key("a", Some(two));
        let (first, _second) = (gate.enter(&caller).unwrap(), gate.enter(&caller).unwrap());
        assert_eq!(gate.enter(&caller).err(), Some(AdmissionError::Concurrent { most: 2 }));
        drop(first);
        let _third = gate.enter(&caller).unwrap();
        assert!(gate.enter(&caller).is_err());
    }
}
