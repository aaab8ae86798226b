//! Runs in the background, on disk: whoever was told that his run goes on finds it again, also after a restart.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use engine::{Caller, Standing};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::keys::random_hex;

/// The folder in which each has a file.
#[derive(Debug, Clone)]
pub(super) struct Journal(PathBuf);

/// What is kept of one.
#[derive(Serialize, Deserialize)]
pub(super) struct Page {
    pub(super) id: String,
    /// In microseconds since 1970.
    pub(super) created: i64,
    /// Whose it is.
    pub(super) caller: String,
    pub(super) key: Option<String>,
    /// How it ended; nothing if it has not, or nobody was left to write that down.
    pub(super) end: Option<PageEnd>,
}

/// How one ended.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PageEnd {
    Ended(Box<RawValue>),
    Failed(Box<RawValue>),
}

impl Page {
    pub(super) fn owner(&self) -> Caller {
        let standing = match &self.key {
            Some(id) => Standing::Key { id: id.clone(), allowance: None },
            None => Standing::FirstKey,
        };
        Caller { name: self.caller.clone(), standing, ..Caller::default() }
    }
}

impl Journal {
    pub(super) fn open(state: &Path) -> io::Result<Self> {
        let folder = state.join("background");
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        Ok(Self(folder))
    }

    /// Writes a page, whole or not at all.
    pub(super) fn write(&self, page: &Page) -> io::Result<()> {
        let aside = self.0.join(format!(".{}", random_hex::<16>()));
        let json = serde_json::to_vec(page)?;
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&aside)
            .and_then(|mut file| file.write_all(&json))
            .and_then(|()| fs::rename(&aside, self.path(&page.id)));
        if written.is_err() {
            let _ = fs::remove_file(&aside);
        }
        written
    }

    pub(super) fn remove(&self, id: &str) {
        // One that cannot be removed is found again after a restart, and does no harm.
        let _ = fs::remove_file(self.path(id));
    }

    /// All pages, oldest first. What is no page is left alone.
    pub(super) fn read(&self) -> io::Result<Vec<Page>> {
        let mut pages: Vec<Page> = Vec::new();
        for entry in fs::read_dir(&self.0)?.flatten() {
            let is_page = entry.file_name().to_string_lossy().starts_with("run_");
            let page =
                fs::read(entry.path()).ok().filter(|_| is_page).and_then(|text| serde_json::from_slice(&text).ok());
            pages.extend(page);
        }
        pages.sort_by(|a: &Page, b: &Page| (a.created, &a.id).cmp(&(b.created, &b.id)));
        Ok(pages)
    }

    fn path(&self, id: &str) -> PathBuf {
        self.0.join(format!("{id}.json"))
    }
}
