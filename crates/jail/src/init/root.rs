//! The sandbox's own root: the keeper's read-only base, with the run's writable tree and `/proc` on top.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, open, openat, openat2};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
    mount_bind, mount_bind_recursive, unmount,
};
use rustix::process::{chdir, pivot_root};
use rustix::system::sethostname;
use types::Layer;

use super::Step;
use crate::ids;
use crate::stage::{self, Overlay};
use crate::sys::{self, MountAttr};
use crate::wire::{Extent, Trouble};
use crate::zygote;

/// Who the sandbox is, and what it goes without.
pub(super) struct Identity<'a> {
    /// User and group to become.
    pub(super) guest: (u32, u32),
    /// Namespaces that it was born without.
    pub(super) without: Vec<Layer>,
    /// Walls that may still fail.
    pub(super) accept: &'a [Layer],
    /// Whether its network is on loan, and up.
    pub(super) lent: bool,
    /// Its disk and what lies on it, if it stays.
    pub(super) disk: Option<(&'a OwnedFd, Extent)>,
}

/// Moves this process into a root of its own and returns its `/proc`.
pub(super) fn enter(
    writable: &OwnedFd,
    overlays: &[Overlay],
    identity: &Identity<'_>,
    layers: &mut Vec<Layer>,
) -> Result<OwnedFd, Trouble> {
    let Identity { guest, without, accept, lent, disk } = identity;
    // Only here: with cgroup v1 init has just moved itself, and the namespace shows the group it began in.
    if !without.contains(&Layer::CgroupNs) {
        match ids::unshare_cgroup_view() {
            Ok(()) => layers.push(Layer::CgroupNs),
            Err(_) if accept.contains(&Layer::CgroupNs) => {}
            Err(errno) => return Err(errno).wall(Layer::CgroupNs, "make a cgroup namespace"),
        }
    }
    ids::become_guest(guest.0, guest.1).wall(Layer::UserNs, "become the user of the sandbox")?;
    // What was given up is the host's own: nothing of it is touched.
    if !without.contains(&Layer::UtsNs) {
        sethostname(b"sandbox").wall(Layer::UtsNs, "set the host name")?;
        layers.push(Layer::UtsNs);
    }
    if !without.contains(&Layer::NetNs) {
        if !lent {
            sys::loopback_up().wall(Layer::NetNs, "bring loopback up")?;
        }
        layers.push(Layer::NetNs);
    }

    stage::attach(writable, stage::WRITABLE).wall(Layer::MountNs, "attach the writable tree")?;
    match disk {
        None => {
            mount_bind_recursive(stage::BASE, stage::NEW).wall(Layer::MountNs, "bind the base root")?;
            bind_all(stage::WRITABLE_BINDS)?;
        }
        Some((disk, extent)) => lay_disk(disk, *extent)?,
    }
    // Trees of the host are for who has the host's root.
    let overlays = if matches!(disk, Some((_, Extent::Root))) { &[] } else { overlays };
    for overlay in overlays {
        overlay.show().wall(Layer::MountNs, "show a tree below a writable folder")?;
    }
    let noexec = MountAttr { set: libc::MOUNT_ATTR_NOEXEC, clear: 0, propagation: 0, recursive: false };
    sys::mount_setattr(CWD.as_fd(), stage::SHM, noexec).wall(Layer::MountNs, "forbid programs in /dev/shm")?;
    let read_only = MountAttr { set: libc::MOUNT_ATTR_RDONLY, clear: 0, propagation: 0, recursive: false };
    sys::mount_setattr(CWD.as_fd(), stage::CPU_ONLINE, read_only).wall(Layer::MountNs, "protect the cpu list")?;
    if !without.contains(&Layer::PidNs) {
        mount_proc(disk.is_some()).wall(Layer::PidNs, "mount /proc")?;
        layers.push(Layer::PidNs);
    }
    if !without.contains(&Layer::UserNs) {
        forbid_namespaces();
        scatter_pids();
    }

    chdir(stage::NEW).wall(Layer::MountNs, "enter the new root")?;
    pivot_root(c".", c".").wall(Layer::MountNs, "pivot_root")?;
    unmount(c".", UnmountFlags::DETACH).wall(Layer::MountNs, "let go of the host's root")?;
    chdir(c"/").wall(Layer::MountNs, "enter the new root")?;
    layers.push(Layer::MountNs);
    open(c"/proc", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).step("open /proc")
}

