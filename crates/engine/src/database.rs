//! SQLite files, in the state folder and in folders of evolutions: the owner's alone, shared by several processes.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

/// How long another process may hold the file.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a file of ours cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The file cannot be made.
    #[error("cannot make the file")]
    File(#[source] io::Error),
    /// It was made by a newer saggar.
    #[error("it is of a newer version of saggar")]
    Newer,
    /// SQLite's own word.
    #[error("the database cannot be used")]
    Sqlite(#[from] rusqlite::Error),
}

/// Opens a database, and makes it with `schema` if it is new.
pub fn open(path: &Path, schema: &str) -> Result<Connection, DatabaseError> {
    create(path).map_err(DatabaseError::File)?;
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(PATIENCE)?;
    shared(&connection)?;
    // After a crash of the machine the last entries may be gone; after one of ours, none is.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match transaction.pragma_query_value(None, "user_version", |row| row.get(0))? {
        0 => {
            transaction.execute_batch(schema)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
        }
        VERSION => {}
        _ => return Err(DatabaseError::Newer),
    }
    transaction.commit()?;
    Ok(connection)
}

/// Made by us first, since SQLite would make it for everybody; its side files get the same mode.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path).map(drop)
}

/// Of all schemas; each has had one so far.
const VERSION: i64 = 1;

/// Readers and a writer at once. SQLite does not wait for its turn here, so we do.
pub(crate) fn shared(connection: &Connection) -> rusqlite::Result<()> {
    let start = Instant::now();
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if is_busy(&error) && start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(2)),
            other => return other,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
