//! Requests that were turned away, counted: whoever knocks a thousand times a second must not fill the disk.
//!
//! The first refusal of a caller is an entry at once. Further ones within a second wait for its end and are one entry
//! together, so that no answer leaves before its entry; that they wait slows down who knocks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use tokio::sync::watch;
use types::Timestamp;

use super::account::Digest;
use super::entry::{Entry, Kind};
use super::{Audit, AuditError};

/// One entry of a caller in this time, besides the first.
const WINDOW: Duration = Duration::from_secs(1);
/// Programs that are named in one entry.
const MOST_NAMED: usize = 16;

/// Refusals that wait for their entry.
#[derive(Clone, Default)]
pub(super) struct Refusals(Arc<Mutex<HashMap<Who, Option<Batch>>>>);

/// Whose refusals are one entry.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Who {
    pub(super) caller: String,
    pub(super) key: Option<String>,
    /// The error's code.
    pub(super) outcome: String,
}

type Told = watch::Receiver<Option<Result<(), AuditError>>>;

struct Batch {
    tally: Tally,
    told: watch::Sender<Option<Result<(), AuditError>>>,
}

/// The details of an entry.
#[derive(Serialize)]
struct Tally {
    count: u64,
    first: Timestamp,
    last: Timestamp,
    key: Option<String>,
    /// Of the first few.
    code: Vec<Digest>,
}

impl Tally {
    fn one(who: &Who, code: Digest) -> Self {
        let now = SystemTime::now().into();
        Self { count: 1, first: now, last: now, key: who.key.clone(), code: vec![code] }
    }

    fn add(&mut self, code: Digest) {
        self.count += 1;
        self.last = SystemTime::now().into();
        if self.code.len() < MOST_NAMED {
            self.code.push(code);
        }
    }
}

impl Audit {
    /// Records that a request was turned away, alone or with others.
    pub(super) async fn reject(&self, who: Who, code: Digest) -> Result<(), AuditError> {
        match self.refusals.join(&who, code) {
            Joined::First(tally) => {
                tokio::spawn(self.clone().count(who.clone()));
                self.record(entry(&who, &tally)).await
            }
            Joined::Waits(mut told) => match told.wait_for(Option::is_some).await.as_deref() {
                Ok(Some(result)) => result.clone(),
                Ok(None) | Err(_) => Err(AuditError::Gone),
            },
        }
    }

    /// Writes what has come in each window, until nothing has.
    async fn count(self, who: Who) {
        loop {
            tokio::time::sleep(WINDOW).await;
            let Some(Batch { tally, told }) = self.refusals.take(&who) else { return };
            let result = self.record(entry(&who, &tally)).await;
            told.send_replace(Some(result));
        }
    }
}

enum Joined {
    First(Tally),
    Waits(Told),
}

impl Refusals {
    fn join(&self, who: &Who, code: Digest) -> Joined {
        let mut windows = self.windows();
        let Some(batch) = windows.get_mut(who) else {
            windows.insert(who.clone(), None);
            return Joined::First(Tally::one(who, code));
        };
        let batch = match batch {
            Some(batch) => {
                batch.tally.add(code);
                batch
            }
            None => batch.insert(Batch { tally: Tally::one(who, code), told: watch::Sender::new(None) }),
        };
        Joined::Waits(batch.told.subscribe())
    }

    /// What has come; nothing closes the window.
    fn take(&self, who: &Who) -> Option<Batch> {
        let mut windows = self.windows();
        let batch = windows.get_mut(who).and_then(Option::take);
        if batch.is_none() {
            windows.remove(who);
        }
        batch
    }

    fn windows(&self) -> MutexGuard<'_, HashMap<Who, Option<Batch>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entry(who: &Who, tally: &Tally) -> Entry {
    Entry {
        id: format!("rejected_{}", crate::id::random_hex()),
        kind: Kind::Rejected,
        caller: who.caller.clone(),
        outcome: who.outcome.clone(),
        details: super::account::json(tally),
    }
}
