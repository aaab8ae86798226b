//! The network device of a sandbox with a way out. It is made by the sandbox's init, in its own namespace; the other end
//! is a descriptor, which goes to whoever routes.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use crate::channel::Channel;
use crate::stage;
use crate::sys;

/// The largest packet; large ones cost less, and none of them ever leaves the machine.
pub const MTU: usize = 16_000;

/// Where the sandbox looks names up.
pub const RESOLVER: &str = "10.0.2.3";

/// The step that fails where the host has no such devices.
pub const STEP: &str = "make a way out";

/// Makes the device and hands its other end over `channel`.
pub(crate) fn offer(channel: OwnedFd) -> Result<(), Errno> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let tun = open(format!("{}/dev/net/tun", stage::HOST_TEXT), flags, Mode::empty())?;
    sys::set_up_device(&tun)?;
    Channel::from_fd(channel).send(&true, &[tun.as_fd()])
}

/// Waits for the other end of a sandbox's device; `None` if it will not come.
#[must_use]
pub fn receive(channel: &Channel) -> Option<OwnedFd> {
    let (true, fds) = channel.recv::<bool>().ok()?? else { return None };
    fds.into_iter().next()
}
