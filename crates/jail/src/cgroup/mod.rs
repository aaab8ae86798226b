//! The kernel's meters: memory, processes and processors of a whole tree, on cgroup v1, v2 or neither.

mod groups;
mod inside;
mod place;
mod systemd;
mod v1;
mod v2;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use types::Layer;

use crate::wire::Limits;

pub(crate) use groups::Groups;
pub(crate) use inside::{Inside, sockets_are_limited};
pub(crate) use place::Placement;
use place::prefix;

/// Where this keeper may make groups.
pub(crate) enum Tree {
    V1(v1::Tree),
    V2(v2::Tree),
    /// No group can be made; the weaker meters take over.
    None,
}

/// The group of one run.
pub(crate) enum Group {
    V1(v1::Group),
    V2(v2::Group),
}

/// What a group counted.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    /// Nanoseconds on the processors, if counted.
    pub(crate) cpu: Option<u64>,
    /// Bytes at the peak, if counted.
    pub(crate) peak: Option<u64>,
    /// Times that memory ran out.
    pub(crate) out_of_memory: u64,
    /// Times that a process or thread was refused.
    pub(crate) refused_pids: u64,
}

impl Tree {
    /// The meters of every group made here.
    pub(crate) fn layers(&self) -> Vec<Layer> {
        match self {
            Self::V1(tree) => tree.layers(),
            Self::V2(tree) => tree.layers(),
            Self::None => Vec::new(),
        }
    }

    /// Removes what keepers that were killed have left here.
    fn sweep(&self) {
        match self {
            Self::V1(tree) => tree.folders().for_each(|folder| place::sweep(folder)),
            Self::V2(tree) => place::sweep(&tree.parent),
            Self::None => {}
        }
    }

    /// A new, empty group with the run's limits on it.
    fn create(&self, name: &str, limits: &Limits) -> Result<Option<Group>, Errno> {
        Ok(match self {
            Self::V1(tree) => Some(Group::V1(tree.create(name, limits)?)),
            Self::V2(tree) => Some(Group::V2(tree.create(name, limits)?)),
            Self::None => None,
        })
    }
}

