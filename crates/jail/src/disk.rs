//! The disk of a sandbox that stays: an overlay of layers, mounted by the keeper and moved in by init.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen,
};
use rustix::process::{chdir, fchdir, geteuid};

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
    // Rights to the other kind of attribute are root's alone.
    if !is_root() {
        fsconfig_set_flag(context.as_fd(), c"userxattr")?;
    }
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

fn is_root() -> bool {
    geteuid().is_root() && std::fs::read_to_string("/host/proc/self/uid_map").is_ok_and(|map| is_whole(&map))
}

/// Whether a map is that of the namespace which has all users.
fn is_whole(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_range_is_the_first_namespace() {
        assert!(is_whole("         0          0 4294967295\n"));
        assert!(!is_whole("         0       1000          1\n"));
        assert!(!is_whole("0 100000 65536\n1 1 1\n"));
    }
}
