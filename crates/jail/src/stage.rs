//! The keeper's own mount table: the host under `/host`, and one read-only base root for all its sandboxes.
//!
//! A sandbox's init gets a copy of this table, binds the base as its new root and pivots into it. Mount points are made
//! here, in a tmpfs of ours, before any byte of a caller is near: no path that somebody else controls is followed.

use std::ffi::CStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Uid, chownat, fstat, mkdirat, open, openat, openat2};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, FsPickFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_reconfigure, fsconfig_set_string, fsmount, fsopen, fspick,
    mount, mount_bind_recursive, mount_change, move_mount, open_tree, unmount,
};
use rustix::process::{chdir, pivot_root};
use types::Layer;

use crate::init::Step;
use crate::sudo;
use crate::sys::{self, MountAttr};
use crate::wire::{Bind, BindKind, Limits, Setup, Trouble};

/// The host's root, while a process still has the keeper's mount table.
pub(crate) const HOST_TEXT: &str = "/host";
/// The read-only root that all sandboxes share.
pub(crate) const BASE: &CStr = c"/base";
/// Where a sandbox's root is put together.
pub(crate) const NEW: &CStr = c"/new";
/// Its `/proc`.
pub(crate) const NEW_PROC: &CStr = c"/new/proc";
/// Its shared memory.
pub(crate) const SHM: &CStr = c"/new/dev/shm";
/// How many processors a run sees.
pub(crate) const CPU_ONLINE: &CStr = c"/new/sys/devices/system/cpu/online";
/// Where its writable tree is attached for a moment.
pub(crate) const WRITABLE: &CStr = c"/writable";
/// Folders of the writable tree, and where they show. One tmpfs for all: their sizes add up to one limit.
pub(crate) const WRITABLE_BINDS: &[(&CStr, &CStr)] = &[
    (c"/writable/work", c"/new/work"),
    (c"/writable/tmp", c"/new/tmp"),
    (c"/writable/shm", SHM),
    (c"/writable/cpu-online", CPU_ONLINE),
];

/// The file behind [`CPU_ONLINE`] in a writable tree.
pub(crate) const ONLINE: &CStr = c"cpu-online";
/// Where interpreters record the exception that ends them.
const RECORD: &CStr = c"tmp/.saggar-exception.json";
/// More than the drivers ever write.
pub(crate) const RECORD_BYTES: u64 = 64 << 10;

/// Guest folders that every run has of its own.
const WRITABLE_FOLDERS: &[&str] = &["/work/", "/tmp/", "/dev/shm/"];

/// Where the disk of a sandbox that stays is attached for a moment.
pub(crate) const DISK: &CStr = c"/disk";
/// Folders of a disk that is not the whole root, and where they show.
pub(crate) const DISK_BINDS: &[(&CStr, &CStr)] =
    &[(c"/disk/work", c"/new/work"), (c"/disk/home", c"/new/home"), (c"/disk/tmp", c"/new/tmp")];
/// Its terminals.
pub(crate) const TERMINALS: &CStr = c"/new/dev/pts";
/// What the writable tree still gives a sandbox that has a disk.
pub(crate) const MEMORY_BINDS: &[(&CStr, &CStr)] = &[(c"/writable/shm", SHM), (c"/writable/cpu-online", CPU_ONLINE)];

/// What a root that is a disk of its own still shares with the others: devices, the list of processors, our drivers, and
/// how names are looked up.
pub(crate) const BASE_BINDS: &[(&CStr, &CStr)] = &[
    (c"/base/dev", c"/new/dev"),
    (c"/base/sys", c"/new/sys"),
    (c"/base/opt/saggar", c"/new/opt/saggar"),
    (c"/base/etc/hosts", c"/new/etc/hosts"),
    (c"/base/etc/resolv.conf", c"/new/etc/resolv.conf"),
];

/// More mount points in the root of a sandbox that stays.
const SESSION_FOLDERS: &[&str] = &["home", "dev/pts"];

