//! Files of a sandbox that stays, reached from its root as its processes see it.
//!
//! Every path is resolved by the kernel with that root as the end of all links, so that none leads to the host. Nothing but
//! regular files is read or written, and nothing that could block is waited for.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use jail::GuestIds;
use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid, fchmod, fchown, fstat, fstatfs, ftruncate,
    mkdirat, openat, openat2, readlinkat, renameat, statat,
};
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;
use types::GuestPath;

use super::{archive, guest, marks, watch};
use crate::backend::{
    BoxFuture, FileContentStream, FileEntry, FileError, FileEvent, FileKind, GuestUser, Marks, PlaceFiles, Reach,
    Unpacked,
};
use crate::remove;

/// Links end at the sandbox's root; those of `/proc` that lead anywhere are not followed.
const INSIDE: ResolveFlags = ResolveFlags::IN_ROOT.union(ResolveFlags::NO_MAGICLINKS);
/// The most entries that one answer tells of.
const MOST_ENTRIES: usize = 20_000;
const PIECE: usize = 256 << 10;
/// The file system of processes.
pub(super) const PROC: rustix::fs::FsWord = 0x9fa0;

/// The files of one sandbox.
#[derive(Clone)]
pub(super) struct NativeFiles {
    root: Arc<OwnedFd>,
    ids: GuestIds,
}

impl NativeFiles {
    pub(super) fn new(root: Arc<OwnedFd>, ids: GuestIds) -> Self {
        Self { root, ids }
    }

