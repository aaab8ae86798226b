//! What the keeper says to a zygote and its workers, and hears from them. The library on the other side is in `zygote/`.

#[path = "../zygote/src/wire.rs"]
mod wire;

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags, SocketType, recvmsg,
    send, socketpair,
};
use rustix::process::Pid;

use crate::channel::send_with;
use crate::sys::Instruction;
use crate::wire::Rlimits;
pub(crate) use wire::CHANNEL;
use wire::{
    BORN_IN_GROUP, ENDED, FAILED, FORK, FORKED, LEASE, MAX_FDS, MAX_FILTER, NUMBERS, Packet, READY, SEALED, UNLIMITED,
    WITH_RULES,
};

/// The namespaces that a worker joins, in this order.
pub(crate) const NAMESPACES: [&str; 7] = ["user", "mnt", "pid", NETWORK, "ipc", "uts", "cgroup"];

const NETWORK: &str = "net";

/// Names of the steps that can fail in a zygote or a worker, by number.
const STEPS: [&str; 12] = [
    "fork the worker",
    "enter the cgroup",
    "join the user namespace",
    "join the namespaces",
    "become the user of the sandbox",
    "drop every capability",
    "set no_new_privs",
    "restrict files with Landlock",
    "take the worker's channel",
    "enter /work",
    "load the system call filter",
    "set resource limits",
];

/// The keeper's end of a channel to a zygote or a worker.
#[derive(Debug)]
pub(crate) struct Line(OwnedFd);

/// What comes over a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The zygote has imported everything.
    Ready,
    /// It made the worker of the oldest order.
    Forked { pid: u64 },
    /// The oldest order, or this worker, failed.
    Failed { step: &'static str, errno: i32 },
    /// A worker ended, with the kernel's wait status.
    Ended { pid: u64, status: i32, cpu: u64, largest: u64 },
    /// The worker is closed and waits.
    Sealed,
    /// The other end is gone.
    Gone,
}

/// A worker to fork into a sandbox.
pub(crate) struct Fork<'a> {
    /// User and group to become.
    pub(crate) guest: (u32, u32),
    /// The worker's own channel.
    pub(crate) channel: OwnedFd,
    /// A network on loan: the user namespace that it belongs to, and the network. They are joined first.
    pub(crate) on_loan: Option<[BorrowedFd<'a>; 2]>,
    /// [`NAMESPACES`], then the Landlock rules if there are any.
    pub(crate) entry: &'a [OwnedFd],
    /// A v2 group to be born in.
    pub(crate) birthplace: Option<BorrowedFd<'a>>,
    /// Doors into v1 groups.
    pub(crate) doors: &'a [OwnedFd],
}

