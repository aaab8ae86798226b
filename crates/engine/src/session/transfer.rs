//! Snapshots as archives: layers in the form that OCI images have, to be kept elsewhere or to come from there.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::SystemTime;

use jail::{SHARED_COUNT, SHARED_FIRST, shifts_ids};
use rustix::fs::FileType;
use tar::{Builder, EntryType, Header};
use tokio::io::AsyncWriteExt;
use types::{BackendKind, GuestPath};

use super::diff::Stack;
use super::elsewhere::{Words, pack_layer, sort_layer};
use super::error::SessionError;
use super::snapshots::{Snapshot, SnapshotSpec, check_name, write};
use super::spec::SessionSpec;
use crate::backend::{DiskArchive, FileContentStream, FileError, GuestUser, PlaceFiles, Writers};
use crate::engine::{Caller, Engine};
use crate::error::RunError;
use crate::layers::{Entry, Held, Merged, View};

/// Folders within folders.
const DEEPEST: usize = 500;
/// Names that say something about lower layers.
pub(super) const WHITEOUT: &[u8] = b".wh.";
pub(super) const OPAQUE: &[u8] = b".wh..wh..opq";

impl Engine {
    /// A snapshot as one layer: all that it adds to what its session began with.
    pub async fn export_snapshot(&self, caller: &Caller, name: &str) -> Result<FileContentStream, SessionError> {
        let _pass = self.admit(caller, "export").await?;
        let snapshot = self.snapshot(caller, name)?;
        let source = match snapshot.backend {
            BackendKind::Native => Source::Layers(self.stack_of(&snapshot, &snapshot.own_layers())?),
            BackendKind::Docker | BackendKind::E2b => Source::Elsewhere(self.archive_of(&snapshot).await?),
        };
        // Whole before anybody gets a part of it. It has no name, so that nothing stays of it.
        let path = self.settings.state.join(format!(".export-{}", crate::id::random_hex()));
        let aside = path.clone();
        let packed = tokio::task::spawn_blocking(move || {
            let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&aside)?;
            fs::remove_file(&aside)?;
            let mut into = io::BufWriter::new(&mut file);
            match source {
                Source::Layers(stack) => pack(&stack, &mut into)?,
                Source::Elsewhere(archive) => pack_layer(archive, &mut into)?,
            }
            drop(into);
            let bytes = file.stream_position()?;
            file.rewind()?;
            Ok(FileContentStream::of(file, bytes))
        });
        let failed = |source| RunError::State { path, source };
        let packed = packed.await.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(failed)?;
        self.record_of(caller, &snapshot.id, "snapshot exported").await?;
        Ok(packed)
    }

    /// Makes a snapshot of a layer, plain, gzip or zstd: what its archive may hold is that of an image. Where it is kept by
    /// another backend it stands on an image of it.
    pub async fn import_snapshot(
        &self,
        caller: &Caller,
        spec: SnapshotSpec,
        onto: Onto,
        archive: impl Read + Send + 'static,
    ) -> Result<Snapshot, SessionError> {
        let _pass = self.admit(caller, "import").await?;
        check_name(&spec)?;
        let backend = onto.backend.unwrap_or(self.settings.backend);
        let kept = if backend == BackendKind::Native {
            if onto.image.is_some() {
                return Err(RunError::Request("`image` is for backends that keep snapshots as images").into());
            }
            self.take_layer(archive).await?
        } else {
            self.take_elsewhere(caller, backend, onto.image, archive).await?
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let snapshot = Snapshot {
            id: crate::id::new_id("snap"),
            name: spec.name,
            note: spec.note,
            session: String::new(),
            backend,
            created_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            bytes: kept.bytes,
            state: kept.state,
            layers: kept.layers,
            image: None,
            key: caller.key().map(str::to_owned),
        };
        write(&self.settings.state, &snapshot)
            .map_err(|source| RunError::State { path: self.settings.state.clone(), source })?;
        drop(kept.held);
        self.record_of(caller, &snapshot.id, "snapshot imported").await?;
        Ok(snapshot)
    }

    async fn take_layer(&self, archive: impl Read + Send + 'static) -> Result<Kept, SessionError> {
        let images = self.images()?;
        let taken = tokio::task::spawn_blocking(move || {
            images.layer_of_tar(archive, "imported snapshot", None).map_err(RunError::from)
        });
        let lost = |error| RunError::State { path: self.settings.state.clone(), source: io::Error::other(error) };
        let (held, record) = taken.await.map_err(lost)??;
        let layer = held.name.to_string();
        Ok(Kept { bytes: Some(record.bytes), state: layer.clone(), layers: vec![layer], held: Some(held) })
    }

    /// Unpacks a layer as a session's user would, in a sandbox of that backend, which then keeps it.
    async fn take_elsewhere(
        &self,
        caller: &Caller,
        backend: BackendKind,
        image: Option<String>,
        archive: impl Read + Send + 'static,
    ) -> Result<Kept, SessionError> {
        let mut spec = SessionSpec { backend: Some(backend), image, ..SessionSpec::default() };
        let place_spec = self.plan_session(caller, &mut spec, None).await?.place_spec;
        let place = self.stations.get(backend, &self.settings)?.backend.open(&place_spec).await?;
        let files = place.files();
        let (ours, mut theirs) = tokio::io::duplex(256 << 10);
        let (most, runtime) = (place_spec.limits.disk, tokio::runtime::Handle::current());
        let sorting = tokio::task::spawn_blocking(move || {
            sort_layer(crate::image::unpacked(archive)?, most, Pipe { runtime, into: ours })
        });
        let root = GuestPath::new("/")?;
        let unpacked = files.unpack(&root, GuestUser::User, place_spec.limits.inodes, &mut theirs).await;
        // Whoever sorts does not wait for a reader that has gone.
        drop(theirs);
        let sorted = sorting.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        let words = match (sorted, unpacked) {
            // Where unpacking has failed there is nobody to write to: the first is the better reason.
            (Err(error), Err(unpacked)) if error.kind() == io::ErrorKind::BrokenPipe => return Err(unpacked.into()),
            (Err(error), _) => return Err(FileError::from_io(&root, error).into()),
            (Ok(_), Err(unpacked)) => return Err(unpacked.into()),
            (Ok(words), Ok(_)) => words,
        };
        hide(&*files, &words).await?;
        let made = place.snapshot(Writers::Kill).await?;
        Ok(Kept { bytes: made.bytes, state: made.layer.0, layers: made.layers, held: None })
    }
}

