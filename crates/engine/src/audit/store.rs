//! The trail as its writer has it: entries go to the end, the head follows.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, Statement, Transaction, TransactionBehavior, params};
use types::Timestamp;

use super::chain::Hash;
use super::entry::{Entry, Kind, Record};
use super::error::AuditError;
use super::head::{Head, HeadFile};
use super::schema;

/// Pages of the log that are moved into the database at once. Whoever opens the trail first reads the log through, so
/// it is kept short.
const LONG_LOG: i64 = 256;

const LAST: &str = "SELECT seq, hash FROM entry ORDER BY seq DESC LIMIT 1";
const INSERT: &str =
    "INSERT INTO entry (seq, time, id, kind, caller, outcome, details, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)";

/// The trail of a state folder, open for writing. Statements are made once: making them costs as much as a commit.
pub(super) struct Store<'c> {
    connection: &'c Connection,
    last: Statement<'c>,
    insert: Statement<'c>,
    path: PathBuf,
    head: HeadFile,
    /// Pages written since the log was last moved, at a guess.
    log: i64,
}

impl<'c> Store<'c> {
    /// Takes up where the trail of `state` ends; `connection` is [`schema::open`]'s.
    pub(super) fn new(connection: &'c Connection, state: &Path) -> Result<Self, AuditError> {
        let path = schema::path(state);
        let failed = |source| schema::failure(&path, source);
        let mut last = connection.prepare(LAST).map_err(failed)?;
        let insert = connection.prepare(INSERT).map_err(failed)?;
        // A head that is missing beside entries was taken away, and that must stay visible.
        let end = end(&mut last).map_err(failed)?;
        let head = HeadFile::new(state);
        head.create(if end.seq == 0 { end } else { Head::LOST })?;
        let log = std::fs::metadata(path.with_extension("db-wal")).map_or(0, |meta| meta.len() / 4096);
        let log = i64::try_from(log).unwrap_or(i64::MAX);
        Ok(Self { connection, last, insert, path, head, log })
    }

    /// Commits entries and then the head. When this returns, no end of this process can undo it.
    ///
    /// `entries` is empty once they are committed, also where the head could not be written.
    pub(super) fn append(&mut self, entries: &mut Vec<Entry>) -> Result<(), AuditError> {
        if entries.is_empty() {
            return Ok(());
        }
        let held = self.head.hold()?;
        let head = held.read()?;
        let end = self.commit(head, entries).map_err(|source| schema::failure(&self.path, source))?;
        // About a page of the table for each entry, one that it splits off, and one above them.
        self.log += 2 + i64::try_from(entries.len()).unwrap_or(0);
        entries.clear();
        held.write(end)
    }

    fn commit(&mut self, head: Head, entries: &[Entry]) -> rusqlite::Result<Head> {
        let transaction = Transaction::new_unchecked(self.connection, TransactionBehavior::Immediate)?;
        let last = end(&mut self.last)?;
        let mut end = last;
        if !follows(self.connection, last, head)? {
            // What is missing stays missing: `verify` stops at the hole for ever, and would pass it if the lost entries
            // were put back.
            end = Head { seq: last.seq.max(head.seq), hash: head.hash };
            end = insert(&mut self.insert, end, &gap(last, head))?;
        }
        for entry in entries {
            end = insert(&mut self.insert, end, entry)?;
        }
        transaction.commit()?;
        Ok(end)
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
}

/// The last entry.
fn end(last: &mut Statement<'_>) -> rusqlite::Result<Head> {
    let end = last.query_row([], |row| {
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

fn insert(statement: &mut Statement<'_>, end: Head, entry: &Entry) -> rusqlite::Result<Head> {
    let record = Record::new(end.seq.saturating_add(1), SystemTime::now().into(), entry, &end.hash);
    let Record { seq, time: Timestamp(time), id, kind, caller, outcome, details, hash } = &record;
    statement.execute(params![seq, time, id, kind, caller, outcome, details, hash])?;
    Ok(Head { seq: *seq, hash: Hash::from_bytes(hash).unwrap_or(Hash::NONE) })
}
