//! The group of a container, read from inside it.

use std::os::fd::OwnedFd;
use std::path::Path;

use super::{Counts, keyed, number, reader};

const V1_MEMORY: &str = "/sys/fs/cgroup/memory";
const V1_SOCKETS: &str = "memory.kmem.tcp.limit_in_bytes";

/// Whether socket buffers have a limit: one of their own in v1, that of all memory in v2.
pub(crate) fn sockets_are_limited() -> bool {
    let limit = |name: &str| number(&reader(&Path::new(V1_MEMORY).join(name))?);
    match limit(V1_SOCKETS) {
        Some(sockets) => limit("memory.limit_in_bytes").is_some_and(|memory| sockets <= memory),
        None => true,
    }
}

/// The counters of the group that this process is in, as far as they are shown.
#[derive(Debug, Default)]
pub(crate) struct Inside {
    cpu: Option<(OwnedFd, Scale)>,
    peak: Option<OwnedFd>,
    memory: Option<OwnedFd>,
    out_of_memory: Option<OwnedFd>,
    refused_pids: Option<OwnedFd>,
}

/// How processor time is written.
#[derive(Debug, Clone, Copy)]
enum Scale {
    /// v1: one number.
    Nanoseconds,
    /// v2: behind a key.
    Microseconds,
}

impl Inside {
    /// Opens what there is, of either version.
    pub(crate) fn open() -> Self {
        let first = |paths: &[&str]| paths.iter().find_map(|path| reader(&Path::new("/sys/fs/cgroup").join(path)));
        let nanoseconds = first(&["cpuacct/cpuacct.usage", "cpu,cpuacct/cpuacct.usage"]);
        Self {
            cpu: nanoseconds
                .map(|file| (file, Scale::Nanoseconds))
                .or_else(|| first(&["cpu.stat"]).map(|file| (file, Scale::Microseconds))),
            peak: first(&["memory/memory.max_usage_in_bytes", "memory.peak"]),
            memory: first(&["memory/memory.usage_in_bytes", "memory.current"]),
            out_of_memory: first(&["memory/memory.oom_control", "memory.events"]),
            refused_pids: first(&["pids/pids.events", "pids.events"]),
        }
    }

    /// Whether the kernel counts this group's memory.
    pub(crate) fn counts_memory(&self) -> bool {
        self.out_of_memory.is_some()
    }

    /// Nanoseconds on the processors so far, if counted.
    pub(crate) fn cpu(&self) -> Option<u64> {
        match self.cpu.as_ref()? {
            (file, Scale::Nanoseconds) => number(file),
            (file, Scale::Microseconds) => keyed(file, "usage_usec").map(|us| us * 1000),
        }
    }

    /// Bytes of memory now, if counted.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.memory.as_ref().and_then(number)
    }

    /// What was counted so far.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            cpu: self.cpu(),
            peak: self.peak.as_ref().and_then(number),
            out_of_memory: self.out_of_memory.as_ref().and_then(|file| keyed(file, "oom_kill")).unwrap_or(0),
            refused_pids: self.refused_pids.as_ref().and_then(|file| keyed(file, "max")).unwrap_or(0),
        }
    }
}
