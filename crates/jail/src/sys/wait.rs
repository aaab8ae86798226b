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
    // SAFETY: `rusage` is plain numbers; all zero is a valid one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: a null status is allowed, and `usage` is a writable `rusage` that lives across the call.
        let rc = unsafe { libc::wait4(pid, std::ptr::null_mut(), libc::__WALL, &raw mut usage) };
        if rc != -1 {
            break;
        }
        match last_errno() {
            Errno::INTR => {}
            errno => return Err(errno),
        }
    }
    let time = |t: libc::timeval| Duration::new(t.tv_sec.unsigned_abs(), u32::try_from(t.tv_usec).unwrap_or(0) * 1000);
    Ok(Reaped { cpu: time(usage.ru_utime) + time(usage.ru_stime), largest: usage.ru_maxrss.unsigned_abs() * 1024 })
}

/// Reaps one process that was adopted; whether there was one. Our own children are no match: they were made to end
/// without a signal, which is a class of its own.
pub(crate) fn reap_orphan() -> bool {
    // SAFETY: both pointers may be null.
    unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) > 0 }
}
