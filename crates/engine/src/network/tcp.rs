//! Connections of a sandbox: each ends in our stack and is made anew from the host.
//!
//! The first packet of a connection waits until the host has one of its own: only then does the stack hear of it, so that
//! the sandbox is refused where the host is, and connected where the host is.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, TcpPacket};

use super::Ends;
use super::device::Device;
use super::rules::Rules;

/// Connections at once; more are refused.
const MOST: usize = 256;
/// Bytes on their way, for each connection and direction.
const BUFFER: usize = 64 << 10;
/// How long the host tries to connect.
const PATIENCE: Duration = Duration::from_secs(20);
/// Addresses of the stack itself; it answers for all others as well.
const OWN: [(IpAddress, u8); 2] =
    [(IpAddress::v4(10, 0, 2, 2), 24), (IpAddress::v6(0xfd00, 0x5a66, 0, 0, 0, 0, 0, 2), 64)];

/// Every connection of a sandbox.
pub(super) struct Streams {
    interface: Interface,
    sockets: SocketSet<'static>,
    flows: BTreeMap<Ends, Flow>,
}

enum Flow {
    /// The host's own connection is on its way; the sandbox's first packet waits.
    Connecting {
        host: OwnedFd,
        first: Vec<u8>,
        since: Instant,
    },
    Open(Open),
}

struct Open {
    host: TcpStream,
    guest: SocketHandle,
    host_done: bool,
    guest_done: bool,
}

impl Streams {
    pub(super) fn new(device: &mut Device) -> Self {
        let mut config = Config::new(HardwareAddress::Ip);
        let mut seed = [0; 8];
        let _ = rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty());
        config.random_seed = u64::from_ne_bytes(seed);
        let mut interface = Interface::new(config, device, smoltcp::time::Instant::now());
        interface.update_ip_addrs(|addresses| {
            for (address, prefix) in OWN {
                // There is room for two.
                let _ = addresses.push(IpCidr::new(address, prefix));
            }
        });
        interface.set_any_ip(true);
        for (address, _) in OWN {
            let _ = match address {
                IpAddress::Ipv4(address) => interface.routes_mut().add_default_ipv4_route(address),
                IpAddress::Ipv6(address) => interface.routes_mut().add_default_ipv6_route(address),
            };
        }
        Self { interface, sockets: SocketSet::new(Vec::new()), flows: BTreeMap::new() }
    }

    /// One packet of the sandbox.
    pub(super) fn take(
        &mut self,
        packet: Vec<u8>,
        (from, to): (IpAddr, IpAddr),
        start: usize,
        rules: &Rules,
        device: &mut Device,
    ) {
        let Ok(tcp) = TcpPacket::new_checked(&packet[start..]) else { return };
        let ends = Ends { from: (from, tcp.src_port()).into(), to: (to, tcp.dst_port()).into() };
        let is_first = tcp.syn() && !tcp.ack();
        match self.flows.get(&ends) {
            // Asked again because we are slow.
            Some(Flow::Connecting { .. }) => return,
            None if is_first && self.flows.len() < MOST => {
                if let Some(host) = rules.way_to(ends.to).and_then(|to| start_connecting(to).ok()) {
                    self.flows.insert(ends, Flow::Connecting { host, first: packet, since: Instant::now() });
                    return;
                }
            }
            Some(Flow::Open(_)) | None => {}
        }
        // To a connection that is there; to one that is not, the stack says so.
        device.put(packet);
    }

    /// Descriptors to wait for.
    pub(super) fn listen<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        for flow in self.flows.values() {
            match flow {
                Flow::Connecting { host, .. } => fds.push(PollFd::new(host, PollFlags::OUT)),
                Flow::Open(open) => {
                    let socket = self.sockets.get::<Socket<'_>>(open.guest);
                    let mut flags = PollFlags::empty();
                    flags.set(PollFlags::IN, !open.host_done && socket.can_send());
                    flags.set(PollFlags::OUT, socket.can_recv());
                    if !flags.is_empty() {
                        fds.push(PollFd::new(&open.host, flags));
                    }
                }
            }
        }
    }

    /// How long nothing needs to be done.
    pub(super) fn wait(&mut self) -> Option<Duration> {
        let delay = self.interface.poll_delay(smoltcp::time::Instant::now(), &self.sockets);
        let delay = delay.map(|delay| Duration::from_micros(delay.total_micros()));
        let connecting = self.flows.values().any(|flow| matches!(flow, Flow::Connecting { .. }));
        let patience = connecting.then_some(Duration::from_secs(1));
        delay.into_iter().chain(patience).min()
    }

    /// Does all that can be done now.
    pub(super) fn turn(&mut self, device: &mut Device) {
        self.settle(device);
        self.interface.poll(smoltcp::time::Instant::now(), device, &mut self.sockets);
        let mut ended = Vec::new();
        for (ends, flow) in &mut self.flows {
            if let Flow::Open(open) = flow {
                let socket = self.sockets.get_mut::<Socket<'_>>(open.guest);
                open.carry(socket);
                if matches!(socket.state(), State::Closed | State::TimeWait) {
                    ended.push(*ends);
                }
            }
        }
        self.interface.poll(smoltcp::time::Instant::now(), device, &mut self.sockets);
        for ends in ended {
            if let Some(Flow::Open(open)) = self.flows.remove(&ends) {
                self.sockets.remove(open.guest);
            }
        }
    }

    /// Looks which connections of the host have come about, or have not.
    fn settle(&mut self, device: &mut Device) {
        let settled: Vec<(Ends, bool)> =
            self.flows.iter().filter_map(|(ends, flow)| Some((*ends, outcome(flow)?))).collect();
        for (ends, connected) in settled {
            let Some(Flow::Connecting { host, first, .. }) = self.flows.remove(&ends) else { continue };
            if connected {
                let buffer = || SocketBuffer::new(vec![0; BUFFER]);
                let mut socket = Socket::new(buffer(), buffer());
                socket.set_nagle_enabled(false);
                socket.set_ack_delay(None);
                if socket.listen(ends.to).is_ok() {
                    let guest = self.sockets.add(socket);
                    let host = TcpStream::from(host);
                    let _ = host.set_nodelay(true);
                    self.flows.insert(ends, Flow::Open(Open { host, guest, host_done: false, guest_done: false }));
                }
            }
            // Where nobody listens, the stack refuses it.
            device.put(first);
            self.interface.poll(smoltcp::time::Instant::now(), device, &mut self.sockets);
        }
    }
}

