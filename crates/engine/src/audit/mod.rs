//! The audit trail: what was asked, by whom, and what became of it, in a chain that shows every later change.
//!
//! Entries are rows of a `SQLite` file in the state folder. Each holds a hash over itself and the hash before it; the last
//! one is also kept outside the database. Whoever records waits until his entry is committed.

mod account;
mod chain;
mod entry;
mod error;
mod head;
mod reader;
mod refusals;
mod schema;
mod store;
mod verify;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use account::{Account, Executed, OutputFacts};
pub use entry::{Entry, Kind, Record};
pub use error::AuditError;
pub use reader::{Filter, Reader};
use refusals::Refusals;
pub use verify::{Bad, ChainReport};
use writer::Writer;

use crate::settings::AuditSettings;

/// How long one of many waits for others. Nobody waits for him: the next are at work meanwhile.
const COMPANY: Duration = Duration::from_millis(20);

/// The way to the trail, for everything that acts. Cheap to clone.
#[derive(Clone)]
pub struct Audit {
    /// None where the owner has switched it off.
    writer: Option<Arc<Writer>>,
    refusals: Refusals,
    keep_source: bool,
}

impl Audit {
    /// Begins to open the trail of a state folder, beside whatever goes on.
    pub(crate) fn open(state: &Path, settings: &AuditSettings) -> Self {
        Self {
            writer: settings.enabled.then(|| Arc::new(Writer::start(state))),
            refusals: Refusals::default(),
            keep_source: settings.keep_source,
        }
    }

    /// Waits until the trail can be written: nothing is started that could not be recorded.
    pub async fn ready(&self) -> Result<(), AuditError> {
        match &self.writer {
            Some(writer) => writer.ready().await,
            None => Ok(()),
        }
    }

    /// Writes an entry; it is committed when this returns. What is told to a caller is told after that.
    pub async fn record(&self, entry: Entry) -> Result<(), AuditError> {
        match &self.writer {
            Some(writer) => writer.record(entry).await,
            None => Ok(()),
        }
    }

    /// The same for one of many that are recorded one soon after the other: they wait for each other, and share a commit.
    pub(crate) async fn record_among(&self, entry: Entry) -> Result<(), AuditError> {
        match &self.writer {
            Some(writer) => writer.record_among(entry, COMPANY).await,
            None => Ok(()),
        }
    }

    /// Whether something is left to tidy up for whoever opens the trail next.
    pub(crate) fn is_long(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.is_long())
    }

    /// Writes an entry together with the next: for what is part of an act that is recorded itself before its answer.
    fn record_with_next(&self, entry: Entry) {
        if let Some(writer) = &self.writer {
            writer.record_with_next(entry);
        }
    }

    /// Writes an entry that nobody waits for.
    fn record_later(&self, entry: Entry) {
        if let Some(writer) = &self.writer {
            writer.record_later(entry);
        }
    }
}
