//! A run's history: every proposal and every evaluation in a database, as it happens.
//!
//! Two tables are the history, and hold nothing that another run of the same task with the same answers would not: no
//! time, no place, no name of the run. Whatever else there is to know is in others.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::usage::Totals;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use super::error::EvolveError;
use super::generator::Ask;
use super::member::{Evaluation, Member, Proposal};
use super::task::{Spec, sha256};

/// The database in a run's folder.
pub(crate) const FILE: &str = "evolve.db";
const LOCK: &str = "evolve.lock";

const SCHEMA: &str = "
CREATE TABLE run (
    id TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    about TEXT NOT NULL
) STRICT;
CREATE TABLE proposals (
    iteration INTEGER PRIMARY KEY,
    island INTEGER NOT NULL,
    parent INTEGER,
    others TEXT NOT NULL,
    asked TEXT NOT NULL,
    answer TEXT NOT NULL,
    by TEXT NOT NULL,
    code TEXT,
    shape TEXT NOT NULL,
    error TEXT,
    calls INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    unpriced_calls INTEGER NOT NULL,
    known_cost_usd REAL NOT NULL
) STRICT;
CREATE TABLE evaluations (
    iteration INTEGER PRIMARY KEY,
    score REAL NOT NULL,
    told TEXT NOT NULL
) STRICT;
CREATE TABLE times (
    iteration INTEGER NOT NULL,
    what TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    wall_ms REAL NOT NULL,
    PRIMARY KEY (iteration, what)
) STRICT;
CREATE TABLE spells (
    id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    wall_ms REAL NOT NULL
) STRICT;
CREATE TABLE ends (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    stop_reason TEXT NOT NULL,
    final TEXT
) STRICT;
";

/// What a run's folder is opened for.
#[derive(Debug, Clone, Copy)]
pub enum Use<'a> {
    /// To look at.
    Read,
    /// To go on, or to begin.
    Write(&'a Spec),
}

/// What a run is about, for whoever has only its folder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// The run's name.
    #[serde(skip)]
    pub id: String,
    /// What is wanted, in words.
    pub prompt: String,
    /// As the judge names it.
    pub language: String,
    /// What a file of it ends with.
    pub suffix: String,
    /// The file of a tree that is run; nothing where programs are one file.
    #[serde(default)]
    pub main: Option<String>,
    /// By name.
    pub strategy: String,
    /// By name.
    pub generator: String,
    /// The one source of chance.
    pub seed: u64,
    /// The score that ends it.
    pub target: Option<f64>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// The limit that was reached, by its name.
    pub stop_reason: String,
    /// The best program, judged once more.
    pub last_word: Option<Evaluation>,
}

/// A run's history.
pub struct Store {
    connection: Mutex<Connection>,
    folder: PathBuf,
    about: About,
    /// Held as long as somebody writes.
    _lock: Option<File>,
    spell: i64,
    before: Duration,
}

impl Store {
    /// Opens the history in a folder. For writing it is made if need be, and must be of the same task.
    pub fn open(folder: &Path, what: Use<'_>) -> Result<Self, EvolveError> {
        match what {
            Use::Read => Self::read(folder),
            Use::Write(spec) => Self::write(folder, spec),
        }
    }

    fn read(folder: &Path) -> Result<Self, EvolveError> {
        let path = folder.join(FILE);
        if !path.is_file() {
            return Err(EvolveError::NoRun(folder.display().to_string()));
        }
        let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        let about = about(&connection)?.ok_or_else(|| EvolveError::NoRun(folder.display().to_string()))?.1;
        Ok(Self::new(connection, folder, about, None))
    }

