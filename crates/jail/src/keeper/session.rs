//! A sandbox that stays, from the keeper's side: its processes, their time, their ends.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use types::LimitKind;

use super::sandbox::Sandbox;
use crate::cgroup::Group;
use crate::channel::Channel;
use crate::program::Program;
use crate::swap::Swap;
use crate::wire::{
    Cost, Disk, End, FromKeeper, FromSession, GuestIds, ProcessId, ProcessOrder, SandboxId, SessionNews, SessionOrder,
    Swapped, ToInit, ToSession, Trouble,
};

/// What the keeper knows of a sandbox that stays, beyond what it knows of any.
pub(super) struct Session {
    /// How its users are written outside.
    pub(super) ids: GuestIds,
    /// Its processes, for whoever must be among them.
    pub(super) pids: Option<OwnedFd>,
    /// When it was opened.
    opened: Instant,
    processes: BTreeMap<ProcessId, Program>,
    /// Whether programs that ended may have left others running.
    left_running: bool,
}

impl Session {
    pub(super) fn new(ids: GuestIds) -> Self {
        Self { ids, pids: None, opened: Instant::now(), processes: BTreeMap::new(), left_running: false }
    }

    /// Whether nothing runs in it.
    pub(super) fn is_idle(&self) -> bool {
        self.processes.is_empty() && !self.left_running
    }

    /// Takes note of how many processes it has. Where there is but init, nothing begins by itself.
    pub(super) fn count(&mut self, processes: usize) {
        self.left_running = processes > 1;
    }

    /// When the first of its programs has had its time.
    pub(super) fn next_check(&self) -> Option<Instant> {
        self.processes.values().filter_map(Program::deadline).min()
    }
}

impl Sandbox {
    /// Tells the engine that it is ready, with its root beside.
    pub(super) fn announce(&self, engine: &Channel, root: &OwnedFd) -> Result<(), Errno> {
        let Some(session) = &self.session else { return Ok(()) };
        let mut layers = self.layers.clone();
        layers.sort_unstable();
        tell(engine, self.id, SessionNews::Opened { ids: session.ids, layers }, Some(root.as_fd()))
    }

    /// Does what the engine wants of a sandbox that stays.
    pub(super) fn order(&mut self, engine: &Channel, order: SessionOrder, fds: &[OwnedFd]) -> Result<(), Errno> {
        let id = self.id;
        match order {
            SessionOrder::Start(order) => self.start_process(engine, order, fds),
            SessionOrder::Signal { process, signal } => {
                let pid = self.session.as_ref().and_then(|session| session.processes.get(&process)?.pid);
                self.tell_init(pid.map(|pid| ToSession::Signal { pid, signal }));
                Ok(())
            }
            SessionOrder::Kill(process) => {
                self.kill_process(process, End::Cancelled);
                Ok(())
            }
            SessionOrder::KillAll => {
                self.kill_processes(&End::Cancelled);
                Ok(())
            }
            SessionOrder::Freeze | SessionOrder::Thaw => {
                let frozen = order == SessionOrder::Freeze;
                // Where no group can freeze, everybody is stopped, which they could notice.
                if !self.group.as_ref().is_some_and(|group| group.freeze(frozen)) {
                    let signal = if frozen { libc::SIGSTOP } else { libc::SIGCONT };
                    self.tell_init(Some(ToSession::All { signal }));
                }
                tell(engine, id, SessionNews::Done, None)
            }
            SessionOrder::Swap { disk, kill } => {
                let (swapped, root) = self.swap(&disk, kill);
                if let Swapped::Broken(trouble) = &swapped {
                    self.end_by(End::Failed(trouble.clone()));
                }
                tell(engine, id, SessionNews::Swapped(swapped), root.as_ref().map(AsFd::as_fd))
            }
            SessionOrder::Measure => {
                let counts = self.group.as_ref().map(Group::counts).unwrap_or_default();
                let opened = self.session.as_ref().map_or_else(Instant::now, |session| session.opened);
                let cpu = counts.cpu.or_else(|| self.watched_cpu()).unwrap_or(0);
                let wall = nanos(opened.elapsed());
                let cost = Cost { wall, cpu, memory: counts.peak.unwrap_or(0), hits: Vec::new() };
                let memory = self.group.as_ref().and_then(Group::memory);
                tell(engine, id, SessionNews::Measured { cost, memory }, None)
            }
        }
    }

