//! Process 1 of a sandbox that stays: starts programs at the keeper's word, signals them, reaps.
//!
//! Each program has a parent of its own, a fork of init that adopts whatever the program leaves without one. So all that a
//! program started can be found and killed, and its end and cost are told by the one process that waited for it.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, chdir, getpid, ioctl_tiocsctty, kill_process, kill_process_group, set_child_subreaper, setsid,
};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::desk::Desk;
use super::{Order, Step, fork_into, place_streams, seal};
use crate::channel::Channel;
use crate::ids;
use crate::sys::{self, Children};
use crate::wire::{FromInit, FromSession, ProcessId, ProcessOrder, Rlimits, ToInit, ToSession, Trouble};

/// Rounds of looking for a program's descendants before giving up: whoever forks faster than that is stopped by the limit
/// of processes.
const ROUNDS: usize = 200;

/// Who a session's programs may be.
#[derive(Clone, Copy)]
pub(super) struct Users {
    /// Whether there is more than one to become.
    pub(super) several: bool,
    /// Whether programs may ask to be another. The desk is in the sandbox's own network, or nowhere.
    pub(super) may_ask: bool,
}

/// Serves until the keeper is gone.
pub(super) fn serve(channel: &Channel, Users { several: users, may_ask }: Users) -> Result<Infallible, Errno> {
    let children = Children::watch();
    let mut parents: BTreeMap<i32, ProcessId> = BTreeMap::new();
    let mut desk = if may_ask { Some(Desk::open()?) } else { None };
    let mut buffer = Vec::new();
    loop {
        while let Some((pid, status, _)) = sys::reap_orphan() {
            if let Some(desk) = &mut desk {
                desk.gone(pid);
            }
            if let Some(process) = parents.remove(&pid)
                && status != 0
            {
                // Killed before it could tell; so its program's end is known to nobody.
                let lost = FromSession::Ended { process, status: libc::SIGKILL, cpu: 0, largest: 0 };
                channel.send(&FromInit::Session(lost), &[])?;
            }
        }
        loop {
            match channel.try_recv(&mut buffer) {
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno),
                Ok(None) => return Err(Errno::PIPE),
                Ok(Some((ToInit::Session(message), fds))) => match message {
                    ToSession::Start { order, limits } => {
                        if let Some(desk) = &mut desk {
                            desk.limits = Some(limits);
                        }
                        let process = order.process;
                        match (Parent { channel, order, limits, users }).fork(fds) {
                            Ok(pid) => drop(parents.insert(pid, process)),
                            Err(trouble) => refuse(channel, process, trouble)?,
                        }
                    }
                    // Whoever is gone needs no signal.
                    ToSession::Signal { pid, signal } => drop(signal_group(pid, signal)),
                    ToSession::All { signal } => drop(sys::signal_all(signal)),
                    ToSession::Kill(process) => {
                        if let Some((parent, _)) = parents.iter().find(|(_, id)| **id == process) {
                            let servants = desk.iter().flat_map(|desk| desk.servants_of(*parent));
                            kill_below(*parent, &servants.collect());
                        }
                    }
                },
                Ok(Some((ToInit::Go { .. } | ToInit::Start { .. }, _))) => return Err(Errno::PROTO),
            }
        }
        if let Some(desk) = &mut desk {
            desk.attend(&parents);
        }
        let desk = desk.as_ref().map(AsFd::as_fd);
        let fds: Vec<_> = [channel.as_fd()].into_iter().chain(desk).collect();
        children.wait(&fds)?;
    }
}

fn refuse(channel: &Channel, process: ProcessId, trouble: Trouble) -> Result<(), Errno> {
    channel.send(&FromInit::Session(FromSession::Refused { process, trouble }), &[])
}

pub(crate) fn signal_group(pid: i32, signal: i32) -> Result<(), Errno> {
    let signal = Signal::from_named_raw(signal).ok_or(Errno::INVAL)?;
    kill_process_group(Pid::from_raw(pid).ok_or(Errno::SRCH)?, signal)
}

/// The parent of one program.
pub(crate) struct Parent<'a> {
    /// Where it tells of the program.
    pub(crate) channel: &'a Channel,
    pub(crate) order: ProcessOrder,
    pub(crate) limits: Rlimits,
    /// Whether there is more than one user to become.
    pub(crate) users: bool,
}

/// A terminal: our end, and the program's.
struct Terminal {
    master: OwnedFd,
    slave: OwnedFd,
}

