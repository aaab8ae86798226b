//! Our end of a sandbox's network device, as the TCP stack wants it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::time::Instant;

/// Our end of a sandbox's network device.
pub(super) struct Device {
    tun: OwnedFd,
    /// Packets for the stack, put there by us.
    waiting: VecDeque<Vec<u8>>,
    buffer: Vec<u8>,
}

impl Device {
    pub(super) fn new(tun: OwnedFd) -> Self {
        Self { tun, waiting: VecDeque::new(), buffer: vec![0; 65536] }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }

    /// The next packet of the sandbox.
    pub(super) fn read(&mut self) -> Result<Vec<u8>, Errno> {
        let read = rustix::io::read(&self.tun, &mut self.buffer)?;
        Ok(self.buffer[..read].to_vec())
    }

    /// A packet for the sandbox. One that finds no room is lost, as packets are.
    pub(super) fn write(&self, packet: &[u8]) {
        let _ = rustix::io::write(&self.tun, packet);
    }

    /// Lets the stack see a packet.
    pub(super) fn put(&mut self, packet: Vec<u8>) {
        self.waiting.push_back(packet);
    }
}

impl phy::Device for Device {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sent<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sent<'_>)> {
        let packet = self.waiting.pop_front()?;
        Some((Received(packet), Sent(self)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sent<'_>> {
        Some(Sent(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = jail::NETWORK_MTU;
        capabilities
    }
}

/// A packet on its way into the stack.
pub(super) struct Received(Vec<u8>);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

/// A packet on its way to the sandbox.
pub(super) struct Sent<'a>(&'a Device);

impl phy::TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut packet = vec![0; length];
        let result = f(&mut packet);
        self.0.write(&packet);
        result
    }
}
