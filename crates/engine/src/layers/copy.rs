//! A copy of a tree that a guest wrote, with all that makes it a layer: owners, marks of the overlay, files with two names.
//!
//! Whoever wrote it stands still meanwhile; should he not, no link of his is followed and nothing but files is opened.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid, XattrFlags, chownat,
    fchmod, fchown, fgetxattr, flistxattr, fsetxattr, fstat, linkat, mkdirat, mknodat, open, openat, openat2,
    readlinkat, statat, symlinkat, utimensat,
};
use rustix::io::Errno;

/// Below a folder that is open already: no links, and never above it.
const BELOW: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// What of attributes is a guest's own, or the overlay's.
const OURS: &[u8] = b"user.";
/// Bytes of all names of attributes, and of one value: the kernel takes no more.
const MOST: usize = 64 << 10;

/// Copies what is in a folder into another one, which is there and empty.
pub(crate) fn copy(from: &Path, into: &Path) -> io::Result<()> {
    let folder = |path: &Path| open(path, FOLDER, Mode::empty());
    let (from, into) = (folder(from)?, folder(into)?);
    let mut copying = Copying { from: &from, into: &into, linked: HashMap::new() };
    // Folders still to be read, and those whose own words are written when everything is in them.
    let (mut left, mut seen) = (vec![b".".to_vec()], Vec::new());
    while let Some(path) = left.pop() {
        copying.folder(&path, &mut left)?;
        seen.push(path);
    }
    for path in seen.iter().rev() {
        let (from, into) = (below(&from, path)?, below(&into, path)?);
        finish(&from, &into)?;
    }
    Ok(())
}

fn below(top: &OwnedFd, path: &[u8]) -> io::Result<OwnedFd> {
    Ok(openat2(top, path, FOLDER, Mode::empty(), BELOW)?)
}

struct Copying<'a> {
    from: &'a OwnedFd,
    into: &'a OwnedFd,
    /// Files with several names, by the first of these.
    linked: HashMap<(u64, u64), Vec<u8>>,
}

impl Copying<'_> {
    fn folder(&mut self, path: &[u8], left: &mut Vec<Vec<u8>>) -> io::Result<()> {
        let (from, into) = (below(self.from, path)?, below(self.into, path)?);
        for entry in Dir::read_from(&from)? {
            let name = entry?.file_name().to_owned();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let stat = match statat(&from, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let whole = [path, b"/", name.to_bytes()].concat();
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                mkdirat(&into, &name, Mode::RWXU)?;
                left.push(whole);
            } else {
                self.entry(&from, &into, &name, &stat, whole)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, from: &OwnedFd, into: &OwnedFd, name: &CStr, stat: &Stat, whole: Vec<u8>) -> io::Result<()> {
        if stat.st_nlink > 1 {
            if let Some(first) = self.linked.get(&(stat.st_dev, stat.st_ino)) {
                return Ok(linkat(self.into, OsStr::from_bytes(first), into, name, AtFlags::empty())?);
            }
            self.linked.insert((stat.st_dev, stat.st_ino), whole);
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
                let source = openat2(from, name, flags, Mode::empty(), BELOW)?;
                if FileType::from_raw_mode(fstat(&source)?.st_mode) != FileType::RegularFile {
                    return Ok(());
                }
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let target = openat(into, name, flags, Mode::RUSR | Mode::WUSR)?;
                let (mut source, mut target) = (File::from(source), File::from(target));
                io::copy(&mut source, &mut target)?;
                finish(source.as_fd(), target.as_fd())
            }
            FileType::Symlink => {
                symlinkat(readlinkat(from, name, Vec::new())?, into, name)?;
                own(into, name, stat)
            }
            // What hides a name of a lower layer.
            FileType::CharacterDevice if stat.st_rdev == 0 => {
                mknodat(into, name, FileType::CharacterDevice, Mode::empty(), 0)?;
                own(into, name, stat)
            }
            // Pipes and sockets are nobody's without the processes at their ends.
            _ => Ok(()),
        }
    }
}

