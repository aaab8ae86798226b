//! Names of runs.

use rustix::rand::{GetRandomFlags, getrandom};

/// `run_` and 128 random bits: not to be guessed, not to be reused.
pub(crate) fn run_id() -> String {
    new_id("run")
}

/// A name of another kind, made in the same way.
#[must_use]
pub fn new_id(kind: &str) -> String {
    format!("{kind}_{}", random_hex())
}

/// 128 random bits.
pub(crate) fn random_hex() -> String {
    let mut bytes = [0_u8; 16];
    // Sixteen bytes never come in parts, and the pool is ready before any program starts.
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    hex(&bytes)
}

/// Bytes as hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// A number from 0 up to 1, by chance.
pub(crate) fn random_fraction() -> f64 {
    let mut bytes = [0_u8; 4];
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
}
