//! A wire between the network of a sandbox and whoever routes for it, where there is no TUN device to be had: a pair of
//! devices, of which the sandbox sees one, and the other lies in a network of its own that nobody is in.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use rustix::thread::UnshareFlags;

use super::network::{NAME, address_device, bring_up, control, loopback_up, request};
use super::{check, unshare};
use crate::way_out::MTU;

/// What the far end is called, where nobody looks.
const FAR: &CStr = c"out";
/// The sandbox's own hardware address, which packets for it must name.
const HARDWARE: [u8; 6] = [2, 0, 0, 0, 0, 2];

// <linux/if_link.h>, <linux/veth.h>: what a message about a new device holds.
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
/// `struct ifinfomsg`, of which nothing is set.
const NO_INFO: [u8; 16] = [0; 16];

// <linux/ethtool.h>
const ETHTOOL_STXCSUM: u32 = 0x17;
// <linux/sockios.h>
const SIOCETHTOOL: libc::Ioctl = 0x8946;
// <linux/if_packet.h>
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// Our end of the wire: what comes out of it are packets of the sandbox, whole, from their IP header on.
pub(crate) struct Wire {
    packets: OwnedFd,
    index: i32,
}

impl Wire {
    /// Moves this process into a network of its own, with a way to everywhere that leads to the wire's far end. Needs a user
    /// namespace of its own, and no right outside of it.
    pub(crate) fn lay() -> Result<Self, Errno> {
        unshare(UnshareFlags::NEWNET)?;
        let far = open(c"/proc/self/ns/net", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let packets = socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, None)?;
        let beside = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        // What was made so far stays in the first; this process goes on in a second one.
        unshare(UnshareFlags::NEWNET)?;
        loopback_up()?;
        make_pair(&far)?;
        bring_up(&beside, FAR, libc::IFF_NOARP)?;
        let index = listen(&packets, &beside)?;
        reckon_sums()?;
        // Whoever is at the other end has no hardware address, and nobody asks for one.
        address_device(libc::IFF_NOARP)?;
        Ok(Self { packets, index })
    }

    /// The next packet of the sandbox.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        recv(&self.packets, buffer, RecvFlags::empty()).map(|(read, _)| read)
    }

    /// A packet for the sandbox. One that finds no room is lost, as packets are.
    pub(crate) fn write(&self, packet: &[u8]) {
        let protocol = match packet.first().map(|byte| byte >> 4) {
            Some(4) => libc::ETH_P_IP,
            Some(6) => libc::ETH_P_IPV6,
            _ => return,
        };
        let address = far_end(self.index, protocol);
        // SAFETY: both pointers are of live memory, read during the call, with their own lengths.
        let _ = unsafe {
            libc::sendto(
                self.packets.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                libc::MSG_DONTWAIT,
                std::ptr::from_ref(&address).cast(),
                length_of(&address),
            )
        };
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.packets.as_fd()
    }
}

fn far_end(index: i32, protocol: libc::c_int) -> libc::sockaddr_ll {
    // SAFETY: `sockaddr_ll` is plain numbers; all zero is a valid one.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = u16::try_from(libc::AF_PACKET).unwrap_or_default();
    address.sll_protocol = u16::try_from(protocol).unwrap_or_default().to_be();
    address.sll_ifindex = index;
    address.sll_halen = 6;
    address.sll_addr[..6].copy_from_slice(&HARDWARE);
    address
}

fn length_of<T>(_: &T) -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or_default()
}

