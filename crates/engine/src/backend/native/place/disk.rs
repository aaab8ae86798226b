//! The disk of a session on this host: a folder below the state folder that lives as long as its session.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use jail::measure::Sum;
use jail::{Disk, Extent, SHARED_FIRST, shifts_ids};
use rustix::fs::{FlockOperation, flock};

use super::users;
use crate::backend::{LayerId, Origin, PlaceSpec, Snapshotted};
use crate::error::BackendError;
use crate::image::{Base, HeldImage, Images};
use crate::layers::{self, Draft, Held, LayerError, LayerName, LayerRecord, Store, is_old};
use jail::remove;

/// Where disks are, below the state folder.
const SESSIONS: &str = "sessions";
/// The bottom of every disk that begins with nothing: empty folders with the right owners.
const SKELETON: &str = "sessions/skeleton";
/// The same for one whose root is an image.
const ROOT_SKELETON: &str = "sessions/skeleton-root-2";
const LOCK: &str = "lock";
/// How the name of a folder begins that is not whole yet.
const ASIDE: &str = "new-";
/// How the names of layers begin that are snapshots.
const KEPT: &str = "snap";
/// What is written on a disk, in its folder.
const FILES: &str = "files";
/// Layers that a disk stands on at most; the kernel takes 500.
const MOST_LAYERS: usize = 450;
/// Files of a snapshot that are counted while somebody waits for it.
const MOST_COUNTED: u64 = 1000;

/// Folders of every disk, with their modes and guest users.
const FOLDERS: &[(&str, u32, u32)] =
    &[("work", 0o755, 1000), ("home", 0o755, 0), ("home/user", 0o755, 1000), ("tmp", 0o1777, 0)];
/// Those of a whole root on top, among them all over which something is mounted.
const ROOT_FOLDERS: &[(&str, u32, u32)] = &[
    ("work", 0o755, 1000),
    ("home", 0o755, 0),
    ("home/user", 0o755, 1000),
    ("tmp", 0o1777, 0),
    ("root", 0o700, 0),
    ("dev", 0o755, 0),
    ("proc", 0o755, 0),
    ("sys", 0o755, 0),
    ("opt", 0o755, 0),
    ("opt/saggar", 0o755, 0),
    ("usr", 0o755, 0),
    ("usr/local", 0o755, 0),
    ("usr/local/bin", 0o755, 0),
];
/// Where shells that set their own `PATH` find `sudo` in a whole root, and where it is.
const SUDO: (&str, &str) = ("usr/local/bin/sudo", "/opt/saggar/bin/sudo");

/// A disk and its folder, which is to be removed when nothing uses it any more.
pub(super) struct SessionDisk {
    state: PathBuf,
    session: String,
    /// Below the state folder.
    folder: String,
    /// Layers that it stands on, topmost first. Nobody removes them meanwhile.
    layers: Vec<Arc<Held>>,
    /// An image that is its whole root, below those.
    image: Option<Arc<HeldImage>>,
    _lock: File,
}

impl SessionDisk {
    /// Makes the folder of a new disk. Disks whose server is gone are removed on the way.
    pub(super) fn make(spec: &PlaceSpec) -> Result<Self, BackendError> {
        let state = spec.state.as_path();
        let layers = match &spec.origin {
            Origin::Nothing => Vec::new(),
            Origin::Snapshot(layer) => hold(state, layer)?,
        };
        let image = spec.image.clone().filter(|held| held.image.base == Base::Own);
        make_skeleton(state, SKELETON, FOLDERS).map_err(not_made)?;
        if image.is_some() {
            make_skeleton(state, ROOT_SKELETON, ROOT_FOLDERS).map_err(not_made)?;
        }
        sweep(state);
        let users = image.as_ref().filter(|_| spec.origin == Origin::Nothing);
        let disk = Self::on(state, (&spec.id, &spec.id), layers, image.clone())?;
        if let Some(image) = users {
            add_users(&disk.files(), image).map_err(not_made)?;
        }
        Ok(disk)
    }

    /// Makes the folder itself, called `name`.
    fn on(
        state: &Path,
        (session, name): (&str, &str),
        layers: Vec<Arc<Held>>,
        image: Option<Arc<HeldImage>>,
    ) -> Result<Self, BackendError> {
        let folder = format!("{SESSIONS}/{name}");
        // It gets its name when it is locked, so that nobody takes it for that of a server that is gone.
        let aside = state.join(SESSIONS).join(format!("{ASIDE}{}", crate::id::random_hex()));
        let make = || -> io::Result<File> {
            make_folder(&aside, 0o700)?;
            let lock = File::create_new(aside.join(LOCK))?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            make_owned(&aside.join(FILES), 0o755, 0)?;
            make_folder(&aside.join("work"), 0o700)?;
            fs::rename(&aside, state.join(&folder))?;
            Ok(lock)
        };
        let lock = make().map_err(not_made)?;
        Ok(Self { state: state.to_path_buf(), session: session.to_owned(), folder, layers, image, _lock: lock })
    }

