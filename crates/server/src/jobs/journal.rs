//! Jobs on disk: a folder for each, with what was asked, how far it is known to be, and what the work keeps for itself.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use evals::jobs::Progress;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::keys::random_hex;

const PAGE: &str = "job.json";
const ORDER: &str = "order.json";
const WORK: &str = "work";

/// The folder in which each has one.
#[derive(Debug, Clone)]
pub(super) struct Journal(PathBuf);

/// What is kept of one.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Page {
    pub(super) id: String,
    pub(super) kind: String,
    /// In microseconds since 1970.
    pub(super) created: i64,
    /// Whose it is.
    pub(super) caller: String,
    pub(super) key: Option<String>,
    /// How often work on it was begun.
    pub(super) starts: u64,
    /// How often in a row the server went away over it.
    pub(super) crashes: u64,
    pub(super) progress: Progress,
    /// How it ended; nothing if it has not.
    pub(super) end: Option<PageEnd>,
}

/// How one ended.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PageEnd {
    Ended(Box<RawValue>),
    Failed(Box<RawValue>),
    Interrupted(Box<RawValue>),
    Cancelled,
}

impl Journal {
    pub(super) fn open(state: &Path) -> io::Result<Self> {
        let folder = state.join("jobs");
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        Ok(Self(folder))
    }

    /// Makes the folder of a new one. Without a page it is none yet.
    pub(super) fn begin(&self, id: &str, order: &[u8]) -> io::Result<()> {
        let folder = self.0.join(id);
        DirBuilder::new().mode(0o700).create(&folder)?;
        let made = DirBuilder::new().mode(0o700).create(folder.join(WORK));
        let written = made.and_then(|()| put(&folder.join(ORDER), order));
        if written.is_err() {
            self.remove(id);
        }
        written
    }

    /// Writes a page, whole or not at all. A folder that is gone is not made again.
    pub(super) fn write(&self, page: &Page) -> io::Result<()> {
        put(&self.0.join(&page.id).join(PAGE), &serde_json::to_vec(page)?)
    }

    pub(super) fn order(&self, id: &str) -> io::Result<Vec<u8>> {
        fs::read(self.0.join(id).join(ORDER))
    }

    /// Where the work keeps what it needs.
    pub(super) fn work(&self, id: &str) -> PathBuf {
        self.0.join(id).join(WORK)
    }

    pub(super) fn remove(&self, id: &str) {
        // What cannot be removed is found again after a restart, and does no harm.
        let _ = fs::remove_dir_all(self.0.join(id));
    }

    /// All pages, oldest first. A folder without one was never told to anybody, and goes.
    pub(super) fn read(&self) -> io::Result<Vec<Page>> {
        let mut pages: Vec<Page> = Vec::new();
        for entry in fs::read_dir(&self.0)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with("job_") {
                continue;
            }
            match fs::read(entry.path().join(PAGE)) {
                Ok(text) => pages.extend(serde_json::from_slice::<Page>(&text).ok().filter(|page| page.id == name)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.remove(&name),
                Err(_) => {}
            }
        }
        pages.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        Ok(pages)
    }
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let aside = path.with_file_name(format!(".{}", random_hex::<16>()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written =
        options.open(&aside).and_then(|mut file| file.write_all(bytes)).and_then(|()| fs::rename(&aside, path));
    if written.is_err() {
        let _ = fs::remove_file(&aside);
    }
    written
}
