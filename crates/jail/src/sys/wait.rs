//! Reaping a process together with what it cost.

use std::convert::Infallible;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::io::Errno;

use super::last_errno;

/// A process that is gone.
pub(crate) struct Reaped {
    /// Processor time of it and of all it reaped.
    pub(crate) cpu: Duration,
    /// Resident bytes of the largest process among them.
    pub(crate) largest: u64,
}

/// Waits for `pid`, a child of this process, to be gone, and says what it and its descendants cost.
///
/// For the init of a pid namespace that is the whole tree: the kernel kills and reaps the rest before init may go.
pub(crate) fn wait_for(pid: i32) -> Result<Reaped, Errno> {
    loop {
        match wait4(pid, libc::__WALL) {
            Err(Errno::INTR) => {}
            other => return other.map(|(_, _, reaped)| reaped),
        }
    }
}

/// Reaps one process that was adopted, if one has ended: its number, its status, its cost. The keeper's own children are
/// no match: they were made to end without a signal, which is a class of its own.
pub(crate) fn reap_orphan() -> Option<(i32, i32, Reaped)> {
    wait4(-1, libc::WNOHANG).ok().filter(|(pid, ..)| *pid > 0)
}

/// Whether there is any child left, alive or not.
pub(crate) fn has_children() -> bool {
    // SAFETY: all zero is a valid `siginfo_t`.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is writable and lives across the call; nothing is reaped by it.
    let found = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) };
    found == 0
}

fn wait4(pid: i32, flags: i32) -> Result<(i32, i32, Reaped), Errno> {
    // SAFETY: `rusage` is plain numbers; all zero is a valid one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let mut status = 0;
    // SAFETY: `status` and `usage` are writable and live across the call.
    let reaped = unsafe { libc::wait4(pid, &raw mut status, flags, &raw mut usage) };
    if reaped == -1 {
        return Err(last_errno());
    }
    let time = |t: libc::timeval| Duration::new(t.tv_sec.unsigned_abs(), u32::try_from(t.tv_usec).unwrap_or(0) * 1000);
    let (cpu, largest) = (time(usage.ru_utime) + time(usage.ru_stime), usage.ru_maxrss.unsigned_abs() * 1024);
    Ok((reaped, status, Reaped { cpu, largest }))
}

/// Reaps whatever ends until `pid`, a child of this process, does; says how, and what it and those cost.
pub(crate) fn reap_until(pid: i32) -> Result<(i32, Reaped), Errno> {
    let mut all = Reaped { cpu: Duration::ZERO, largest: 0 };
    loop {
        match wait4(-1, 0) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
            Ok((reaped, status, cost)) => {
                all.cpu += cost.cpu;
                all.largest = all.largest.max(cost.largest);
                if reaped == pid {
                    return Ok((status, all));
                }
            }
        }
    }
}

/// Reaps whatever ends, until something can be read from `fd` or its other end is gone.
pub(crate) fn reap_beside(fd: BorrowedFd<'_>) -> Result<Infallible, Errno> {
    let children = Children::watch();
    loop {
        while reap_orphan().is_some() {}
        if children.wait(&[fd])? {
            return Err(Errno::PIPE);
        }
    }
}

/// Signals of ended children, kept back but for a wait, so that none is missed in between.
pub(crate) struct Children {
    unblocked: libc::sigset_t,
}

impl Children {
    /// Begins to keep them back. What is forked later inherits that; `reset_signals` takes it away.
    pub(crate) fn watch() -> Self {
        extern "C" fn wake(_: libc::c_int) {}
        // SAFETY: all-zero `sigset_t`s and a `sigaction` are valid; the handler does nothing, which is safe at any moment.
        let unblocked = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = wake as *const () as usize;
            libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut());
            let (mut child, mut unblocked) = (std::mem::zeroed::<libc::sigset_t>(), std::mem::zeroed());
            libc::sigaddset(&raw mut child, libc::SIGCHLD);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const child, &raw mut unblocked);
            libc::sigdelset(&raw mut unblocked, libc::SIGCHLD);
            unblocked
        };
        Self { unblocked }
    }

    /// Waits until a child ends, or something can be read from one of `fds` or its other end is gone; `true` for the latter.
    pub(crate) fn wait(&self, fds: &[BorrowedFd<'_>]) -> Result<bool, Errno> {
        let entries: Vec<_> = fds.iter().map(|fd| (*fd, libc::POLLIN)).collect();
        Ok(self.poll(&entries, None)?.contains(&true))
    }

    /// Waits until a child ends, the time is over, or something can be done with one of `fds`: with which ones.
    pub(crate) fn poll(&self, fds: &[(BorrowedFd<'_>, i16)], most: Option<Duration>) -> Result<Vec<bool>, Errno> {
        let entry =
            |(fd, events): &(BorrowedFd<'_>, i16)| libc::pollfd { fd: fd.as_raw_fd(), events: *events, revents: 0 };
        let mut polled: Vec<libc::pollfd> = fds.iter().map(entry).collect();
        let count = libc::nfds_t::try_from(polled.len()).map_err(|_| Errno::INVAL)?;
        let seconds = |time: Duration| libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX);
        let most = most.map(|time| libc::timespec { tv_sec: seconds(time), tv_nsec: time.subsec_nanos().into() });
        let timeout = most.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: as many entries as are said, one set and one time, which live across the call; null means no timeout.
        let ready = unsafe { libc::ppoll(polled.as_mut_ptr(), count, timeout, &raw const self.unblocked) };
        match ready {
            -1 if last_errno() == Errno::INTR => Ok(vec![false; fds.len()]),
            -1 => Err(last_errno()),
            _ => Ok(polled.iter().map(|fd| fd.revents != 0).collect()),
        }
    }
}

/// Signals every process that this one may, but itself: for process 1 all of its namespace.
pub(crate) fn signal_all(signal: i32) -> Result<(), Errno> {
    // SAFETY: takes numbers, no pointers.
    if unsafe { libc::kill(-1, signal) } == -1 { Err(last_errno()) } else { Ok(()) }
}
