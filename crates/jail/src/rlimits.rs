//! Limits that each process of a run carries itself.
//!
//! A worker that a zygote forked sets the same ones; see `zygote/src/seal.rs`.

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::wire::Rlimits;

impl Rlimits {
    /// Sets them for a process, or for this one.
    pub(crate) fn apply_to(self, pid: Option<Pid>) -> Result<(), Errno> {
        let mib = 1 << 20;
        let set = |resource, soft, hard| set(pid, resource, soft, hard);
        set(Resource::Core, 0, 0)?;
        set(Resource::Nofile, 1024, 4096)?;
        set(Resource::Memlock, 8 * mib, 8 * mib)?;
        set(Resource::Stack, 8 * mib, 64 * mib)?;
        set(Resource::Msgqueue, 819_200, 819_200)?;
        set(Resource::Sigpending, 4096, 4096)?;
        set(Resource::Nice, 0, 0)?;
        set(Resource::Rtprio, 0, 0)?;
        // Counted inside this user namespace, init included.
        set(Resource::Nproc, self.pids + 1, self.pids + 1)?;
        if let Some(data) = self.data {
            set(Resource::Data, data, data)?;
        }
        if let Some(cpu) = self.cpu {
            set(Resource::Cpu, cpu, cpu + 1)?;
        }
        Ok(())
    }
}

/// Never above what we may have ourselves: raising needs a right that even root can lack.
fn set(pid: Option<Pid>, resource: Resource, soft: u64, hard: u64) -> Result<(), Errno> {
    let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let hard = hard.min(most);
    prlimit(pid, resource, Rlimit { current: Some(soft.min(hard)), maximum: Some(hard) }).map(drop)
}
