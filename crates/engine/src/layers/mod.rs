//! Layers: read-only trees of files below the state folder, of which disks of sandboxes are stacked.
//!
//! A layer is a folder `layers/NAME` with its files in `content` and a small record. It is made as a *draft* under another
//! name and moved into place when all of it is on disk, so that a name means a whole layer. Whoever uses one holds a
//! shared lock on it; one that nobody refers to and nobody holds is removed by [`Store::collect`].

mod copy;
mod draft;
mod error;
mod view;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use jail::remove;

pub(crate) use copy::copy;
pub(crate) use draft::Draft;
pub use error::LayerError;
pub(crate) use view::{Entry, Merged, View};

/// How the name of a draft begins; no layer is called so.
const DRAFT: &str = "new-";
/// How the name of what will be a draft begins.
const ASIDE: &str = "making-";
const RECORD: &str = "record.json";
const LOCK: &str = "lock";
/// Where the files of a layer are.
const CONTENT: &str = "content";

/// What a layer is called: `sha256-…` of what it was made from, or a name by chance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LayerName(String);

impl LayerName {
    /// A name that nothing else has.
    #[must_use]
    pub fn random(kind: &str) -> Self {
        Self(format!("{kind}-{}", crate::id::random_hex()))
    }

    /// The name of what has this SHA-256.
    #[must_use]
    pub fn of_digest(hex: &str) -> Self {
        Self(format!("sha256-{hex}"))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for LayerName {
    type Error = LayerError;

    fn try_from(name: String) -> Result<Self, LayerError> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let fits = !name.is_empty()
            && name.len() <= 100
            && name.chars().all(plain)
            && !name.starts_with(DRAFT)
            && !name.starts_with(ASIDE);
        if fits { Ok(Self(name)) } else { Err(LayerError::Name(name.chars().take(100).collect())) }
    }
}

impl From<LayerName> for String {
    fn from(name: LayerName) -> Self {
        name.0
    }
}

impl fmt::Display for LayerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is known of a layer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerRecord {
    /// Bytes of its regular files.
    pub bytes: u64,
    /// Files, folders and links.
    pub entries: u64,
    /// Seconds since 1970.
    pub made: u64,
    /// What it was made by, for people.
    pub note: String,
    /// Whether its bytes and entries are yet to be counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncounted: bool,
    /// Hash of what it was built from, if it can be found again by that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
}

/// A layer that cannot be removed as long as this lives, in whatever process.
#[derive(Debug)]
pub struct Held {
    /// Which.
    pub name: LayerName,
    /// Its files.
    pub content: PathBuf,
    _lock: File,
}

/// All layers of a state folder.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// Opens the store, and removes what was left half made by a process that is gone.
    pub fn open(state: &Path) -> Result<Self, LayerError> {
        let root = state.join("layers");
        let failed = |source| LayerError::Folder { source };
        if !root.is_dir() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&root).map_err(failed)?;
        }
        let store = Self { root };
        store.sweep()?;
        Ok(store)
    }

    /// Begins a layer.
    pub(crate) fn draft(&self) -> Result<Draft, LayerError> {
        Draft::make(&self.root)
    }

    /// What is known of a layer; `None` if there is none of this name.
    #[must_use]
    pub fn record(&self, name: &LayerName) -> Option<LayerRecord> {
        serde_json::from_slice(&fs::read(self.folder(name).join(RECORD)).ok()?).ok()
    }

    /// Writes down what was counted of a layer that somebody holds.
    pub(crate) fn count(&self, held: &Held, bytes: u64, entries: u64) -> Result<(), LayerError> {
        let failed = |source| LayerError::Write { source };
        let Some(record) = self.record(&held.name) else { return Ok(()) };
        let record = LayerRecord { bytes, entries, uncounted: false, ..record };
        let folder = self.folder(&held.name);
        // There is always a record, whole.
        let aside = folder.join(format!("{RECORD}-{}", crate::id::random_hex()));
        let text = serde_json::to_vec(&record).map_err(|error| failed(error.into()))?;
        fs::write(&aside, text).and_then(|()| fs::rename(&aside, folder.join(RECORD))).map_err(failed)
    }

    /// Keeps a layer from being removed.
    pub fn hold(&self, name: &LayerName) -> Result<Held, LayerError> {
        let folder = self.folder(name);
        let missing = |_| LayerError::Missing(name.clone());
        let lock = File::open(folder.join(LOCK)).map_err(missing)?;
        flock(&lock, FlockOperation::LockShared).map_err(|errno| LayerError::Folder { source: errno.into() })?;
        // It may have gone between the two.
        fs::metadata(folder.join(RECORD)).map_err(missing)?;
        Ok(Held { name: name.clone(), content: folder.join(CONTENT), _lock: lock })
    }

    /// Every layer with its record.
    pub fn list(&self) -> Result<Vec<(LayerName, LayerRecord)>, LayerError> {
        let mut layers = Vec::new();
        for name in self.names()? {
            let Ok(name) = LayerName::try_from(name) else { continue };
            if let Some(record) = self.record(&name) {
                layers.push((name, record));
            }
        }
        Ok(layers)
    }

    /// Removes every layer that is not in `wanted` and that nobody holds; which they were.
    pub fn collect(&self, wanted: &BTreeSet<LayerName>) -> Result<Vec<(LayerName, LayerRecord)>, LayerError> {
        self.collect_of("", wanted)
    }

    /// The same among those whose name begins so.
    pub(crate) fn collect_of(
        &self,
        kind: &str,
        wanted: &BTreeSet<LayerName>,
    ) -> Result<Vec<(LayerName, LayerRecord)>, LayerError> {
        let mut removed = Vec::new();
        for (name, record) in self.list()? {
            if name.as_str().starts_with(kind) && !wanted.contains(&name) && self.remove(&name)? {
                removed.push((name, record));
            }
        }
        Ok(removed)
    }

    /// Removes a layer unless somebody holds it; whether it did.
    fn remove(&self, name: &LayerName) -> Result<bool, LayerError> {
        let failed = |source| LayerError::Remove { name: name.clone(), source };
        let folder = self.folder(name);
        let Ok(lock) = File::open(folder.join(LOCK)) else { return Ok(false) };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(false);
        }
        // First out of sight: a layer is whole or not there.
        let gone = self.root.join(format!("{DRAFT}{}", crate::id::random_hex()));
        match fs::rename(&folder, &gone) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error)),
        }
        remove::folder(&gone).map_err(failed)?;
        Ok(true)
    }

    /// Removes drafts whose maker is gone.
    fn sweep(&self) -> Result<(), LayerError> {
        for name in self.names()?.into_iter().filter(|name| name.starts_with(DRAFT) || name.starts_with(ASIDE)) {
            let folder = self.root.join(&name);
            if name.starts_with(ASIDE) && !is_old(&folder) {
                continue;
            }
            let free = match File::open(folder.join(LOCK)) {
                Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).map(|()| Some(lock)),
                // Without a lock it is seconds old, or its removal was cut short.
                Err(_) => Ok(None),
            };
            match free {
                Ok(lock) if lock.is_some() || is_old(&folder) => {
                    // Somebody else may be at it as well.
                    let _ = remove::folder(&folder);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>, LayerError> {
        let entries = fs::read_dir(&self.root).map_err(|source| LayerError::Folder { source })?;
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    fn folder(&self, name: &LayerName) -> PathBuf {
        self.root.join(name.as_str())
    }
}

/// Whether nothing was made or removed in a folder for some seconds.
pub(crate) fn is_old(folder: &Path) -> bool {
    let changed = fs::metadata(folder).and_then(|meta| meta.modified());
    changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age.as_secs() > 5))
}
