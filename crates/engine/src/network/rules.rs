//! What a sandbox with `network: open` may reach: the public internet, and what the settings name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

use super::settings::{NetworkSettings, Range};

/// What may be reached.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rules {
    named: Vec<Range>,
    /// Single services that are open too, wherever they are.
    services: Vec<SocketAddr>,
    /// Where names are looked up.
    resolver: Option<SocketAddr>,
    /// Whether every packet is lost, and nobody is told.
    silent: bool,
}

/// IPv4 that is not the public internet's: this network, private, shared, loopback, link-local and metadata, protocol
/// assignments, relays, benchmarks, multicast and everything above.
const CLOSED_V4: &[(Ipv4Addr, u8)] = &[
    (Ipv4Addr::UNSPECIFIED, 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// The same of IPv6: unspecified and loopback, local translation, discard, Teredo, ORCHID, unique local, link-local, site
/// local, multicast. Those that hold an IPv4 address are looked at as that.
const CLOSED_V6: &[(Ipv6Addr, u8)] = &[
    (Ipv6Addr::UNSPECIFIED, 127),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48),
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2001, 0x10, 0, 0, 0, 0, 0, 0), 28),
    (Ipv6Addr::new(0x2001, 0x20, 0, 0, 0, 0, 0, 0), 28),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8),
];

impl Rules {
    /// By the settings; the host's own resolver where they name none.
    #[must_use]
    pub fn new(settings: &NetworkSettings) -> Self {
        let resolver = settings.resolver.or_else(|| {
            let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
            first_resolver(&text)
        });
        Self { named: settings.reach.clone(), resolver, ..Self::default() }
    }

    /// A way on which everything is lost: whoever connects waits, as on a network where nobody answers.
    #[must_use]
    pub(crate) fn silent() -> Self {
        Self { silent: true, ..Self::default() }
    }

    /// With the services at these names, also where they have private addresses; never with the host's own.
    #[must_use]
    pub(crate) fn reaching(mut self, names: &[(String, u16)]) -> Self {
        let found = names.iter().filter_map(|(name, port)| (name.as_str(), *port).to_socket_addrs().ok()).flatten();
        self.services = found.filter(|to| !to.ip().is_loopback() && !is_own(to.ip())).collect();
        self
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.silent
    }

    /// Where a packet for `to` goes, if anywhere.
    pub(super) fn way_to(&self, to: SocketAddr) -> Option<SocketAddr> {
        if super::RESOLVER.parse() == Ok(to.ip()) {
            return self.resolver.filter(|_| to.port() == 53);
        }
        if self.services.contains(&to) || self.named.iter().any(|range| range.holds(to.ip())) {
            return Some(to);
        }
        (to.port() != 0 && is_public(to.ip()) && !is_own(to.ip())).then_some(to)
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            !CLOSED_V4.iter().any(|(net, prefix)| Range::new((*net).into(), *prefix).holds(address.into()))
        }
        IpAddr::V6(address) => match inner_v4(address) {
            Some(inner) => is_public(inner.into()),
            None => !CLOSED_V6.iter().any(|(net, prefix)| Range::new((*net).into(), *prefix).holds(address.into())),
        },
    }
}

/// The IPv4 address that an IPv6 one stands for: mapped, compatible, translated, 6to4.
fn inner_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let parts = address.segments();
    let last = || {
        let [a, b] = parts[6].to_be_bytes();
        let [c, d] = parts[7].to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    let compatible = parts[..6] == [0; 6] && parts[6] != 0;
    if address.to_ipv4_mapped().is_some() || compatible || parts[..6] == [0x64, 0xff9b, 0, 0, 0, 0] {
        return Some(last());
    }
    if parts[0] == 0x2002 {
        let ([a, b], [c, d]) = (parts[1].to_be_bytes(), parts[2].to_be_bytes());
        return Some(Ipv4Addr::new(a, b, c, d));
    }
    None
}

/// Whether the host itself has this address: only then can a socket be bound to it.
fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// The first name server of a `resolv.conf`.
fn first_resolver(text: &str) -> Option<SocketAddr> {
    let servers = text.lines().filter_map(|line| line.strip_prefix("nameserver"));
    servers.filter_map(|server| server.trim().parse::<IpAddr>().ok()).map(|address| (address, 53).into()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goes(rules: &Rules, to: &str) -> bool {
        rules.way_to((to.parse::<IpAddr>().unwrap(), 80).into()).is_some()
    }

    #[test]
    fn only_the_public_internet_is_open() {
        let rules = Rules::default();
        for open in ["93.184.215.14", "1.1.1.1", "203.0.113.7", "2606:4700::1111", "2001:db8::1"] {
            assert!(goes(&rules, open), "{open}");
        }
        for closed in [
            "127.0.0.1",
            "127.8.8.8",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.100.100.200",
            "0.0.0.0",
            "168.63.129.16",
            "192.0.0.192",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "::1",
            "::",
            "fe80::1",
            "fd00:ec2::254",
            "fc00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::1",
            "2002:c0a8:101::",
            "2001::1",
            "fec0::1",
            "100::1",
            "10.0.2.2",
            "10.0.2.3",
        ] {
            assert!(!goes(&rules, closed), "{closed}");
        }
    }

    #[test]
    fn what_the_settings_name_is_open_too() {
        let named = ["10.1.0.0/16", "fd00:1::/32", "127.0.0.1"].iter().map(|text| text.parse().unwrap()).collect();
        let rules = Rules { named, ..Rules::default() };
        for (to, open) in
            [("10.1.2.3", true), ("10.2.0.1", false), ("fd00:1::5", true), ("127.0.0.1", true), ("127.0.0.2", false)]
        {
            assert_eq!(goes(&rules, to), open, "{to}");
        }
    }

    #[test]
    fn names_are_asked_of_the_hosts_resolver_and_nothing_else_is_there() {
        let resolver = first_resolver("# x\nsearch a\nnameserver 127.0.0.53\nnameserver 9.9.9.9\n");
        assert_eq!(resolver, Some(([127, 0, 0, 53], 53).into()));
        let rules = Rules { resolver, ..Rules::default() };
        let ours: IpAddr = super::super::RESOLVER.parse().unwrap();
        assert_eq!(rules.way_to((ours, 53).into()), resolver);
        assert_eq!(rules.way_to((ours, 80).into()), None);
    }
}