    /// Puts another disk in place while everybody stands still.
    fn swap(&self, disk: &Disk, kill: bool) -> (Swapped, Option<OwnedFd>) {
        let entry = self.mounts().zip(self.session.as_ref().and_then(|session| session.pids.as_ref()));
        let Some((mounts, pids)) = entry else {
            let step = "swap the disk".to_owned();
            return (Swapped::Failed(Trouble { layer: None, step, errno: libc::EOPNOTSUPP }), None);
        };
        Swap { mounts: mounts.as_fd(), pids: pids.as_fd(), disk, kill }.carry_out()
    }

    fn start_process(&mut self, engine: &Channel, order: ProcessOrder, fds: &[OwnedFd]) -> Result<(), Errno> {
        let (process, wall) = (order.process, order.wall);
        let limits = self.rlimits();
        let beside: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let sent = self.init.send(&ToInit::Session(ToSession::Start { order, limits }), &beside);
        let out_of_memory = self.group.as_ref().map_or(0, |group| group.counts().out_of_memory);
        let Some(session) = &mut self.session else { return Err(Errno::PROTO) };
        match sent {
            Ok(()) => {
                session.processes.insert(process, Program::ordered(wall, out_of_memory));
                Ok(())
            }
            Err(errno) => {
                let step = "start the program".to_owned();
                let trouble = Trouble { layer: None, step, errno: errno.raw_os_error() };
                tell(engine, self.id, SessionNews::Refused { process, trouble }, None)
            }
        }
    }

    fn kill_process(&mut self, id: ProcessId, end: End) {
        let Some(process) = self.session.as_mut().and_then(|session| session.processes.get_mut(&id)) else { return };
        process.end.get_or_insert(end);
        self.tell_init(Some(ToSession::Kill(id)));
    }

    /// Kills everybody but init, also those whom ended programs left running.
    pub(super) fn kill_processes(&mut self, end: &End) {
        for process in self.session.iter_mut().flat_map(|session| session.processes.values_mut()) {
            process.end.get_or_insert(end.clone());
        }
        self.tell_init(Some(ToSession::All { signal: libc::SIGKILL }));
    }

    /// An init that cannot be told is going, which its pidfd tells.
    fn tell_init(&self, message: Option<ToSession>) {
        if let Some(message) = message {
            let _ = self.init.send(&ToInit::Session(message), &[]);
        }
    }

    /// Kills programs that have had their time.
    pub(super) fn tick_processes(&mut self, now: Instant) {
        let Some(session) = &self.session else { return };
        let late: Vec<ProcessId> = session
            .processes
            .iter()
            .filter(|(_, process)| process.deadline().is_some_and(|at| at <= now))
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            self.kill_process(id, End::Limit(LimitKind::Wall));
        }
    }

    /// Passes on what was heard of a program.
    pub(super) fn hear_process(&mut self, engine: &Channel, news: FromSession, fds: &[OwnedFd]) -> Result<(), Errno> {
        let id = self.id;
        let counts = self.group.as_ref().map(Group::counts).unwrap_or_default();
        let Some(session) = &mut self.session else { return Err(Errno::PROTO) };
        match news {
            FromSession::Started { process, pid } => {
                if session.processes.get_mut(&process).is_some_and(|known| known.begin(pid)) {
                    self.tell_init(Some(ToSession::Kill(process)));
                }
                tell(engine, id, SessionNews::Started { process, pid }, fds.first().map(AsFd::as_fd))
            }
            FromSession::Refused { process, trouble } => {
                session.processes.remove(&process);
                tell(engine, id, SessionNews::Refused { process, trouble }, None)
            }
            FromSession::Ended { process, status, cpu, largest } => {
                let Some(known) = session.processes.remove(&process) else { return Ok(()) };
                session.left_running = true;
                let (end, cost) = known.over(status, cpu, largest, counts.out_of_memory);
                tell(engine, id, SessionNews::Ended { process, end, cost }, None)
            }
        }
    }
}

/// Whoever can no longer hear it is gone, which the loop notices by itself.
fn tell(engine: &Channel, id: SandboxId, news: SessionNews, fd: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let fds: Vec<_> = fd.into_iter().collect();
    match engine.send(&FromKeeper::Session(id, news), &fds) {
        Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
        other => other,
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
