//! The folders of a sandbox that lie on its disk, and the mounts that show them.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, open, statx};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};
use rustix::process::{chroot, fchdir, pivot_root};

use crate::disk;
use crate::stage::{self, Overlay};
use crate::sys::{self, MountAttr};
use crate::wire::Disk;

/// Where a sandbox shows the folders of its disk, and where they lie on it.
const SHOWN: [(&CStr, &CStr); 3] = [(c"/work", c"/disk/work"), (c"/home", c"/disk/home"), (c"/tmp", c"/disk/tmp")];

/// The folders of the disk that is in use.
pub(super) struct Folders {
    root: OwnedFd,
    folders: Vec<Folder>,
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
    pub(super) fn open() -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = |at: &'static CStr| {
            let fd = open(at, flags | OFlags::NOFOLLOW, Mode::empty())?;
            let mount = statx(&fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?.stx_mnt_id;
            Ok(Folder { at, fd, mount })
        };
        let folders = SHOWN.iter().map(|(at, _)| folder(at)).collect::<Result<_, Errno>>()?;
        Ok(Self { root: open(c"/", flags, Mode::empty())?, folders })
    }

    /// The folder that a mount shows.
    pub(super) fn of_mount(&self, mount: u64) -> Option<&'static CStr> {
        self.folders.iter().find(|folder| folder.mount == mount).map(|folder| folder.at)
    }

    /// Whether a path is on the disk, by its name.
    pub(super) fn hold(&self, path: &str) -> bool {
        self.folders
            .iter()
            .filter_map(|folder| folder.at.to_str().ok())
            .any(|at| path.strip_prefix(at).is_some_and(|rest| rest.starts_with('/')))
    }

    /// Makes all of it read-only for everybody, or none: `Err(BUSY)` while a file is open for writing.
    pub(super) fn close(&self) -> Result<(), Errno> {
        let attr = MountAttr { set: libc::MOUNT_ATTR_RDONLY, clear: 0, propagation: 0, recursive: false };
        let closed = self.folders.iter().try_for_each(|folder| sys::mount_setattr(folder.fd.as_fd(), c"", attr));
        if closed.is_err() {
            self.reopen();
        }
        closed
    }

    /// Takes that back.
    pub(super) fn reopen(&self) {
        let attr = MountAttr { set: 0, clear: libc::MOUNT_ATTR_RDONLY, propagation: 0, recursive: false };
        for folder in &self.folders {
            let _ = sys::mount_setattr(folder.fd.as_fd(), c"", attr);
        }
    }

    /// Takes hold of trees of the host that are shown below these folders.
    pub(super) fn shown(&self, overlays: &[Overlay]) -> Result<Shown, Errno> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        let below = overlays.iter().map(Overlay::guest).filter(|guest| self.hold(guest));
        let trees = below.map(|guest| Ok((guest.to_owned(), open_tree(CWD, guest, flags)?)));
        Ok(Shown(trees.collect::<Result<_, Errno>>()?))
    }

    /// Puts each folder of another disk where the old one was.
    ///
    /// `pivot_root` is the one call that takes along whoever stands where the old mount begins.
    pub(super) fn replace(&self, new: &[OwnedFd]) -> Result<(), Errno> {
        for (old, new) in self.folders.iter().zip(new) {
            let here = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
            move_mount(new, c"", &old.fd, c"", here)?;
            fchdir(&old.fd)?;
            chroot(c".")?;
            fchdir(new)?;
            pivot_root(c".", c".")?;
            // The old one lies on top of the new now.
            unmount(c".", UnmountFlags::DETACH)?;
            fchdir(&self.root)?;
            chroot(c".")?;
        }
        Ok(())
    }
}

impl Shown {
    /// Shows them again; where the sandbox has removed their place, it goes without.
    pub(super) fn show(self) -> Result<(), Errno> {
        for (guest, tree) in self.0 {
            match move_mount(&tree, c"", CWD, guest.as_str(), MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

/// Mounts a disk and takes hold of its folders; this process must be among the keeper's mounts.
pub(super) fn mount(disk: &Disk) -> Result<Vec<OwnedFd>, Errno> {
    let whole = disk::mount(disk)?;
    stage::attach(&whole, stage::DISK)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let folders = SHOWN.iter().map(|(_, path)| open_tree(CWD, *path, flags)).collect();
    unmount(stage::DISK, UnmountFlags::DETACH)?;
    folders
}
