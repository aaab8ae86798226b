//! The sandbox's own root: the keeper's read-only base, with the run's writable tree and `/proc` on top.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create, fsconfig_set_string,
    fsmount, fsopen, mount_bind, mount_bind_recursive, move_mount, unmount,
};
use rustix::process::{chdir, pivot_root};
use rustix::system::sethostname;
use types::Layer;

use super::Step;
use crate::ids;
use crate::stage;
use crate::sys::{self, MountAttr};
use crate::wire::Trouble;

/// Moves this process into a root of its own and returns its `/proc`.
pub(super) fn enter(writable: OwnedFd, accept: &[Layer], layers: &mut Vec<Layer>) -> Result<OwnedFd, Trouble> {
    // Only here: with cgroup v1 the keeper attaches after the clone, and the namespace shows the group it began in.
    match ids::unshare_cgroup_view() {
        Ok(()) => layers.push(Layer::CgroupNs),
        Err(_) if accept.contains(&Layer::CgroupNs) => {}
        Err(errno) => return Err(errno).wall(Layer::CgroupNs, "make a cgroup namespace"),
    }
    ids::become_guest().wall(Layer::UserNs, "become the user of the sandbox")?;
    if layers_has(accept, Layer::UtsNs, sethostname(b"sandbox")).wall(Layer::UtsNs, "set the host name")? {
        layers.push(Layer::UtsNs);
    }
    if layers_has(accept, Layer::NetNs, sys::loopback_up()).wall(Layer::NetNs, "bring loopback up")? {
        layers.push(Layer::NetNs);
    }

    mount_bind_recursive(stage::BASE, stage::NEW).wall(Layer::MountNs, "bind the base root")?;
    move_mount(&writable, c"", CWD, stage::WRITABLE, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .wall(Layer::MountNs, "attach the writable tree")?;
    for (from, to) in stage::WRITABLE_BINDS {
        mount_bind(*from, *to).wall(Layer::MountNs, "bind the writable folders")?;
    }
    let noexec = MountAttr { set: libc::MOUNT_ATTR_NOEXEC, propagation: 0, recursive: false };
    sys::mount_setattr(CWD.as_fd(), stage::SHM, noexec).wall(Layer::MountNs, "forbid programs in /dev/shm")?;
    let read_only = MountAttr { set: libc::MOUNT_ATTR_RDONLY, propagation: 0, recursive: false };
    sys::mount_setattr(CWD.as_fd(), stage::CPU_ONLINE, read_only).wall(Layer::MountNs, "protect the cpu list")?;
    let proc = mount_proc().wall(Layer::PidNs, "mount /proc")?;
    forbid_namespaces();

    chdir(stage::NEW).wall(Layer::MountNs, "enter the new root")?;
    pivot_root(c".", c".").wall(Layer::MountNs, "pivot_root")?;
    unmount(c".", UnmountFlags::DETACH).wall(Layer::MountNs, "let go of the host's root")?;
    chdir(c"/").wall(Layer::MountNs, "enter the new root")?;
    layers.push(Layer::MountNs);
    layers.push(Layer::PidNs);
    drop(proc);
    open(c"/proc", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).step("open /proc")
}

/// Whether a wall stands; an accepted one may fail.
fn layers_has(accept: &[Layer], layer: Layer, result: Result<(), Errno>) -> Result<bool, Errno> {
    match result {
        Ok(()) => Ok(true),
        Err(_) if accept.contains(&layer) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// A second wall behind the filter: in this user namespace no further ones can be made. It is not a layer of its own,
/// and a host whose `/proc/sys` is read-only goes without.
fn forbid_namespaces() {
    for name in ["user", "mnt", "net", "pid"] {
        drop(std::fs::write(format!("{}/proc/sys/user/max_{name}_namespaces", stage::HOST_TEXT), "0"));
    }
}

/// `/proc` of the new pid namespace. `subset=pid` leaves processes only: no kernel file exists to be masked.
fn mount_proc() -> Result<OwnedFd, Errno> {
    let context = fsopen(c"proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), c"subset", c"pid")?;
    fsconfig_create(context.as_fd())?;
    let attributes =
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    move_mount(&mount, c"", CWD, stage::NEW_PROC, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    Ok(mount)
}
