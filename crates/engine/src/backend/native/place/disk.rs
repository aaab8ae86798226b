//! The disk of a session on this host: a folder below the state folder that lives as long as its session.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jail::{Disk, Extent, SHARED_FIRST, shifts_ids};
use rustix::fs::{FlockOperation, flock};

use crate::backend::{LayerId, Origin, Snapshotted};
use crate::error::BackendError;
use crate::layers::{Held, LayerName, LayerRecord, Store};
use crate::remove;

/// Where disks are, below the state folder.
const SESSIONS: &str = "sessions";
/// The bottom of every disk that begins with nothing: empty folders with the right owners.
const SKELETON: &str = "sessions/skeleton";
const LOCK: &str = "lock";

/// A disk and its folder, which goes when this does.
pub(super) struct SessionDisk {
    state: PathBuf,
    /// Below the state folder.
    folder: String,
    /// Layers that it stands on, topmost first. Nobody removes them meanwhile.
    layers: Vec<Held>,
    _lock: File,
}

impl SessionDisk {
    /// Makes the folder of a new disk. Disks whose server is gone are removed on the way.
    pub(super) fn make(state: &Path, session: &str, origin: &Origin) -> Result<Self, BackendError> {
        let layers = match origin {
            Origin::Nothing => Vec::new(),
            Origin::Image(name) => return Err(BackendError::NoLayer(name.clone())),
            Origin::Snapshot(layer) => hold(state, layer)?,
        };
        let failed = |source| BackendError::Step { step: "make the session's disk".to_owned(), source };
        let folder = format!("{SESSIONS}/{session}");
        make_skeleton(state).map_err(failed)?;
        sweep(state);
        let path = state.join(&folder);
        let make = || -> io::Result<File> {
            make_folder(&path, 0o700)?;
            let lock = File::create_new(path.join(LOCK))?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            make_owned(&path.join("files"), 0o755, 0)?;
            make_folder(&path.join("work"), 0o700)?;
            Ok(lock)
        };
        let lock = make().map_err(failed)?;
        Ok(Self { state: state.to_path_buf(), folder, layers, _lock: lock })
    }

    /// As the keeper mounts it.
    pub(super) fn wire(&self) -> Disk {
        let mut lower: Vec<String> = self.layers.iter().map(|held| format!("layers/{}/content", held.name)).collect();
        lower.push(SKELETON.to_owned());
        Disk {
            folder: self.state.to_string_lossy().into_owned(),
            lower,
            top: self.folder.clone(),
            extent: Extent::Folders,
        }
    }

    /// Bytes and entries of what was written since its origin.
    pub(super) fn grown(&self) -> (u64, u64) {
        let (mut bytes, mut entries) = (0, 0);
        let mut left = vec![self.state.join(&self.folder).join("files")];
        while let Some(path) = left.pop() {
            for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
                let Ok(meta) = entry.metadata() else { continue };
                entries += 1;
                // As much as it takes: files may have holes.
                bytes += meta.blocks() * 512;
                if meta.is_dir() {
                    left.push(entry.path());
                }
            }
        }
        (bytes, entries)
    }

    /// Makes what was written a layer. Nothing runs on it any more, and nothing can from now on.
    pub(super) fn seal(&self) -> Result<Snapshotted, BackendError> {
        let (bytes, entries) = self.grown();
        let step = || -> Result<LayerName, io::Error> {
            let draft = Store::open(&self.state).and_then(|store| store.draft()).map_err(io::Error::other)?;
            fs::remove_dir(draft.content_path())?;
            fs::rename(self.state.join(&self.folder).join("files"), draft.content_path())?;
            let name = LayerName::random("snap");
            let made = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
            let note = format!("snapshot of {}", self.folder);
            let record = LayerRecord { bytes, entries, made, note, ..LayerRecord::default() };
            draft.seal(&name, &record).map_err(io::Error::other)?;
            Ok(name)
        };
        let name =
            step().map_err(|source| BackendError::Step { step: "keep the session's disk".to_owned(), source })?;
        let mut layers = vec![name.to_string()];
        layers.extend(self.layers.iter().map(|held| held.name.to_string()));
        Ok(Snapshotted { layer: LayerId(layers.join(",")), layers, bytes })
    }

    /// Removes it; nothing uses it any more.
    pub(super) fn remove(&self) {
        // What stays is removed with the next session that is made.
        let _ = remove::folder(&self.state.join(&self.folder));
    }
}

/// Takes hold of every layer of a snapshot.
fn hold(state: &Path, layer: &LayerId) -> Result<Vec<Held>, BackendError> {
    let missing = || BackendError::NoLayer(layer.0.chars().take(100).collect());
    let store = Store::open(state).map_err(|_| missing())?;
    let hold = |name: &str| store.hold(&LayerName::try_from(name.to_owned()).ok()?).ok();
    layer.0.split(',').map(|name| hold(name).ok_or_else(missing)).collect()
}

/// Makes the bottom of disks that begin with nothing, unless it is there.
fn make_skeleton(state: &Path) -> io::Result<()> {
    let path = state.join(SKELETON);
    if path.is_dir() {
        return Ok(());
    }
    let sessions = state.join(SESSIONS);
    if !sessions.is_dir() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&sessions)?;
    }
    // Made aside, so that it is there whole or not at all.
    let aside = sessions.join(format!("new-{}", crate::id::random_hex()));
    make_owned(&aside, 0o755, 0)?;
    make_owned(&aside.join("work"), 0o755, 1000)?;
    make_owned(&aside.join("home"), 0o755, 0)?;
    make_owned(&aside.join("home/user"), 0o755, 1000)?;
    make_owned(&aside.join("tmp"), 0o1777, 0)?;
    match fs::rename(&aside, &path) {
        // Somebody else was as fast.
        Err(_) if path.is_dir() => remove::folder(&aside),
        other => other,
    }
}

/// Removes disks that nobody holds: their server is gone.
fn sweep(state: &Path) {
    for entry in fs::read_dir(state.join(SESSIONS)).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(lock) = File::open(path.join(LOCK)) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = remove::folder(&path);
        }
    }
}

fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    fs::DirBuilder::new().mode(mode).create(path)?;
    // Whatever our own mask is.
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// A folder of a guest user.
fn make_owned(path: &Path, mode: u32, guest: u32) -> io::Result<()> {
    make_folder(path, mode)?;
    if shifts_ids() {
        let host = Some(SHARED_FIRST + guest);
        chown(path, host, host)?;
        // Changing the owner may take bits away.
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}