/// Hears at the far end what the sandbox sends, and not what we do; answers that end's number.
fn listen(packets: &OwnedFd, beside: &OwnedFd) -> Result<i32, Errno> {
    let mut asked = request(FAR)?;
    // SAFETY: the request reads and writes an `ifreq`, which this is, and which lives across the call.
    let found = unsafe { libc::ioctl(beside.as_raw_fd(), libc::SIOCGIFINDEX, std::ptr::from_mut(&mut asked)) };
    check(found.into())?;
    // SAFETY: the call above has written the number of the device into this field.
    let index = unsafe { asked.ifr_ifru.ifru_ifindex };
    let on: libc::c_int = 1;
    // SAFETY: the option is one number, read during the call.
    let set = unsafe {
        libc::setsockopt(
            packets.as_raw_fd(),
            libc::SOL_PACKET,
            PACKET_IGNORE_OUTGOING,
            std::ptr::from_ref(&on).cast(),
            length_of(&on),
        )
    };
    check(set.into())?;
    let address = far_end(index, libc::ETH_P_ALL);
    // SAFETY: the address is live memory, read during the call, with its own length.
    let bound = unsafe { libc::bind(packets.as_raw_fd(), std::ptr::from_ref(&address).cast(), length_of(&address)) };
    check(bound.into()).map(|_| index)
}

/// Lets the kernel reckon the sums of packets itself: it leaves them out between devices that never leave the machine.
fn reckon_sums() -> Result<(), Errno> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut off = [ETHTOOL_STXCSUM, 0];
    let mut request = request(NAME)?;
    request.ifr_ifru.ifru_data = off.as_mut_ptr().cast();
    control(&socket, SIOCETHTOOL, &request)
}

/// Makes both devices, the far one in the network `far`.
fn make_pair(far: &OwnedFd) -> Result<(), Errno> {
    let mtu = u32::try_from(MTU).map_err(|_| Errno::INVAL)?.to_ne_bytes();
    let peer = [
        NO_INFO.to_vec(),
        attribute(IFLA_IFNAME, FAR.to_bytes_with_nul()),
        attribute(IFLA_NET_NS_FD, &far.as_raw_fd().to_ne_bytes()),
        attribute(IFLA_MTU, &mtu),
    ];
    let data = attribute(IFLA_INFO_DATA, &attribute(VETH_INFO_PEER, &peer.concat()));
    let kind = attribute(IFLA_INFO_KIND, b"veth\0");
    let device = [
        NO_INFO.to_vec(),
        attribute(IFLA_IFNAME, NAME.to_bytes_with_nul()),
        attribute(IFLA_ADDRESS, &HARDWARE),
        attribute(IFLA_MTU, &mtu),
        attribute(IFLA_LINKINFO, &[kind, data].concat()),
    ]
    .concat();
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let mut message = Vec::with_capacity(16 + device.len());
    message.extend(u32::try_from(16 + device.len()).map_err(|_| Errno::INVAL)?.to_ne_bytes());
    message.extend(libc::RTM_NEWLINK.to_ne_bytes());
    message.extend(u16::try_from(flags).map_err(|_| Errno::INVAL)?.to_ne_bytes());
    // Its number and who asks, which nobody else reads.
    message.extend([0; 8]);
    message.extend(device);
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&socket, &message, SendFlags::empty())?;
    let mut answer = [0; 1024];
    let (read, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    // A header, then 0 or the kernel's refusal as a negative number.
    let said = answer[..read].get(16..).and_then(|rest| rest.first_chunk::<4>()).ok_or(Errno::PROTO)?;
    match i32::from_ne_bytes(*said) {
        0 => Ok(()),
        refusal => Err(Errno::from_raw_os_error(refusal.saturating_neg())),
    }
}

/// One attribute of a message: its length, its kind, what it holds, and room up to a multiple of four.
fn attribute(kind: u16, content: &[u8]) -> Vec<u8> {
    let length = 4 + content.len();
    let mut whole = Vec::with_capacity(length.next_multiple_of(4));
    whole.extend(u16::try_from(length).unwrap_or(u16::MAX).to_ne_bytes());
    whole.extend(kind.to_ne_bytes());
    whole.extend_from_slice(content);
    whole.resize(length.next_multiple_of(4), 0);
    whole
}