impl Group {
    /// For `clone3`: a process can be born in a v2 group.
    pub(crate) fn birthplace(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::V1(_) => None,
            Self::V2(group) => Some(group.folder()),
        }
    }

    /// Files through which a process can move itself in, where it could not be born in the group.
    pub(crate) fn doors(&self) -> Result<Vec<OwnedFd>, Errno> {
        match self {
            Self::V1(group) => group.doors(),
            Self::V2(_) => Ok(Vec::new()),
        }
    }

    /// Whether the kernel counts this group's memory.
    pub(crate) fn counts_memory(&self) -> bool {
        match self {
            Self::V1(group) => group.event().is_some(),
            Self::V2(group) => group.counts(Layer::CgroupMemory),
        }
    }

    /// Whether the kernel counts this group's processes.
    pub(crate) fn counts_pids(&self) -> bool {
        match self {
            Self::V1(group) => group.counts_pids(),
            Self::V2(group) => group.counts(Layer::CgroupPids),
        }
    }

    /// Becomes readable when memory runs out, where the kernel does not kill the whole group by itself.
    pub(crate) fn out_of_memory_event(&self) -> Option<&OwnedFd> {
        match self {
            Self::V1(group) => group.event(),
            Self::V2(_) => None,
        }
    }

    /// Changes the limits of a group that holds no program yet.
    pub(crate) fn limit(&mut self, limits: &Limits) -> Result<(), Errno> {
        match self {
            Self::V1(group) => group.limit(limits),
            Self::V2(group) => group.limit(limits),
        }
    }

    /// Whether its run, which is over, has left it so that it could serve another.
    fn can_be_renewed(&self) -> bool {
        match self {
            Self::V1(group) => group.is_untouched(),
            // Its peak cannot be set back.
            Self::V2(_) => false,
        }
    }

    /// Makes a group whose run is over like a new one, with these limits; `false` as long as something is left in it.
    fn renew(&mut self, limits: &Limits) -> Result<bool, Errno> {
        match self {
            Self::V1(group) => group.renew(limits),
            Self::V2(_) => Ok(false),
        }
    }

    /// Lets the kernel kill one process where memory runs out, in place of all.
    pub(crate) fn spare_the_rest(&self) -> Result<(), Errno> {
        match self {
            Self::V1(_) => Ok(()),
            Self::V2(group) => group.spare_the_rest(),
        }
    }

    /// Takes note that memory ran out, so that the event tells of the next time.
    pub(crate) fn calm(&self) {
        if let Some(event) = self.out_of_memory_event() {
            let _ = rustix::io::read(event, &mut [0; 8]);
        }
    }

    /// Stops every process of the group where it is, or lets all go on; `false` where the kernel cannot.
    pub(crate) fn freeze(&self, frozen: bool) -> bool {
        match self {
            Self::V1(_) => false,
            Self::V2(group) => group.freeze(frozen).is_ok(),
        }
    }

    /// Bytes of memory now, if counted.
    pub(crate) fn memory(&self) -> Option<u64> {
        match self {
            Self::V1(group) => group.memory(),
            Self::V2(group) => group.memory(),
        }
    }

    /// Nanoseconds on the processors so far, if counted.
    pub(crate) fn cpu(&self) -> Option<u64> {
        match self {
            Self::V1(group) => group.cpu(),
            Self::V2(group) => group.cpu(),
        }
    }

    /// What was counted so far.
    pub(crate) fn counts(&self) -> Counts {
        match self {
            Self::V1(group) => group.read_counts(),
            Self::V2(group) => group.read_counts(),
        }
    }

    /// The folders to remove.
    pub(crate) fn folders(&self) -> Vec<String> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        match self {
            Self::V1(group) => group.folders().map(|path| text(path)).collect(),
            Self::V2(group) => vec![text(group.path())],
        }
    }

    /// Removes the group; `Err(BUSY)` for some milliseconds after its last process went.
    pub(crate) fn remove(&self) -> Result<(), Errno> {
        match self {
            Self::V1(group) => group.remove(),
            Self::V2(group) => group.remove(),
        }
    }
}

/// Removes one folder of a group.
pub(crate) fn remove_folder(folder: &str) -> Result<(), Errno> {
    remove(Path::new(folder))
}

/// Moves the calling process through a door. It must have one thread.
///
/// A thread that moves itself needs no lock over all processes of the host; being moved by another costs a grace period
/// of the kernel, some ten milliseconds.
pub(crate) fn enter(door: &OwnedFd) -> Result<(), Errno> {
    rustix::io::write(door, b"0").map(drop)
}

/// A file to read counters from.
fn reader(path: &Path) -> Option<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// One number in a file of one number.
fn number(file: &OwnedFd) -> Option<u64> {
    read(file)?.trim().parse().ok()
}

/// The number behind `key` in a file of `key number` lines.
fn keyed(file: &OwnedFd, key: &str) -> Option<u64> {
    let text = read(file)?;
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// A short file of the kernel's, in one piece and as it is now.
fn read(file: &OwnedFd) -> Option<String> {
    let mut text = [0; 1024];
    let length = rustix::io::pread(file, &mut text, 0).ok()?;
    Some(String::from_utf8_lossy(&text[..length]).into_owned())
}

fn write(path: &Path, value: &str) -> Result<(), Errno> {
    std::fs::write(path, value).map_err(|e| errno(&e))
}

fn make(path: &Path) -> Result<(), Errno> {
    std::fs::create_dir(path).map_err(|e| errno(&e))
}

fn remove(path: &Path) -> Result<(), Errno> {
    match std::fs::remove_dir(path) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(errno(&e)),
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO))
}
