//! Reading the trail, while others may write it.

use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, ToSql};
use types::Timestamp;

use super::entry::Record;
use super::error::AuditError;
use super::head::HeadFile;
use super::schema;

/// The columns, in the order that [`record`] takes them.
pub(super) const COLUMNS: &str = "seq, time, id, kind, caller, outcome, details, hash";

/// Which entries are wanted. Gaps mean all.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Written then or later.
    pub since: Option<Timestamp>,
    /// Written before.
    pub until: Option<Timestamp>,
    /// Of this caller.
    pub caller: Option<String>,
    /// With this outcome.
    pub outcome: Option<String>,
    /// Of this kind.
    pub kind: Option<String>,
}

/// The trail of a state folder, to be read.
pub struct Reader {
    pub(super) connection: Option<Connection>,
    pub(super) path: PathBuf,
    pub(super) head: HeadFile,
}

impl Reader {
    /// Opens the trail. A folder without one has an empty trail.
    pub fn open(state: &Path) -> Result<Self, AuditError> {
        let path = schema::path(state);
        Ok(Self { connection: schema::open_existing(&path)?, path, head: HeadFile::new(state) })
    }

    /// The newest entries that fit, newest first.
    pub fn newest(&self, filter: &Filter, most: usize) -> Result<Vec<Record>, AuditError> {
        let mut found = Vec::new();
        self.each(filter, "DESC", most, |record| {
            found.push(record);
            Ok::<_, AuditError>(())
        })?;
        Ok(found)
    }

    /// Every entry that fits, oldest first, in constant memory. Ends with the first error of `take`.
    pub fn all<E: From<AuditError>>(
        &self,
        filter: &Filter,
        take: impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each(filter, "ASC", usize::MAX, take)
    }

    /// The entry with this number, or the newest with this id.
    pub fn find(&self, name: &str) -> Result<Option<Record>, AuditError> {
        let Some(connection) = self.connection()? else { return Ok(None) };
        let (column, value): (_, Box<dyn ToSql>) = match name.parse::<i64>() {
            Ok(seq) => ("seq", Box::new(seq)),
            Err(_) => ("id", Box::new(name)),
        };
        let query = format!("SELECT {COLUMNS} FROM entry WHERE {column} = ? ORDER BY seq DESC LIMIT 1");
        let failed = |source| schema::failure(&self.path, source);
        let mut statement = connection.prepare(&query).map_err(failed)?;
        let mut rows = statement.query([value]).map_err(failed)?;
        rows.next().map_err(failed)?.map(|row| record(row).map_err(failed)).transpose()
    }

    /// The database, if it has entries that we can read.
    pub(super) fn connection(&self) -> Result<Option<&Connection>, AuditError> {
        let Some(connection) = &self.connection else { return Ok(None) };
        // Version 0 is a database that somebody was about to make.
        let made = schema::check_version(connection, &self.path)? > 0;
        Ok(made.then_some(connection))
    }

    fn each<E: From<AuditError>>(
        &self,
        filter: &Filter,
        order: &str,
        most: usize,
        mut take: impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(connection) = self.connection()? else { return Ok(()) };
        let failed = |source| E::from(schema::failure(&self.path, source));
        let Filter { since, until, caller, outcome, kind } = filter;
        let (since, until) = (since.map(|at| at.0), until.map(|at| at.0));
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let query = format!(
            "SELECT {COLUMNS} FROM entry WHERE time >= coalesce(?1, time) AND (?2 IS NULL OR time < ?2) \
             AND caller = coalesce(?3, caller) AND outcome = coalesce(?4, outcome) AND kind = coalesce(?5, kind) \
             ORDER BY seq {order} LIMIT ?6"
        );
        let mut statement = connection.prepare(&query).map_err(failed)?;
        let mut rows = statement.query((since, until, caller, outcome, kind, most)).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            take(record(row).map_err(failed)?)?;
        }
        Ok(())
    }
}

/// A row as an entry. One that was changed may hold anything: it is shown as text, and has another hash.
pub(super) fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let text = |index| {
        Ok::<_, rusqlite::Error>(match row.get_ref(index)? {
            ValueRef::Text(text) | ValueRef::Blob(text) => String::from_utf8_lossy(text).into_owned(),
            ValueRef::Null => String::new(),
            ValueRef::Integer(number) => number.to_string(),
            ValueRef::Real(number) => number.to_string(),
        })
    };
    Ok(Record {
        seq: row.get(0)?,
        time: Timestamp(row.get_ref(1)?.as_i64().unwrap_or_default()),
        id: text(2)?,
        kind: text(3)?,
        caller: text(4)?,
        outcome: text(5)?,
        details: text(6)?,
        hash: row.get_ref(7)?.as_bytes().unwrap_or_default().to_vec(),
    })
}
