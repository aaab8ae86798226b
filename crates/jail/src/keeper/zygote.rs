//! Zygotes from the keeper's side: started, given orders, listened to.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, pidfd_send_signal};
use types::Layer;

use super::namespaces;
use crate::init::{Birth, Step};
use crate::seccomp::{self, Profile};
use crate::stage::{self, Overlay};
use crate::sys::{self, Clone3, Side};
use crate::wire::{self, Limits, SandboxId, Trouble};
use crate::zygote::{Fork, Heard, Line};

/// What a zygote may keep in files while it imports.
const ROOM: Limits = Limits { memory: 0, millicpus: 1000, pids: 0, disk: 64 << 20, inodes: 4096, wall: 0, cpu: None };

/// An interpreter that forks workers.
pub(super) struct Zygote {
    line: Line,
    pidfd: OwnedFd,
    pid: i32,
    /// Held, so that reading input waits and writing output does not fail.
    _streams: (OwnedFd, OwnedFd),
    ready: bool,
    /// No further order comes; it goes with its last worker.
    retired: bool,
    /// Sandboxes whose order could not be given yet.
    pub(super) asked: VecDeque<SandboxId>,
    /// Sandboxes whose order was given, oldest first.
    ordered: VecDeque<SandboxId>,
    /// Sandboxes by the number of their worker, as the zygote counts.
    workers: BTreeMap<u64, SandboxId>,
}

/// What the keeper has to do about something that a zygote said.
pub(super) enum News {
    /// Orders can be given now.
    Ready,
    /// This sandbox will have no worker.
    Failed(SandboxId, Trouble),
    /// This sandbox's worker ended.
    Ended { sandbox: SandboxId, status: i32, cpu: u64, largest: u64 },
    /// The zygote is gone.
    Gone,
}

impl Zygote {
    /// Starts the interpreter in a root like that of a run.
    pub(super) fn start(spec: &wire::Zygote, overlays: &[Overlay], profile: Profile) -> Result<Self, Trouble> {
        let writable = stage::writable(&ROOM).wall(Layer::DiskQuota, "make the zygote's writable tree")?;
        let (line, channel) = Line::pair().step("make a channel")?;
        let streams = pipe_with(PipeFlags::CLOEXEC).step("make a pipe")?;
        let inside = (streams.0.try_clone(), streams.1.try_clone());
        let (Ok(input), Ok(output)) = inside else { return Err(Errno::MFILE).step("make a pipe") };
        // Only from the keeper's own user and process namespace can its forks go into those of a run.
        let born = namespaces::flags(&[Layer::UserNs, Layer::PidNs]);
        match (Clone3 { namespaces: born, cgroup: None }).fork().step("fork a zygote")? {
            Side::Child => Birth { channel, streams: (input, output), writable, overlays, zygote: spec }.live(),
            Side::Parent { pidfd, pid } => {
                drop(channel);
                seccomp::parts(profile).iter().try_for_each(|part| line.send_filter(part)).step("greet the zygote")?;
                Ok(Self {
                    line,
                    pidfd,
                    pid,
                    _streams: streams,
                    ready: false,
                    retired: false,
                    asked: VecDeque::new(),
                    ordered: VecDeque::new(),
                    workers: BTreeMap::new(),
                })
            }
        }
    }

    pub(super) fn line(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }

    /// Orders a worker for `sandbox`.
    pub(super) fn order(&mut self, sandbox: SandboxId, fork: &Fork<'_>) -> Result<(), Errno> {
        self.line.send_fork(fork)?;
        self.ordered.push_back(sandbox);
        Ok(())
    }

    /// What the zygote said next, if anything.
    pub(super) fn hear(&mut self) -> Option<News> {
        loop {
            return Some(match self.line.hear()? {
                Heard::Ready => {
                    self.ready = true;
                    News::Ready
                }
                Heard::Forked { pid } => {
                    if let Some(sandbox) = self.ordered.pop_front() {
                        self.workers.insert(pid, sandbox);
                    }
                    continue;
                }
                Heard::Failed { step, errno } => match self.ordered.pop_front() {
                    Some(sandbox) => News::Failed(sandbox, Trouble { layer: None, step: step.to_owned(), errno }),
                    None => continue,
                },
                Heard::Ended { pid, status, cpu, largest } => match self.workers.remove(&pid) {
                    Some(sandbox) => News::Ended { sandbox, status, cpu, largest },
                    None => continue,
                },
                Heard::Gone | Heard::Sealed => News::Gone,
            });
        }
    }

    pub(super) fn retire(&mut self) {
        self.retired = true;
    }

    /// Whether nothing more will come of it.
    pub(super) fn is_done(&self) -> bool {
        self.retired && self.asked.is_empty() && self.ordered.is_empty() && self.workers.is_empty()
    }

    /// Ends it and says which sandboxes have no worker now.
    pub(super) fn end(self) -> Vec<SandboxId> {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        drop(sys::wait_for(self.pid));
        self.asked.into_iter().chain(self.ordered).chain(self.workers.into_values()).collect()
    }
}