impl Line {
    /// Our end, which never waits, and the other, which does.
    pub(crate) fn pair() -> Result<(Self, OwnedFd), Errno> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        Ok((Self(ours), theirs))
    }

    /// A filter: a zygote's first packet is its own, the second that of every worker.
    pub(crate) fn send_filter(&self, filter: &[Instruction]) -> Result<(), Errno> {
        let mut bytes = Vec::with_capacity(filter.len() * 8);
        for instruction in filter {
            bytes.extend(instruction.code.to_ne_bytes());
            bytes.extend([instruction.jt, instruction.jf]);
            bytes.extend(instruction.k.to_ne_bytes());
        }
        if bytes.len() > MAX_FILTER {
            return Err(Errno::TOOBIG);
        }
        send(&self.0, &bytes, SendFlags::NOSIGNAL).map(drop)
    }

    /// Orders a worker. Answered by `Forked` or `Failed`, in order.
    pub(crate) fn send_fork(&self, fork: &Fork<'_>) -> Result<(), Errno> {
        let mut flags = 0;
        if fork.entry.len() > NAMESPACES.len() {
            flags |= WITH_RULES;
        }
        if fork.birthplace.is_some() {
            flags |= BORN_IN_GROUP;
        }
        let mut fds = vec![fork.channel.as_fd()];
        fds.extend(fork.on_loan.into_iter().flatten());
        // From inside the sandbox's user namespace nobody has a right over a network on loan: it was joined before.
        let joined = |name: Option<&&str>| fork.on_loan.is_some() && name == Some(&NETWORK);
        let entry = fork.entry.iter().enumerate().filter(|(index, _)| !joined(NAMESPACES.get(*index)));
        fds.extend(entry.map(|(_, fd)| fd.as_fd()));
        let namespaces = NAMESPACES.len() + usize::from(fork.on_loan.is_some());
        fds.extend(fork.birthplace);
        fds.extend(fork.doors.iter().map(AsFd::as_fd));
        let (user, group) = fork.guest;
        self.send([FORK, user.into(), group.into(), namespaces as u64, flags, 0, 0, 0], &fds)
    }

    /// Lends a worker to a run: its limits and standard streams, then what the interpreter's driver reads.
    pub(crate) fn send_lease(&self, limits: Rlimits, streams: &[BorrowedFd<'_>], order: &[u8]) -> Result<(), Errno> {
        let (data, cpu) = (limits.data.unwrap_or(UNLIMITED), limits.cpu.unwrap_or(UNLIMITED));
        self.send([LEASE, limits.pids + 1, data, cpu, 0, 0, 0, 0], streams)?;
        self.send_order(order)
    }

    /// What a driver reads.
    pub(crate) fn send_order(&self, order: &[u8]) -> Result<(), Errno> {
        send(&self.0, order, SendFlags::NOSIGNAL).map(drop)
    }

    /// A pair for a worker, whose number comes beside what it says.
    pub(crate) fn worker_pair() -> Result<(Self, OwnedFd), Errno> {
        let (line, channel) = Self::pair()?;
        set_socket_passcred(&line.0, true)?;
        Ok((line, channel))
    }

    fn send(&self, packet: Packet, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let bytes: Vec<u8> = packet.iter().flat_map(|number| number.to_ne_bytes()).collect();
        if fds.len() > MAX_FDS {
            return Err(Errno::TOOBIG);
        }
        send_with(self.as_fd(), &bytes, fds)
    }

    /// What was said, or `None` when nothing was.
    pub(crate) fn hear(&self) -> Option<Heard> {
        self.hear_whom().map(|(heard, _)| heard)
    }

    /// What was said, and by whom: his number on the host, if that was asked for.
    pub(crate) fn hear_whom(&self) -> Option<(Heard, Option<Pid>)> {
        let mut bytes = [0; NUMBERS * 8];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = loop {
            match recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::empty()) {
                Err(Errno::AGAIN) => return None,
                Err(Errno::INTR) => {}
                Ok(got) => break got.bytes,
                Err(_) => return Some((Heard::Gone, None)),
            }
        };
        let whom = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(who) => Some(who.pid),
            _ => None,
        });
        let mut packet: Packet = [0; NUMBERS];
        for (number, chunk) in packet.iter_mut().zip(bytes[..got].chunks_exact(8)) {
            *number = chunk.try_into().map_or(0, u64::from_ne_bytes);
        }
        Some((parse(packet), whom.filter(|_| got > 0)))
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Workers are trusted until they are leased, and say nothing after; nonsense still means that the other end is lost.
pub(crate) fn parse([kind, a, b, c, d, ..]: [u64; 8]) -> Heard {
    #[expect(clippy::cast_possible_truncation, reason = "small numbers of the kernel's")]
    let small = |number: u64| number as i32;
    match kind {
        READY => Heard::Ready,
        FORKED => Heard::Forked { pid: a },
        FAILED => {
            let step = usize::try_from(a).ok().and_then(|step| STEPS.get(step)).copied();
            Heard::Failed { step: step.unwrap_or("make a worker"), errno: small(b) }
        }
        ENDED => Heard::Ended { pid: a, status: small(b), cpu: c, largest: d },
        SEALED => Heard::Sealed,
        _ => Heard::Gone,
    }
}