/// Binds folders to where they show.
fn bind_all(binds: &[(&CStr, &CStr)]) -> Result<(), Trouble> {
    binds.iter().try_for_each(|(from, to)| mount_bind(*from, *to)).wall(Layer::MountNs, "bind the writable folders")
}

/// The root of a sandbox that stays: its disk, and what no disk holds.
fn lay_disk(disk: &OwnedFd, extent: Extent) -> Result<(), Trouble> {
    stage::attach(disk, stage::DISK).wall(Layer::MountNs, "attach the disk")?;
    match extent {
        Extent::Folders => {
            mount_bind_recursive(stage::BASE, stage::NEW).wall(Layer::MountNs, "bind the base root")?;
            bind_all(stage::DISK_BINDS)?;
        }
        Extent::Root => {
            mount_bind(stage::DISK, stage::NEW).wall(Layer::MountNs, "bind the disk")?;
            is_plain(stage::NEW_PROC).wall(Layer::MountNs, "look at the disk's own folders")?;
            for (from, to) in stage::BASE_BINDS {
                is_plain(to).wall(Layer::MountNs, "look at the disk's own folders")?;
                mount_bind_recursive(*from, *to).wall(Layer::MountNs, "bind parts of the base root")?;
            }
        }
    }
    bind_all(stage::MEMORY_BINDS)?;
    mount_terminals().wall(Layer::MountNs, "mount /dev/pts")
}

/// Whoever wrote to the disk before may have left a link where something is to be mounted: then there is no sandbox.
fn is_plain(path: &CStr) -> Result<(), Errno> {
    let links = ResolveFlags::NO_SYMLINKS;
    openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), links).map(drop)
}

/// Terminals of its own: no number of the host's is among them.
fn mount_terminals() -> Result<(), Errno> {
    let context = fsopen(c"devpts", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in [(c"ptmxmode", c"666"), (c"mode", c"620"), (c"max", c"64")] {
        fsconfig_set_string(context.as_fd(), key, value)?;
    }
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    stage::attach(&mount, stage::TERMINALS)
}

/// This process's mount namespace, for the keeper to take down when nobody waits for it; then, for a worker, all of
/// them, the user's first: who joins that one may join the others.
pub(super) fn namespaces(all: bool) -> Result<Vec<OwnedFd>, Errno> {
    let here = open(c"/proc/self/ns", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let open = |name: &&str| openat(&here, *name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let wanted = if all { &zygote::NAMESPACES[..] } else { &[] };
    ["mnt"].iter().chain(wanted).map(open).collect()
}

/// The root as everybody inside sees it, for the engine to reach files by, and its processes, for the keeper to enter.
pub(super) fn own_root() -> Result<[OwnedFd; 2], Errno> {
    let root = open(c"/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok([root, open(c"/proc/self/ns/pid", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?])
}

/// A second wall behind the filter: below this user namespace no further one can be made, and without a new one nobody
/// here has the right to make any other kind. It is not a layer of its own, and a host whose `/proc/sys` is read-only goes
/// without.
fn forbid_namespaces() {
    drop(std::fs::write(format!("{}/proc/sys/user/max_user_namespaces", stage::HOST_TEXT), "0"));
}

/// Lets process numbers begin anywhere: programs take theirs for something that differs from run to run. A kernel that
/// does not offer it begins at 2.
fn scatter_pids() {
    let mut random = [0; 2];
    if rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::NONBLOCK).is_ok() {
        let last = 300 + u16::from_ne_bytes(random) % 30_000;
        drop(std::fs::write(format!("{}/proc/sys/kernel/ns_last_pid", stage::HOST_TEXT), last.to_string()));
    }
}

/// `/proc` of the new pid namespace. `subset=pid` leaves processes only: no kernel file exists to be masked. In a sandbox
/// that stays it is read-only: there Landlock does not tell folders apart (see `seal`).
fn mount_proc(stays: bool) -> Result<(), Errno> {
    let context = fsopen(c"proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), c"subset", c"pid")?;
    fsconfig_create(context.as_fd())?;
    let mut attributes =
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    if stays {
        attributes |= MountAttrFlags::MOUNT_ATTR_RDONLY;
    }
    let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    stage::attach(&mount, stage::NEW_PROC)
}
