//! Datagrams of a sandbox: each pair of ends has a socket of the host, for as long as it is used.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{IpAddress, IpProtocol, IpRepr, UdpPacket, UdpRepr};

use super::Ends;
use super::device::Device;
use super::rules::Rules;

/// Pairs of ends at once; the one that has been silent for longest makes room.
const MOST: usize = 128;
/// After this silence a pair is forgotten.
const SILENCE: Duration = Duration::from_mins(1);
/// Answers of one pair taken at once.
const BURST: usize = 32;

/// Every pair of ends.
#[derive(Default)]
pub(super) struct Datagrams {
    flows: BTreeMap<Ends, Flow>,
}

struct Flow {
    host: UdpSocket,
    used: Instant,
}

impl Datagrams {
    /// One datagram of the sandbox.
    pub(super) fn take(&mut self, datagram: &[u8], (from, to): (IpAddr, IpAddr), rules: &Rules) {
        let Ok(udp) = UdpPacket::new_checked(datagram) else { return };
        let ends = Ends { from: (from, udp.src_port()).into(), to: (to, udp.dst_port()).into() };
        if !self.flows.contains_key(&ends) {
            let Some(host) = rules.way_to(ends.to).and_then(|to| open(to).ok()) else { return };
            self.make_room();
            self.flows.insert(ends, Flow { host, used: Instant::now() });
        }
        if let Some(flow) = self.flows.get_mut(&ends) {
            flow.used = Instant::now();
            // Lost, as datagrams are.
            let _ = flow.host.send(udp.payload());
        }
    }

    /// Descriptors to wait for.
    pub(super) fn listen<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.extend(self.flows.values().map(|flow| PollFd::new(&flow.host, PollFlags::IN)));
    }

    /// Hands on what has come back.
    pub(super) fn turn(&mut self, device: &mut Device, now: Instant) {
        let mut payload = vec![0; 65536];
        for (ends, flow) in &mut self.flows {
            for _ in 0..BURST {
                let Ok(length) = flow.host.recv(&mut payload) else { break };
                flow.used = now;
                if let Some(packet) = answer(ends, &payload[..length]) {
                    device.write(&packet);
                }
            }
        }
        self.flows.retain(|_, flow| now.duration_since(flow.used) < SILENCE);
    }

    fn make_room(&mut self) {
        if self.flows.len() >= MOST
            && let Some(oldest) = self.flows.iter().min_by_key(|(_, flow)| flow.used).map(|(ends, _)| *ends)
        {
            self.flows.remove(&oldest);
        }
    }
}

/// A socket for one other end: the kernel takes datagrams of nobody else.
fn open(to: SocketAddr) -> std::io::Result<UdpSocket> {
    let any: SocketAddr = if to.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.set_nonblocking(true)?;
    socket.connect(to)?;
    Ok(socket)
}

/// A packet for the sandbox from the other end.
fn answer(ends: &Ends, payload: &[u8]) -> Option<Vec<u8>> {
    let udp = UdpRepr { src_port: ends.to.port(), dst_port: ends.from.port() };
    let (source, target): (IpAddress, IpAddress) = (ends.to.ip().into(), ends.from.ip().into());
    let length = udp.header_len() + payload.len();
    let ip = IpRepr::new(source, target, IpProtocol::Udp, length, 64);
    if ip.buffer_len() > jail::NETWORK_MTU {
        return None;
    }
    let checksums = ChecksumCapabilities::default();
    let mut packet = vec![0; ip.buffer_len()];
    ip.emit(&mut packet[..], &checksums);
    let mut inner = UdpPacket::new_unchecked(&mut packet[ip.header_len()..]);
    udp.emit(&mut inner, &source, &target, payload.len(), |room| room.copy_from_slice(payload), &checksums);
    Some(packet)
}
