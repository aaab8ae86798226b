//! What changed between two states of a disk: snapshots, or a session as it is now.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use rustix::fs::FileType;
use serde::Serialize;
use types::BackendKind;

use super::elsewhere::Listing;
use super::error::SessionError;
use super::snapshots::Snapshot;
use crate::backend::{DiskArchive, FileKind, LayerId};
use crate::engine::{Caller, Engine};
use crate::error::{BackendError, RunError};
use crate::layers::{Entry, Held, LayerName, Merged, Store, View};

/// Changes that one answer tells of.
pub(super) const MOST: usize = 50_000;
/// Folders within folders.
const DEEPEST: usize = 500;

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Differences {
    /// In the order of their paths, a folder before what is in it.
    pub entries: Vec<Difference>,
    /// Whether there are more than are told.
    pub truncated: bool,
}

/// One path that is not the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// As it is seen inside.
    pub path: String,
    /// What happened to it.
    pub change: Change,
    /// What it is, or was if it is removed.
    pub kind: FileKind,
    /// Bytes of a file.
    pub bytes: u64,
}

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It was not there.
    Added,
    /// Its content, kind, mode or owner is another.
    Changed,
    /// It is not there any more.
    Removed,
}

/// The layers of one state, topmost first, and what keeps them from being removed.
pub(super) struct Stack {
    pub(super) folders: Vec<PathBuf>,
    _held: Vec<Held>,
}

/// The files of one state.
enum Disk {
    Layers(Stack),
    Elsewhere(Listing),
}

impl Engine {
    /// What changed from one snapshot or session to another, each by its id, a snapshot also by its name.
    pub async fn diff(&self, caller: &Caller, from: &str, to: &str) -> Result<Differences, SessionError> {
        let _pass = self.admit(caller, "diff").await?;
        match (self.disk(caller, from).await?, self.disk(caller, to).await?) {
            (Disk::Layers(from), Disk::Layers(to)) => away(move || compare(&from, &to)).await,
            (Disk::Elsewhere(from), Disk::Elsewhere(to)) => away(move || Ok(from.compare(&to))).await,
            (Disk::Layers(_), Disk::Elsewhere(_)) | (Disk::Elsewhere(_), Disk::Layers(_)) => {
                Err(RunError::Request("disks of two backends cannot be compared").into())
            }
        }
    }

    async fn disk(&self, caller: &Caller, name: &str) -> Result<Disk, SessionError> {
        if let Ok(session) = self.session(caller, name) {
            let place = session.place()?;
            if let Some(folders) = place.folders() {
                return Ok(Disk::Layers(Stack { folders, _held: Vec::new() }));
            }
            let archive = place.archive().await?;
            return Ok(Disk::Elsewhere(away(move || Listing::read(archive)).await?));
        }
        let snapshot = self.snapshot(caller, name)?;
        if snapshot.backend == BackendKind::Native {
            return Ok(Disk::Layers(self.stack_of(&snapshot, &snapshot.layers)?));
        }
        let archive = self.archive_of(&snapshot).await?;
        Ok(Disk::Elsewhere(away(move || Listing::read(archive)).await?))
    }

    /// The disk of a snapshot that another backend keeps.
    pub(super) async fn archive_of(&self, snapshot: &Snapshot) -> Result<DiskArchive, SessionError> {
        let backend = &self.stations.get(snapshot.backend, &self.settings)?.backend;
        Ok(backend.archive(&LayerId(snapshot.state.clone())).await?)
    }

    /// Takes hold of layers of a snapshot.
    pub(super) fn stack_of(&self, snapshot: &Snapshot, layers: &[String]) -> Result<Stack, SessionError> {
        let gone = || SessionError::NoSnapshot(snapshot.id.clone());
        let store = Store::open(&self.settings.state).map_err(|_| gone())?;
        let hold = |layer: &String| store.hold(&LayerName::try_from(layer.clone()).ok()?).ok();
        let held = layers.iter().map(hold).collect::<Option<Vec<Held>>>().ok_or_else(gone)?;
        Ok(Stack { folders: held.iter().map(|held| held.content.clone()).collect(), _held: held })
    }
}

/// Looks at files where nobody waits for it.
async fn away<T: Send + 'static>(look: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, SessionError> {
    let seen = tokio::task::spawn_blocking(look).await;
    let failed = |source| BackendError::Step { step: "compare the files".to_owned(), source };
    Ok(seen.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(failed)?)
}

