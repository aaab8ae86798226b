//! The folders of a sandbox that lie on its disk, and the mounts that show them.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags, open, openat2, statx};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};
use rustix::process::{chroot, fchdir, pivot_root};

use crate::disk;
use crate::stage;
use crate::sys::{self, MountAttr};
use crate::wire::{Disk, Extent};

/// Where a sandbox shows the folders of its disk, and where they lie on it.
const SHOWN: [(&CStr, &CStr); 3] = [(c"/work", c"/disk/work"), (c"/home", c"/disk/home"), (c"/tmp", c"/disk/tmp")];

/// What is never on a disk that is the whole root, and names that the kernel gives to memory.
const ELSEWHERE: [&str; 6] = ["/dev/", "/proc/", "/sys/", "/memfd:", "/SYSV", "/anon_hugepage"];

/// The folders of the disk that is in use.
pub(super) struct Folders {
    extent: Extent,
    root: OwnedFd,
    each: Vec<Folder>,
}

/// One folder as the sandbox sees it.
struct Folder {
    at: &'static CStr,
    /// The mount that shows it.
    fd: OwnedFd,
    mount: u64,
}

/// Trees that lay on the old disk, to be shown on the new.
pub(super) struct Shown(Vec<(String, OwnedFd)>);

impl Folders {
    /// Opens them; this process must be among the sandbox's mounts.
    pub(super) fn open(extent: Extent) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = |at: &'static CStr| {
            let fd = open(at, flags | OFlags::NOFOLLOW, Mode::empty())?;
            let mount = statx(&fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?.stx_mnt_id;
            Ok(Folder { at, fd, mount })
        };
        let each = match extent {
            Extent::Folders => SHOWN.iter().map(|(at, _)| folder(at)).collect::<Result<_, Errno>>()?,
            Extent::Root => vec![folder(c"/")?],
        };
        Ok(Self { extent, root: open(c"/", flags, Mode::empty())?, each })
    }

    /// The folder that a mount shows.
    pub(super) fn of_mount(&self, mount: u64) -> Option<&'static CStr> {
        self.each.iter().find(|folder| folder.mount == mount).map(|folder| folder.at)
    }

    /// Whether a path is on the disk, by its name.
    pub(super) fn hold(&self, path: &str) -> bool {
        if self.extent == Extent::Root {
            return !ELSEWHERE.iter().any(|begin| path.starts_with(begin));
        }
        self.each
            .iter()
            .filter_map(|folder| folder.at.to_str().ok())
            .any(|at| path.strip_prefix(at).is_some_and(|rest| rest.starts_with('/')))
    }

    /// Makes all of it read-only for everybody, or none: `Err(BUSY)` while a file is open for writing.
    pub(super) fn close(&self) -> Result<(), Errno> {
        let attr = MountAttr { set: libc::MOUNT_ATTR_RDONLY, clear: 0, propagation: 0, recursive: false };
        let closed = self.each.iter().try_for_each(|folder| sys::mount_setattr(folder.fd.as_fd(), c"", attr));
        if closed.is_err() {
            self.reopen();
        }
        closed
    }

    /// Takes that back.
    pub(super) fn reopen(&self) {
        let attr = MountAttr { set: 0, clear: libc::MOUNT_ATTR_RDONLY, propagation: 0, recursive: false };
        for folder in &self.each {
            let _ = sys::mount_setattr(folder.fd.as_fd(), c"", attr);
        }
    }

    /// Takes hold of everything that is mounted on these folders. `own` is this process.
    pub(super) fn shown(&self, own: i32) -> Result<Shown, Errno> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        let table = std::fs::read_to_string(format!("/proc/{own}/mountinfo"))
            .map_err(|error| Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO)))?;
        let below = table.lines().filter_map(mounted_on).filter(|(mount, _)| self.of_mount(*mount).is_some());
        let trees = below.map(|(_, at)| {
            let tree = open_tree(CWD, at.as_str(), flags | OpenTreeFlags::AT_SYMLINK_NOFOLLOW)?;
            Ok((at, tree))
        });
        Ok(Shown(trees.collect::<Result<_, Errno>>()?))
    }

    /// Puts each folder of another disk where the old one was.
    ///
    /// `pivot_root` is the one call that takes along whoever stands where the old mount begins.
    pub(super) fn replace(&self, new: &[OwnedFd]) -> Result<(), Errno> {
        for (old, new) in self.each.iter().zip(new) {
            let here = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
            move_mount(new, c"", &old.fd, c"", here)?;
            fchdir(&old.fd)?;
            chroot(c".")?;
            fchdir(new)?;
            pivot_root(c".", c".")?;
            // The old one lies on top of the new now.
            unmount(c".", UnmountFlags::DETACH)?;
            if self.extent == Extent::Folders {
                fchdir(&self.root)?;
                chroot(c".")?;
            }
        }
        Ok(())
    }
}

impl Shown {
    /// Shows them again, each where it was: nobody can have moved that meanwhile, nor can a link lead elsewhere.
    pub(super) fn show(self) -> Result<(), Errno> {
        for (at, tree) in self.0 {
            let place =
                openat2(CWD, at.as_str(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
            let here = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
            move_mount(&tree, c"", &place, c"", here)?;
        }
        Ok(())
    }
}

/// Mounts a disk and takes hold of its folders; this process must be among the keeper's mounts.
pub(super) fn mount(disk: &Disk) -> Result<Vec<OwnedFd>, Errno> {
    let whole = disk::mount(disk)?;
    if disk.extent == Extent::Root {
        return Ok(vec![whole]);
    }
    stage::attach(&whole, stage::DISK)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let folders = SHOWN.iter().map(|(_, path)| open_tree(CWD, *path, flags)).collect();
    unmount(stage::DISK, UnmountFlags::DETACH)?;
    folders
}

/// What a line of `mountinfo` says: the mount that another lies on, and where.
fn mounted_on(line: &str) -> Option<(u64, String)> {
    let mut words = line.split(' ');
    let parent = words.nth(1)?.parse().ok()?;
    Some((parent, plain(words.nth(2)?)))
}

/// Blanks and the like are written as numbers there.
fn plain(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let number = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = number.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *first == b'\\') {
            bytes.push(byte);
            rest = &after[3..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_mounts_is_understood() {
        let line = "412 380 0:52 / /home/a\\040b ro,nosuid - tmpfs none rw";
        assert_eq!(mounted_on(line), Some((380, "/home/a b".to_owned())));
        assert_eq!(mounted_on("garbage"), None);
    }
}
