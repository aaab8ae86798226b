//! cgroup v2: one folder for all controllers.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use types::Layer;

use super::{Counts, keyed, make, number, reader, remove, write};
use crate::wire::Limits;

/// A folder with controllers switched on for what is below it.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(super) parent: PathBuf,
    pub(super) controllers: Vec<Layer>,
}

/// One run's folder.
#[derive(Debug)]
pub(crate) struct Group {
    controllers: Vec<Layer>,
    path: PathBuf,
    folder: OwnedFd,
}

impl Tree {
    pub(super) fn layers(&self) -> Vec<Layer> {
        self.controllers.clone()
    }

    pub(super) fn create(&self, name: &str, limits: &Limits) -> Result<Group, Errno> {
        let path = self.parent.join(name);
        make(&path)?;
        let opened = open(&path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let made = opened.and_then(|folder| {
            let group = Group { controllers: self.controllers.clone(), path: path.clone(), folder };
            group.limit(limits).map(|()| group)
        });
        if made.is_err() {
            let _ = remove(&path);
        }
        made
    }
}

impl Group {
    pub(super) fn limit(&self, limits: &Limits) -> Result<(), Errno> {
        for controller in &self.controllers {
            match controller {
                Layer::CgroupMemory => {
                    write(&self.path.join("memory.max"), &limits.memory.to_string())?;
                    // A kernel without swap has no such file, and no swap to forbid.
                    match write(&self.path.join("memory.swap.max"), "0") {
                        Ok(()) | Err(Errno::NOENT) => {}
                        Err(errno) => return Err(errno),
                    }
                    write(&self.path.join("memory.oom.group"), "1")?;
                }
                Layer::CgroupPids => write(&self.path.join("pids.max"), &(limits.pids + 1).to_string())?,
                Layer::CgroupCpu => {
                    write(&self.path.join("cpu.max"), &format!("{} 100000", (limits.millicpus * 100).max(1000)))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    pub(super) fn path(&self) -> &std::path::Path {
        &self.path
    }

    pub(super) fn counts(&self, meter: Layer) -> bool {
        self.controllers.contains(&meter)
    }

    pub(super) fn read_counts(&self) -> Counts {
        Counts {
            cpu: self.cpu(),
            peak: reader(&self.path.join("memory.peak")).and_then(|file| number(&file)),
            out_of_memory: self.keyed("memory.events", "oom_kill").unwrap_or(0),
            refused_pids: self.keyed("pids.events", "max").unwrap_or(0),
        }
    }

    pub(super) fn spare_the_rest(&self) -> Result<(), Errno> {
        if self.counts(Layer::CgroupMemory) { write(&self.path.join("memory.oom.group"), "0") } else { Ok(()) }
    }

    pub(super) fn freeze(&self, frozen: bool) -> Result<(), Errno> {
        write(&self.path.join("cgroup.freeze"), if frozen { "1" } else { "0" })
    }

    pub(super) fn memory(&self) -> Option<u64> {
        reader(&self.path.join("memory.current")).and_then(|file| number(&file))
    }

    pub(super) fn cpu(&self) -> Option<u64> {
        self.keyed("cpu.stat", "usage_usec").map(|us| us * 1000)
    }

    fn keyed(&self, file: &str, key: &str) -> Option<u64> {
        reader(&self.path.join(file)).and_then(|file| keyed(&file, key))
    }

    pub(super) fn remove(&self) -> Result<(), Errno> {
        remove(&self.path)
    }
}
