//! The files of a layer as they are written. Whatever an archive says, nothing outside the layer's folder is touched:
//! paths are resolved by the kernel with that folder as their root, and what overlay or the host would obey (devices,
//! set-id bits, extended attributes) is left out.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags, chownat, fchmod, fchown,
    fsetxattr, futimens, linkat, mkdirat, mknodat, openat, openat2, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::ImageError;
use super::budget::Budget;

/// As overlay reads it where it is mounted with `userxattr`, which ordinary users can.
const OPAQUE: &str = "user.overlay.opaque";

/// Everything below the folder, wherever links in it point.
const INSIDE: ResolveFlags = ResolveFlags::IN_ROOT.union(ResolveFlags::NO_MAGICLINKS).union(ResolveFlags::NO_XDEV);

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A path as an archive gives it: plain names below the root of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntryPath(Vec<u8>);

impl EntryPath {
    /// Checks a path; `None` is the root itself.
    pub(super) fn new(path: &[u8]) -> Result<Option<Self>, ImageError> {
        let refused = |why| Err(ImageError::Entry { path: shown(path), why });
        if path.starts_with(b"/") {
            return refused("its path is absolute");
        }
        if path.len() > 4000 || path.contains(&0) {
            return refused("its path is none");
        }
        let mut parts = Vec::new();
        for part in path.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return refused("its path leads out"),
                part if part.len() > 255 => return refused("its name is too long"),
                part => parts.push(part),
            }
        }
        if parts.len() > 200 {
            return refused("it is nested too deep");
        }
        Ok((!parts.is_empty()).then(|| Self(parts.join(&b'/'))))
    }

    /// The folder above, which may be the root, and the name.
    pub(super) fn split(&self) -> (Option<Self>, &[u8]) {
        match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (Some(Self(self.0[..at].to_vec())), &self.0[at + 1..]),
            None => (None, &self.0),
        }
    }

    /// The same folder, another name.
    pub(super) fn sibling(&self, name: &[u8]) -> Self {
        let (folder, _) = self.split();
        let mut path = folder.map(|folder| [&folder.0[..], b"/"].concat()).unwrap_or_default();
        path.extend_from_slice(name);
        Self(path)
    }

    fn os(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }
}

/// A path for people.
pub(super) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).chars().take(200).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// What an entry says of itself beside its content.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub(super) mode: u32,
    pub(super) uid: u64,
    pub(super) gid: u64,
    /// Seconds since 1970.
    pub(super) modified: i64,
}

/// The files of a layer as they are written.
pub(super) struct Tree<'a> {
    root: OwnedFd,
    /// Host id of the image's id 0; all files are our own if absent.
    shift: Option<u32>,
    pub(super) budget: &'a mut Budget,
    /// Folders get their modes last: before, they must be writable.
    folders: Vec<(EntryPath, Facts)>,
    /// The folder of the last entry; the next one is mostly there too.
    last: Option<(EntryPath, OwnedFd)>,
    buffer: Vec<u8>,
    /// Devices, pipes and sockets that were left out.
    pub(super) left_out: u64,
}

impl<'a> Tree<'a> {
    pub(super) fn new(root: OwnedFd, shift: Option<u32>, budget: &'a mut Budget) -> Self {
        Self { root, shift, budget, folders: Vec::new(), last: None, buffer: vec![0; 128 << 10], left_out: 0 }
    }

    pub(super) fn folder(&mut self, path: &EntryPath, facts: Facts) -> Result<(), ImageError> {
        self.budget.take_entry()?;
        let (parent, name) = self.parent(path)?;
        let failed = |errno: Errno| write_failed(path, errno);
        match kind_of(&parent, &name) {
            Some(FileType::Directory) => {}
            Some(_) => {
                unlinkat(&parent, &name, AtFlags::empty()).map_err(failed)?;
                mkdirat(&parent, &name, Mode::RWXU).map_err(failed)?;
            }
            None => mkdirat(&parent, &name, Mode::RWXU).map_err(failed)?,
        }
        self.folders.push((path.clone(), facts));
        Ok(())
    }

