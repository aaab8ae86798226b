//! The run's own loopback.

use std::os::fd::AsRawFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::last_errno;

/// Brings `lo` of the current network namespace up; a new namespace has it down.
pub(crate) fn loopback_up() -> Result<(), Errno> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: `ifreq` is plain numbers; all zero is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
        *to = libc::c_char::try_from(*from).map_err(|_| Errno::INVAL)?;
    }
    let flags = libc::IFF_UP | libc::IFF_RUNNING;
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(flags).map_err(|_| Errno::INVAL)?;
    // SAFETY: SIOCSIFFLAGS reads one `ifreq`, which lives across the call.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if rc == -1 { Err(last_errno()) } else { Ok(()) }
}
