//! `[network]` of the settings.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use serde::Deserialize;

/// What runs with `network: open` may reach beyond the public internet, and who may ask for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkSettings {
    /// Who may ask for it.
    pub open: WhoMay,
    /// Addresses and ranges that are open though they are not public.
    pub reach: Vec<Range>,
    /// Where names are looked up, as an address with or without a port; the host's own resolver if absent.
    #[serde(deserialize_with = "resolver")]
    pub resolver: Option<SocketAddr>,
}

/// Who may ask for something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhoMay {
    /// Nobody.
    Nobody,
    /// The owner of the machine: the command line, the socket, the key of the first start.
    #[default]
    Owner,
    /// Whoever has a key.
    Everybody,
}

/// Addresses with the same first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Range {
    first: IpAddr,
    prefix: u8,
}

impl Range {
    pub(super) fn new(first: IpAddr, prefix: u8) -> Self {
        Self { first, prefix }
    }

    pub(super) fn holds(&self, address: IpAddr) -> bool {
        let (a, b, bits) = match (self.first, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
            _ => return false,
        };
        let ignored = bits - u32::from(self.prefix).min(bits);
        (a ^ b).checked_shr(ignored).unwrap_or(0) == 0
    }
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let wrong = || format!("`{text}` is no address and no range such as 10.0.0.0/8");
        let first: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        if prefix <= most { Ok(Self { first, prefix }) } else { Err(wrong()) }
    }
}

impl TryFrom<String> for Range {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

fn resolver<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let plain = text.parse::<IpAddr>().map(|address| (address, 53).into());
    let address = plain.or_else(|_| text.parse::<SocketAddr>());
    address.map(Some).map_err(|_| serde::de::Error::custom(format!("`{text}` is no address of a resolver")))
}