    /// Does something that may wait for a disk where nobody else waits for it.
    fn away<T: Send + 'static>(
        &self,
        path: &GuestPath,
        act: impl FnOnce(&Self, &GuestPath) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, FileError>> {
        let (this, path) = (self.clone(), path.clone());
        Box::pin(async move {
            let asked = path.clone();
            let done = tokio::task::spawn_blocking(move || act(&this, &asked)).await;
            done.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| FileError::from_io(&path, error))
        })
    }

    /// Everybody inside but init, as `number name`, whatever they call themselves.
    pub(super) fn processes(&self) -> Vec<String> {
        let Ok(proc) = self.open("/proc", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()) else { return Vec::new() };
        let Ok(entries) = Dir::read_from(&proc) else { return Vec::new() };
        let number = |name: &str| name.parse::<u32>().ok().filter(|pid| *pid > 1);
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str().ok().and_then(number));
        pids.map(|pid| {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let mut name = String::new();
            if let Ok(file) = openat(&proc, format!("{pid}/comm"), flags, Mode::empty()) {
                let _ = File::from(file).take(64).read_to_string(&mut name);
            }
            format!("{pid} {}", name.trim().chars().filter(|c| !c.is_control()).collect::<String>())
        })
        .collect()
    }

    pub(super) fn open(&self, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        openat2(self.root.as_fd(), path, flags | OFlags::CLOEXEC, mode, INSIDE)
    }

    /// A regular file; a pipe or a device is refused without waiting for it.
    pub(super) fn open_regular(&self, path: &str, flags: OFlags, mode: Mode) -> io::Result<File> {
        let file = File::from(self.open(path, flags | OFlags::NONBLOCK | OFlags::NOCTTY, mode)?);
        let meta = file.metadata()?;
        match () {
            // What the kernel tells of processes is no file; we would be told, and obeyed, more than the guest is.
            () if meta.is_file() && fstatfs(&file)?.f_type != PROC => Ok(file),
            () if meta.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            () => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
        }
    }

    /// The folder above a path, made if asked, and the last name of the path.
    pub(super) fn parent(&self, path: &GuestPath, make: Option<GuestUser>) -> io::Result<(OwnedFd, CString)> {
        let (above, name) = path.as_str().trim_end_matches('/').rsplit_once('/').unwrap_or_default();
        if name.is_empty() || name == "." {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it has no name"));
        }
        let name = CString::new(name).map_err(io::Error::other)?;
        let folder = match make {
            None => self.open(&format!("{above}/"), OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?,
            Some(user) => self.make_folders(above, user)?.0,
        };
        Ok((folder, name))
    }

    /// Opens a folder, making those on the way that are not there; whether the last was made.
    pub(super) fn make_folders(&self, path: &str, user: GuestUser) -> io::Result<(OwnedFd, bool)> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let mut at = String::from("/");
        let (mut folder, mut made) = (self.open("/", flags, Mode::empty())?, false);
        for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
            at = format!("{at}{part}/");
            made = false;
            folder = match self.open(&at, flags, Mode::empty()) {
                Err(Errno::NOENT) => {
                    match mkdirat(&folder, part, Mode::from(0o755)) {
                        Ok(()) => made = true,
                        Err(Errno::EXIST) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                    let inner = openat(
                        &folder,
                        part,
                        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                        Mode::empty(),
                    )?;
                    if made {
                        self.give(&inner, user, 0o755)?;
                    }
                    inner
                }
                other => other?,
            };
        }
        Ok((folder, made))
    }

    /// Makes a guest user the owner of something new.
    fn give(&self, file: impl AsFd, user: GuestUser, mode: u32) -> io::Result<()> {
        if let GuestIds::Range { first } = self.ids {
            let host = first + guest(user);
            fchown(&file, Some(Uid::from_raw(host)), Some(Gid::from_raw(host)))?;
        }
        Ok(fchmod(&file, Mode::from(mode & 0o777))?)
    }

    pub(super) fn create(&self, path: &GuestPath, user: GuestUser, mode: u32) -> io::Result<File> {
        self.parent(path, Some(user))?;
        let made = self.open_regular(path.as_str(), OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, Mode::from(0o600));
        match made {
            Ok(file) => {
                self.give(&file, user, mode)?;
                Ok(file)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // A link that leads to nothing yet is followed, as a shell would.
                let file =
                    self.open_regular(path.as_str(), OFlags::WRONLY | OFlags::CREATE, Mode::from(mode & 0o777))?;
                ftruncate(&file, 0)?;
                Ok(file)
            }
            Err(error) => Err(error),
        }
    }

    /// How users are written outside.
    pub(super) fn ids(&self) -> GuestIds {
        self.ids
    }

    /// User and group of a file, as they are seen inside.
    pub(super) fn inside(&self, stat: &Stat) -> (u32, u32) {
        let inside = |host: u32, one: u32| match self.ids {
            GuestIds::Range { first } => host.checked_sub(first).filter(|id| *id < jail::SHARED_COUNT).unwrap_or(65534),
            GuestIds::One { .. } if host == one => 1000,
            GuestIds::One { .. } => 65534,
        };
        let (own_uid, own_gid) = match self.ids {
            GuestIds::Range { .. } => (0, 0),
            GuestIds::One { uid, gid } => (uid, gid),
        };
        (inside(stat.st_uid, own_uid), inside(stat.st_gid, own_gid))
    }

    fn entry(&self, path: String, stat: &Stat, target: Option<String>) -> FileEntry {
        let (uid, gid) = self.inside(stat);
        FileEntry {
            name: path.rsplit('/').next().unwrap_or_default().to_owned(),
            path,
            kind: match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => FileKind::File,
                FileType::Directory => FileKind::Folder,
                FileType::Symlink => FileKind::Link,
                _ => FileKind::Other,
            },
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
            mode: stat.st_mode & 0o7777,
            uid,
            gid,
            modified_ms: stat
                .st_mtime
                .saturating_mul(1000)
                .saturating_add(i64::try_from(stat.st_mtime_nsec / 1_000_000).unwrap_or(0)),
            target,
        }
    }

    fn stat_inside(&self, path: &GuestPath) -> io::Result<FileEntry> {
        let shown = tidy(path);
        let own = self.open(path.as_str(), OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?;
        let stat = fstat(&own)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Ok(self.entry(shown, &stat, None));
        }
        let target = readlinkat(&own, c"", Vec::new())?.to_string_lossy().into_owned();
        // What it leads to, if that is there.
        let stat = match self.open(path.as_str(), OFlags::PATH, Mode::empty()) {
            Ok(file) => fstat(&file)?,
            Err(_) => stat,
        };
        Ok(self.entry(shown, &stat, Some(target)))
    }

    pub(super) fn list_inside(&self, path: &GuestPath, depth: u32) -> io::Result<Vec<FileEntry>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK;
        let top = self.open(path.as_str(), flags, Mode::empty())?;
        let mut entries = Vec::new();
        // Folders still to be read, the next one last; each is opened when its turn comes, so few are open at once.
        let mut left = vec![(tidy(path), Some(top), 1)];
        while let Some((at, folder, level)) = left.pop() {
            let folder = match folder {
                Some(folder) => folder,
                // It may be gone by now, or be something else.
                None => match self.open(&at, flags | OFlags::NOFOLLOW, Mode::empty()) {
                    Ok(folder) => folder,
                    Err(_) => continue,
                },
            };
            let mut found = Vec::new();
            for entry in Dir::read_from(&folder)? {
                let name = entry?.file_name().to_owned();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                let Ok(stat) = statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
                let target = (FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
                    .then(|| readlinkat(&folder, &name, Vec::new()).ok())
                    .flatten()
                    .map(|target| target.to_string_lossy().into_owned());
                let path = format!("{}/{}", at.trim_end_matches('/'), name.to_string_lossy());
                found.push(self.entry(path, &stat, target));
                if entries.len() + found.len() > MOST_ENTRIES {
                    return Err(io::Error::new(io::ErrorKind::FileTooLarge, "too many entries"));
                }
            }
            found.sort_by(|a, b| a.name.cmp(&b.name));
            if level < depth {
                left.extend(
                    found
                        .iter()
                        .rev()
                        .filter(|e| e.kind == FileKind::Folder)
                        .map(|e| (e.path.clone(), None, level + 1)),
                );
            }
            entries.extend(found);
        }
        // Each folder before what is in it.
        entries.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
        Ok(entries)
    }
}

