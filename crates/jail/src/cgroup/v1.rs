//! cgroup v1: one folder per controller.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;
use types::Layer;

use super::{Counts, keyed, make, number, remove};
use crate::wire::Limits;

/// Bytes that a group may still be charged for when it is used again: the kernel frees its own memory by and by.
const MOST_LEFT: u64 = 1 << 20;

/// Folders below which groups can be made; each controller may be missing by itself.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(super) memory: Option<PathBuf>,
    pub(super) pids: Option<PathBuf>,
    pub(super) cpu: Option<PathBuf>,
    pub(super) cpuacct: Option<PathBuf>,
}

/// One run's folders, with the files open that are read or written more than once.
#[derive(Debug)]
pub(crate) struct Group {
    memory: Option<Memory>,
    pids: Option<Pids>,
    cpu: Option<Folder>,
    cpuacct: Option<Processors>,
    /// What the folders hold now.
    limits: Limits,
}

/// One controller's folder.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    fd: OwnedFd,
    /// Through which processes move themselves in.
    door: OwnedFd,
}

#[derive(Debug)]
struct Memory {
    folder: Folder,
    /// Becomes readable when memory runs out.
    event: OwnedFd,
    peak: OwnedFd,
    usage: OwnedFd,
    control: OwnedFd,
}

#[derive(Debug)]
struct Pids {
    folder: Folder,
    current: OwnedFd,
    events: OwnedFd,
}

#[derive(Debug)]
struct Processors {
    /// Where both controllers are mounted together this is the other's folder.
    folder: Option<Folder>,
    usage: OwnedFd,
}

impl Tree {
    pub(super) fn is_empty(&self) -> bool {
        self.layers().is_empty()
    }

    pub(super) fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.memory, &self.pids, &self.cpu, &self.cpuacct].into_iter().flatten()
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
        let mut group = Group { memory: None, pids: None, cpu: None, cpuacct: None, limits: *limits };
        let result = self.fill(&mut group, name);
        if result.is_err() {
            let every = [&self.memory, &self.pids, &self.cpu, &self.cpuacct];
            for parent in every.into_iter().flatten() {
                let _ = remove(&parent.join(name));
            }
        }
        result.map(|()| group)
    }

    fn fill(&self, group: &mut Group, name: &str) -> Result<(), Errno> {
        let folder = |parent: &PathBuf| Folder::make(parent.join(name));
        group.memory = self.memory.as_ref().map(|parent| folder(parent).and_then(Memory::new)).transpose()?;
        group.pids = self.pids.as_ref().map(|parent| folder(parent).and_then(Pids::new)).transpose()?;
        group.cpu = self.cpu.as_ref().map(folder).transpose()?;
        group.cpuacct = match (&self.cpuacct, &group.cpu) {
            (Some(parent), Some(cpu)) if self.cpu.as_ref() == Some(parent) => Some(Processors::beside(cpu)?),
            (Some(parent), _) => Some(Processors::new(folder(parent)?)?),
            (None, _) => None,
        };
        group.limit_memory()?;
        group.limit_pids()?;
        group.limit_cpu()
    }
}