    fn write(folder: &Path, spec: &Spec) -> Result<Self, EvolveError> {
        let failed = |source| EvolveError::Write { path: folder.to_path_buf(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        let lock = File::create(folder.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(EvolveError::Busy),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let connection = engine::open_database(&folder.join(FILE), SCHEMA)?;
        let own = About {
            id: engine::new_id("evolve"),
            prompt: spec.prompt.clone(),
            language: spec.language.clone(),
            suffix: spec.suffix().to_owned(),
            main: spec.main.clone(),
            strategy: name_of(&spec.strategy),
            generator: name_of(&spec.generator.kind),
            seed: spec.seed,
            target: spec.target,
        };
        let about = match about(&connection)? {
            Some((fingerprint, _)) if fingerprint != spec.fingerprint => {
                return Err(EvolveError::OtherTask(folder.to_path_buf()));
            }
            Some((_, about)) => {
                let own = About { id: about.id.clone(), ..own };
                connection.execute("UPDATE run SET about = ?1", [json(&own)])?;
                own
            }
            None => {
                let row = params![own.id, spec.fingerprint, json(&own)];
                connection.execute("INSERT INTO run (id, fingerprint, about) VALUES (?1, ?2, ?3)", row)?;
                own
            }
        };
        let mut store = Self::new(connection, folder, about, Some(lock));
        store.begin()?;
        Ok(store)
    }

    fn new(connection: Connection, folder: &Path, about: About, lock: Option<File>) -> Self {
        let (connection, folder) = (Mutex::new(connection), folder.to_path_buf());
        Self { connection, folder, about, _lock: lock, spell: 0, before: Duration::ZERO }
    }

    /// From now on time counts, on top of what was spent before.
    fn begin(&mut self) -> Result<(), EvolveError> {
        let connection = self.connection.get_mut().unwrap_or_else(PoisonError::into_inner);
        let before: f64 =
            connection.query_row("SELECT coalesce(sum(wall_ms), 0.0) FROM spells", [], |row| row.get(0))?;
        connection.execute("INSERT INTO spells (at_ms, wall_ms) VALUES (?1, 0.0)", [now()])?;
        connection.execute("DELETE FROM ends", [])?;
        self.spell = connection.last_insert_rowid();
        self.before = Duration::try_from_secs_f64(before / 1000.0).unwrap_or_default();
        Ok(())
    }

    /// What the run is about.
    #[must_use]
    pub const fn about(&self) -> &About {
        &self.about
    }

    /// Where it is kept.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Time that earlier processes have spent on it.
    pub(crate) const fn before(&self) -> Duration {
        self.before
    }

    /// Time that has been spent on it.
    pub fn wall_ms(&self) -> Result<f64, EvolveError> {
        self.with(|c| c.query_row("SELECT coalesce(sum(wall_ms), 0.0) FROM spells", [], |row| row.get(0)))
    }

    pub(crate) fn spent(&self, wall: Duration) -> Result<(), EvolveError> {
        let row = params![wall.as_secs_f64() * 1000.0, self.spell];
        self.with(|c| c.execute("UPDATE spells SET wall_ms = ?1 WHERE id = ?2", row)).map(drop)
    }

    pub(crate) fn put_proposal(&self, proposal: &Proposal, wall: Duration) -> Result<(), EvolveError> {
        let Proposal { iteration, island, parent, others, asked, answer, by, code, shape, error, usage } = proposal;
        let row = params![
            signed(*iteration),
            signed(*island as u64),
            parent.map(signed),
            json(others),
            asked,
            answer,
            by,
            code,
            shape,
            error,
            signed(usage.calls),
            signed(usage.failed),
            signed(usage.prompt_tokens),
            signed(usage.cached_tokens),
            signed(usage.completion_tokens),
            signed(usage.unpriced_calls),
            usage.known_cost_usd,
        ];
        self.with(|c| {
            c.prepare_cached(
                "INSERT INTO proposals VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
            )?
            .execute(row)?;
            put_time(c, *iteration, "proposed", wall)
        })
    }

    pub(crate) fn put_evaluation(&self, iteration: u64, told: &Evaluation, wall: Duration) -> Result<(), EvolveError> {
        let row = params![signed(iteration), told.score, json(told)];
        self.with(|c| {
            c.prepare_cached("INSERT INTO evaluations VALUES (?1, ?2, ?3)")?.execute(row)?;
            put_time(c, iteration, "evaluated", wall)
        })
    }

    pub(crate) fn put_end(&self, end: &End) -> Result<(), EvolveError> {
        let row = params![end.stop_reason, end.last_word.as_ref().map(json)];
        self.with(|c| c.execute("INSERT OR REPLACE INTO ends VALUES (1, ?1, ?2)", row)).map(drop)
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Result<Option<End>, EvolveError> {
        self.with(|c| {
            c.query_row("SELECT stop_reason, final FROM ends", [], |row| {
                let told: Option<String> = row.get(1)?;
                let last_word = told.and_then(|told| serde_json::from_str(&told).ok());
                Ok(End { stop_reason: row.get(0)?, last_word })
            })
            .optional()
        })
    }

    /// One proposal.
    pub(crate) fn proposal(&self, iteration: u64) -> Result<Option<Proposal>, EvolveError> {
        let select = format!("SELECT {PROPOSAL} FROM proposals p WHERE iteration = ?1");
        self.with(|c| c.query_row(&select, [signed(iteration)], proposal).optional())
    }

    /// Everything that happened, in order.
    pub fn members(&self) -> Result<Vec<Member>, EvolveError> {
        let select = format!(
            "SELECT {PROPOSAL}, e.told FROM proposals p LEFT JOIN evaluations e USING (iteration) ORDER BY iteration"
        );
        self.with(|c| {
            let mut select = c.prepare(&select)?;
            let rows = select.query_map([], |row| {
                let told: Option<String> = row.get(17)?;
                let evaluation = told.and_then(|told| serde_json::from_str(&told).ok());
                Ok(Member { proposal: proposal(row)?, evaluation })
            })?;
            rows.collect()
        })
    }

    /// How long each proposal and each evaluation took, in milliseconds.
    pub fn times(&self) -> Result<Vec<(u64, String, f64)>, EvolveError> {
        self.with(|c| {
            let mut select = c.prepare("SELECT iteration, what, wall_ms FROM times ORDER BY iteration, what DESC")?;
            let rows = select.query_map([], |row| Ok((count(row, 0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect()
        })
    }

    fn with<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, EvolveError> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(work(&connection)?)
    }
}

const PROPOSAL: &str = "p.iteration, p.island, p.parent, p.others, p.asked, p.answer, p.by, p.code, p.shape, p.error, \
    p.calls, p.failed, p.prompt_tokens, p.cached_tokens, p.completion_tokens, p.unpriced_calls, p.known_cost_usd";

fn proposal(row: &Row<'_>) -> rusqlite::Result<Proposal> {
    let others: String = row.get(3)?;
    Ok(Proposal {
        iteration: count(row, 0)?,
        island: usize::try_from(count(row, 1)?).unwrap_or_default(),
        parent: row.get::<_, Option<i64>>(2)?.map(i64::unsigned_abs),
        others: serde_json::from_str(&others).unwrap_or_default(),
        asked: row.get(4)?,
        answer: row.get(5)?,
        by: row.get(6)?,
        code: row.get(7)?,
        shape: row.get(8)?,
        error: row.get(9)?,
        usage: Totals {
            calls: count(row, 10)?,
            failed: count(row, 11)?,
            prompt_tokens: count(row, 12)?,
            cached_tokens: count(row, 13)?,
            completion_tokens: count(row, 14)?,
            unpriced_calls: count(row, 15)?,
            known_cost_usd: row.get(16)?,
            wall_ms: 0.0,
        },
    })
}

fn put_time(connection: &Connection, iteration: u64, what: &str, wall: Duration) -> rusqlite::Result<()> {
    let row = params![signed(iteration), what, now(), wall.as_secs_f64() * 1000.0];
    connection.prepare_cached("INSERT OR REPLACE INTO times VALUES (?1, ?2, ?3, ?4)")?.execute(row).map(drop)
}

fn about(connection: &Connection) -> Result<Option<(String, About)>, EvolveError> {
    let row = connection
        .query_row("SELECT id, fingerprint, about FROM run", [], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
        })
        .optional()?;
    Ok(row.map(|(id, fingerprint, about)| {
        (fingerprint, About { id, ..serde_json::from_str(&about).unwrap_or_default() })
    }))
}

/// A hash of a question; what is wrong with an answer is no part of it.
pub(crate) fn asked(ask: &Ask) -> String {
    let said: Vec<&str> = ask.messages.iter().take(2).map(|message| message.text.as_str()).collect();
    let parents: Vec<u64> = ask.parent.iter().chain(&ask.others).map(|known| known.iteration).collect();
    sha256(&format!("{}\n{parents:?}\n{}", ask.iteration, said.join("\n")))
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The name of an enum's variant, as it is written.
fn name_of(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(serde_json::Value::Object(map)) => map.keys().next().cloned().unwrap_or_default(),
        _ => String::new(),
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::unsigned_abs)
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
