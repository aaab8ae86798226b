//! Snapshots as archives: layers in the form that OCI images have, to be kept elsewhere or to come from there.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::SystemTime;

use jail::{SHARED_COUNT, SHARED_FIRST, shifts_ids};
use rustix::fs::FileType;
use tar::{Builder, EntryType, Header};
use types::BackendKind;

use super::diff::Stack;
use super::error::SessionError;
use super::snapshots::{Snapshot, SnapshotSpec, check_name, write};
use crate::backend::FileContentStream;
use crate::engine::{Caller, Engine};
use crate::error::RunError;
use crate::layers::{Entry, Merged, View};

/// Folders within folders.
const DEEPEST: usize = 500;
/// Names that say something about lower layers.
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

impl Engine {
    /// A snapshot as one layer: all that it adds to what its session began with.
    pub async fn export_snapshot(&self, caller: &Caller, name: &str) -> Result<FileContentStream, SessionError> {
        let _pass = self.admit(caller, "export").await?;
        let snapshot = self.snapshot(caller, name)?;
        let stack = self.stack_of(&snapshot, &snapshot.own_layers())?;
        // Whole before anybody gets a part of it. It has no name, so that nothing stays of it.
        let path = self.settings.state.join(format!(".export-{}", crate::id::random_hex()));
        let aside = path.clone();
        let packed = tokio::task::spawn_blocking(move || {
            let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&aside)?;
            fs::remove_file(&aside)?;
            pack(&stack, &mut io::BufWriter::new(&mut file))?;
            let bytes = file.stream_position()?;
            file.rewind()?;
            Ok(FileContentStream::of(file, bytes))
        });
        let failed = |source| RunError::State { path, source };
        let packed = packed.await.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(failed)?;
        self.record_of(caller, &snapshot.id, "snapshot exported").await?;
        Ok(packed)
    }

    /// Makes a snapshot of a layer, plain, gzip or zstd: what its archive may hold is that of an image.
    pub async fn import_snapshot(
        &self,
        caller: &Caller,
        spec: SnapshotSpec,
        archive: impl Read + Send + 'static,
    ) -> Result<Snapshot, SessionError> {
        let _pass = self.admit(caller, "import").await?;
        check_name(&spec)?;
        let images = self.images()?;
        let taken = tokio::task::spawn_blocking(move || {
            images.layer_of_tar(archive, "imported snapshot", None).map_err(RunError::from)
        });
        let lost = |error| RunError::State { path: self.settings.state.clone(), source: io::Error::other(error) };
        let (held, record) = taken.await.map_err(lost)??;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let layer = held.name.to_string();
        let snapshot = Snapshot {
            id: crate::id::new_id("snap"),
            name: spec.name,
            note: spec.note,
            session: String::new(),
            // Others have no layers of ours.
            backend: BackendKind::Native,
            created_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            bytes: Some(record.bytes),
            state: layer.clone(),
            layers: vec![layer],
            image: None,
            key: caller.key().map(str::to_owned),
        };
        write(&self.settings.state, &snapshot)
            .map_err(|source| RunError::State { path: self.settings.state.clone(), source })?;
        drop(held);
        self.record_of(caller, &snapshot.id, "snapshot imported").await?;
        Ok(snapshot)
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
            self.note(path, OPAQUE)?;
        }
        for name in folder.names(usize::MAX)? {
            let Some(entry) = folder.topmost(&name)? else { continue };
            if entry.is_whiteout() {
                self.note(path, &[WHITEOUT, name.to_bytes()].concat())?;
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

    /// An empty file whose name is all that it says.
    fn note(&mut self, folder: &[u8], name: &[u8]) -> io::Result<()> {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(0);
        self.tar.append_data(&mut header, path_of(&joined(folder, name)), io::empty())
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

fn joined(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}

fn path_of(bytes: &[u8]) -> &std::path::Path {
    use std::os::unix::ffi::OsStrExt;
    std::path::Path::new(std::ffi::OsStr::from_bytes(bytes))
}

/// Whose a file is inside.
fn guest(host: u32) -> u32 {
    if shifts_ids() { host.checked_sub(SHARED_FIRST).filter(|id| *id < SHARED_COUNT).unwrap_or(65534) } else { 1000 }
}
