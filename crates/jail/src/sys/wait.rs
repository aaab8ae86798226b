//! Reaping a process together with what it cost.

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

/// Reaps one process that was adopted, if one has ended: its number, its status, its cost. Our own children are no match:
/// they were made to end without a signal, which is a class of its own.
pub(crate) fn reap_orphan() -> Option<(i32, i32, Reaped)> {
    wait4(-1, libc::WNOHANG).ok().filter(|(pid, ..)| *pid > 0)
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

/// From here on the kernel reaps the children of this process.
pub(crate) fn ignore_children() {
    // SAFETY: SIG_IGN is no pointer to code of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}
