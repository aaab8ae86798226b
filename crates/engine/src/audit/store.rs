//! The trail as its writer has it: entries go to the end, the head follows.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use types::Timestamp;

use super::chain::Hash;
use super::entry::{Entry, Kind, Record};
use super::error::AuditError;
use super::head::{Head, HeadFile, Patience};
use super::schema;

/// Pages of the log that are moved into the database at once.
const LONG_LOG: u64 = 1000;
/// Pages that are left in the log by who leaves: whoever opens the trail next reads them all.
const LEFT_LOG: u64 = 64;

const LAST: &str = "SELECT seq, hash FROM entry ORDER BY seq DESC LIMIT 1";
const INSERT: &str =
    "INSERT INTO entry (seq, time, id, kind, caller, outcome, details, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)";

/// The trail of a state folder, open for writing.
pub(super) struct Store {
    /// Keeps its statements: making them costs as much as a commit.
    connection: Connection,
    path: PathBuf,
    head: HeadFile,
    /// Pages written since the log was last moved, at a guess.
    log: u64,
}

/// Why entries were not written, or not to the end.
pub(super) enum AppendError {
    /// None of them is in the trail.
    Nothing(AuditError),
    /// All of them are, but the head does not say so.
    NoHead(AuditError),
}

impl Store {
    pub(super) fn open(state: &Path) -> Result<Self, AuditError> {
        let path = schema::path(state);
        let connection = schema::open(&path)?;
        // A head that is missing beside entries was taken away, and that must stay visible.
        let end = last(&connection).map_err(|source| schema::failure(&path, source))?;
        // Made now, while nobody waits, and kept.
        connection.prepare_cached(INSERT).map(drop).map_err(|source| schema::failure(&path, source))?;
        let head = HeadFile::new(state);
        head.create(if end.seq == 0 { end } else { Head::LOST })?;
        let log = std::fs::metadata(path.with_extension("db-wal")).map_or(0, |meta| meta.len() / 4096);
        Ok(Self { connection, path, head, log })
    }

    /// Commits entries and then the head. When this returns, no end of this process can undo it.
    pub(super) fn append(&mut self, entries: &[&Entry], patience: Patience) -> Result<(), AppendError> {
        if entries.is_empty() {
            return Ok(());
        }
        let held = self.head.hold(patience).map_err(AppendError::Nothing)?;
        let head = held.read().map_err(AppendError::Nothing)?;
        let committed = self.connection.busy_timeout(patience.time()).and_then(|()| self.commit(head, entries));
        let end = committed.map_err(|source| AppendError::Nothing(schema::failure(&self.path, source)))?;
        // About a page of the table for each entry, one that it splits off, and one above them.
        self.log += 2 + entries.len() as u64;
        held.write(end).map_err(AppendError::NoHead)
    }

    fn commit(&self, head: Head, entries: &[&Entry]) -> rusqlite::Result<Head> {
        let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        let last = last(&transaction)?;
        let mut end = last;
        if !follows(&transaction, last, head)? {
            // What is missing stays missing: `verify` stops at the hole for ever, and would pass it if the lost entries
            // were put back.
            end = Head { seq: last.seq.max(head.seq), hash: head.hash };
            end = insert(&transaction, end, &gap(last, head))?;
        }
        for entry in entries {
            end = insert(&transaction, end, entry)?;
        }
        transaction.commit()?;
        Ok(end)
    }

    /// Whether the log has grown long.
    pub(super) fn is_untidy(&self) -> bool {
        self.log >= LONG_LOG
    }

    /// Whether the log is too long for whoever opens the trail next.
    pub(super) fn is_long(&self) -> bool {
        self.log >= LEFT_LOG
    }

    /// Leaves the trail as the next one wants to find it.
    pub(super) fn leave(mut self) {
        if self.is_long() {
            self.log = LONG_LOG;
            self.tidy();
        }
    }

    /// Moves a log that has grown long into the database. Waits for the disk, so nobody should be waiting for us.
    pub(super) fn tidy(&mut self) {
        if self.is_untidy() {
            self.log = 0;
            // One that fails, or that a reader keeps from moving everything, is made up for by the next.
            let _ = self.move_log();
        }
    }

    /// The last step begins the next log, which waits for the disk too: better now than in somebody's commit.
    fn move_log(&self) -> rusqlite::Result<()> {
        self.connection.busy_timeout(Patience::None.time())?;
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        let version: i64 = self.connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        self.connection.pragma_update(None, "user_version", version)
    }
}

/// The last entry.
fn last(connection: &Connection) -> rusqlite::Result<Head> {
    let end = connection.prepare_cached(LAST)?.query_row([], |row| {
        let (seq, hash): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
        Ok(Head { seq, hash: Hash::from_bytes(&hash).unwrap_or(Hash::NONE) })
    });
    Ok(end.optional()?.unwrap_or_else(Head::first))
}

/// Whether the entry that the head names is in the trail. Entries after it were committed by a process that was killed
/// before it could write the head.
fn follows(connection: &Connection, last: Head, head: Head) -> rusqlite::Result<bool> {
    if head == last || head == Head::first() {
        return Ok(true);
    }
    let named = connection.query_row("SELECT hash FROM entry WHERE seq = ?", [head.seq], |row| row.get(0));
    let named: Option<Vec<u8>> = named.optional()?;
    Ok(named.is_some_and(|hash| hash == head.hash.as_bytes()))
}

/// Says that the head names an entry that is not there.
fn gap(last: Head, head: Head) -> Entry {
    let details = serde_json::json!({
        "head": { "seq": head.seq, "hash": head.hash.to_string() },
        "last": { "seq": last.seq, "hash": last.hash.to_string() },
    });
    Entry {
        id: format!("gap_{}", crate::id::random_hex()),
        kind: Kind::Gap,
        caller: String::new(),
        outcome: "gap".to_owned(),
        details: details.to_string(),
    }
}

fn insert(connection: &Connection, end: Head, entry: &Entry) -> rusqlite::Result<Head> {
    let record = Record::new(end.seq.saturating_add(1), SystemTime::now().into(), entry, &end.hash);
    let Record { seq, time: Timestamp(time), id, kind, caller, outcome, details, hash } = &record;
    connection.prepare_cached(INSERT)?.execute(params![seq, time, id, kind, caller, outcome, details, hash])?;
    Ok(Head { seq: *seq, hash: Hash::from_bytes(hash).unwrap_or(Hash::NONE) })
}