const FOLDERS: &[&str] = &["proc", "work", "tmp", "dev/shm", "sys/devices/system/cpu"];

/// Builds the keeper's mount table. The process must have a mount namespace of its own.
pub(crate) fn build(setup: &Setup) -> Result<Vec<Overlay>, Trouble> {
    let wall = |result: Result<(), Errno>, what: &str| result.wall(Layer::MountNs, what);
    wall(mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC), "make mounts private")?;
    let nodes = (64 + setup.layers.len()).to_string();
    let stage =
        tmpfs(&[(c"size", "64k"), (c"nr_inodes", &nodes), (c"mode", "755")]).wall(Layer::MountNs, "mount a tmpfs")?;
    // `/proc` exists everywhere; it is covered for two calls only, for the pivot carries the tmpfs away again.
    wall(attach(&stage, c"/proc"), "attach the stage")?;
    for folder in [HOST_TEXT, "/base", "/new", "/writable", "/overlays", "/layers", "/disk"] {
        wall(mkdirat(&stage, &folder[1..], Mode::from(0o755)), "make the stage")?;
    }
    wall(rustix::process::fchdir(&stage), "enter the stage")?;
    wall(pivot_root(c".", c"host"), "pivot_root")?;
    wall(chdir(c"/"), "enter the stage")?;

    let base =
        tmpfs(&[(c"size", "8m"), (c"nr_inodes", "4k"), (c"mode", "755")]).wall(Layer::MountNs, "mount a tmpfs")?;
    wall(attach(&base, BASE), "attach the base root")?;
    let of_sessions = if setup.sessions { SESSION_FOLDERS } else { &[] };
    for folder in FOLDERS.iter().chain(of_sessions) {
        wall(make_folder(&inside(folder)), "make the base root")?;
    }
    wall(write_file(&inside("sys/devices/system/cpu/online"), b""), "make the base root")?;
    for (path, content) in &setup.files {
        wall(write_file(&inside(path), content), path)?;
    }
    if setup.sessions {
        wall(copy_own_program(&inside(sudo::PATH)), "place sudo")?;
    }
    for (path, target) in &setup.links {
        wall(make_link(&inside(path), target), path)?;
    }
    let of_sessions = if setup.sessions { &["/home/"][..] } else { &[] };
    let is_own = |bind: &&Bind| WRITABLE_FOLDERS.iter().chain(of_sessions).any(|folder| bind.guest.starts_with(folder));
    let (over, plain): (Vec<&Bind>, Vec<&Bind>) = setup.binds.iter().partition(is_own);
    if !setup.layers.is_empty() {
        for bind in &plain {
            wall(make_mount_point(bind, &inside(&bind.guest)), &format!("make room for {}", bind.guest))?;
        }
        wall(stack(&setup.layers), STACK_STEP)?;
    }
    for bind in plain {
        wall(show(bind, &inside(&bind.guest)), &format!("bind {}", bind.guest))?;
    }
    let mut overlays = Vec::new();
    for (number, bind) in over.into_iter().enumerate() {
        let overlay = Overlay { staged: format!("/overlays/{number}"), guest: bind.guest.clone() };
        wall(show(bind, Path::new(&overlay.staged)), &format!("bind {}", bind.guest))?;
        overlays.push(overlay);
    }
    let sealed = MountAttr {
        set: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        clear: 0,
        propagation: 0,
        recursive: false,
    };
    wall(sys::mount_setattr(CWD.as_fd(), BASE, sealed), "make the base root read-only")?;
    Ok(overlays)
}