    /// As the keeper mounts it.
    pub(super) fn wire(&self) -> Disk {
        let mut lower: Vec<String> = self.layers.iter().map(|held| format!("layers/{}/content", held.name)).collect();
        // Above the image, so that what is mounted over is a folder, whatever an image has there.
        lower.push(if self.image.is_some() { ROOT_SKELETON } else { SKELETON }.to_owned());
        let image = self.image.iter().flat_map(|held| held.layers.iter().rev());
        lower.extend(image.map(|held| format!("layers/{}/content", held.name)));
        Disk {
            folder: self.state.to_string_lossy().into_owned(),
            lower,
            top: self.folder.clone(),
            extent: if self.image.is_some() { Extent::Root } else { Extent::Folders },
        }
    }

    /// Adds what was written since its origin.
    pub(super) fn add_grown(&self, sum: &mut Sum) {
        sum.add_folder(&self.files());
    }

    /// Whether it is the whole root of its sandbox.
    pub(super) fn is_root(&self) -> bool {
        self.image.is_some()
    }

    /// What it is made of, topmost first, without the folders that every disk begins with.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let layers = self.layers.iter().map(|held| held.content.clone());
        std::iter::once(self.files()).chain(layers).collect()
    }

    fn files(&self) -> PathBuf {
        self.state.join(&self.folder).join(FILES)
    }

    /// Prepares what is to take its place: an empty top, and a layer for what was written on this one.
    pub(super) fn prepare_next(&self) -> Result<Next, BackendError> {
        if self.layers.len() >= MOST_LAYERS {
            return Err(BackendError::TooDeep { most: MOST_LAYERS });
        }
        let draft = self.draft()?;
        let name = format!("{}-{}", self.session, crate::id::random_hex());
        let top = Self::on(&self.state, (&self.session, &name), self.layers.clone(), self.image.clone())?;
        let mut wire = top.wire();
        wire.lower.insert(0, format!("{}/{FILES}", self.folder));
        Ok(Next { top: Some(top), draft: Some(draft), wire })
    }

    /// A layer for what was written, without content.
    fn draft(&self) -> Result<Draft, BackendError> {
        let draft = Store::open(&self.state).and_then(|store| store.draft()).map_err(not_kept)?;
        let made = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let note = format!("snapshot of {}", self.session);
        let record = LayerRecord { made, note, uncounted: true, ..LayerRecord::default() };
        draft.write(&record).map_err(not_kept)?;
        Ok(draft)
    }

    /// Makes a copy of what was written a layer. Whoever writes must stand still.
    pub(super) fn copy(&self) -> Result<Snapshotted, BackendError> {
        if self.layers.len() >= MOST_LAYERS {
            return Err(BackendError::TooDeep { most: MOST_LAYERS });
        }
        let draft = self.draft()?;
        let copied = layers::copy(&self.files(), &draft.content_path());
        copied.map_err(|source| BackendError::Step { step: "copy the session's disk".to_owned(), source })?;
        let held = Arc::new(draft.put(&LayerName::random(KEPT)).map_err(not_kept)?);
        kept(&self.state, held, &self.layers)
    }

    /// Removes it; nothing uses it any more.
    pub(super) fn remove(&self) {
        // What stays is removed with the next session that is made.
        let _ = remove::folder(&self.state.join(&self.folder));
    }
}

/// What is to take the place of a disk. Dropped before that, nothing of it stays.
pub(super) struct Next {
    top: Option<SessionDisk>,
    draft: Option<Draft>,
    wire: Disk,
}

impl Next {
    /// As the keeper mounts it.
    pub(super) fn wire(&self) -> Disk {
        self.wire.clone()
    }

    /// Makes what was written on the old disk, to which nothing can write any more, a layer of the new one.
    pub(super) fn keep(mut self, old: &SessionDisk) -> Result<(SessionDisk, Snapshotted), BackendError> {
        let gone = || not_made(io::ErrorKind::NotFound.into());
        let draft = self.draft.take().ok_or_else(gone)?;
        let mut top = self.top.take().ok_or_else(gone)?;
        let held = Arc::new(draft.adopt(&old.files(), &LayerName::random(KEPT)).map_err(not_kept)?);
        let snapshot = kept(&top.state, Arc::clone(&held), &top.layers)?;
        top.layers.insert(0, held);
        Ok((top, snapshot))
    }
}