/// Owner and times of what cannot be opened.
fn own(folder: &OwnedFd, name: &CStr, stat: &Stat) -> io::Result<()> {
    if owners_count() {
        let owner = (Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)));
        chownat(folder, name, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(utimensat(folder, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Owner, attributes, mode and times, in this order: each takes something of the next away.
fn finish(from: impl AsFd, into: impl AsFd) -> io::Result<()> {
    let (from, into) = (from.as_fd(), into.as_fd());
    let stat = fstat(from)?;
    if owners_count() {
        fchown(into, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))?;
    }
    attributes(from, into)?;
    fchmod(into, Mode::from_raw_mode(stat.st_mode))?;
    Ok(rustix::fs::futimens(into, &times(&stat))?)
}

fn attributes(from: BorrowedFd<'_>, into: BorrowedFd<'_>) -> io::Result<()> {
    let (mut names, mut value) = (vec![0; MOST], vec![0; MOST]);
    let length = flistxattr(from, &mut names[..])?;
    for name in names[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(OURS)) {
        let name = CString::new(name)?;
        let length = fgetxattr(from, &name, &mut value[..])?;
        fsetxattr(into, &name, &value[..length], XattrFlags::empty())?;
    }
    Ok(())
}

/// Whether files have owners other than us.
fn owners_count() -> bool {
    jail::shifts_ids()
}

fn times(stat: &Stat) -> Timestamps {
    let time = |seconds: i64, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanoseconds).unwrap_or_default(),
    };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use rustix::fs::CWD;

    use super::*;

    #[test]
    fn a_copy_has_everything_and_follows_nothing() {
        let top = std::env::temp_dir().join(format!("saggar-copy-{}", crate::id::random_hex()));
        let (from, into) = (top.join("from"), top.join("into"));
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::create_dir_all(&into).unwrap();
        fs::write(top.join("secret"), "of the host").unwrap();
        fs::write(from.join("a/b/file"), "content").unwrap();
        fs::set_permissions(from.join("a/b/file"), fs::Permissions::from_mode(0o751)).unwrap();
        fs::hard_link(from.join("a/b/file"), from.join("second")).unwrap();
        symlink("../secret", from.join("out")).unwrap();
        symlink("../../secret", from.join("a/folder")).unwrap();
        mknodat(CWD, from.join("a/gone"), FileType::CharacterDevice, Mode::empty(), 0).unwrap();
        mknodat(CWD, from.join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let folder = File::open(from.join("a")).unwrap();
        let is_marked = fsetxattr(&folder, c"user.overlay.opaque", b"y", XattrFlags::empty()).is_ok();
        fs::set_permissions(from.join("a"), fs::Permissions::from_mode(0o555)).unwrap();
        copy(&from, &into).unwrap();
        assert_eq!(fs::read_to_string(into.join("second")).unwrap(), "content");
        let (one, two) = (fs::metadata(into.join("second")).unwrap(), fs::metadata(into.join("a/b/file")).unwrap());
        assert_eq!((one.ino(), one.mode() & 0o777), (two.ino(), 0o751));
        assert_eq!(one.mtime_nsec(), fs::metadata(from.join("second")).unwrap().mtime_nsec());
        assert_eq!(fs::read_link(into.join("out")).unwrap(), Path::new("../secret"));
        assert_eq!(fs::symlink_metadata(into.join("a/gone")).unwrap().rdev(), 0);
        assert!(!into.join("pipe").exists());
        assert_eq!(fs::metadata(into.join("a")).unwrap().mode() & 0o777, 0o555);
        let mut value = [0; 4];
        let mark = fgetxattr(File::open(into.join("a")).unwrap(), c"user.overlay.opaque", &mut value[..]);
        assert_eq!(mark.is_ok(), is_marked);
        for folder in [from.join("a"), into.join("a")] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::remove_dir_all(top).unwrap();
    }
}
