//! `mount_setattr`, the only call that makes a whole tree read-only at once.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use super::check;

/// Attributes to set on a mount.
#[derive(Clone, Copy)]
pub(crate) struct MountAttr {
    /// `MOUNT_ATTR_*` flags to add.
    pub(crate) set: u64,
    /// Those to take away.
    pub(crate) clear: u64,
    /// A propagation type such as `MS_PRIVATE`, or 0.
    pub(crate) propagation: u64,
    /// Whether mounts below follow.
    pub(crate) recursive: bool,
}

/// Sets attributes on the mount at `path` below `at` (`c""` means `at` itself).
pub(crate) fn mount_setattr(at: BorrowedFd<'_>, path: &CStr, attr: MountAttr) -> Result<(), Errno> {
    let raw =
        libc::mount_attr { attr_set: attr.set, attr_clr: attr.clear, propagation: attr.propagation, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if attr.recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: `path` is NUL-terminated and `raw` is a `mount_attr` of the size passed; the kernel reads both during the
    // call only.
    check(unsafe {
        libc::syscall(libc::SYS_mount_setattr, at.as_raw_fd(), path.as_ptr(), flags, &raw const raw, size_of_val(&raw))
    })
    .map(drop)
}
