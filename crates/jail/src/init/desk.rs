//! Where process 1 of a sandbox that stays is asked to start programs as somebody else.
//!
//! Whoever asks is served by a fork that holds nothing but the connection to him: what he says is read there, and never by
//! process 1 itself.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketFlags, SocketType, accept_with, bind, listen, socket_with};
use rustix::process::{Pid, WaitOptions, chdir, getpid, set_child_subreaper, setsid, wait};

use super::session::{ancestor_among, become_user, everybody, signal_group};
use super::{CWD_STEP, Order, Step, fork_into, place_streams};
use crate::channel::Channel;
use crate::sudo::{Answer, Ask, Wish, address};
use crate::sys::{self, Children};
use crate::wire::{ProcessId, Rlimits, Trouble};

/// Who may wait to be served.
const WAITING: i32 = 16;
/// Who is served before process 1 looks at its other duties again.
const AT_ONCE: usize = 4;

/// The desk, and those who serve at it.
pub(super) struct Desk {
    socket: OwnedFd,
    /// What each program may use, as the keeper said last.
    pub(super) limits: Option<Rlimits>,
    /// Forks that serve, each with the parent of the program that it serves.
    servants: BTreeMap<i32, i32>,
}

impl Desk {
    pub(super) fn open() -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&socket, &address()?)?;
        listen(&socket, WAITING)?;
        Ok(Self { socket, limits: None, servants: BTreeMap::new() })
    }

    /// Forks a servant for each who has come. `parents` are those of the programs that the keeper had started.
    pub(super) fn attend(&mut self, parents: &BTreeMap<i32, ProcessId>) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..AT_ONCE {
            let Ok(client) = accept_with(&self.socket, flags) else { return };
            let (Ok(peer), Some(limits)) = (socket_peercred(&client), self.limits) else { continue };
            let (peer, all) = (peer.pid.as_raw_nonzero().get(), everybody());
            // Killed meanwhile: what he asked for would outlive him.
            if !all.contains_key(&peer) {
                continue;
            }
            let is_known = |at| parents.contains_key(&at) || self.servants.contains_key(&at);
            // Whom his program has left behind is nobody's, and so is what is started for him.
            let near = ancestor_among(&all, peer, is_known).unwrap_or(0);
            let parent = self.servants.get(&near).copied().unwrap_or(near);
            match sys::fork() {
                Ok(Some(servant)) => drop(self.servants.insert(servant, parent)),
                Ok(None) => serve(client, limits),
                // He sees that nobody answers.
                Err(_) => {}
            }
        }
    }

    /// Somebody has ended.
    pub(super) fn gone(&mut self, pid: i32) {
        self.servants.remove(&pid);
    }

    /// Those who serve a program, by its parent.
    pub(super) fn servants_of(&self, parent: i32) -> impl Iterator<Item = i32> {
        self.servants.iter().filter(move |(_, served)| **served == parent).map(|(servant, _)| *servant)
    }
}

impl AsFd for Desk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Serves one connection to its end, and ends with it.
fn serve(client: OwnedFd, limits: Rlimits) -> ! {
    if sys::close_all_but(&[client.as_fd()]).is_ok() {
        let client = Channel::from_fd(client);
        if let Err(trouble) = fulfil(&client, limits) {
            let _ = client.send(&Answer::Refused(trouble), &[]);
        }
    }
    sys::exit_now(0)
}

fn fulfil(client: &Channel, limits: Rlimits) -> Result<(), Trouble> {
    set_child_subreaper(Some(getpid())).step("adopt what the program leaves")?;
    let children = Children::watch();
    let Some((Ask::Start(wish), streams)) = client.recv().step("read what is asked for")? else { return Ok(()) };
    let main = start(&wish, streams, limits)?.as_raw_nonzero().get();
    let mut buffer = Vec::new();
    let mut listening = true;
    loop {
        while let Some((pid, status, _)) = sys::reap_orphan() {
            if pid == main {
                // He may be gone.
                let _ = client.send(&Answer::Ended(status), &[]);
                return stay();
            }
        }
        while listening {
            match client.try_recv(&mut buffer) {
                Err(Errno::AGAIN) => break,
                Ok(Some((Ask::Signal(signal), _))) => drop(signal_group(main, signal)),
                // Nobody waits for it any more.
                Ok(Some((Ask::Start(_), _)) | None) | Err(_) => {
                    listening = false;
                    let _ = signal_group(main, libc::SIGHUP);
                }
            }
        }
        let client = listening.then(|| client.as_fd());
        children.wait(client.as_slice()).step("wait for the program")?;
    }
}

/// Stays with what the program left running: so it still belongs to who asked.
fn stay() -> Result<(), Trouble> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return Ok(()),
        }
    }
}

fn start(wish: &Wish, streams: Vec<OwnedFd>, limits: Rlimits) -> Result<Pid, Trouble> {
    let (user, group) = wish.user;
    fork_into(|| {
        sys::reset_signals();
        setsid().step("leave the session")?;
        place_streams(streams)?;
        limits.apply_to(None).step("set resource limits")?;
        become_user(user, group, true)?;
        chdir(wish.cwd.as_str()).step(CWD_STEP)?;
        Order { programs: &wish.programs, argv: &wish.argv, env: &wish.env }.execute()
    })
}
