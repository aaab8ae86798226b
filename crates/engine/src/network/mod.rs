//! The way out of a sandbox with `network: open`: a router of our own.
//!
//! The sandbox has a network namespace of its own with one device in it, whose other end is a descriptor that we hold. A
//! thread reads the sandbox's packets there, ends its connections in a TCP stack of its own and makes each anew with an
//! ordinary socket, if the rules let it. No packet of a sandbox ever reaches the host's stack, nothing is set on the
//! host, and with the descriptor everything is gone (ADR 0018).

mod device;
mod rules;
mod settings;
mod tcp;
mod udp;

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;
use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv6Packet};

use device::Device;
use jail::Channel;
pub use rules::Rules;
pub use settings::{NetworkSettings, WhoMay};
use tcp::Streams;
use udp::Datagrams;

/// The sandbox's own name server: we hand questions on to the host's.
pub(crate) const RESOLVER: &str = jail::NETWORK_RESOLVER;

/// Packets taken at once before anybody else's turn.
const BURST: usize = 64;

/// A router for one sandbox. Dropping it closes every connection.
pub(crate) struct Router {
    /// The thread goes when this end is closed.
    _stop: UnixStream,
}

impl Router {
    /// Starts a router; the other end of the sandbox's device comes over `channel`, whenever that is ready.
    pub(crate) fn start(channel: Channel, rules: Arc<Rules>) -> std::io::Result<Self> {
        Self::begin(rules, move || jail::receive_descriptor(&channel))
    }

    /// Starts a router for a sandbox elsewhere: somebody else carries its packets to the other end of `packets`, one in
    /// each message.
    pub(crate) fn afar(packets: OwnedFd, rules: Arc<Rules>) -> std::io::Result<Self> {
        Self::begin(rules, move || Some(packets))
    }

    fn begin(rules: Arc<Rules>, device: impl FnOnce() -> Option<OwnedFd> + Send + 'static) -> std::io::Result<Self> {
        let (stop, stopped) = UnixStream::pair()?;
        let work = move || {
            if let Some(device) = device() {
                Loop::new(device, rules).run(&stopped);
            }
        };
        thread::Builder::new().name("router".to_owned()).spawn(work)?;
        Ok(Self { _stop: stop })
    }
}

/// What the thread holds.
struct Loop {
    device: Device,
    rules: Arc<Rules>,
    streams: Streams,
    datagrams: Datagrams,
}

/// Where a packet is from and to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Ends {
    from: std::net::SocketAddr,
    to: std::net::SocketAddr,
}

impl Loop {
    fn new(tun: OwnedFd, rules: Arc<Rules>) -> Self {
        let mut device = Device::new(tun);
        let streams = Streams::new(&mut device);
        Self { device, rules, streams, datagrams: Datagrams::default() }
    }

    /// Until the sandbox is gone or we are told to stop.
    fn run(&mut self, stopped: &UnixStream) {
        loop {
            let wait = self.streams.wait();
            if !self.sleep(stopped, wait) {
                return;
            }
            for _ in 0..BURST {
                match self.device.read() {
                    Ok(packet) => self.take(packet),
                    Err(Errno::AGAIN | Errno::INTR) => break,
                    // The device is gone, and the sandbox with it.
                    Err(_) => return,
                }
            }
            let now = Instant::now();
            self.streams.turn(&mut self.device);
            self.datagrams.turn(&mut self.device, now);
        }
    }

    /// Sleeps until there is something to do; `false` if that is to stop.
    fn sleep(&self, stopped: &UnixStream, wait: Option<std::time::Duration>) -> bool {
        let mut fds =
            vec![PollFd::new(stopped, PollFlags::IN), PollFd::from_borrowed_fd(self.device.fd(), PollFlags::IN)];
        self.streams.listen(&mut fds);
        self.datagrams.listen(&mut fds);
        let wait = wait.map(|wait| Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(wait.subsec_nanos()),
        });
        match poll(&mut fds, wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => fds[0].revents().is_empty(),
            Err(_) => false,
        }
    }

    /// One packet of the sandbox. What is neither TCP nor UDP goes nowhere.
    fn take(&mut self, packet: Vec<u8>) {
        if self.rules.is_silent() {
            return;
        }
        let Some((from, to, protocol, start)) = addresses(&packet) else { return };
        match protocol {
            IpProtocol::Tcp => self.streams.take(packet, (from, to), start, &self.rules, &mut self.device),
            IpProtocol::Udp => self.datagrams.take(&packet[start..], (from, to), &self.rules),
            _ => {}
        }
    }
}

/// Addresses and protocol of a packet, and where its payload begins. Fragments are nobody's.
fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr, IpProtocol, usize)> {
    match packet.first()? >> 4 {
        4 => {
            let ip = Ipv4Packet::new_checked(packet).ok()?;
            let whole = !ip.more_frags() && ip.frag_offset() == 0;
            whole.then(|| (ip.src_addr().into(), ip.dst_addr().into(), ip.next_header(), usize::from(ip.header_len())))
        }
        6 => {
            let ip = Ipv6Packet::new_checked(packet).ok()?;
            Some((ip.src_addr().into(), ip.dst_addr().into(), ip.next_header(), 40))
        }
        _ => None,
    }
}
