//! System calls that no safe crate offers. One call, one wrapper, one reason why it is sound.
#![expect(unsafe_code, reason = "this module is the one place where the kernel is called without a safe crate")]

mod clone;
mod exec;
mod mount;
mod network;
mod ptrace;
mod seccomp;
mod signals;
mod wait;
mod wire;

pub(crate) use clone::{Clone3, Side, Stack, Steps, fork};
pub(crate) use exec::{CStrings, execve};
pub(crate) use mount::{MountAttr, mount_setattr};
pub(crate) use network::{loopback_up, set_up_device};
pub(crate) use ptrace::{Event as TaskEvent, enter_folder, heard_of, interrupt, let_go, seize};
pub(crate) use seccomp::{Instruction, install_filter};
pub(crate) use signals::Signals;
pub(crate) use wait::{Children, Reaped, has_children, reap_beside, reap_orphan, reap_until, signal_all, wait_for};
pub(crate) use wire::Wire;

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use crate::zygote;

/// Turns the C convention (-1 and `errno`) into a `Result`.
fn check(rc: libc::c_long) -> Result<libc::c_long, Errno> {
    if rc == -1 { Err(last_errno()) } else { Ok(rc) }
}

fn last_errno() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// Closes every descriptor but the standard three and `keep`. One that leaks into a sandbox is a way out of it.
pub(crate) fn close_all_but(keep: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut keep: Vec<u32> = keep.iter().map(|fd| fd.as_raw_fd().unsigned_abs()).collect();
    keep.sort_unstable();
    let mut first = 3;
    for fd in keep.into_iter().chain([u32::MAX]) {
        if fd > first {
            // SAFETY: takes numbers, no pointers. It closes descriptors that `OwnedFd`s in memory still name; callers
            // are at the start of a process's life, where those belong to the parent's copy and are never used again.
            check(unsafe { libc::syscall(libc::SYS_close_range, first, fd - 1, 0_u32) })?;
        }
        first = first.max(fd.saturating_add(1));
    }
    Ok(())
}

/// The version of Landlock that this kernel has; 0 when it has none.
pub(crate) fn landlock_abi() -> i32 {
    let version: libc::c_uint = 1;
    // SAFETY: with the version flag the kernel wants a null pointer and size 0, and only answers a number.
    let rc = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, version) };
    i32::try_from(rc).unwrap_or(0).max(0)
}

/// Puts this thread, and all it starts, under Landlock rules. Needs `no_new_privs`.
pub(crate) fn landlock_restrict(rules: &OwnedFd) -> Result<(), Errno> {
    // SAFETY: takes a descriptor and flags, no pointers.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0_u32) }).map(drop)
}

/// Makes `channel` the descriptor that a zygote's library expects, open across exec.
pub(crate) fn place_channel(channel: &OwnedFd) -> Result<(), Errno> {
    let number = zygote::CHANNEL;
    if channel.as_raw_fd() == number {
        // SAFETY: takes numbers alone.
        return check(unsafe { libc::fcntl(number, libc::F_SETFD, 0) }.into()).map(drop);
    }
    // SAFETY: takes numbers alone. Nothing in this process owns the number: it is about to become another program, and
    // whatever was there closes on exec anyway.
    check(unsafe { libc::dup2(channel.as_raw_fd(), number) }.into()).map(drop)
}

/// Gives every signal its default meaning and blocks none. Both are inherited through exec: a caller who ignores
/// `SIGCHLD` or blocks `SIGALRM` must not decide how a run behaves.
pub(crate) fn reset_signals() {
    for signal in 1..=64 {
        // SAFETY: SIG_DFL is no pointer to code of ours. Numbers that cannot be changed (SIGKILL, the C library's own)
        // fail and stay as they are, which is the default.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: an all-zero `sigset_t` is the empty set; the kernel reads it during the call, and null means that the old
    // mask is not wanted.
    unsafe {
        let none: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Bytes of a page. Asked of the C library, which knows it from the start: the keeper has no `/proc` to look it up in.
pub(crate) fn page_size() -> u64 {
    // SAFETY: takes a number and answers one.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Ticks of `/proc` times in a second.
pub(crate) fn clock_ticks() -> u64 {
    // SAFETY: takes a number and answers one.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100)
}

/// Ends the process without running destructors or `atexit` handlers that belong to the parent's copy.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` takes a number, never returns and touches no memory of ours.
    unsafe { libc::_exit(code) }
}

/// Ends this process after so many seconds, whatever it waits for.
pub(crate) fn end_after(seconds: u32) {
    // SAFETY: takes a number and answers one.
    unsafe { libc::alarm(seconds) };
}

/// Kills every other process of the pid namespace that this process is the first of; does nothing in any other process.
pub(crate) fn kill_all() {
    if rustix::process::getpid().is_init() {
        // SAFETY: takes numbers alone. To process 1, -1 means its own namespace without itself.
        unsafe { libc::kill(-1, libc::SIGKILL) };
    }
}

/// Descriptor `number`, which the parent promised to leave open at start.
pub(crate) fn inherited(number: i32) -> Option<OwnedFd> {
    // SAFETY: `F_GETFD` takes no pointer; it only asks whether the number is open.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } == -1 {
        return None;
    }
    // SAFETY: the number is open (asked above), and the keeper calls this once at start, before anything else
    // could own it.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Leaves namespaces that are shared with the parent.
pub(crate) fn unshare(flags: rustix::thread::UnshareFlags) -> Result<(), Errno> {
    // SAFETY: rustix marks this unsafe because CLONE_FILES can pull descriptors from under another thread. The keeper
    // has one thread, and no caller passes that flag.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}
