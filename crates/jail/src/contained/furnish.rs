//! What a container's engine cannot be told: a user namespace of its own, and one disk for all writable folders.
//!
//! Process 1 does it with no right but that of any user to have namespaces of his own, and gives up what it gained there.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, fstat, fstatfs, open, openat};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use rustix::process::{getgid, getuid};

use crate::ids::{Ids, enter_keeper_namespaces};
use crate::stage;
use crate::sys::{self, MountAttr};
use crate::way_out::RESOLVER;
use crate::wire::Limits;

/// Folders of the one disk and where they show. The last is where it is attached meanwhile.
const FOLDERS: [(&CStr, &CStr); 3] = [(c"work", c"/work"), (c"shm", c"/dev/shm"), (c"tmp", c"/tmp")];

/// How many processors programs see.
const ONLINE: &CStr = c"/sys/devices/system/cpu/online";

/// What says where names are looked up, in memory.
const NAMES: &CStr = c"resolv.conf";

/// What `f_type` says of a file system in memory.
const TMPFS: i64 = 0x0102_1994;

/// Calls that it takes and no program may make, by name.
pub const FURNISHING_CALLS: [&str; 8] =
    ["unshare", "fsopen", "fsconfig", "fsmount", "open_tree", "move_mount", "mount_setattr", "capset"];

/// What network programs have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    /// That of the container, which leads nowhere.
    None,
    /// One with a way out.
    WayOut,
}

/// Takes namespaces of its own, and furnishes what is in them.
pub(super) fn alone(furnish: impl FnOnce(Network) -> Result<(), Errno>) -> Result<(), Errno> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    enter_keeper_namespaces(Ids::Own { uid, gid })?;
    furnish(Network::None)
}

/// The same with a network that leads to what comes back: the container's own leads nowhere.
pub(super) fn with_way_out(furnish: impl FnOnce(Network) -> Result<(), Errno>) -> Result<sys::Wire, Errno> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    enter_keeper_namespaces(Ids::Own { uid, gid })?;
    let way = sys::Wire::lay()?;
    furnish(Network::WayOut).map(|()| way)
}

/// Furnishes the container. A host that forbids it leaves the container as its engine made it, with a disk for each
/// folder; what is there is looked at afterwards.
pub(super) fn furnish(limits: &Limits, network: Network) -> Result<(), Errno> {
    one_disk(limits, network)?;
    seal_mounts()
}

/// Furnishes a container that stays. Its disk is its own layer, which the container's engine can keep: what is not one of
/// its folders is to be read alone.
pub(super) fn furnish_session(limits: &Limits, network: Network, shown: &[(String, String)]) -> Result<(), Errno> {
    let place = covered(c"/dev/shm")?;
    let memory = in_memory(limits, network)?;
    stage::attach(&memory, c"/dev/shm")?;
    show(&memory, c"shm", &place)?;
    show_resolver(&memory, network)?;
    if let Ok(place) = open(ONLINE, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        show(&memory, stage::ONLINE, &place)?;
    }
    for path in DISK {
        let place = folder(path)?;
        show(&place, c"", &place)?;
        limit_mount(path, libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV)?;
    }
    for (own, at) in shown {
        let [own, at] = [own, at].map(|path| CString::new(path.as_str()).map_err(|_| Errno::INVAL));
        let (own, at) = (folder(&own?)?, at?);
        // What is shown has the limits of the disk's mount, whose part it is.
        show(&own, c"", &folder(&at)?)?;
    }
    limit_mount(c"/", libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID)?;
    // As in every session: some files of other processes are anybody's to open for writing.
    limit_mount(c"/proc", libc::MOUNT_ATTR_RDONLY)?;
    seal_mounts()
}

/// Folders that the disk of a session is made of.
const DISK: [&CStr; 3] = [c"/work", c"/home", c"/tmp"];

/// What programs of a session may write to on its disk, and where else it is shown.
pub(super) fn own_folders(shown: &[(String, String)]) -> Vec<String> {
    let disk = DISK.iter().map(|path| path.to_string_lossy().into_owned());
    disk.chain(shown.iter().map(|(_, at)| at.clone())).collect()
}

fn limit_mount(path: &CStr, set: u64) -> Result<(), Errno> {
    sys::mount_setattr(CWD.as_fd(), path, MountAttr { set, clear: 0, propagation: 0, recursive: false })
}

/// What the container's engine has shown or hidden with mounts of its own is to be read at most, and no device.
fn seal_mounts() -> Result<(), Errno> {
    let set = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let places = table.lines().filter_map(|line| line.split(' ').nth(4));
    for place in places.filter(|place| ["/proc/", "/sys/", "/etc/"].iter().any(|folder| place.starts_with(folder))) {
        let path = CString::new(place).map_err(|_| Errno::INVAL)?;
        limit_mount(&path, set)?;
    }
    Ok(())
}

/// Whether all writable folders are of one file system, so that their sizes add up to one limit.
pub(super) fn has_one_disk() -> bool {
    let device = |(_, path): (&CStr, &'static CStr)| folder(path).and_then(|fd| fstat(&fd)).map(|stat| stat.st_dev);
    let [work, shm, tmp] = FOLDERS.map(device);
    work.is_ok() && work == shm && work == tmp
}

fn one_disk(limits: &Limits, network: Network) -> Result<(), Errno> {
    let [work, shm, tmp] = FOLDERS.map(|(name, path)| covered(path).map(|place| (name, place)));
    let places = [work?, shm?, tmp?];
    let disk = in_memory(limits, network)?;
    // Parts can be shown elsewhere only of what is attached somewhere.
    stage::attach(&disk, c"/tmp")?;
    for (name, place) in &places {
        show(&disk, name, place)?;
    }
    show_resolver(&disk, network)?;
    // Not every kind of container has the file.
    match open(ONLINE, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Ok(place) => show(&disk, stage::ONLINE, &place),
        Err(_) => Ok(()),
    }
}

/// What is in memory and the user's, and, beyond his limits, what says where names are looked up.
fn in_memory(limits: &Limits, network: Network) -> Result<OwnedFd, Errno> {
    let (disk, inodes) = match network {
        Network::None => (limits.disk, limits.inodes),
        Network::WayOut => (limits.disk.saturating_add(4096), limits.inodes.saturating_add(1)),
    };
    let memory = stage::writable(&Limits { disk, inodes, ..*limits })?;
    stage::give(&memory, (getuid().as_raw(), getgid().as_raw()))?;
    if network == Network::WayOut {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&memory, NAMES, flags, Mode::from(0o444))?;
        rustix::io::write(&file, format!("nameserver {RESOLVER}\n").as_bytes())?;
    }
    Ok(memory)
}

/// The container's engine leaves that file empty, for it knows of no network.
fn show_resolver(memory: &OwnedFd, network: Network) -> Result<(), Errno> {
    if network == Network::None {
        return Ok(());
    }
    let place = open(c"/etc/resolv.conf", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    show(memory, NAMES, &place)
}

fn show(disk: &OwnedFd, name: &CStr, place: &OwnedFd) -> Result<(), Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let part = open_tree(disk, name, flags)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&part, c"", place, c"", flags)
}

/// A folder to be covered: one that the container's engine has put memory on, and nothing that an image has there.
fn covered(path: &CStr) -> Result<OwnedFd, Errno> {
    let folder = folder(path)?;
    if fstatfs(&folder)?.f_type == TMPFS { Ok(folder) } else { Err(Errno::NOTDIR) }
}

fn folder(path: &CStr) -> Result<OwnedFd, Errno> {
    open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}