fn compare(from: &Stack, to: &Stack) -> io::Result<Differences> {
    let shared = from.folders.iter().rev().zip(to.folders.iter().rev()).take_while(|(a, b)| a == b).count();
    let depths = (from.folders.len() - shared, to.folders.len() - shared);
    let mut comparison = Comparison { depths, found: Vec::new(), truncated: false };
    let (before, after) = (View::new(from.folders.clone()).root()?, View::new(to.folders.clone()).root()?);
    comparison.folder("", &before, &after, false, 0)?;
    comparison.found.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
    Ok(Differences { entries: comparison.found, truncated: comparison.truncated })
}

struct Comparison {
    /// How many layers each side has that the other has not.
    depths: (usize, usize),
    found: Vec<Difference>,
    truncated: bool,
}

impl Comparison {
    /// Compares two folders of the same path. Only what layers of one side speak of can differ, unless one hides the rest.
    fn folder(&mut self, path: &str, before: &Merged, after: &Merged, all: bool, deep: usize) -> io::Result<()> {
        if deep > DEEPEST {
            self.truncated = true;
            return Ok(());
        }
        let all = all || before.hides_below(self.depths.0) || after.hides_below(self.depths.1);
        let (first, second) = if all { (usize::MAX, usize::MAX) } else { self.depths };
        let mut names = before.names(first)?;
        names.extend(after.names(second)?);
        for name in names {
            if self.truncated {
                return Ok(());
            }
            let path = format!("{path}/{}", name.to_string_lossy());
            let (old, new) = (before.get(&name)?, after.get(&name)?);
            let is_folder = |entry: &Option<Entry<'_>>| entry.as_ref().is_some_and(|e| e.kind() == FileType::Directory);
            match (&old, &new) {
                (None, None) => continue,
                (Some(old), None) => self.tell(&path, Change::Removed, old),
                (None, Some(new)) => self.tell(&path, Change::Added, new),
                (Some(old), Some(new)) if !are_alike(old, new)? => self.tell(&path, Change::Changed, new),
                (Some(_), Some(_)) => {}
            }
            match (is_folder(&old), is_folder(&new)) {
                (true, true) => self.folder(&path, &before.below(&name)?, &after.below(&name)?, all, deep + 1)?,
                (true, false) => self.whole(&path, before, &name, Change::Removed, deep)?,
                (false, true) => self.whole(&path, after, &name, Change::Added, deep)?,
                (false, false) => {}
            }
        }
        Ok(())
    }

    /// Everything in a folder that the other side has not.
    fn whole(&mut self, path: &str, above: &Merged, name: &CStr, change: Change, deep: usize) -> io::Result<()> {
        if deep > DEEPEST {
            self.truncated = true;
            return Ok(());
        }
        let folder = above.below(name)?;
        for name in folder.names(usize::MAX)? {
            let Some(entry) = folder.get(&name)? else { continue };
            let path = format!("{path}/{}", name.to_string_lossy());
            self.tell(&path, change, &entry);
            if self.truncated {
                return Ok(());
            }
            if entry.kind() == FileType::Directory {
                self.whole(&path, &folder, &name, change, deep + 1)?;
            }
        }
        Ok(())
    }

    fn tell(&mut self, path: &str, change: Change, entry: &Entry<'_>) {
        if self.found.len() >= MOST {
            self.truncated = true;
            return;
        }
        let kind = match entry.kind() {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Folder,
            FileType::Symlink => FileKind::Link,
            _ => FileKind::Other,
        };
        let bytes = if kind == FileKind::File { u64::try_from(entry.stat.st_size).unwrap_or(0) } else { 0 };
        self.found.push(Difference { path: path.to_owned(), change, kind, bytes });
    }
}

/// Whether two entries cannot be told apart but by their times.
fn are_alike(old: &Entry<'_>, new: &Entry<'_>) -> io::Result<bool> {
    if old.is_same(new) {
        return Ok(true);
    }
    let facts = |entry: &Entry<'_>| (entry.stat.st_mode, entry.stat.st_uid, entry.stat.st_gid);
    if facts(old) != facts(new) {
        return Ok(false);
    }
    match old.kind() {
        FileType::RegularFile => Ok(old.stat.st_size == new.stat.st_size && have_same_bytes(old.open()?, new.open()?)?),
        FileType::Symlink => Ok(old.target()? == new.target()?),
        _ => Ok(true),
    }
}

fn have_same_bytes(mut one: File, mut other: File) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let n = one.read(&mut left)?;
        if n == 0 {
            return Ok(other.read(&mut right[..1])? == 0);
        }
        match other.read_exact(&mut right[..n]) {
            Ok(()) if left[..n] == right[..n] => {}
            Ok(()) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}
