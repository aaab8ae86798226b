//! HMAC with SHA-256 (RFC 2104), as Python's standard library makes it.

use sha2::{Digest, Sha256};

const BLOCK: usize = 64;

/// The proof of a text, as hex digits.
pub(super) fn of(key: &str, text: &str) -> String {
    let mut block = [0_u8; BLOCK];
    let key = key.as_bytes();
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text.as_bytes()).finalize();
    let outer = Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize();
    hex(&outer)
}

/// Bytes as hex digits.
pub(in crate::swe) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The text of a line, if its proof is right.
pub(super) fn checked<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (proof, text) = line.split_once(' ')?;
    (proof == of(key, text)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_as_everybody_elses() {
        let known = "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8";
        assert_eq!(of("key", "The quick brown fox jumps over the lazy dog"), known);
        assert_eq!(checked(&format!("{known} x"), "key"), None);
    }
}
