//! Trees of a sandbox that stays as one stream, a tar, in and out.
//!
//! Out: no link is followed, and nothing but folders, regular files and links is told of. In: every path is resolved with
//! the sandbox's root as the end of all links, set-id bits and devices are never made.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use jail::GuestIds;
use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, chownat,
    fchmod, fstat, fstatfs, futimens, linkat, openat2, readlinkat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use tar::{Archive, Builder, Entry, EntryType, Header};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::sync::mpsc;
use types::GuestPath;

use super::files::{NativeFiles, PROC, tidy};
use super::guest;
use crate::backend::{GuestUser, Unpacked};

/// Pieces under way between a disk and a connection.
const QUEUE: usize = 4;
const PIECE: usize = 256 << 10;
/// Below a folder that is open already: no links, and never above it.
const BELOW: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// Packs a folder, or one file. The bytes come as they are read.
pub(super) fn pack(files: &NativeFiles, path: &GuestPath) -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
    let top = files.open(path.as_str(), OFlags::PATH, Mode::empty())?;
    let is_folder = FileType::from_raw_mode(fstat(&top)?.st_mode) == FileType::Directory;
    let (tell, told) = mpsc::channel(QUEUE);
    let (files, path) = (files.clone(), path.clone());
    tokio::task::spawn_blocking(move || {
        let mut pieces = Pieces { tell, piece: Vec::new() };
        let packed =
            if is_folder { pack_below(&files, &top, &mut pieces) } else { pack_one(&files, &path, &mut pieces) };
        let done = packed.and_then(|()| pieces.flush());
        if let Err(error) = done {
            // Whoever reads must not take a part for the whole; or is gone.
            drop(pieces.tell.blocking_send(Err(error)));
        }
    });
    Ok(Box::new(Outgoing { told, rest: Vec::new(), at: 0 }))
}

fn pack_one(files: &NativeFiles, path: &GuestPath, into: &mut Pieces) -> io::Result<()> {
    let file = files.open_regular(path.as_str(), OFlags::RDONLY, Mode::empty())?;
    let shown = tidy(path);
    let name = shown.rsplit('/').next().unwrap_or_default();
    let mut builder = Builder::new(into);
    append_file(files, &mut builder, name.as_bytes(), file)?;
    builder.into_inner().map(drop)
}

fn pack_below(files: &NativeFiles, top: &OwnedFd, into: &mut Pieces) -> io::Result<()> {
    let mut builder = Builder::new(into);
    // Paths of folders still to be read; each is opened when its turn comes.
    let mut left: Vec<Vec<u8>> = vec![Vec::new()];
    while let Some(at) = left.pop() {
        let here: &[u8] = if at.is_empty() { b"." } else { &at };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = match openat2(top, here, flags, Mode::empty(), BELOW) {
            Ok(folder) => folder,
            // It is gone by now, or something else.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
            Err(errno) => return Err(errno.into()),
        };
        // What the kernel tells of processes is no tree; we would be told more than the guest is.
        if fstatfs(&folder)?.f_type == PROC {
            continue;
        }
        let mut names: Vec<CString> = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let name = entry?.file_name().to_owned();
            if !matches!(name.to_bytes(), b"." | b"..") {
                names.push(name);
            }
        }
        names.sort();
        for name in names {
            let mut path = at.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.to_bytes());
            let Ok(stat) = statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    let mut header = head(files, &stat, EntryType::Directory, 0);
                    builder.append_data(&mut header, Path::new(OsStr::from_bytes(&path)), io::empty())?;
                    left.push(path);
                }
                FileType::Symlink => {
                    let Ok(target) = readlinkat(&folder, &name, Vec::new()) else { continue };
                    let mut header = head(files, &stat, EntryType::Symlink, 0);
                    let target = Path::new(OsStr::from_bytes(target.to_bytes()));
                    builder.append_link(&mut header, Path::new(OsStr::from_bytes(&path)), target)?;
                }
                FileType::RegularFile => {
                    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
                    let Ok(file) = openat2(&folder, &name, flags, Mode::empty(), BELOW) else { continue };
                    append_file(files, &mut builder, &path, File::from(file))?;
                }
                _ => {}
            }
        }
    }
    builder.into_inner().map(drop)
}

/// As many bytes as it had when it was opened; zeros in place of what was cut off since.
fn append_file(files: &NativeFiles, builder: &mut Builder<&mut Pieces>, path: &[u8], file: File) -> io::Result<()> {
    let stat = fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(());
    }
    let bytes = u64::try_from(stat.st_size).unwrap_or(0);
    let mut header = head(files, &stat, EntryType::Regular, bytes);
    builder.append_data(&mut header, Path::new(OsStr::from_bytes(path)), file.chain(io::repeat(0)).take(bytes))
}

fn head(files: &NativeFiles, stat: &Stat, kind: EntryType, bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(bytes);
    header.set_mode(stat.st_mode & 0o777);
    let (uid, gid) = files.inside(stat);
    header.set_uid(uid.into());
    header.set_gid(gid.into());
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
    header
}