impl Open {
    /// Carries bytes both ways, as many as there are and as have room.
    fn carry(&mut self, socket: &mut Socket<'_>) {
        while socket.can_recv() {
            let host = &mut self.host;
            let sent = socket.recv(|bytes| match host.write(bytes) {
                Ok(written) => (written, Ok(written)),
                Err(error) => (0, Err(error)),
            });
            match sent {
                Ok(Ok(written)) if written > 0 => {}
                Ok(Err(error)) if is_passing(&error) => break,
                _ => return socket.abort(),
            }
        }
        // The sandbox has said all it had to say.
        if !self.guest_done && !socket.may_recv() && !matches!(socket.state(), State::Listen | State::SynReceived) {
            self.guest_done = true;
            let _ = self.host.shutdown(Shutdown::Write);
        }
        while !self.host_done && socket.can_send() {
            let host = &mut self.host;
            let read = socket.send(|room| match host.read(room) {
                Ok(read) => (read, Ok(read)),
                Err(error) => (0, Err(error)),
            });
            match read {
                Ok(Ok(0)) => {
                    self.host_done = true;
                    socket.close();
                }
                Ok(Ok(_)) => {}
                Ok(Err(error)) if is_passing(&error) => break,
                _ => return socket.abort(),
            }
        }
    }
}

/// Whether a connection of the host has come about; `None` while that is open.
fn outcome(flow: &Flow) -> Option<bool> {
    let Flow::Connecting { host, since, .. } = flow else { return None };
    let mut fds = [PollFd::new(host, PollFlags::OUT)];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    match rustix::event::poll(&mut fds, Some(&now)) {
        Ok(ready) if ready > 0 => Some(matches!(sockopt::socket_error(host), Ok(Ok(())))),
        Ok(_) | Err(Errno::INTR) if since.elapsed() < PATIENCE => None,
        _ => Some(false),
    }
}

fn start_connecting(to: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