    pub(super) fn file(&mut self, path: &EntryPath, facts: Facts, content: &mut dyn Read) -> Result<(), ImageError> {
        self.budget.take_entry()?;
        let (parent, name) = self.vacant(path)?;
        let failed = |errno: Errno| write_failed(path, errno);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = std::fs::File::from(openat(&parent, &name, flags, Mode::RUSR).map_err(failed)?);
        loop {
            let read = match content.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(ImageError::Archive(error)),
            };
            self.budget.take_bytes(read as u64)?;
            let written = file.write_all(&self.buffer[..read]);
            written.map_err(|source| ImageError::Write { path: shown(&path.0), source })?;
        }
        if let Some((uid, gid)) = self.owner(facts) {
            fchown(&file, Some(uid), Some(gid)).map_err(failed)?;
        }
        fchmod(&file, self.mode(facts, Mode::RUSR | Mode::WUSR) & !Mode::SVTX).map_err(failed)?;
        futimens(&file, &times(facts)).map_err(failed)
    }

    pub(super) fn symlink(&mut self, path: &EntryPath, facts: Facts, target: &[u8]) -> Result<(), ImageError> {
        self.budget.take_entry()?;
        if target.is_empty() || target.len() > 4000 || target.contains(&0) {
            return Err(ImageError::Entry { path: shown(&path.0), why: "its target is none" });
        }
        let (parent, name) = self.vacant(path)?;
        let failed = |errno: Errno| write_failed(path, errno);
        symlinkat(OsStr::from_bytes(target), &parent, &name).map_err(failed)?;
        if let Some((uid, gid)) = self.owner(facts) {
            chownat(&parent, &name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        }
        utimensat(&parent, &name, &times(facts), AtFlags::SYMLINK_NOFOLLOW).map_err(failed)
    }

    /// A second name of a file of the same layer.
    pub(super) fn hard_link(&mut self, path: &EntryPath, target: &EntryPath) -> Result<(), ImageError> {
        self.budget.take_entry()?;
        let (from, from_name) = self.parent(target)?;
        // A folder or a device could be meant, and neither may have two names.
        if !matches!(kind_of(&from, &from_name), Some(FileType::RegularFile | FileType::Symlink)) {
            return Err(ImageError::Entry {
                path: shown(&path.0),
                why: "it is a second name of no file in this layer",
            });
        }
        if path == target {
            return Ok(());
        }
        let (parent, name) = self.vacant(path)?;
        linkat(&from, &from_name, &parent, &name, AtFlags::empty()).map_err(|errno| write_failed(path, errno))
    }

    /// Hides what a lower layer has of this name.
    pub(super) fn whiteout(&mut self, path: &EntryPath) -> Result<(), ImageError> {
        self.budget.take_entry()?;
        let (parent, name) = self.parent(path)?;
        // The same layer has it as well: a whiteout is about those below.
        if kind_of(&parent, &name).is_some() {
            return Ok(());
        }
        mknodat(&parent, &name, FileType::CharacterDevice, Mode::empty(), 0).map_err(|errno| write_failed(path, errno))
    }

    /// Hides all that lower layers have in this folder; `None` is the root.
    pub(super) fn opaque(&mut self, path: Option<&EntryPath>) -> Result<(), ImageError> {
        self.budget.take_entry()?;
        let folder = self.enter(path)?;
        let shown = path.map_or_else(String::new, |path| shown(&path.0));
        fsetxattr(&folder, OPAQUE, b"y", XattrFlags::empty())
            .map_err(|errno| ImageError::Write { path: shown, source: errno.into() })
    }

    /// Gives folders their own modes.
    pub(super) fn finish(mut self) -> Result<u64, ImageError> {
        self.last = None;
        for (path, facts) in std::mem::take(&mut self.folders).into_iter().rev() {
            let failed = |errno: Errno| write_failed(&path, errno);
            let flags = FOLDER | OFlags::NOFOLLOW;
            let folder = match openat2(&self.root, path.os(), flags, Mode::empty(), INSIDE) {
                Ok(folder) => folder,
                // Something else has come in its place.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(errno) => return Err(failed(errno)),
            };
            if let Some((uid, gid)) = self.owner(facts) {
                fchown(&folder, Some(uid), Some(gid)).map_err(failed)?;
            }
            fchmod(&folder, self.mode(facts, Mode::RWXU)).map_err(failed)?;
            futimens(&folder, &times(facts)).map_err(failed)?;
        }
        if let Some(first) = self.shift {
            let (uid, gid) = (Uid::from_raw(first), Gid::from_raw(first));
            fchown(&self.root, Some(uid), Some(gid)).map_err(|errno| ImageError::Records(errno.into()))?;
        }
        Ok(self.left_out)
    }

    /// The folder of an entry and its name, which nothing has.
    fn vacant(&mut self, path: &EntryPath) -> Result<(OwnedFd, OsString), ImageError> {
        let (parent, name) = self.parent(path)?;
        match kind_of(&parent, &name) {
            None => {}
            Some(FileType::Directory) => {
                return Err(ImageError::Entry { path: shown(&path.0), why: "it takes the place of a folder" });
            }
            Some(_) => unlinkat(&parent, &name, AtFlags::empty()).map_err(|errno| write_failed(path, errno))?,
        }
        Ok((parent, name))
    }

    fn parent(&mut self, path: &EntryPath) -> Result<(OwnedFd, OsString), ImageError> {
        let (folder, name) = path.split();
        let name = OsString::from_vec(name.to_vec());
        Ok((self.enter(folder.as_ref())?, name))
    }

    /// Opens a folder, making what is missing of it.
    fn enter(&mut self, path: Option<&EntryPath>) -> Result<OwnedFd, ImageError> {
        let host = |error: io::Error| ImageError::Records(error);
        let Some(path) = path else { return self.root.try_clone().map_err(host) };
        if let Some((last, folder)) = &self.last
            && last == path
        {
            return folder.try_clone().map_err(host);
        }
        let folder = self.open_or_make(path)?;
        self.last = Some((path.clone(), folder.try_clone().map_err(host)?));
        Ok(folder)
    }

    fn open_or_make(&mut self, path: &EntryPath) -> Result<OwnedFd, ImageError> {
        match openat2(&self.root, path.os(), FOLDER, Mode::empty(), INSIDE) {
            Ok(folder) => Ok(folder),
            Err(Errno::NOENT) => {
                self.budget.take_entry()?;
                let (above, name) = path.split();
                let parent = match &above {
                    Some(above) => self.open_or_make(above)?,
                    None => self.root.try_clone().map_err(ImageError::Records)?,
                };
                match mkdirat(&parent, OsStr::from_bytes(name), Mode::RWXU) {
                    Ok(()) => {}
                    Err(Errno::EXIST) => return Err(through(path)),
                    Err(errno) => return Err(write_failed(path, errno)),
                }
                self.folders.push((path.clone(), Facts { mode: 0o755, uid: 0, gid: 0, modified: 0 }));
                openat(parent.as_fd(), name, FOLDER | OFlags::NOFOLLOW, Mode::empty())
                    .map_err(|errno| write_failed(path, errno))
            }
            Err(Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Err(through(path)),
            Err(errno) => Err(write_failed(path, errno)),
        }
    }

    fn owner(&self, facts: Facts) -> Option<(Uid, Gid)> {
        let first = self.shift?;
        // Ids past the range are nobody's.
        let id = |id: u64| first + u32::try_from(id).ok().filter(|id| *id < jail::SHARED_COUNT).unwrap_or(65534);
        Some((Uid::from_raw(id(facts.uid)), Gid::from_raw(id(facts.gid))))
    }

    /// Permissions without set-id bits. Where files are our own, they stay ours to read and to remove.
    fn mode(&self, facts: Facts, own: Mode) -> Mode {
        let mode = Mode::from_raw_mode(facts.mode & 0o1777);
        if self.shift.is_some() { mode } else { mode | own }
    }
}

fn kind_of(folder: &OwnedFd, name: &OsStr) -> Option<FileType> {
    let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileType::from_raw_mode(found.st_mode))
}

fn times(facts: Facts) -> Timestamps {
    // What lies outside these years is nonsense that some file systems cannot hold.
    let at = Timespec { tv_sec: facts.modified.clamp(0, 0xffff_ffff), tv_nsec: 0 };
    Timestamps { last_access: at, last_modification: at }
}

fn through(path: &EntryPath) -> ImageError {
    ImageError::Entry { path: shown(&path.0), why: "its path goes through something that is no folder" }
}

fn write_failed(path: &EntryPath, errno: Errno) -> ImageError {
    ImageError::Write { path: shown(&path.0), source: errno.into() }
}
