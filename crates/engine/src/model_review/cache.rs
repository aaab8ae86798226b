//! Verdicts that were given before: the same program, the same question, the same model.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, params};

use super::reply::Reply;
use crate::database::{self, DatabaseError};

/// The file in the state folder.
const FILE: &str = "review.db";
/// Verdicts that are kept; the oldest go first.
const MOST: i64 = 10_000;
/// What a name such as `gpt-4o-mini` stands for changes in time.
const KEPT: Duration = Duration::from_hours(30 * 24);

const SCHEMA: &str = "
CREATE TABLE verdicts (key BLOB PRIMARY KEY, at_s INTEGER NOT NULL, reply TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX verdicts_at ON verdicts (at_s);
";

/// Verdicts of a state folder. Several processes may share them.
pub(super) struct Cache(Mutex<Connection>);

impl Cache {
    pub(super) fn open(state: &Path) -> Result<Self, DatabaseError> {
        Ok(Self(Mutex::new(database::open(&state.join(FILE), SCHEMA)?)))
    }

    /// A verdict that is still good. Trouble with the file is none to have: the model is asked again.
    pub(super) fn get(&self, key: &[u8; 32]) -> Option<Reply> {
        let connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let select = "SELECT reply FROM verdicts WHERE key = ?1 AND at_s > ?2";
        let kept_from = seconds() - KEPT.as_secs().cast_signed();
        let found: Option<String> =
            connection.query_row(select, params![key, kept_from], |row| row.get(0)).optional().ok()?;
        serde_json::from_str(&found?).ok()
    }

    pub(super) fn put(&self, key: &[u8; 32], reply: &Reply) -> Result<(), DatabaseError> {
        let connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = serde_json::to_string(reply).unwrap_or_default();
        let insert = "INSERT OR REPLACE INTO verdicts (key, at_s, reply) VALUES (?1, ?2, ?3)";
        connection.execute(insert, params![key, seconds(), text])?;
        connection.execute(
            "DELETE FROM verdicts WHERE key IN (SELECT key FROM verdicts ORDER BY at_s DESC LIMIT -1 OFFSET ?1)",
            [MOST],
        )?;
        Ok(())
    }
}

fn seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().cast_signed()
}
