//! Names of runs.

use rustix::rand::{GetRandomFlags, getrandom};

/// `run_` and 128 random bits: not to be guessed, not to be reused.
pub(crate) fn run_id() -> String {
    let mut bytes = [0_u8; 16];
    // Sixteen bytes never come in parts, and the pool is ready before any program starts.
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    bytes.iter().fold("run_".to_owned(), |id, byte| format!("{id}{byte:02x}"))
}
