//! `clone3` as a fork that enters namespaces.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

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
        let mut pidfd = -1;
        let pid = self.clone(u64::from(libc::CLONE_PIDFD.cast_unsigned()), &mut pidfd)?;
        if pid == 0 {
            return Ok(Side::Child);
        }
        // SAFETY: the kernel stored a new descriptor there that nothing else owns.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        Ok(Side::Parent { pidfd, pid })
    }

    /// The same by way of a process in between, which changes its own namespaces first: `steps` says how, what it does
    /// about the new process, and what that one does. The new process is a child of the caller all the same.
    ///
    /// The process in between shares our memory, and our descriptors until its own steps are done, and we wait until it is
    /// gone. What it hands on is only what the new process needs: a copy of all that we hold would have to be closed again.
    pub(crate) fn fork_by_way(&self, stack: &mut Stack, steps: &mut dyn Steps) -> Result<(OwnedFd, i32), Errno> {
        let mut way = Way { fork: self, steps, made: Err(Errno::CHILD) };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES;
        // SAFETY: the stack is aligned to 16 bytes at its end and used by nobody else. `way` outlives the process in
        // between: `CLONE_VFORK` holds this call until that process has ended, and nobody but it uses our memory so long.
        // It has no lock to wait for, since the keeper has one thread.
        let pid = unsafe { libc::clone(on_the_way, stack.top(), flags, (&raw mut way).cast()) };
        if pid == -1 {
            return Err(super::last_errno());
        }
        drop(super::wait_for(pid));
        let pid = Pid::from_raw(way.made?).ok_or(Errno::CHILD)?;
        // It is our child: until we have waited for it, nobody else has its number.
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok((pidfd, pid.as_raw_pid())),
            Err(errno) => {
                let _ = kill_process(pid, Signal::KILL);
                drop(super::wait_for(pid.as_raw_pid()));
                Err(errno)
            }
        }
    }

    /// Makes a copy of our descriptors that has none above those which the new process needs.
    fn keep_files_below(&self, highest: i32) -> Result<(), Errno> {
        let cgroup = self.cgroup.map_or(-1, |cgroup| cgroup.as_raw_fd());
        let first = highest.max(cgroup).max(2).unsigned_abs() + 1;
        // SAFETY: takes numbers, no pointers. The table is this process's own from here on, and no `OwnedFd` is dropped in
        // it before it ends.
        check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_UNSHARE) })?;
        // The engine's end sees at once when the keeper is gone, whoever is on the way.
        rustix::stdio::dup2_stdin(rustix::stdio::stdout())
    }

    /// The number of the new process, or 0 in it.
    fn clone(&self, flags: u64, pidfd: &mut libc::c_int) -> Result<i32, Errno> {
        // SAFETY: `clone_args` is plain numbers; all zero is its documented "nothing asked" state.
        let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
        args.flags = self.namespaces | flags;
        args.pidfd = std::ptr::from_mut(pidfd) as u64;
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
        i32::try_from(rc).map_err(|_| Errno::OVERFLOW)
    }
}

/// What happens on the way to a new process.
pub(crate) trait Steps {
    /// The process in between, before it forks.
    fn before(&mut self) -> Result<(), Errno>;
    /// The highest descriptor that the new process needs.
    fn highest(&self) -> i32;
    /// The new process.
    fn inside(&mut self) -> !;
    /// The process in between again, which now knows the number of the new one.
    fn after(&mut self, pid: i32);
}

struct Way<'a, 'fd> {
    fork: &'a Clone3<'fd>,
    steps: &'a mut dyn Steps,
    made: Result<i32, Errno>,
}

extern "C" fn on_the_way(way: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `fork_by_way` passes its own `Way`, and is stopped as long as this runs.
    let way = unsafe { &mut *way.cast::<Way<'_, '_>>() };
    let ready = way.steps.before().and_then(|()| way.fork.keep_files_below(way.steps.highest()));
    way.made = match ready.and_then(|()| way.fork.clone(u64::from(libc::CLONE_PARENT.cast_unsigned()), &mut -1)) {
        Ok(0) => way.steps.inside(),
        Ok(pid) => {
            way.steps.after(pid);
            Ok(pid)
        }
        Err(errno) => Err(errno),
    };
    0
}

/// The stack of the process in between, and in its copy that of the new process.
pub(crate) struct Stack(Vec<u128>);

impl Stack {
    pub(crate) fn new() -> Self {
        const BYTES: usize = 1 << 20;
        Self(vec![0; BYTES / size_of::<u128>()])
    }

    /// Where it begins: stacks grow downwards.
    fn top(&mut self) -> *mut libc::c_void {
        self.0.as_mut_ptr_range().end.cast()
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
