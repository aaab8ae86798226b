//! The disk of a sandbox that stays: an overlay of layers, mounted by the keeper and moved in by init.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen,
};
use rustix::process::{chdir, fchdir};

use crate::stage;
use crate::wire::Disk;

/// Mounts a disk where nobody sees it yet.
pub(crate) fn mount(disk: &Disk) -> Result<OwnedFd, Errno> {
    let host = open(stage::HOST_TEXT, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat2(&host, disk.folder.as_str(), flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
    // Short paths: all of them together once had to fit into one page.
    fchdir(&folder)?;
    let mounted = overlay(disk);
    chdir(c"/")?;
    mounted
}

fn overlay(disk: &Disk) -> Result<OwnedFd, Errno> {
    let context = fsopen(c"overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let set = |key: &CStr, value: &str| fsconfig_set_string(context.as_fd(), key, value);
    set(c"source", "saggar")?;
    lower(context.as_fd(), &disk.lower)?;
    set(c"upperdir", &format!("{}/files", disk.top))?;
    set(c"workdir", &format!("{}/work", disk.top))?;
    // A layer that was the top of another disk a moment ago is still known as such.
    set(c"index", "off")?;
    // What is written here goes when the sandbox does, so nobody waits until it is safe from the machine's own end: not
    // programs, and not whoever takes the disk down. Kernels before 5.10 know no other way.
    let _ = fsconfig_set_flag(context.as_fd(), c"volatile");
    // Layers of images have no other marks, and rights to the other kind are root's alone.
    fsconfig_set_flag(context.as_fd(), c"userxattr")?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// One by one where the kernel can (6.7), else as one list.
fn lower(context: BorrowedFd<'_>, layers: &[String]) -> Result<(), Errno> {
    let mut one_by_one = true;
    for (number, layer) in layers.iter().enumerate() {
        match fsconfig_set_string(context, c"lowerdir+", layer.as_str()) {
            Ok(()) => {}
            Err(_) if number == 0 => {
                one_by_one = false;
                break;
            }
            Err(errno) => return Err(errno),
        }
    }
    if one_by_one { Ok(()) } else { fsconfig_set_string(context, c"lowerdir", layers.join(":").as_str()) }
}