/// Takes the host's mounts out of this process's table, but for its root and `/proc`.
pub(crate) fn forget_host() -> Result<(), Errno> {
    let table = fs::read_to_string(format!("{HOST_TEXT}/proc/self/mountinfo")).map_err(|e| errno(&e))?;
    let places = table.lines().filter_map(|line| line.split(' ').nth(4));
    let below = |place: &&str| place.strip_prefix(HOST_TEXT).is_some_and(|rest| rest.starts_with('/'));
    let needed = |place: &str| Path::new(place).starts_with(format!("{HOST_TEXT}/proc"));
    for place in places.filter(below).filter(|place| !needed(place)) {
        match unmount(place, UnmountFlags::DETACH) {
            // Gone with what it was mounted on; names with spaces are written otherwise than they are.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// The step that fails where overlay cannot be had.
pub const STACK_STEP: &str = "stack the image's layers";

/// Puts the layers of an image below the base root. What the base has itself covers what they have.
fn stack(layers: &[String]) -> Result<(), Errno> {
    let mut lower = String::from("/base");
    let staged: Vec<String> = (0..layers.len()).map(|number| format!("/layers/{number}")).collect();
    for (layer, staged) in layers.iter().zip(&staged).rev() {
        let bind = Bind { host: layer.clone(), guest: String::new(), kind: BindKind::Tree };
        show(&bind, Path::new(staged))?;
        lower.push(':');
        lower.push_str(staged);
    }
    // `userxattr`: an ordinary user's layers have no other marks, and root's are to be the same.
    let options = std::ffi::CString::new(format!("lowerdir={lower},userxattr")).map_err(|_| Errno::INVAL)?;
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount(c"overlay", BASE, c"overlay", flags, Some(options.as_c_str()))?;
    // Overlay holds them now; every sandbox would copy them with the table.
    staged.iter().try_for_each(|staged| unmount(staged.as_str(), UnmountFlags::DETACH))
}

/// A host tree whose place is inside a folder that each run has of its own, such as an interpreter below `/tmp`.
#[derive(Debug, Clone)]
pub(crate) struct Overlay {
    staged: String,
    guest: String,
}

impl Overlay {
    /// Shows the tree in a root that is being put together. Its mount point lies in the run's own, still empty tree.
    pub(crate) fn show(&self) -> Result<(), Errno> {
        let target = Path::new("/new").join(self.guest.trim_start_matches('/'));
        if Path::new(&self.staged).is_dir() {
            make_folder(&target)?;
        } else {
            write_file(&target, b"")?;
        }
        mount_bind_recursive(self.staged.as_str(), target.as_path())
    }
}

/// A writable tree for one sandbox: a detached tmpfs with the run's limits on it.
pub(crate) fn writable(limits: &Limits) -> Result<OwnedFd, Errno> {
    let [(size, bytes), (nodes, count)] = tmpfs_limits(limits);
    let mount = tmpfs(&[(size, &bytes), (nodes, &count), (c"mode", "755")])?;
    for (folder, mode) in [(c"work", 0o755), (c"tmp", 0o1777), (c"shm", 0o1777)] {
        mkdirat(&mount, folder, Mode::from(mode))?;
        // The keeper's umask does not apply to what the contract says is writable.
        rustix::fs::chmodat(&mount, folder, Mode::from(mode), rustix::fs::AtFlags::empty())?;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(&mount, ONLINE, flags, Mode::from(0o444))?;
    rustix::io::write(&file, processors(limits).as_bytes())?;
    reserve_record(&mount)?;
    Ok(mount)
}

/// Room for the record of an exception, which is wanted most when the run has filled its disk.
pub(crate) fn reserve_record(root: &OwnedFd) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let record = openat(root, RECORD, flags, Mode::from(0o600))?;
    rustix::fs::fallocate(&record, rustix::fs::FallocateFlags::KEEP_SIZE, 0, RECORD_BYTES)
}

/// Changes the limits of a writable tree.
pub(crate) fn resize(writable: &OwnedFd, limits: &Limits) -> Result<(), Errno> {
    let flags = FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_EMPTY_PATH;
    let context = fspick(writable, c"", flags)?;
    for (key, value) in tmpfs_limits(limits) {
        fsconfig_set_string(context.as_fd(), key, value.as_str())?;
    }
    fsconfig_reconfigure(context.as_fd())?;
    let file = openat(writable, ONLINE, OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, processors(limits).as_bytes()).map(drop)
}

/// The folders themselves take inodes and a page each in some kernels; the caller's limit is for his own files.
fn tmpfs_limits(limits: &Limits) -> [(&'static CStr, String); 2] {
    let size = limits.disk.next_multiple_of(4096) + RECORD_BYTES + 4096;
    [(c"size", size.to_string()), (c"nr_inodes", (limits.inodes + 6).to_string())]
}

/// The list of processors that a run sees.
fn processors(limits: &Limits) -> String {
    match limits.millicpus.div_ceil(1000).max(1) {
        1 => "0\n".to_owned(),
        several => format!("0-{}\n", several - 1),
    }
}

/// Gives the run its own folders.
pub(crate) fn give(writable: &OwnedFd, (uid, gid): (u32, u32)) -> Result<(), Errno> {
    for folder in [c"work", c"tmp", c"shm", RECORD] {
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        chownat(writable, folder, uid, gid, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

/// A detached tmpfs without devices or set-id programs.
fn tmpfs(options: &[(&CStr, &str)]) -> Result<OwnedFd, Errno> {
    let context = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(context.as_fd(), *key, *value)?;
    }
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Puts a detached mount in its place.
pub(crate) fn attach(mount: &OwnedFd, at: &CStr) -> Result<(), Errno> {
    move_mount(mount, c"", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// What a bind shows, on the host.
fn source_of(bind: &Bind) -> Result<OwnedFd, Errno> {
    let host = open(HOST_TEXT, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    openat2(&host, bind.host.as_str(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT)
}

/// A folder or an empty file for a bind to be shown at, if nothing is there.
fn make_mount_point(bind: &Bind, target: &Path) -> Result<(), Errno> {
    if FileType::from_raw_mode(fstat(source_of(bind)?)?.st_mode) == FileType::Directory {
        make_folder(target)
    } else if target.exists() {
        Ok(())
    } else {
        write_file(target, b"")
    }
}

/// Shows a host tree inside the base root.
fn show(bind: &Bind, target: &Path) -> Result<(), Errno> {
    let source = source_of(bind)?;
    make_mount_point(bind, target)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let flags = flags | OpenTreeFlags::AT_EMPTY_PATH | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(&source, c"", flags)?;
    let set = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID;
    let set = set
        | match bind.kind {
            BindKind::Tree => libc::MOUNT_ATTR_NODEV,
            BindKind::Device => libc::MOUNT_ATTR_NOEXEC,
        };
    sys::mount_setattr(tree.as_fd(), c"", MountAttr { set, clear: 0, propagation: libc::MS_PRIVATE, recursive: true })?;
    move_mount(&tree, c"", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// A guest path as it lies in the base root.
fn inside(guest: &str) -> PathBuf {
    Path::new("/base").join(guest.trim_start_matches('/'))
}

fn make_folder(path: &Path) -> Result<(), Errno> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(|e| errno(&e))
}

fn write_file(path: &Path, content: &[u8]) -> Result<(), Errno> {
    if let Some(parent) = path.parent() {
        make_folder(parent)?;
    }
    fs::write(path, content).map_err(|e| errno(&e))
}

/// This very program, which is `sudo` inside.
fn copy_own_program(path: &Path) -> Result<(), Errno> {
    let own = fs::read(Path::new(HOST_TEXT).join("proc/self/exe")).map_err(|e| errno(&e))?;
    write_file(path, &own)?;
    rustix::fs::chmod(path, Mode::from(0o755))
}

fn make_link(path: &Path, target: &str) -> Result<(), Errno> {
    if let Some(parent) = path.parent() {
        make_folder(parent)?;
    }
    symlink(target, path).map_err(|e| errno(&e))
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO))
}
