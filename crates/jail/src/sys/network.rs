//! The run's own loopback, and its device if it has a way out.

use std::ffi::CStr;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::last_errno;
use crate::way_out::MTU;

/// What the device is called inside.
pub(super) const NAME: &CStr = c"eth0";
/// The sandbox's own addresses. Nobody else ever sees them.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
const MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 0);
const ADDRESS_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x5a66, 0, 0, 0, 0, 0, 0x15);

/// Brings `lo` of the current network namespace up; a new namespace has it down.
pub(crate) fn loopback_up() -> Result<(), Errno> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    bring_up(&socket, c"lo", 0)
}

/// Makes `tun` the other end of a device of the current network namespace, with addresses and the way to everywhere.
pub(crate) fn set_up_device(tun: &OwnedFd) -> Result<(), Errno> {
    let mut request = request(NAME)?;
    request.ifr_ifru.ifru_flags = short(libc::IFF_TUN | libc::IFF_NO_PI)?;
    control(tun, libc::TUNSETIFF, &request)?;
    address_device(0)
}

/// Gives the device its addresses and the way to everywhere, and brings it up.
pub(super) fn address_device(flags: libc::c_int) -> Result<(), Errno> {
    let mut request = request(NAME)?;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    for (what, address) in [(libc::SIOCSIFADDR, ADDRESS), (libc::SIOCSIFNETMASK, MASK)] {
        request.ifr_ifru.ifru_addr = v4(address);
        control(&socket, what, &request)?;
    }
    request.ifr_ifru.ifru_mtu = i32::try_from(MTU).map_err(|_| Errno::INVAL)?;
    control(&socket, libc::SIOCSIFMTU, &request)?;
    bring_up(&socket, NAME, flags)?;
    // SAFETY: `rtentry` is plain numbers and a pointer that may be null; all zero is a valid one.
    let mut route: libc::rtentry = unsafe { std::mem::zeroed() };
    (route.rt_dst, route.rt_genmask) = (v4(Ipv4Addr::UNSPECIFIED), v4(Ipv4Addr::UNSPECIFIED));
    route.rt_flags = libc::RTF_UP;
    route.rt_dev = NAME.as_ptr().cast_mut();
    control(&socket, libc::SIOCADDRT, &route)?;
    // A kernel without IPv6 goes without.
    let _ = set_up_v6();
    Ok(())
}

fn set_up_v6() -> Result<(), Errno> {
    let socket = socket_with(AddressFamily::INET6, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: takes a name that ends with NUL, read during the call, and answers a number.
    let index = unsafe { libc::if_nametoindex(NAME.as_ptr()) };
    let index = i32::try_from(index).map_err(|_| Errno::NODEV)?;
    let own = libc::in6_addr { s6_addr: ADDRESS_V6.octets() };
    let address = libc::in6_ifreq { ifr6_addr: own, ifr6_prefixlen: 64, ifr6_ifindex: index };
    control(&socket, libc::SIOCSIFADDR, &address)?;
    let flags = u32::from(libc::RTF_UP);
    control(&socket, libc::SIOCADDRT, &RouteV6 { metric: 1, flags, index, ..RouteV6::default() })
}

/// The kernel's `in6_rtmsg`, whose fields the C library's crate hides. All zero is the way to everywhere.
#[repr(C)]
#[derive(Default)]
struct RouteV6 {
    target: [u8; 16],
    source: [u8; 16],
    gateway: [u8; 16],
    kind: u32,
    target_length: u16,
    source_length: u16,
    metric: u32,
    info: libc::c_ulong,
    flags: u32,
    index: i32,
}

pub(super) fn bring_up(socket: &OwnedFd, name: &CStr, flags: libc::c_int) -> Result<(), Errno> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_flags = short(libc::IFF_UP | libc::IFF_RUNNING | flags)?;
    control(socket, libc::SIOCSIFFLAGS, &request)
}

pub(super) fn request(name: &CStr) -> Result<libc::ifreq, Errno> {
    // SAFETY: `ifreq` is plain numbers; all zero is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.to_bytes()) {
        *to = libc::c_char::try_from(*from).map_err(|_| Errno::INVAL)?;
    }
    Ok(request)
}

fn short(flags: libc::c_int) -> Result<libc::c_short, Errno> {
    libc::c_short::try_from(flags).map_err(|_| Errno::INVAL)
}

/// An IPv4 address as the kernel's old calls want it.
fn v4(address: Ipv4Addr) -> libc::sockaddr {
    // SAFETY: `sockaddr` is plain numbers; all zero is a valid one.
    let mut wire: libc::sockaddr = unsafe { std::mem::zeroed() };
    wire.sa_family = libc::sa_family_t::try_from(libc::AF_INET).unwrap_or_default();
    // After the port, which is nothing here.
    for (to, from) in wire.sa_data[2..6].iter_mut().zip(address.octets()) {
        *to = from.cast_signed();
    }
    wire
}

/// A call that reads one structure.
pub(super) fn control<T>(socket: &OwnedFd, what: libc::Ioctl, argument: &T) -> Result<(), Errno> {
    // SAFETY: every caller passes the structure that its request reads (`ifreq`, `rtentry`, `in6_ifreq`, `RouteV6`), and
    // it lives across the call. `TUNSETIFF` writes the name back into an `ifreq` that it had itself filled with the same.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), what, std::ptr::from_ref(argument)) };
    if rc == -1 { Err(last_errno()) } else { Ok(()) }
}