/// Unpacks what comes below a folder, which is made. At most so many entries.
pub(super) async fn unpack(
    files: NativeFiles,
    path: GuestPath,
    user: GuestUser,
    most: u64,
    content: &mut (dyn AsyncRead + Send + Unpin),
) -> io::Result<Unpacked> {
    let (tell, told) = mpsc::channel::<Vec<u8>>(QUEUE);
    let working = tokio::task::spawn_blocking(move || {
        let mut into =
            Unpacking { files: &files, base: tidy(&path), user, most, modes: Vec::new(), done: Unpacked::default() };
        into.take(Archive::new(Incoming { told, rest: Vec::new(), at: 0 }))?;
        Ok(into.done)
    });
    let mut source = Ok(());
    loop {
        let mut piece = vec![0; PIECE];
        match content.read(&mut piece).await {
            Ok(0) => break,
            Ok(n) => {
                piece.truncate(n);
                // Where nobody listens any more, it has failed or had its end.
                if tell.send(piece).await.is_err() {
                    break;
                }
            }
            Err(error) => {
                source = Err(error);
                break;
            }
        }
    }
    drop(tell);
    let done = working.await.map_err(io::Error::other)?;
    source?;
    done
}

struct Unpacking<'a> {
    files: &'a NativeFiles,
    base: String,
    user: GuestUser,
    most: u64,
    /// Modes of folders, set when everything is in them.
    modes: Vec<(String, u32)>,
    done: Unpacked,
}

impl Unpacking<'_> {
    fn take(&mut self, mut archive: Archive<Incoming>) -> io::Result<()> {
        self.files.make_folders(&self.base, self.user)?;
        for entry in archive.entries()? {
            let mut entry = entry?;
            self.done.entries += 1;
            if self.done.entries > self.most {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.place(&mut entry)?;
        }
        for (path, mode) in self.modes.drain(..).rev() {
            // Whoever is inside may have moved it meanwhile.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            if let Ok(folder) = self.files.open(&path, flags, Mode::empty()) {
                fchmod(&folder, Mode::from(mode))?;
            }
        }
        Ok(())
    }

    /// A path of the archive, below the folder; nothing for the folder itself.
    fn path(&self, bytes: &[u8]) -> io::Result<Option<GuestPath>> {
        let refused = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        let text = std::str::from_utf8(bytes).map_err(|_| refused("a name in the archive is no text"))?;
        let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if parts.contains(&"..") {
            return Err(refused("a path in the archive has `..`"));
        }
        if parts.is_empty() {
            return Ok(None);
        }
        let path = format!("{}/{}", self.base.trim_end_matches('/'), parts.join("/"));
        GuestPath::new(path).map(Some).map_err(io::Error::other)
    }

    fn place(&mut self, entry: &mut Entry<'_, Incoming>) -> io::Result<()> {
        let Some(path) = self.path(&entry.path_bytes())? else { return Ok(()) };
        let mode = entry.header().mode()? & 0o777;
        match entry.header().entry_type() {
            EntryType::Directory => {
                self.files.make_folders(path.as_str(), self.user)?;
                self.modes.push((tidy(&path), mode));
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                self.make_room(&path)?;
                let mut file = self.files.create(&path, self.user, mode)?;
                self.done.bytes += io::copy(entry, &mut file)?;
                if let Ok(mtime) = entry.header().mtime() {
                    let modified = Timespec { tv_sec: i64::try_from(mtime).unwrap_or(0), tv_nsec: 0 };
                    let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
                    futimens(&file, &Timestamps { last_access: omitted, last_modification: modified })?;
                }
            }
            EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                let target = CString::new(target).map_err(io::Error::other)?;
                let (folder, name) = self.make_room(&path)?;
                symlinkat(&target, &folder, &name)?;
                if let GuestIds::Range { first } = self.files.ids() {
                    let host = first + guest(self.user);
                    let owner = (Some(Uid::from_raw(host)), Some(Gid::from_raw(host)));
                    chownat(&folder, &name, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW)?;
                }
            }
            EntryType::Link => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                let Some(target) = self.path(&target)? else { return Ok(()) };
                let (from, from_name) = self.files.parent(&target, None)?;
                let (folder, name) = self.make_room(&path)?;
                linkat(&from, &from_name, &folder, &name, AtFlags::empty())?;
            }
            // Devices, pipes and words about the archive itself.
            _ => self.done.skipped += 1,
        }
        Ok(())
    }

    /// The folder of a path, made, without whatever file or link had its name.
    fn make_room(&self, path: &GuestPath) -> io::Result<(OwnedFd, CString)> {
        let (folder, name) = self.files.parent(path, Some(self.user))?;
        match unlinkat(folder.as_fd(), &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok((folder, name)),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Bytes on their way out.
struct Pieces {
    tell: mpsc::Sender<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let sent = self.tell.blocking_send(Ok(std::mem::take(&mut self.piece)));
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// The same, for whoever reads them.
struct Outgoing {
    told: mpsc::Receiver<io::Result<Vec<u8>>>,
    rest: Vec<u8>,
    at: usize,
}

impl AsyncRead for Outgoing {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.at == self.rest.len() {
            match ready!(self.told.poll_recv(cx)) {
                None => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(error)),
                Some(Ok(piece)) => (self.rest, self.at) = (piece, 0),
            }
        }
        let n = into.remaining().min(self.rest.len() - self.at);
        into.put_slice(&self.rest[self.at..self.at + n]);
        self.at += n;
        Poll::Ready(Ok(()))
    }
}

/// Bytes on their way in, for a thread that may wait.
struct Incoming {
    told: mpsc::Receiver<Vec<u8>>,
    rest: Vec<u8>,
    at: usize,
}

impl Read for Incoming {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.rest.len() {
            match self.told.blocking_recv() {
                None => return Ok(0),
                Some(piece) => (self.rest, self.at) = (piece, 0),
            }
        }
        let n = into.len().min(self.rest.len() - self.at);
        into[..n].copy_from_slice(&self.rest[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}
