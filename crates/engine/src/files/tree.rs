//! The writable tree of a sandbox, held by descriptors.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, ResolveFlags, fstatfs, openat2};
use types::LimitKind;

/// A sandbox's `/work` and `/tmp`, from outside. The tmpfs lives for as long as this does, also after the sandbox.
#[derive(Debug)]
pub struct WorkTree {
    pub(super) root: OwnedFd,
    /// The host user and group of the run.
    pub(super) owner: (u32, u32),
}

/// How every path of a run is resolved: below its folder, through no link and onto no other file system.
pub(super) const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

impl WorkTree {
    pub(crate) fn new(root: OwnedFd, owner: (u32, u32)) -> Self {
        Self { root, owner }
    }

    /// Opens a folder of the tree.
    pub(super) fn folder(&self, path: &str) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat2(&self.root, path, flags, Mode::empty(), BENEATH)?)
    }

    /// Reads a small file of the tree, if it is a regular one and no longer than `most`.
    pub(crate) fn read_small(&self, path: &str, most: u64) -> Option<Vec<u8>> {
        let file = open_regular(&self.root, path).ok()?;
        let mut content = Vec::new();
        let read = io::Read::read_to_end(&mut io::Read::take(file, most + 1), &mut content).ok()?;
        (read as u64 <= most).then_some(content)
    }

    /// Limits of the tree that are used up.
    pub(crate) fn full(&self) -> Vec<LimitKind> {
        let Ok(fs) = fstatfs(&self.root) else { return Vec::new() };
        let mut hits = Vec::new();
        if fs.f_bfree == 0 {
            hits.push(LimitKind::Disk);
        }
        if fs.f_ffree == 0 {
            hits.push(LimitKind::Inodes);
        }
        hits
    }
}

/// Opens a regular file for reading; a FIFO or device is refused without waiting for it.
pub(super) fn open_regular(folder: &OwnedFd, path: &str) -> io::Result<std::fs::File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = std::fs::File::from(openat2(folder, path, flags, Mode::empty(), BENEATH)?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}
