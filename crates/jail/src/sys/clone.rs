//! `clone3` as a fork that enters namespaces.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use super::check;

/// A fork with namespaces, and optionally straight into a cgroup v2.
pub(crate) struct Clone3<'fd> {
    /// `CLONE_NEW*` flags.
    pub(crate) namespaces: u64,
    /// A cgroup v2 folder for the child to be born in.
    pub(crate) cgroup: Option<BorrowedFd<'fd>>,
}

/// Which side of the fork this is.
pub(crate) enum Side {
    /// The new process.
    Child,
    /// The old one, with a descriptor and the number of the new.
    Parent { pidfd: OwnedFd, pid: i32 },
}

impl Clone3<'_> {
    /// Forks. Only a single-threaded program may call this: the child goes on in a copy of the whole memory, and a lock
    /// held by another thread would stay held there for ever.
    pub(crate) fn fork(&self) -> Result<Side, Errno> {
        let mut pidfd: libc::c_int = -1;
        // SAFETY: `clone_args` is plain numbers; all zero is its documented "nothing asked" state.
        let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
        args.flags = self.namespaces | u64::from(libc::CLONE_PIDFD.cast_unsigned());
        args.pidfd = std::ptr::from_mut(&mut pidfd) as u64;
        // No signal at its end: its pidfd tells, and it is told apart from processes that the keeper adopts.
        args.exit_signal = 0;
        if let Some(cgroup) = self.cgroup {
            // `libc` still has this constant in a type too small for it.
            args.flags |= 0x2_0000_0000;
            args.cgroup = u64::from(cgroup.as_raw_fd().unsigned_abs());
        }
        // SAFETY: `args` and `pidfd` live across the call, and the size passed is the structure's own. Without CLONE_VM
        // the child has its own copy of the stack, as after fork(2); the program has one thread (see above).
        let rc = check(unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of_val(&args)) })?;
        if rc == 0 {
            return Ok(Side::Child);
        }
        // SAFETY: the kernel stored a new descriptor there that nothing else owns.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        Ok(Side::Parent { pidfd, pid: i32::try_from(rc).map_err(|_| Errno::OVERFLOW)? })
    }
}

/// A plain fork, by the older call: inside a sandbox the filter knows no `clone3`, which hides its flags from it.
/// The same rule holds: one thread only.
pub(crate) fn fork() -> Result<Option<i32>, Errno> {
    // SAFETY: fork takes nothing. The program has one thread, so the child's copy of memory is consistent.
    match unsafe { libc::fork() } {
        -1 => Err(super::last_errno()),
        0 => Ok(None),
        pid => Ok(Some(pid)),
    }
}