/// Removes what a layer hides. What the user of a session may not remove belongs to the image, and stays.
async fn hide(files: &dyn PlaceFiles, words: &Words) -> Result<(), SessionError> {
    let mut gone: Vec<GuestPath> = Vec::new();
    let path = |bytes: &[u8]| GuestPath::new(format!("/{}", String::from_utf8_lossy(bytes)));
    let (below, whole): (Vec<_>, Vec<_>) = words.removed.iter().partition(|removed| words.makes(removed));
    for removed in whole {
        gone.push(path(removed)?);
    }
    for folder in words.emptied.iter().chain(below) {
        match files.list(&path(folder)?, 1).await {
            Ok(entries) => {
                let old =
                    entries.into_iter().filter(|entry| !words.makes(entry.path.trim_start_matches('/').as_bytes()));
                gone.extend(old.map(|entry| GuestPath::new(entry.path)).collect::<Result<Vec<_>, _>>()?);
            }
            Err(FileError::Missing(_) | FileError::Kind { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    for path in gone {
        match files.remove(&path).await {
            Err(FileError::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {}
            done => done?,
        }
    }
    Ok(())
}

/// Where a layer comes to lie.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Onto {
    /// Who keeps it; by the settings if absent.
    pub backend: Option<BackendKind>,
    /// What it stands on there.
    pub image: Option<String>,
}

/// What an export is made of.
enum Source {
    Layers(Stack),
    Elsewhere(DiskArchive),
}

/// A layer that was taken in.
struct Kept {
    bytes: Option<u64>,
    state: String,
    layers: Vec<String>,
    /// It stays until there is a record that keeps it.
    held: Option<Held>,
}

/// A writer for who may wait, into what is read by who may not.
struct Pipe {
    runtime: tokio::runtime::Handle,
    into: tokio::io::DuplexStream,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.runtime.block_on(self.into.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.runtime.block_on(self.into.flush())
    }
}

fn pack(stack: &Stack, into: &mut impl Write) -> io::Result<()> {
    let root = View::new(stack.folders.clone()).root()?;
    let mut packer = Packer { tar: Builder::new(into), linked: BTreeMap::new() };
    packer.folder(b"", &root, 0)?;
    packer.tar.into_inner()?.flush()
}

struct Packer<W: Write> {
    tar: Builder<W>,
    /// Files with several names, by the first of these.
    linked: BTreeMap<(u64, u64), Vec<u8>>,
}

impl<W: Write> Packer<W> {
    fn folder(&mut self, path: &[u8], folder: &Merged, deep: usize) -> io::Result<()> {
        if deep > DEEPEST {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "folders lie too deep"));
        }
        if folder.hides_below(usize::MAX) {
            note(&mut self.tar, path, OPAQUE)?;
        }
        for name in folder.names(usize::MAX)? {
            let Some(entry) = folder.topmost(&name)? else { continue };
            if entry.is_whiteout() {
                note(&mut self.tar, path, &[WHITEOUT, name.to_bytes()].concat())?;
                continue;
            }
            let path = joined(path, name.to_bytes());
            self.entry(&path, &entry)?;
            if entry.kind() == FileType::Directory {
                self.folder(&path, &folder.below(&name)?, deep + 1)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, path: &[u8], entry: &Entry<'_>) -> io::Result<()> {
        let stat = &entry.stat;
        let mut header = Header::new_ustar();
        header.set_mode(stat.st_mode & 0o7777);
        header.set_uid(u64::from(guest(stat.st_uid)));
        header.set_gid(u64::from(guest(stat.st_gid)));
        header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
        header.set_size(0);
        match entry.kind() {
            FileType::Directory => {
                header.set_entry_type(EntryType::Directory);
                self.tar.append_data(&mut header, path_of(&joined(path, b"")), io::empty())
            }
            FileType::Symlink => {
                header.set_entry_type(EntryType::Symlink);
                self.tar.append_link(&mut header, path_of(path), path_of(&entry.target()?))
            }
            FileType::RegularFile => {
                if stat.st_nlink > 1 {
                    if let Some(first) = self.linked.get(&(stat.st_dev, stat.st_ino)) {
                        header.set_entry_type(EntryType::Link);
                        return self.tar.append_link(&mut header, path_of(path), path_of(&first.clone()));
                    }
                    self.linked.insert((stat.st_dev, stat.st_ino), path.to_vec());
                }
                header.set_entry_type(EntryType::Regular);
                let bytes = u64::try_from(stat.st_size).unwrap_or(0);
                header.set_size(bytes);
                self.tar.append_data(&mut header, path_of(path), entry.open()?.take(bytes))
            }
            // Pipes and sockets are nobody's once they are files of an archive.
            _ => Ok(()),
        }
    }
}

/// An empty file whose name is all that it says.
pub(super) fn note(tar: &mut Builder<impl Write>, folder: &[u8], name: &[u8]) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(0);
    tar.append_data(&mut header, path_of(&joined(folder, name)), io::empty())
}

pub(super) fn joined(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}

pub(super) fn path_of(bytes: &[u8]) -> &std::path::Path {
    use std::os::unix::ffi::OsStrExt;
    std::path::Path::new(std::ffi::OsStr::from_bytes(bytes))
}

/// Whose a file is inside.
fn guest(host: u32) -> u32 {
    if shifts_ids() { host.checked_sub(SHARED_FIRST).filter(|id| *id < SHARED_COUNT).unwrap_or(65534) } else { 1000 }
}
