//! Signals as something to read.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use super::last_errno;

/// Those that somebody sends to have a program do something.
const SENT: [libc::c_int; 8] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGWINCH,
];

/// Signals that are kept back and read.
pub(crate) struct Signals(OwnedFd);

impl Signals {
    /// Begins to keep them back, for good.
    pub(crate) fn keep() -> Result<Self, Errno> {
        // SAFETY: an all-zero `sigset_t` is the empty set; it lives across the calls, and null means that the old mask is
        // not wanted. -1 asks for a new descriptor.
        let fd = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            for signal in SENT {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd == -1 {
            return Err(last_errno());
        }
        // SAFETY: the kernel has just made it, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// One that has come.
    pub(crate) fn next(&self) -> Option<i32> {
        // SAFETY: `signalfd_siginfo` is plain numbers; all zero is a valid one.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let size = size_of_val(&info);
        // SAFETY: `info` is writable, of that size, and lives across the call.
        let got = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), size) };
        if usize::try_from(got) == Ok(size) { i32::try_from(info.ssi_signo).ok() } else { None }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
