//! The database: its shape, and how it is opened.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::error::AuditError;
use super::head::Patience;
use crate::database;

/// What leads from each version to the next; `user_version` says how many have been applied.
///
/// There is no index: an entry is looked for from the newest back, and an index would be a second copy to keep honest.
const STEPS: &[&str] = &["
    CREATE TABLE entry (
        seq INTEGER PRIMARY KEY,
        time INTEGER NOT NULL,
        id TEXT NOT NULL,
        kind TEXT NOT NULL,
        caller TEXT NOT NULL,
        outcome TEXT NOT NULL,
        details TEXT NOT NULL,
        hash BLOB NOT NULL
    ) STRICT;
    CREATE TRIGGER entry_is_not_changed BEFORE UPDATE ON entry
        BEGIN SELECT raise(ABORT, 'the audit trail is append-only'); END;
    CREATE TRIGGER entry_is_not_removed BEFORE DELETE ON entry
        BEGIN SELECT raise(ABORT, 'the audit trail is append-only'); END;
    -- INSERT OR REPLACE removes without asking the trigger above.
    CREATE TRIGGER entry_comes_last BEFORE INSERT ON entry
        WHEN NEW.seq <= (SELECT coalesce(max(seq), 0) FROM entry)
        BEGIN SELECT raise(ABORT, 'the audit trail is append-only'); END;
"];

/// The version that this program writes: the number of steps.
const KNOWN: i64 = 1;

/// Where the database of a state folder is.
pub(super) fn path(state: &Path) -> PathBuf {
    state.join("audit.db")
}

/// Opens for writing; makes or upgrades the database if need be.
pub(super) fn open(path: &Path) -> Result<Connection, AuditError> {
    database::create(path).map_err(|source| AuditError::File { path: path.to_path_buf(), source: Arc::new(source) })?;
    let failed = |source| failure(path, source);
    let mut connection = connect(path).map_err(failed)?;
    configure(&connection).map_err(failed)?;
    upgrade(&mut connection, path)?;
    Ok(connection)
}

/// Opens what is there, to be read; `None` if there is nothing.
pub(super) fn open_existing(path: &Path) -> Result<Option<Connection>, AuditError> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        _ => {}
    }
    let failed = |source| failure(path, source);
    let connection = connect(path).map_err(failed)?;
    connection.execute_batch("PRAGMA query_only = 1; PRAGMA trusted_schema = 0").map_err(failed)?;
    Ok(Some(connection))
}

/// A version that this one does not know is not read either: its chain may have another form.
pub(super) fn check_version(connection: &Connection, path: &Path) -> Result<i64, AuditError> {
    let found = version(connection).map_err(|source| failure(path, source))?;
    if found > KNOWN {
        return Err(AuditError::Newer { path: path.to_path_buf(), found, known: KNOWN });
    }
    Ok(found)
}

pub(super) fn failure(path: &Path, source: rusqlite::Error) -> AuditError {
    AuditError::Database { path: path.to_path_buf(), source: Arc::new(source) }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Patience::Some.time())?;
    Ok(connection)
}

/// A commit is a write to the log beside the database, which outlives the process; it reaches the disk when the log is
/// moved into the database. Losing power can thus lose the newest entries, but never damages the file.
fn configure(connection: &Connection) -> rusqlite::Result<()> {
    database::shared(connection)?;
    connection
        .execute_batch("PRAGMA synchronous = NORMAL; PRAGMA trusted_schema = 0; PRAGMA wal_autocheckpoint = 0")?;
    // A command that ends must not wait for the disk; the log is moved when it has grown.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(())
}

fn upgrade(connection: &mut Connection, path: &Path) -> Result<(), AuditError> {
    let failed = |source| failure(path, source);
    if check_version(connection, path)? == KNOWN {
        return Ok(());
    }
    // Two processes may have come here at once: the second finds nothing left to do.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let done = usize::try_from(check_version(&transaction, path)?).unwrap_or(0);
    for step in STEPS.iter().skip(done) {
        transaction.execute_batch(step).map_err(failed)?;
    }
    transaction.pragma_update(None, "user_version", KNOWN).map_err(failed)?;
    transaction.commit().map_err(failed)
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}
