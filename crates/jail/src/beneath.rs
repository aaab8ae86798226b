//! Files below a folder that a run may have filled: through no link and onto no other file system.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, RawDir, ResolveFlags, fchmod, fstatfs, mkdirat, openat2};
use rustix::io::Errno;
use types::LimitKind;

use crate::contained::EntryKind;

const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Opens a folder below `folder`.
pub fn open_folder(folder: impl AsFd, path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let path = if path.is_empty() { "." } else { path };
    Ok(openat2(folder, path, flags, Mode::empty(), BENEATH)?)
}

/// Opens a regular file for reading; a FIFO or device is refused without waiting for it.
pub fn open_regular(folder: impl AsFd, path: &str) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat2(folder, path, flags, Mode::empty(), BENEATH)?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Makes a file, or empties the one that is there, with the folders above it. `own` is told of whatever is made.
pub fn create(
    folder: BorrowedFd<'_>,
    path: &str,
    mode: Mode,
    own: &dyn Fn(BorrowedFd<'_>) -> io::Result<()>,
) -> io::Result<File> {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let mut folder = folder.try_clone_to_owned()?;
    for part in folders.split('/').filter(|part| !part.is_empty()) {
        let made = match mkdirat(&folder, part, Mode::from(0o755)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        folder = open_folder(&folder, part)?;
        if made {
            own(folder.as_fd())?;
        }
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat2(&folder, name, flags, mode, BENEATH)?;
    fchmod(&file, mode)?;
    own(file.as_fd())?;
    Ok(File::from(file))
}

/// Tells of the entries of a folder, until it is told to stop.
pub fn list(
    folder: impl AsFd,
    path: &str,
    each: &mut dyn FnMut(&[u8], EntryKind) -> ControlFlow<()>,
) -> io::Result<()> {
    let fd = open_folder(folder, path)?;
    let mut space = [MaybeUninit::uninit(); 16 << 10];
    let mut entries = RawDir::new(fd, &mut space);
    while let Some(Ok(entry)) = entries.next() {
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Directory => EntryKind::Folder,
            FileType::RegularFile => EntryKind::File,
            FileType::Symlink => EntryKind::Link,
            _ => EntryKind::Special,
        };
        if each(name, kind).is_break() {
            break;
        }
    }
    Ok(())
}

/// Limits of a file system that are used up.
#[must_use]
pub fn full(folder: impl AsFd) -> Vec<LimitKind> {
    let Ok(fs) = fstatfs(folder) else { return Vec::new() };
    let mut hits = Vec::new();
    if fs.f_bfree == 0 {
        hits.push(LimitKind::Disk);
    }
    if fs.f_ffree == 0 {
        hits.push(LimitKind::Inodes);
    }
    hits
}
