//! The chain: each hash is over the one before and a canonical form of the entry.

use std::fmt;

use super::entry::Record;

/// A link of the chain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash([u8; 32]);

impl Hash {
    /// What comes before the first entry.
    pub(super) fn first() -> Self {
        Self(*blake3::hash(b"saggar audit trail 1").as_bytes())
    }

    /// A hash that no entry has: stands for a head that was lost.
    pub(super) const NONE: Self = Self([0; 32]);

    /// The hash of an entry that follows this one. Lengths are part of it, so no byte can move from field to field.
    pub(super) fn then(&self, record: &Record) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0);
        hasher.update(&record.seq.to_le_bytes());
        hasher.update(&record.time.0.to_le_bytes());
        for text in [&record.id, &record.kind, &record.caller, &record.outcome, &record.details] {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        Self(*hasher.finalize().as_bytes())
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// From a column of the database, which may hold anything.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// From hex digits.
    pub(super) fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hash| Self(*hash.as_bytes()))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        blake3::Hash::from_bytes(self.0).fmt(f)
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