/// What is told of a layer that was made, above others.
fn kept(state: &Path, held: Arc<Held>, below: &[Arc<Held>]) -> Result<Snapshotted, BackendError> {
    let store = Store::open(state).map_err(not_kept)?;
    let layers: Vec<String> = std::iter::once(&held).chain(below).map(|held| held.name.to_string()).collect();
    let counted = count(&held.content, MOST_COUNTED);
    if let Some((bytes, entries)) = counted {
        store.count(&held, bytes, entries).map_err(not_kept)?;
    } else {
        // Many files take longer to count than to keep. Where the count is cut short, it is told as not counted.
        std::thread::spawn(move || {
            let (bytes, entries) = count(&held.content, u64::MAX)?;
            store.count(&held, bytes, entries).ok()
        });
    }
    let bytes = counted.map(|(bytes, _)| bytes);
    Ok(Snapshotted { layer: LayerId(layers.join(",")), layers, bytes, goes_on: true })
}

impl Drop for Next {
    fn drop(&mut self) {
        if let Some(top) = &self.top {
            top.remove();
        }
    }
}

/// Bytes and entries below a folder; none if there are more than `most` entries.
fn count(folder: &Path, most: u64) -> Option<(u64, u64)> {
    let (mut bytes, mut entries) = (0, 0);
    let mut left = vec![folder.to_path_buf()];
    while let Some(path) = left.pop() {
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            entries += 1;
            if entries > most {
                return None;
            }
            // As much as it takes: files may have holes.
            bytes += meta.blocks() * 512;
            if meta.is_dir() {
                left.push(entry.path());
            }
        }
    }
    Some((bytes, entries))
}

fn not_made(source: io::Error) -> BackendError {
    BackendError::Step { step: "make the session's disk".to_owned(), source }
}

fn not_kept(error: LayerError) -> BackendError {
    BackendError::Step { step: "keep the session's disk".to_owned(), source: io::Error::other(error) }
}

/// Takes hold of every layer of a snapshot.
fn hold(state: &Path, layer: &LayerId) -> Result<Vec<Arc<Held>>, BackendError> {
    let missing = || BackendError::NoLayer(layer.0.chars().take(100).collect());
    let store = Store::open(state).map_err(|_| missing())?;
    let hold = |name: &str| store.hold(&LayerName::try_from(name.to_owned()).ok()?).ok();
    layer.0.split(',').map(|name| hold(name).map(Arc::new).ok_or_else(missing)).collect()
}

/// Makes folders that disks begin with, unless they are there.
fn make_skeleton(state: &Path, name: &str, folders: &[(&str, u32, u32)]) -> io::Result<()> {
    let path = state.join(name);
    if path.is_dir() {
        return Ok(());
    }
    let sessions = state.join(SESSIONS);
    if !sessions.is_dir() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&sessions)?;
    }
    // Made aside, so that it is there whole or not at all.
    let aside = sessions.join(format!("{ASIDE}{}", crate::id::random_hex()));
    make_owned(&aside, 0o755, 0)?;
    for (folder, mode, guest) in folders {
        make_owned(&aside.join(folder), *mode, *guest)?;
    }
    if aside.join(SUDO.0).parent().is_some_and(Path::is_dir) {
        symlink(SUDO.1, aside.join(SUDO.0))?;
    }
    match fs::rename(&aside, &path) {
        // Somebody else was as fast.
        Err(_) if path.is_dir() => remove::folder(&aside),
        other => other,
    }
}

/// Gives an image's root the users that every session has, and files to show our own over.
fn add_users(files: &Path, image: &HeldImage) -> io::Result<()> {
    let etc = files.join("etc");
    make_owned(&etc, 0o755, 0)?;
    for (name, content) in users::files(image) {
        let path = etc.join(name);
        fs::write(&path, content)?;
        own(&path, 0o644, 0)?;
    }
    Ok(())
}

/// Removes disks that nobody holds: their server is gone.
fn sweep(state: &Path) {
    let mut lost = false;
    for entry in fs::read_dir(state.join(SESSIONS)).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let begins = |text: &str| name.to_string_lossy().starts_with(text);
        if begins("skeleton") {
            continue;
        }
        let lock = File::open(path.join(LOCK));
        let is_free = lock.as_ref().is_ok_and(|lock| flock(lock, FlockOperation::NonBlockingLockExclusive).is_ok());
        // Without its name or its lock it is being made, or its removal was cut short.
        let is_certain = lock.is_ok() && !begins(ASIDE);
        if (is_free || lock.is_err()) && (is_certain || is_old(&path)) {
            lost = true;
            let _ = remove::folder(&path);
        }
    }
    if lost {
        // Its server may have been killed between keeping a layer and writing down what for. What cannot be removed now
        // is removed by `saggar prune`.
        let wanted = Images::open(state).and_then(|images| Ok((images.references()?, images)));
        let _ = wanted.map(|(wanted, images)| images.store().collect_of(KEPT, &wanted).map(drop));
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
    own(path, mode, guest)
}

/// Gives something of ours to a guest user.
fn own(path: &Path, mode: u32, guest: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    if shifts_ids() {
        let host = Some(SHARED_FIRST + guest);
        chown(path, host, host)?;
        // Changing the owner may take bits away.
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}
