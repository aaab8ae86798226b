//! Whether the trail is what was written: every link of the chain, and its end.

use rusqlite::types::ValueRef;
use rusqlite::{ErrorCode, Row};
use serde::{Deserialize, Serialize};

use super::chain::Hash;
use super::entry::Record;
use super::error::AuditError;
use super::head::Head;
use super::reader::{COLUMNS, Reader, record};
use super::schema;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainReport {
    /// Whether all of it is as it was written.
    pub ok: bool,
    /// Entries that are good, from the first on.
    pub entries: i64,
    /// The number that the head names; 0 before the first entry.
    pub head_seq: i64,
    /// The hash that the head names.
    pub head_hash: String,
    /// The first entry that is not as it was written.
    pub first_bad: Option<Bad>,
}

/// An entry that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bad {
    /// Its number.
    pub seq: i64,
    /// Its id, if it is there.
    pub id: Option<String>,
    /// What is wrong.
    pub why: String,
}

impl Reader {
    /// Checks every entry. The head is read first: entries that come meanwhile are after it.
    pub fn verify(&self) -> Result<ChainReport, AuditError> {
        let head = self.head.read()?;
        let mut walk = Walk { last: Head::first(), head };
        let first_bad = match self.walk(&mut walk) {
            Ok(bad) => bad,
            // Bytes of the file itself were changed.
            Err(error) if is_damage(&error) => {
                Some(Bad { seq: walk.last.seq + 1, id: None, why: format!("it cannot be read: {error}") })
            }
            Err(error) => return Err(error),
        };
        let named = head.unwrap_or_else(Head::first);
        Ok(ChainReport {
            ok: first_bad.is_none(),
            entries: walk.last.seq,
            head_seq: named.seq,
            head_hash: named.hash.to_string(),
            first_bad,
        })
    }

    fn walk(&self, walk: &mut Walk) -> Result<Option<Bad>, AuditError> {
        let failed = |source| schema::failure(&self.path, source);
        if let Some(connection) = self.connection()? {
            let query = format!("SELECT {COLUMNS} FROM entry ORDER BY seq");
            let mut statement = connection.prepare(&query).map_err(failed)?;
            let mut rows = statement.query([]).map_err(failed)?;
            while let Some(row) = rows.next().map_err(failed)? {
                let record = record(row).map_err(failed)?;
                let bad = if is_plain(row) { walk.step(&record) } else { Some(foreign(&record)) };
                if bad.is_some() {
                    return Ok(bad);
                }
            }
        }
        Ok(walk.end())
    }
}

/// On the way along the chain.
struct Walk {
    last: Head,
    head: Option<Head>,
}

impl Walk {
    fn step(&mut self, record: &Record) -> Option<Bad> {
        let expected = self.last.seq + 1;
        let bad = |why: &str| Some(Bad { seq: record.seq, id: Some(record.id.clone()), why: why.to_owned() });
        if record.seq > expected {
            return Some(Bad { seq: expected, id: None, why: "it is missing".to_owned() });
        }
        if record.seq < expected {
            return bad("it was inserted before the first");
        }
        let hash = self.last.hash.then(record);
        if record.hash != hash.as_bytes() {
            return bad("it, or its place, is not what was written: the hash differs");
        }
        if self.head.is_some_and(|head| head.seq == record.seq && head.hash != hash) {
            return bad("it is not the entry that the head names");
        }
        self.last = Head { seq: record.seq, hash };
        None
    }

    /// Nothing may be missing at the end. More than the head names is what a killed process left.
    fn end(&self) -> Option<Bad> {
        let bad = |seq, why: &str| Some(Bad { seq, id: None, why: why.to_owned() });
        match self.head {
            None if self.last.seq > 0 => {
                bad(self.last.seq, "audit.head is missing: nothing shows that this is the end")
            }
            Some(head) if head.hash == Hash::NONE => bad(self.last.seq, "audit.head is no head: nothing shows the end"),
            Some(head) if head.seq > self.last.seq => {
                bad(self.last.seq + 1, &format!("it is missing: the head names entry {}", head.seq))
            }
            _ => None,
        }
    }
}

/// Whether every column holds what we write there: bytes that are no text would be read as if they were.
fn is_plain(row: &Row<'_>) -> bool {
    (0..8).all(|index| match (index, row.get_ref(index)) {
        (0 | 1, Ok(ValueRef::Integer(_))) | (7, Ok(ValueRef::Blob(_))) => true,
        (2..=6, Ok(ValueRef::Text(text))) => std::str::from_utf8(text).is_ok(),
        _ => false,
    })
}

fn foreign(record: &Record) -> Bad {
    Bad { seq: record.seq, id: Some(record.id.clone()), why: "it holds something that is never written".to_owned() }
}

/// Whether the file itself is damaged, as opposed to out of reach.
fn is_damage(error: &AuditError) -> bool {
    match error {
        AuditError::Database { source, .. } => match source.as_ref() {
            rusqlite::Error::SqliteFailure(failure, _) => {
                // A table that is gone, or has other columns, is an unknown error to SQLite.
                matches!(failure.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown)
            }
            // A row or a table of another shape.
            _ => true,
        },
        AuditError::File { .. }
        | AuditError::Head { .. }
        | AuditError::Held
        | AuditError::Newer { .. }
        | AuditError::Gone => false,
    }
}
