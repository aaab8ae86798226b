//! What a program and all it started have used: counted by the container's own group, or by looking.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::getpid;

use super::Role;
use crate::cgroup::{Counts, Inside};
use crate::keeper::watch::Watch;
use crate::sys::Reaped;

/// Who counts.
pub(super) enum Meters {
    /// The group of the container, which has nobody else in it.
    Group { group: Inside, before: Counts },
    /// Nobody but us: what is alive is looked at, what is gone has told its cost.
    Tree { watch: Watch, limit: u64, gone: Duration, peak: u64, exceeded: bool },
}

/// What a look says.
pub(super) struct Look {
    pub(super) cpu: Option<u64>,
    pub(super) out_of_memory: bool,
}

/// What it all came to.
pub(super) struct Sum {
    pub(super) cpu: u64,
    pub(super) peak: u64,
    pub(super) out_of_memory: bool,
    pub(super) refused_pids: bool,
}

impl Meters {
    /// From now on.
    pub(super) fn open(role: Role, memory: u64) -> Result<Self, Errno> {
        if role == Role::Init {
            let group = Inside::open();
            let before = group.counts();
            return Ok(Self::Group { group, before });
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc: OwnedFd = open("/proc", flags, Mode::empty())?;
        let watch = Watch::below(proc, getpid().as_raw_nonzero().get());
        Ok(Self::Tree { watch, limit: memory, gone: Duration::ZERO, peak: 0, exceeded: false })
    }

    /// Whether the kernel kills where too much memory is used.
    pub(super) fn count_memory(&self) -> bool {
        match self {
            Self::Group { group, .. } => group.counts_memory(),
            Self::Tree { .. } => false,
        }
    }

    /// Takes note of a process that is gone.
    pub(super) fn reaped(&mut self, cost: &Reaped) {
        if let Self::Tree { gone, peak, .. } = self {
            *gone += cost.cpu;
            *peak = cost.largest.max(*peak);
        }
    }

    pub(super) fn look(&mut self) -> Look {
        match self {
            Self::Group { group, before } => Look {
                cpu: group.cpu().zip(before.cpu).map(|(now, then)| now - then),
                out_of_memory: group.counts().out_of_memory > before.out_of_memory,
            },
            Self::Tree { watch, limit, gone, peak, exceeded } => {
                let now = watch.memory(*limit, 0);
                *peak = now.max(*peak);
                *exceeded |= now > *limit;
                Look { cpu: Some(watch.living_cpu() + nanoseconds(*gone)), out_of_memory: *exceeded }
            }
        }
    }

    /// When all are gone.
    pub(super) fn sum(&self) -> Sum {
        match self {
            Self::Group { group, before } => {
                let counts = group.counts();
                Sum {
                    cpu: counts.cpu.zip(before.cpu).map_or(0, |(now, then)| now - then),
                    peak: counts.peak.unwrap_or(0),
                    out_of_memory: counts.out_of_memory > before.out_of_memory,
                    refused_pids: counts.refused_pids > before.refused_pids,
                }
            }
            Self::Tree { gone, peak, exceeded, .. } => {
                Sum { cpu: nanoseconds(*gone), peak: *peak, out_of_memory: *exceeded, refused_pids: false }
            }
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