impl Parent<'_> {
    /// Forks the parent, which forks the program; returns the parent's number.
    pub(crate) fn fork(self, streams: Vec<OwnedFd>) -> Result<i32, Trouble> {
        if let Some(pid) = sys::fork().step("fork the program's parent")? {
            return Ok(pid);
        }
        let (process, channel) = (self.order.process, self.channel);
        let told = match self.alone(&streams).and_then(|()| self.live(streams)) {
            Ok(ended) => channel.send(&FromInit::Session(ended), &[]),
            Err(trouble) => refuse(channel, process, trouble),
        };
        sys::exit_now(i32::from(told.is_err()))
    }

    /// Lets go of all that process 1 has: the streams of other programs, whose ends would not be seen, and its own.
    fn alone(&self, streams: &[OwnedFd]) -> Result<(), Trouble> {
        let keep: Vec<_> = [self.channel.as_fd()].into_iter().chain(streams.iter().map(AsFd::as_fd)).collect();
        sys::close_all_but(&keep).step("close what is not the program's")?;
        rustix::stdio::dup2_stdin(self.channel).step("let go of standard input")?;
        rustix::stdio::dup2_stdout(self.channel).step("let go of standard output")?;
        rustix::stdio::dup2_stderr(self.channel).step("let go of standard error")
    }

    /// Starts the program, says so, and waits for its end.
    fn live(self, streams: Vec<OwnedFd>) -> Result<FromSession, Trouble> {
        set_child_subreaper(Some(getpid())).step("adopt what the program leaves")?;
        let terminal = self.order.terminal.map(|size| self.terminal(size)).transpose()?;
        let (master, slave) = terminal.map_or((None, None), |both| (Some(both.master), Some(both.slave)));
        let ProcessOrder { process, programs, argv, env, .. } = &self.order;
        let program = Order { programs, argv, env };
        let main = fork_into(|| {
            sys::reset_signals();
            setsid().step("leave the session")?;
            let streams = match slave {
                None => streams,
                Some(slave) => {
                    ioctl_tiocsctty(&slave).step("take the terminal")?;
                    let copy = || slave.try_clone().map_err(|_| Errno::MFILE).step("take the terminal");
                    vec![copy()?, copy()?, copy()?]
                }
            };
            place_streams(streams)?;
            self.limits.apply_to(None).step("set resource limits")?;
            become_user(self.order.user, self.order.user, self.users)?;
            chdir(self.order.cwd.as_str()).step(super::CWD_STEP)?;
            program.execute()
        })?;
        let started = FromSession::Started { process: *process, pid: main.as_raw_nonzero().get() };
        let beside: Vec<_> = master.iter().map(AsFd::as_fd).collect();
        self.channel.send(&FromInit::Session(started), &beside).step("report to the keeper")?;
        drop(master);
        let (status, reaped) = sys::reap_until(main.as_raw_nonzero().get()).step("wait for the program")?;
        let cpu = u64::try_from(reaped.cpu.as_nanos()).unwrap_or(u64::MAX);
        Ok(FromSession::Ended { process: *process, status, cpu, largest: reaped.largest })
    }

    fn terminal(&self, (columns, rows): (u16, u16)) -> Result<Terminal, Trouble> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).step("open a terminal")?;
        unlockpt(&master).step("open a terminal")?;
        let slave = ioctl_tiocgptpeer(&master, flags).step("open a terminal")?;
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size).step("size the terminal")?;
        if self.users {
            let owner = rustix::fs::Uid::from_raw(self.order.user);
            rustix::fs::fchown(&slave, Some(owner), None).step("give the terminal away")?;
        }
        Ok(Terminal { master, slave })
    }
}

/// Becomes a program's user, with the rights of that user and no others. `users` says whether there is a choice.
pub(super) fn become_user(user: u32, group: u32, users: bool) -> Result<(), Trouble> {
    if !users {
        // There is one, and this is it already.
        return if user == ids::GUEST { Ok(()) } else { Err(Errno::PERM).step("become another user") };
    }
    if user == 0 {
        return seal::become_root().step("drop capabilities");
    }
    ids::become_guest(user, group).step("become the user")?;
    seal::drop_capabilities().step("drop every capability")
}

/// Kills everything below `parent`, and those who serve it with all below them: first all are stopped, so that none starts
/// another meanwhile.
pub(crate) fn kill_below(parent: i32, servants: &BTreeSet<i32>) {
    let mut stopped = BTreeSet::new();
    for _ in 0..ROUNDS {
        let below = below(parent, servants);
        if below.is_empty() {
            return;
        }
        let signal = if below.is_subset(&stopped) { Signal::KILL } else { Signal::STOP };
        for pid in below.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let _ = kill_process(pid, signal);
        }
        if signal == Signal::KILL {
            std::thread::yield_now();
        }
        stopped.extend(below);
    }
}

/// Everybody below `parent`, and the servants with all below them, who is not gone already.
pub(crate) fn below(parent: i32, servants: &BTreeSet<i32>) -> BTreeSet<i32> {
    let parents = everybody();
    let is_root = |at: i32| at == parent || servants.contains(&at);
    let is_below = |pid: &i32| servants.contains(pid) || ancestor_among(&parents, *pid, is_root).is_some();
    parents.keys().copied().filter(is_below).collect()
}

/// The nearest ancestor that is wanted.
pub(super) fn ancestor_among(parents: &BTreeMap<i32, i32>, pid: i32, wanted: impl Fn(i32) -> bool) -> Option<i32> {
    let mut at = pid;
    // No longer than the chain of all.
    for _ in 0..=parents.len() {
        at = *parents.get(&at)?;
        if wanted(at) {
            return Some(at);
        }
    }
    None
}

/// Everybody who is not gone already, with his parent.
pub(crate) fn everybody() -> BTreeMap<i32, i32> {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        if let Some((state, parent)) = state_and_parent(&stat)
            && !matches!(state, 'Z' | 'X')
        {
            parents.insert(pid, parent);
        }
    }
    parents
}

/// The name in brackets is the program's to choose.
fn state_and_parent(stat: &str) -> Option<(char, i32)> {
    let mut rest = stat.rsplit_once(')')?.1.split_whitespace();
    let state = rest.next()?.chars().next()?;
    Some((state, rest.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_forge_a_parent() {
        assert_eq!(state_and_parent("7 (x) S 1 2) R 5 7 7 0"), Some(('R', 5)));
        assert_eq!(state_and_parent("garbage"), None);
    }
}
