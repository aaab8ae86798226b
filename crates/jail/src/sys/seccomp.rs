//! Loading a filter of system calls.

use rustix::io::Errno;

use super::check;

/// One instruction of classic BPF, laid out as the kernel reads it.
pub(crate) type Instruction = libc::sock_filter;

/// Puts this thread, and all it starts, under `program`. Needs `no_new_privs`.
pub(crate) fn install_filter(program: &[Instruction]) -> Result<(), Errno> {
    let raw = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| Errno::TOOBIG)?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: `raw` points at `len` instructions that live across the call; the kernel copies and checks them and does
    // not write through the pointer.
    check(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const raw) }).map(drop)
}