impl Folder {
    fn make(path: PathBuf) -> Result<Self, Errno> {
        make(&path)?;
        let fd = open(&path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let door = openat(&fd, "tasks", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { path, fd, door })
    }

    fn open(&self, file: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        openat(&self.fd, file, flags | OFlags::CLOEXEC, Mode::empty())
    }

    fn write(&self, file: &str, value: &str) -> Result<(), Errno> {
        rustix::io::write(self.open(file, OFlags::WRONLY)?, value.as_bytes()).map(drop)
    }

    /// Writes to a file that some kernels lack.
    fn write_if_there(&self, file: &str, value: &str) -> Result<(), Errno> {
        match self.write(file, value) {
            Ok(()) | Err(Errno::NOENT | Errno::OPNOTSUPP | Errno::ACCESS) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

impl Memory {
    fn new(folder: Folder) -> Result<Self, Errno> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let control = folder.open("memory.oom_control", OFlags::RDONLY)?;
        folder.write("cgroup.event_control", &format!("{} {}", event.as_raw_fd(), control.as_raw_fd()))?;
        let peak = folder.open("memory.max_usage_in_bytes", OFlags::RDWR)?;
        let usage = folder.open("memory.usage_in_bytes", OFlags::RDONLY)?;
        Ok(Self { folder, event, peak, usage, control })
    }
}

impl Pids {
    fn new(folder: Folder) -> Result<Self, Errno> {
        let events = folder.open("pids.events", OFlags::RDONLY)?;
        let current = folder.open("pids.current", OFlags::RDONLY)?;
        Ok(Self { folder, current, events })
    }
}

impl Processors {
    fn new(folder: Folder) -> Result<Self, Errno> {
        let usage = folder.open("cpuacct.usage", OFlags::RDONLY)?;
        Ok(Self { folder: Some(folder), usage })
    }

    fn beside(cpu: &Folder) -> Result<Self, Errno> {
        Ok(Self { folder: None, usage: cpu.open("cpuacct.usage", OFlags::RDONLY)? })
    }
}

impl Group {
    pub(super) fn limit(&mut self, limits: &Limits) -> Result<(), Errno> {
        let before = std::mem::replace(&mut self.limits, *limits);
        if before.memory != limits.memory {
            self.limit_memory()?;
        }
        if before.pids != limits.pids {
            self.limit_pids()?;
        }
        if before.millicpus != limits.millicpus {
            self.limit_cpu()?;
        }
        Ok(())
    }

    /// Memory, then memory and swap together: equal limits leave no swap. The second may never be below the first, so a
    /// limit that grows is written in the other order.
    fn limit_memory(&self) -> Result<(), Errno> {
        let Some(Memory { folder, .. }) = &self.memory else { return Ok(()) };
        let text = self.limits.memory.to_string();
        // Kernels without swap accounting lack the file.
        let both = || folder.write_if_there("memory.memsw.limit_in_bytes", &text);
        match folder.write("memory.limit_in_bytes", &text) {
            Err(Errno::INVAL) => {
                both()?;
                folder.write("memory.limit_in_bytes", &text)?;
            }
            other => {
                other?;
                both()?;
            }
        }
        // Socket buffers have a counter of their own here.
        folder.write_if_there("memory.kmem.tcp.limit_in_bytes", &text)
    }

    fn limit_pids(&self) -> Result<(), Errno> {
        let Some(Pids { folder, .. }) = &self.pids else { return Ok(()) };
        // Init is one of them, the caller's limit is for his own processes.
        folder.write("pids.max", &(self.limits.pids + 1).to_string())
    }

    fn limit_cpu(&self) -> Result<(), Errno> {
        let Some(folder) = &self.cpu else { return Ok(()) };
        folder.write("cpu.cfs_period_us", "100000")?;
        self.refill_cpu()
    }

    /// Writing the quota also fills it up.
    fn refill_cpu(&self) -> Result<(), Errno> {
        let Some(folder) = &self.cpu else { return Ok(()) };
        // A group above us may have a smaller share already; then that one holds.
        match folder.write("cpu.cfs_quota_us", &(self.limits.millicpus * 100).max(1000).to_string()) {
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Whether a run, now over, has touched no limit: what tells of that only ever grows.
    pub(super) fn is_untouched(&self) -> bool {
        let counts = self.read_counts();
        let told = self.event().is_some_and(|event| rustix::io::read(event, &mut [0; 8]).is_ok());
        counts.out_of_memory == 0 && counts.refused_pids == 0 && !told
    }

    /// Makes a group that a run has left like a new one; `false` if it is not empty, or not for certain.
    pub(super) fn renew(&mut self, limits: &Limits) -> Result<bool, Errno> {
        let (Some(memory), Some(pids)) = (&self.memory, &self.pids) else { return Ok(false) };
        let (processes, bytes) = (number(&pids.current), number(&memory.usage));
        if processes != Some(0) || bytes.is_none_or(|bytes| bytes > MOST_LEFT) {
            return Ok(false);
        }
        rustix::io::pwrite(&memory.peak, b"0", 0)?;
        self.limit(limits)?;
        self.refill_cpu()?;
        Ok(true)
    }

    pub(super) fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        self.each_folder().map(|folder| &folder.path)
    }

    fn each_folder(&self) -> impl Iterator<Item = &Folder> {
        let accounts = self.cpuacct.as_ref().and_then(|processors| processors.folder.as_ref());
        let memory = self.memory.as_ref().map(|memory| &memory.folder);
        let pids = self.pids.as_ref().map(|pids| &pids.folder);
        [memory, pids, self.cpu.as_ref(), accounts].into_iter().flatten()
    }

    pub(super) fn doors(&self) -> Result<Vec<OwnedFd>, Errno> {
        self.each_folder().map(|folder| rustix::io::fcntl_dupfd_cloexec(&folder.door, 0)).collect()
    }

    pub(super) fn event(&self) -> Option<&OwnedFd> {
        self.memory.as_ref().map(|memory| &memory.event)
    }

    pub(super) fn counts_pids(&self) -> bool {
        self.pids.is_some()
    }

    pub(super) fn cpu(&self) -> Option<u64> {
        self.cpuacct.as_ref().and_then(|processors| number(&processors.usage))
    }

    pub(super) fn memory(&self) -> Option<u64> {
        number(&self.memory.as_ref()?.usage)
    }

    pub(super) fn read_counts(&self) -> Counts {
        let out_of_memory = self.memory.as_ref().and_then(|memory| keyed(&memory.control, "oom_kill"));
        let refused_pids = self.pids.as_ref().and_then(|pids| keyed(&pids.events, "max"));
        Counts {
            cpu: self.cpu(),
            peak: self.memory.as_ref().and_then(|memory| number(&memory.peak)),
            out_of_memory: out_of_memory.unwrap_or(0),
            refused_pids: refused_pids.unwrap_or(0),
        }
    }

    pub(super) fn remove(&self) -> Result<(), Errno> {
        // Every one is tried, also when another is still busy.
        let results: Vec<_> = self.folders().map(|folder| remove(folder)).collect();
        results.into_iter().collect()
    }
}
