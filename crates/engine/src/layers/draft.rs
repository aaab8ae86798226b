//! A layer that is being made.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open, syncfs};

use super::{ASIDE, CONTENT, DRAFT, Held, LOCK, LayerError, LayerName, LayerRecord, RECORD, Store};
use jail::remove;

/// A layer that is being made. Dropped unsealed, it is removed; so it is when its maker dies, by the next who opens the
/// store.
#[derive(Debug)]
pub(crate) struct Draft {
    root: PathBuf,
    folder: PathBuf,
    lock: Option<File>,
}

impl Draft {
    pub(super) fn make(root: &Path) -> Result<Self, LayerError> {
        let failed = |source: io::Error| LayerError::Write { source };
        let name = crate::id::random_hex();
        let (aside, folder) = (root.join(format!("{ASIDE}{name}")), root.join(format!("{DRAFT}{name}")));
        fs::DirBuilder::new().mode(0o700).create(&aside).map_err(failed)?;
        let lock = File::create_new(aside.join(LOCK)).map_err(failed)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|errno| failed(errno.into()))?;
        // Only what is locked is called a draft: somebody may be removing those that nobody holds.
        fs::rename(&aside, &folder).map_err(failed)?;
        let draft = Self { root: root.to_path_buf(), folder, lock: Some(lock) };
        fs::DirBuilder::new().mode(0o755).create(draft.content_path()).map_err(failed)?;
        Ok(draft)
    }

    /// Where its files go.
    pub(crate) fn content(&self) -> Result<OwnedFd, LayerError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        open(self.content_path(), flags, Mode::empty()).map_err(|errno| LayerError::Write { source: errno.into() })
    }

    /// The path of the same.
    pub(crate) fn content_path(&self) -> PathBuf {
        self.folder.join(CONTENT)
    }

    /// A file beside the content that goes with the draft.
    pub(crate) fn scratch(&self, name: &str) -> Result<File, LayerError> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create_new(true);
        options.open(self.folder.join(name)).map_err(|source| LayerError::Write { source })
    }

    /// Makes it a layer. Where one of this name is there already, that one is kept.
    pub(crate) fn seal(mut self, name: &LayerName, record: &LayerRecord) -> Result<Held, LayerError> {
        let failed = |source: io::Error| LayerError::Write { source };
        // Everything is on disk before the record says so.
        syncfs(self.content()?).map_err(|errno| failed(errno.into()))?;
        self.write(record)?.sync_all().map_err(failed)?;
        let held = self.place(name)?;
        File::open(&self.root).and_then(|folder| folder.sync_all()).map_err(failed)?;
        Ok(held)
    }

    /// Makes a folder that is there already, and to which nothing writes any more, a layer with the record that was
    /// written. Nothing is waited for: a process that dies loses none of it, a machine that does may.
    pub(crate) fn adopt(mut self, files: &Path, name: &LayerName) -> Result<Held, LayerError> {
        let failed = |source: io::Error| LayerError::Write { source };
        // A folder may be put in the place of an empty one.
        fs::rename(files, self.content_path()).map_err(failed)?;
        self.place(name)
    }

    /// Makes what is in it a layer with the record that was written, and waits for nothing either.
    pub(crate) fn put(mut self, name: &LayerName) -> Result<Held, LayerError> {
        self.place(name)
    }

    /// Writes its record.
    pub(crate) fn write(&self, record: &LayerRecord) -> Result<File, LayerError> {
        let failed = |source: io::Error| LayerError::Write { source };
        let text = serde_json::to_vec(record).map_err(|error| failed(error.into()))?;
        let mut file = File::create_new(self.folder.join(RECORD)).map_err(failed)?;
        file.write_all(&text).map_err(failed)?;
        Ok(file)
    }

    fn place(&mut self, name: &LayerName) -> Result<Held, LayerError> {
        let failed = |source: io::Error| LayerError::Write { source };
        let into = self.root.join(name.as_str());
        match fs::rename(&self.folder, &into) {
            Ok(()) => {
                let lock = self.lock.take().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
                flock(&lock, FlockOperation::LockShared).map_err(|errno| failed(errno.into()))?;
                Ok(Held { name: name.clone(), content: into.join(CONTENT), _lock: lock })
            }
            // A folder that is not empty is in its place: the same layer, made before.
            Err(error) if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists) => {
                Store { root: self.root.clone() }.hold(name)
            }
            Err(error) => Err(failed(error)),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.lock.is_some() {
            let _ = remove::folder(&self.folder);
        }
    }
}
