//! The files of a sandbox that stays, reached from its root as its processes see it.
//!
//! Every path is resolved by the kernel with that root as the end of all links, so that none leads to the host. Nothing but
//! regular files is read or written, and nothing that could block is waited for. The engine holds the root of a sandbox of
//! this host; in a container a program of ours has it as its own.

mod archive;
mod entry;
mod marks;
mod watch;

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid, fchmod, fchown, fstat, fstatfs, ftruncate,
    mkdirat, openat, openat2, readlinkat, renameat, statat,
};
use rustix::io::Errno;
use types::GuestPath;

use crate::ids::SHARED_COUNT;
use crate::measure::Sum;
use crate::remove;
use crate::wire::GuestIds;
pub use archive::Packing;
pub use entry::{Change, Entry, Event, Kind, Marks, Reach, Unpacked};
pub use watch::{SECOND_HALF, Watch};

/// Links end at the sandbox's root; those of `/proc` that lead anywhere are not followed.
const INSIDE: ResolveFlags = ResolveFlags::IN_ROOT.union(ResolveFlags::NO_MAGICLINKS);
/// The most entries that one answer tells of.
pub const MOST_ENTRIES: usize = 20_000;
/// The file system of processes.
const PROC: rustix::fs::FsWord = 0x9fa0;

/// The files of one sandbox.
#[derive(Clone)]
pub struct Files {
    root: Arc<OwnedFd>,
    ids: GuestIds,
}

impl Files {
    /// Those below a root, whose owners are written as said.
    #[must_use]
    pub fn new(root: Arc<OwnedFd>, ids: GuestIds) -> Self {
        Self { root, ids }
    }

    /// Everybody inside but init, as `number name`, whatever they call themselves.
    #[must_use]
    pub fn processes(&self) -> Vec<String> {
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

    /// Adds files of its disk that have no name any more, but that somebody inside has open.
    pub fn add_unlinked(&self, sum: &mut Sum) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let Ok(proc) = self.open("/proc", flags, Mode::empty()) else { return };
        let device = |folder| Some(fstat(self.open(folder, OFlags::PATH, Mode::empty()).ok()?).ok()?.st_dev);
        let devices: Vec<u64> = ["/work", "/home", "/tmp"].into_iter().filter_map(device).collect();
        sum.add_unlinked(&proc, &devices);
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
    pub(super) fn parent(&self, path: &GuestPath, make: Option<u32>) -> io::Result<(OwnedFd, CString)> {
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
    pub(super) fn make_folders(&self, path: &str, user: u32) -> io::Result<(OwnedFd, bool)> {
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
    fn give(&self, file: impl AsFd, user: u32, mode: u32) -> io::Result<()> {
        if let GuestIds::Range { first } = self.ids {
            let host = first + user;
            fchown(&file, Some(Uid::from_raw(host)), Some(Gid::from_raw(host)))?;
        }
        Ok(fchmod(&file, Mode::from(mode & 0o777))?)
    }

    /// A regular file of a user to be written, empty; folders above it are made.
    pub fn create(&self, path: &GuestPath, user: u32, mode: u32) -> io::Result<File> {
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
            GuestIds::Range { first } => host.checked_sub(first).filter(|id| *id < SHARED_COUNT).unwrap_or(65534),
            GuestIds::One { .. } if host == one => 1000,
            GuestIds::One { .. } => 65534,
        };
        let (own_uid, own_gid) = match self.ids {
            GuestIds::Range { .. } => (0, 0),
            GuestIds::One { uid, gid } => (uid, gid),
        };
        (inside(stat.st_uid, own_uid), inside(stat.st_gid, own_gid))
    }

    fn entry(&self, path: String, stat: &Stat, target: Option<String>) -> Entry {
        let (uid, gid) = self.inside(stat);
        Entry {
            path,
            kind: match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Folder,
                FileType::Symlink => Kind::Link,
                _ => Kind::Other,
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

    /// One entry; a link is followed, and its target is told.
    pub fn stat(&self, path: &GuestPath) -> io::Result<Entry> {
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

    /// Entries below a folder, sorted, each folder before what is in it; links are not followed.
    pub fn list(&self, path: &GuestPath, depth: u32) -> io::Result<Vec<Entry>> {
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
            found.sort_by(|a, b| a.name().cmp(b.name()));
            if level < depth {
                left.extend(
                    found.iter().rev().filter(|e| e.kind == Kind::Folder).map(|e| (e.path.clone(), None, level + 1)),
                );
            }
            entries.extend(found);
        }
        // Each folder before what is in it.
        entries.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
        Ok(entries)
    }

    /// A regular file to be read, and its size.
    pub fn read(&self, path: &GuestPath) -> io::Result<(File, u64)> {
        let file = self.open_regular(path.as_str(), OFlags::RDONLY, Mode::empty())?;
        let bytes = file.metadata()?.size();
        Ok((file, bytes))
    }

    /// Makes a folder with all above it; one that is there already is an error.
    pub fn make_folder(&self, path: &GuestPath, user: u32) -> io::Result<()> {
        let (_, made) = self.make_folders(path.as_str(), user)?;
        if made { Ok(()) } else { Err(io::ErrorKind::AlreadyExists.into()) }
    }

    /// Moves within the sandbox, making folders above the new name.
    pub fn rename(&self, from: &GuestPath, to: &GuestPath, user: u32) -> io::Result<()> {
        let (from_folder, from_name) = self.parent(from, None)?;
        let (to_folder, to_name) = self.parent(to, Some(user))?;
        Ok(renameat(&from_folder, &from_name, &to_folder, &to_name)?)
    }

    /// Removes whatever is there, with all below it. Nothing there is no error.
    pub fn remove(&self, path: &GuestPath) -> io::Result<()> {
        match self.parent(path, None) {
            Ok((folder, name)) => remove::tree(folder.as_fd(), &name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Words attached to a file whose names begin with a prefix; none where it cannot be opened.
    #[must_use]
    pub fn marks(&self, path: &GuestPath, prefix: &str) -> Marks {
        marks::read(self, path, prefix)
    }

    /// Attaches words to a file in place of those that it had with this prefix.
    pub fn mark(&self, path: &GuestPath, prefix: &str, marks: &Marks) -> io::Result<()> {
        marks::write(self, path, prefix, marks)
    }
}

/// Without what changes nothing.
pub(super) fn tidy(path: &GuestPath) -> String {
    let parts: Vec<&str> = path.as_str().split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    format!("/{}", parts.join("/"))
}
