//! The trail as its writer has it: entries go to the end, the head follows.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use types::Timestamp;

use super::chain::Hash;
use super::entry::{Entry, Kind, Record};
use super::error::AuditError;
use super::head::{Head, HeadFile};
use super::schema;

/// Pages of the log that are moved into the database at once. Whoever opens the trail first reads the log through, so
/// it is kept short.
const LONG_LOG: i64 = 256;

/// The trail of a state folder, open for writing.
pub(super) struct Store {
    connection: Connection,
    path: PathBuf,
    head: HeadFile,
    /// Pages written since the log was last moved, at a guess.
    log: i64,
}

impl Store {
    pub(super) fn open(state: &Path) -> Result<Self, AuditError> {
        let path = schema::path(state);
        let connection = schema::open(&path)?;
        let head = HeadFile::new(state);
        let log = std::fs::metadata(path.with_extension("db-wal")).map_or(0, |meta| meta.len() / 4096);
        let store = Self { connection, path, head, log: i64::try_from(log).unwrap_or(i64::MAX) };
        // A head that is missing beside entries was taken away, and that must stay visible.
        let last = last(&store.connection).map_err(|source| store.failed(source))?;
        store.head.create(if last.seq == 0 { last } else { Head::LOST })?;
        Ok(store)
    }

    /// Commits entries and then the head. When this returns, no end of this process can undo it.
    ///
    /// `entries` is empty once they are committed, also where the head could not be written.
    pub(super) fn append(&mut self, entries: &mut Vec<Entry>) -> Result<(), AuditError> {
        let failed = |source| schema::database(&self.path, source);
        let held = self.head.hold()?;
        let head = held.read()?;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let last = last(&transaction).map_err(failed)?;
        let agrees = follows(&transaction, last, head).map_err(failed)?;
        let end = if agrees { last } else { gap(&transaction, last, head).map_err(failed)? };
        let end = insert(&transaction, end, entries).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        // About a page of the table for each entry, one that it splits off, and one above them.
        self.log += 2 + i64::try_from(entries.len()).unwrap_or(0);
        entries.clear();
        held.write(end)
    }

    /// Moves a log that has grown long into the database. Waits for the disk, so nobody should be waiting for us.
    pub(super) fn tidy(&mut self) {
        if self.log >= LONG_LOG {
            self.log = 0;
            // One that fails, or that a reader keeps from moving everything, is made up for by the next.
            let _ = self.move_log();
        }
    }

    /// The last step begins the next log, which waits for the disk too: better now than in somebody's commit.
    fn move_log(&self) -> rusqlite::Result<()> {
        self.connection.busy_timeout(Duration::ZERO)?;
        let moved = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        self.connection.busy_timeout(schema::BUSY)?;
        moved?;
        let version: i64 = self.connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        self.connection.pragma_update(None, "user_version", version)
    }

    fn failed(&self, source: rusqlite::Error) -> AuditError {
        schema::database(&self.path, source)
    }
}

/// The last entry.
fn last(connection: &Connection) -> rusqlite::Result<Head> {
    let mut statement = connection.prepare_cached("SELECT seq, hash FROM entry ORDER BY seq DESC LIMIT 1")?;
    let last = statement.query_row([], |row| {
        let (seq, hash): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
        Ok(Head { seq, hash: Hash::from_bytes(&hash).unwrap_or(Hash::NONE) })
    });
    Ok(last.optional()?.unwrap_or_else(Head::first))
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

/// Goes on where the head says that the trail ended. What is missing stays missing: `verify` stops at the hole for ever,
/// and would pass it if the lost entries were put back.
fn gap(transaction: &Transaction<'_>, last: Head, head: Head) -> rusqlite::Result<Head> {
    let details = serde_json::json!({
        "head": { "seq": head.seq, "hash": head.hash.to_string() },
        "last": { "seq": last.seq, "hash": last.hash.to_string() },
    });
    let note = Entry {
        id: format!("gap_{}", crate::id::random_hex()),
        kind: Kind::Gap,
        caller: String::new(),
        outcome: "gap".to_owned(),
        details: details.to_string(),
    };
    insert(transaction, Head { seq: last.seq.max(head.seq), hash: head.hash }, &[note])
}

fn insert(transaction: &Transaction<'_>, end: Head, entries: &[Entry]) -> rusqlite::Result<Head> {
    let mut statement = transaction.prepare_cached(
        "INSERT INTO entry (seq, time, id, kind, caller, outcome, details, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    let mut end = end;
    for entry in entries {
        let record = Record::new(end.seq.saturating_add(1), SystemTime::now().into(), entry, &end.hash);
        let Record { seq, time: Timestamp(time), id, kind, caller, outcome, details, hash } = &record;
        statement.execute(params![seq, time, id, kind, caller, outcome, details, hash])?;
        end = Head { seq: *seq, hash: Hash::from_bytes(hash).unwrap_or(Hash::NONE) };
    }
    Ok(end)
}
