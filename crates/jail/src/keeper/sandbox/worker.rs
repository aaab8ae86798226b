//! A sandbox whose program is started before anybody needs it.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Pid;

use super::{Network, Sandbox, nanos, trouble};
use crate::cgroup::Group;
use crate::ids::GUEST;
use crate::keeper::NO_WORKER;
use crate::keeper::zygote::Zygote;
use crate::wire::{End, Rlimits, Start, ToInit, Trouble};
use crate::zygote::{Fork, Heard, Line};

/// What a program that waits may start, which is nothing it does.
const MOST_PIDS: u64 = 4096;

/// An interpreter that waits in a sandbox.
pub(in crate::keeper) struct Worker {
    pub(in crate::keeper) line: Line,
    pub(super) kind: WorkerKind,
    /// Its number on the host, from the moment that it waits.
    pub(super) pid: Option<Pid>,
    /// Processor time and largest resident size, once it has ended.
    pub(super) cost: Option<(u64, u64)>,
}

/// Where an interpreter that waits comes from.
pub(super) enum WorkerKind {
    /// A zygote forked it: it closes and limits itself.
    Forked,
    /// Init started it: it is limited from outside.
    Started,
}

impl Sandbox {
    /// Starts a program that will wait for its order. Only then are its limits known.
    pub(in crate::keeper) fn prestart(&mut self, start: Start, mut streams: Vec<OwnedFd>) -> Result<(), Errno> {
        let (line, channel) = Line::worker_pair()?;
        streams.push(channel);
        let fds: Vec<_> = streams.iter().map(AsFd::as_fd).collect();
        let limits = Rlimits { pids: MOST_PIDS, data: None, cpu: None };
        let Start { programs, argv, env, .. } = start;
        self.init.send(&ToInit::Start { programs, argv, env, limits }, &fds)?;
        self.worker = Some(Worker { line, kind: WorkerKind::Started, pid: None, cost: None });
        Ok(())
    }

    /// Whether its init has opened it for a worker that nobody has ordered yet.
    pub(in crate::keeper) fn wants_worker(&self) -> bool {
        self.end.is_none() && self.worker.is_none() && !self.entry.is_empty()
    }

    /// Orders the worker of `zygote`.
    pub(in crate::keeper) fn order_worker(&mut self, zygote: &mut Zygote) -> Result<(), Errno> {
        let (line, channel) = Line::worker_pair()?;
        let fork = Fork {
            guest: (GUEST, GUEST),
            channel,
            on_loan: self.network.as_ref().map(Network::entry),
            entry: &self.entry,
            birthplace: self.group.as_ref().and_then(Group::birthplace),
            doors: &self.doors,
        };
        zygote.order(self.id, &fork)?;
        line.send_order(if self.rehearse { b"i" } else { b"n" })?;
        self.entry.clear();
        self.doors.clear();
        self.worker = Some(Worker { line, kind: WorkerKind::Forked, pid: None, cost: None });
        Ok(())
    }

    /// The number of its worker, if that got so far as to wait.
    pub(in crate::keeper) fn worker_pid(&self) -> Option<Pid> {
        self.worker.as_ref()?.pid
    }

    /// Whether its worker waits.
    pub(in crate::keeper) fn is_prepared(&self) -> bool {
        self.worker_pid().is_some() && self.started.is_none()
    }

    /// Takes what the worker says; `Err` when it says nothing more.
    pub(in crate::keeper) fn hear_worker(&mut self) -> Result<(), Errno> {
        while let Some(worker) = &mut self.worker {
            let Some((heard, whom)) = worker.line.hear_whom() else { return Ok(()) };
            match (heard, &worker.kind) {
                (Heard::Failed { step, errno }, WorkerKind::Forked) => {
                    self.end_by(End::Failed(Trouble { layer: None, step: step.to_owned(), errno }));
                }
                // Whatever a started one says means that it waits. After its lease neither has anything to say to us:
                // it closes its end, or is gone, which we hear elsewhere.
                (Heard::Sealed, WorkerKind::Forked) | (_, WorkerKind::Started) if worker.pid.is_none() => {
                    worker.pid = Some(whom.ok_or(Errno::PIPE)?);
                    self.start_if_ready();
                }
                _ => return Err(Errno::PIPE),
            }
        }
        Ok(())
    }

    /// The worker's end, as its zygote saw it, or we did.
    pub(in crate::keeper) fn worker_ended(&mut self, status: i32, cpu: Duration, largest: u64) {
        if let Some(worker) = &mut self.worker {
            worker.cost = Some((nanos(cpu), largest));
        }
        let end = match libc::WTERMSIG(status) {
            0 => End::Exited(libc::WEXITSTATUS(status)),
            signal => self.signaled(signal),
        };
        self.end_by(self.ended(end));
    }

    /// No worker will come, or it is lost.
    pub(in crate::keeper) fn worker_lost(&mut self, trouble: Trouble) {
        self.end_by(End::Failed(trouble));
    }

    /// A program that waited and ended before its lease is no worker.
    pub(super) fn ended(&self, end: End) -> End {
        let early = self.worker.is_some() && self.started.is_none();
        if early { End::Failed(trouble(NO_WORKER, Errno::CHILD)) } else { end }
    }
}

/// What the driver in a worker reads: how many words its program's arguments have, these, and the environment.
pub(super) fn order(start: &Start) -> Vec<u8> {
    let mut words = vec![start.argv.len().to_string()];
    words.extend(start.argv.iter().chain(&start.env).cloned());
    words.join("\0").into_bytes()
}