/// Without what changes nothing.
pub(super) fn tidy(path: &GuestPath) -> String {
    let parts: Vec<&str> = path.as_str().split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    format!("/{}", parts.join("/"))
}

impl PlaceFiles for NativeFiles {
    fn stat<'a>(&'a self, path: &'a GuestPath) -> BoxFuture<'a, Result<FileEntry, FileError>> {
        self.away(path, Self::stat_inside)
    }

    fn list<'a>(&'a self, path: &'a GuestPath, depth: u32) -> BoxFuture<'a, Result<Vec<FileEntry>, FileError>> {
        let listed = self.away(path, move |this, path| this.list_inside(path, depth.max(1)));
        Box::pin(async move {
            listed.await.map_err(|error| match error {
                FileError::Io { path, source } if source.kind() == io::ErrorKind::FileTooLarge => {
                    FileError::TooMany { path, most: MOST_ENTRIES }
                }
                other => other,
            })
        })
    }

    fn read<'a>(&'a self, path: &'a GuestPath) -> BoxFuture<'a, Result<FileContentStream, FileError>> {
        self.away(path, |this, path| {
            let file = this.open_regular(path.as_str(), OFlags::RDONLY, Mode::empty())?;
            let bytes = file.metadata()?.size();
            Ok(FileContentStream::of(file, bytes))
        })
    }

    fn write<'a>(
        &'a self,
        path: &'a GuestPath,
        user: GuestUser,
        mode: u32,
        content: &'a mut (dyn AsyncRead + Send + Unpin),
    ) -> BoxFuture<'a, Result<u64, FileError>> {
        Box::pin(async move {
            let mut file = self.away(path, move |this, path| this.create(path, user, mode)).await?;
            let failed = |error| FileError::from_io(path, error);
            let (mut buffer, mut bytes) = (vec![0; PIECE], 0);
            loop {
                let n = content.read(&mut buffer).await.map_err(failed)?;
                if n == 0 {
                    return Ok(bytes);
                }
                bytes += n as u64;
                let written = tokio::task::spawn_blocking(move || {
                    let written = file.write_all(&buffer[..n]);
                    (file, buffer, written)
                });
                let (same, again, written) = written.await.map_err(|error| failed(io::Error::other(error)))?;
                written.map_err(failed)?;
                (file, buffer) = (same, again);
            }
        })
    }

    fn make_folder<'a>(&'a self, path: &'a GuestPath, user: GuestUser) -> BoxFuture<'a, Result<(), FileError>> {
        self.away(path, move |this, path| {
            let (_, made) = this.make_folders(path.as_str(), user)?;
            if made { Ok(()) } else { Err(io::ErrorKind::AlreadyExists.into()) }
        })
    }

    fn rename<'a>(&'a self, from: &'a GuestPath, to: &'a GuestPath) -> BoxFuture<'a, Result<(), FileError>> {
        let to = to.clone();
        self.away(from, move |this, from| {
            let (from_folder, from_name) = this.parent(from, None)?;
            let (to_folder, to_name) = this.parent(&to, Some(GuestUser::User))?;
            Ok(renameat(&from_folder, &from_name, &to_folder, &to_name)?)
        })
    }

    fn remove<'a>(&'a self, path: &'a GuestPath) -> BoxFuture<'a, Result<(), FileError>> {
        self.away(path, |this, path| match this.parent(path, None) {
            Ok((folder, name)) => remove::tree(folder.as_fd(), &name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        })
    }

    fn marks<'a>(
        &'a self,
        paths: Vec<GuestPath>,
        prefix: &'static str,
    ) -> BoxFuture<'a, Result<Vec<Marks>, FileError>> {
        let this = self.clone();
        Box::pin(async move {
            let read = move || paths.iter().map(|path| marks::read(&this, path, prefix)).collect();
            Ok(tokio::task::spawn_blocking(read).await.unwrap_or_default())
        })
    }

    fn mark<'a>(
        &'a self,
        path: &'a GuestPath,
        prefix: &'static str,
        marks: Marks,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        self.away(path, move |this, path| marks::write(this, path, prefix, &marks))
    }

    fn pack<'a>(&'a self, path: &'a GuestPath) -> BoxFuture<'a, Result<Box<dyn AsyncRead + Send + Unpin>, FileError>> {
        self.away(path, archive::pack)
    }

    fn unpack<'a>(
        &'a self,
        path: &'a GuestPath,
        user: GuestUser,
        most: u64,
        content: &'a mut (dyn AsyncRead + Send + Unpin),
    ) -> BoxFuture<'a, Result<Unpacked, FileError>> {
        Box::pin(async move {
            let unpacked = archive::unpack(self.clone(), path.clone(), user, most, content).await;
            unpacked.map_err(|error| FileError::from_io(path, error))
        })
    }

    fn watch<'a>(
        &'a self,
        path: &'a GuestPath,
        reach: Reach,
    ) -> BoxFuture<'a, Result<mpsc::Receiver<FileEvent>, FileError>> {
        self.away(path, move |this, path| watch::begin(this, path, reach))
    }
}
