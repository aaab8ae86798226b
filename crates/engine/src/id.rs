//! Names of runs.

use rustix::rand::{GetRandomFlags, getrandom};

/// `run_` and 128 random bits: not to be guessed, not to be reused.
pub(crate) fn run_id() -> String {
    format!("run_{}", random_hex())
}

/// 128 random bits.
pub(crate) fn random_hex() -> String {
    let mut bytes = [0_u8; 16];
    // Sixteen bytes never come in parts, and the pool is ready before any program starts.
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    bytes.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

/// A number from 0 up to 1, by chance.
pub(crate) fn random_fraction() -> f64 {
    let mut bytes = [0_u8; 4];
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
}
