//! Every call to a model, written down when it ends.
//!
//! Writing blocks: it is one small row into a file of our own, after a call that took a thousand times as long, and a
//! row that waits in a queue is lost with its process.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, Row, params};

use super::prices::Prices;
use super::report::{Line, Totals, UsageReport};
use crate::database::{self, DatabaseError};
use crate::llm::TokenUsage;

/// The file in the state folder.
const FILE: &str = "usage.db";

const SCHEMA: &str = "
CREATE TABLE calls (
    id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    component TEXT NOT NULL,
    model TEXT NOT NULL,
    failure TEXT,
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cost_usd REAL,
    wall_ms REAL NOT NULL
) STRICT;
CREATE INDEX calls_at ON calls (at_ms);
";

/// Why the books cannot be kept or read.
#[derive(Debug, thiserror::Error)]
#[error("the ledger `{FILE}` in the state folder cannot be used: {source}")]
pub struct LedgerError {
    #[from]
    source: DatabaseError,
}

impl LedgerError {
    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self.source {
            DatabaseError::Newer => "use the newer saggar, or set SAGGAR_HOME to another folder",
            DatabaseError::File(_) | DatabaseError::Sqlite(_) => {
                "see that there is room, and that the file is yours; moved away, the books start anew"
            }
        }
    }
}

/// The books of a state folder. Several processes may write in them.
pub struct Ledger {
    connection: Mutex<Connection>,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Call {
    /// The kind of its failure, if it failed.
    pub failure: Option<&'static str>,
    /// What it took.
    pub spent: Spent,
    /// How long it took.
    pub wall: Duration,
}

/// What a call took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spent {
    /// By the server's own count.
    Tokens(TokenUsage),
    /// The server said no before a model wrote anything.
    Nothing,
    /// The server did not tell, or did not come to that.
    Unknown,
}

impl Ledger {
    /// Opens the books, or starts them.
    pub fn open(state: &Path) -> Result<Self, LedgerError> {
        Ok(Self { connection: Mutex::new(database::open(&state.join(FILE), SCHEMA)?) })
    }

    /// Sums since a moment, or since ever.
    pub fn report(&self, since: Option<SystemTime>) -> Result<UsageReport, LedgerError> {
        let from = since.map_or(0, millis);
        self.with(|connection| {
            let mut select = connection.prepare(
                "SELECT component, model, count(*), count(failure), sum(prompt_tokens), sum(cached_tokens),
                        sum(completion_tokens), sum(cost_usd IS NULL), coalesce(sum(cost_usd), 0.0), sum(wall_ms)
                 FROM calls WHERE at_ms >= ?1 GROUP BY component, model ORDER BY component, model",
            )?;
            let lines = select.query_map([from], |row| {
                let totals = Totals {
                    calls: count(row, 2)?,
                    failed: count(row, 3)?,
                    prompt_tokens: count(row, 4)?,
                    cached_tokens: count(row, 5)?,
                    completion_tokens: count(row, 6)?,
                    unpriced_calls: count(row, 7)?,
                    known_cost_usd: row.get(8)?,
                    wall_ms: row.get(9)?,
                };
                Ok(Line { component: row.get(0)?, model: row.get(1)?, totals })
            })?;
            lines.collect::<Result<_, _>>().map(UsageReport::new)
        })
    }

    fn write(&self, component: &str, model: &str, call: &Call, cost: Option<f64>) -> Result<Totals, LedgerError> {
        let tokens = match call.spent {
            Spent::Tokens(tokens) => tokens,
            Spent::Nothing | Spent::Unknown => TokenUsage::default(),
        };
        let wall_ms = call.wall.as_secs_f64() * 1000.0;
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.with(|connection| {
            let mut insert = connection.prepare(
                "INSERT INTO calls (at_ms, component, model, failure, prompt_tokens, cached_tokens, completion_tokens,
                                    cost_usd, wall_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?;
            insert.execute(params![
                millis(SystemTime::now()),
                component,
                model,
                call.failure,
                signed(tokens.prompt),
                signed(tokens.cached),
                signed(tokens.completion),
                cost,
                wall_ms,
            ])
        })?;
        Ok(Totals {
            calls: 1,
            failed: u64::from(call.failure.is_some()),
            prompt_tokens: tokens.prompt,
            cached_tokens: tokens.cached,
            completion_tokens: tokens.completion,
            unpriced_calls: u64::from(cost.is_none()),
            known_cost_usd: cost.unwrap_or(0.0),
            wall_ms,
        })
    }

    fn with<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, LedgerError> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        work(&connection).map_err(|error| DatabaseError::from(error).into())
    }
}

fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::unsigned_abs)
}

fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The ledger as one component writes in it.
#[derive(Clone)]
pub struct Books {
    ledger: Arc<Ledger>,
    component: &'static str,
    prices: Arc<Prices>,
}

impl Books {
    /// For calls of one component, at these prices.
    #[must_use]
    pub fn new(ledger: Arc<Ledger>, component: &'static str, prices: Arc<Prices>) -> Self {
        Self { ledger, component, prices }
    }

    /// Writes down a call, and says what it comes to.
    pub fn write(&self, model: &str, call: Call) -> Result<Totals, LedgerError> {
        let price = self.prices.of(model);
        let cost = price.and_then(|price| match call.spent {
            Spent::Tokens(usage) => Some(price.of(&usage)),
            Spent::Nothing => Some(0.0),
            Spent::Unknown => None,
        });
        self.ledger.write(self.component, model, &call, cost)
    }
}
