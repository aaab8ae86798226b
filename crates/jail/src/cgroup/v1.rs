//! cgroup v1: one folder per controller.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use types::Layer;

use super::{Counts, make, read_keyed, read_number, remove, write};
use crate::wire::Limits;

/// Folders below which groups can be made; each controller may be missing by itself.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(super) memory: Option<PathBuf>,
    pub(super) pids: Option<PathBuf>,
    pub(super) cpu: Option<PathBuf>,
    pub(super) cpuacct: Option<PathBuf>,
}

/// One run's folders.
#[derive(Debug, Default)]
pub(crate) struct Group {
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
    cpu: Option<PathBuf>,
    cpuacct: Option<PathBuf>,
    event: Option<OwnedFd>,
}

impl Tree {
    pub(super) fn is_empty(&self) -> bool {
        self.layers().is_empty()
    }

    pub(super) fn layers(&self) -> Vec<Layer> {
        let mut layers = Vec::new();
        layers.extend(self.memory.as_ref().map(|_| Layer::CgroupMemory));
        layers.extend(self.pids.as_ref().map(|_| Layer::CgroupPids));
        layers.extend(self.cpu.as_ref().and(self.cpuacct.as_ref()).map(|_| Layer::CgroupCpu));
        layers
    }

    pub(super) fn create(&self, name: &str, limits: &Limits) -> Result<Group, Errno> {
        // Filled step by step, so that a failure half-way removes what was made.
        let mut group = Group::default();
        let result = self.fill(&mut group, name, limits);
        if result.is_err() {
            let _ = group.remove();
        }
        result.map(|()| group)
    }

    fn fill(&self, group: &mut Group, name: &str, limits: &Limits) -> Result<(), Errno> {
        let folder = |parent: &PathBuf, place: &mut Option<PathBuf>| -> Result<(), Errno> {
            let folder = parent.join(name);
            make(&folder)?;
            *place = Some(folder);
            Ok(())
        };
        self.memory.as_ref().map_or(Ok(()), |parent| folder(parent, &mut group.memory))?;
        self.pids.as_ref().map_or(Ok(()), |parent| folder(parent, &mut group.pids))?;
        self.cpu.as_ref().map_or(Ok(()), |parent| folder(parent, &mut group.cpu))?;
        match &self.cpuacct {
            // Where both controllers are mounted together it is the same folder.
            Some(parent) if self.cpu.as_ref() == Some(parent) => group.cpuacct.clone_from(&group.cpu),
            Some(parent) => folder(parent, &mut group.cpuacct)?,
            None => {}
        }
        group.limit(limits)?;
        if let Some(folder) = &group.memory {
            let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let control = open(folder.join("memory.oom_control"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            let line = format!("{} {}", event.as_raw_fd(), control.as_raw_fd());
            write(&folder.join("cgroup.event_control"), &line)?;
            group.event = Some(event);
        }
        Ok(())
    }
}

impl Group {
    pub(super) fn limit(&self, limits: &Limits) -> Result<(), Errno> {
        if let Some(folder) = &self.memory {
            limit_memory(folder, limits.memory)?;
        }
        if let Some(folder) = &self.pids {
            // Init is one of them, the caller's limit is for his own processes.
            write(&folder.join("pids.max"), &(limits.pids + 1).to_string())?;
        }
        if let Some(folder) = &self.cpu {
            write(&folder.join("cpu.cfs_period_us"), "100000")?;
            // A group above us may have a smaller share already; then that one holds.
            match write(&folder.join("cpu.cfs_quota_us"), &(limits.millicpus * 100).max(1000).to_string()) {
                Ok(()) | Err(Errno::INVAL) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.memory, &self.pids, &self.cpu, &self.cpuacct].into_iter().flatten()
    }

    pub(super) fn doors(&self) -> Result<Vec<OwnedFd>, Errno> {
        let door = |folder: &PathBuf| open(folder.join("tasks"), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        self.folders().map(door).collect()
    }

    pub(super) fn event(&self) -> Option<&OwnedFd> {
        self.event.as_ref()
    }

    pub(super) fn counts_pids(&self) -> bool {
        self.pids.is_some()
    }

    pub(super) fn read_counts(&self) -> Counts {
        let memory = |name| self.memory.as_ref().map(|folder| folder.join(name));
        Counts {
            cpu: self.cpuacct.as_ref().and_then(|folder| read_number(&folder.join("cpuacct.usage"))),
            peak: memory("memory.max_usage_in_bytes").and_then(|path| read_number(&path)),
            out_of_memory: memory("memory.oom_control").and_then(|path| read_keyed(&path, "oom_kill")).unwrap_or(0),
            refused_pids: self
                .pids
                .as_ref()
                .and_then(|folder| read_keyed(&folder.join("pids.events"), "max"))
                .unwrap_or(0),
        }
    }

    pub(super) fn remove(&self) -> Result<(), Errno> {
        // Every one is tried, also when another is still busy.
        let results: Vec<_> = self.folders().map(|folder| remove(folder)).collect();
        results.into_iter().collect()
    }
}

/// Memory, then memory and swap together: equal limits leave no swap. The second may never be below the first, so a
/// limit that grows is written in the other order.
fn limit_memory(folder: &Path, bytes: u64) -> Result<(), Errno> {
    let text = bytes.to_string();
    let both = || match write(&folder.join("memory.memsw.limit_in_bytes"), &text) {
        // Kernels without swap accounting lack the file.
        Ok(()) | Err(Errno::NOENT | Errno::OPNOTSUPP | Errno::ACCESS) => Ok(()),
        Err(errno) => Err(errno),
    };
    match write(&folder.join("memory.limit_in_bytes"), &text) {
        Err(Errno::INVAL) => {
            both()?;
            write(&folder.join("memory.limit_in_bytes"), &text)?;
        }
        other => {
            other?;
            both()?;
        }
    }
    // Socket buffers have a counter of their own here.
    match write(&folder.join("memory.kmem.tcp.limit_in_bytes"), &text) {
        Ok(()) | Err(Errno::NOENT | Errno::OPNOTSUPP | Errno::ACCESS) => Ok(()),
        Err(errno) => Err(errno),
    }
}
