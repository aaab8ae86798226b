//! What is written, and what is read back.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use types::Timestamp;

use super::chain::Hash;

/// What an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A run that was carried out, whatever its end; also one that was given up on the way.
    Run,
    /// A run that the policy or a review refused; nothing was started.
    Refused,
    /// Requests that admission turned away.
    Rejected,
    /// A request that failed: the caller's mistake, or ours.
    Error,
    /// A task that was judged, or could not be; its sandboxes have entries of their own.
    Judge,
    /// An image was made or removed.
    Image,
    /// A key was made or taken back.
    Key,
    /// Something that was done to a session, other than a command in it.
    Session,
    /// The trail and its head did not agree when it was next written: somebody changed one of them, or power was lost.
    Gap,
}

impl Kind {
    /// The name in the trail.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Refused => "refused",
            Self::Rejected => "rejected",
            Self::Error => "error",
            Self::Judge => "judge",
            Self::Image => "image",
            Self::Key => "key",
            Self::Session => "session",
            Self::Gap => "gap",
        }
    }
}

/// An entry to write. It must hold no secret: no value of an environment, no key, no input.
#[derive(Debug, Clone)]
pub struct Entry {
    /// By which it is found again; the run's, where there is one.
    pub id: String,
    /// What it is about.
    pub kind: Kind,
    /// Who asked.
    pub caller: String,
    /// How it ended, in one word.
    pub outcome: String,
    /// Everything else, as JSON.
    pub details: String,
}

/// An entry as it is in the trail. Every field but the hash is under the hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its number; the first is 1.
    pub seq: i64,
    /// When it was written.
    pub time: Timestamp,
    /// By which it is found.
    pub id: String,
    /// One of [`Kind`]'s names, or one of a later version.
    pub kind: String,
    /// Who asked.
    pub caller: String,
    /// How it ended.
    pub outcome: String,
    /// Everything else: JSON, unless somebody changed it.
    pub details: String,
    /// Over the hash before and all of the above.
    pub hash: Vec<u8>,
}

impl Record {
    /// A new entry in its place in the chain.
    pub(super) fn new(seq: i64, time: Timestamp, entry: &Entry, before: &Hash) -> Self {
        let mut record = Self {
            seq,
            time,
            id: entry.id.clone(),
            kind: entry.kind.name().to_owned(),
            caller: entry.caller.clone(),
            outcome: entry.outcome.clone(),
            details: entry.details.clone(),
            hash: Vec::new(),
        };
        record.hash = before.then(&record).as_bytes().to_vec();
        record
    }

    /// The hash in hex.
    #[must_use]
    pub fn hash_hex(&self) -> String {
        crate::id::hex(&self.hash)
    }
}

/// An entry as it was told.
#[derive(Deserialize)]
struct Told {
    seq: i64,
    time: Timestamp,
    id: String,
    kind: String,
    caller: String,
    outcome: String,
    details: Box<RawValue>,
    hash: String,
}

impl<'de> Deserialize<'de> for Record {
    /// Byte by byte as it was told: what was no JSON came as a text.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Told { seq, time, id, kind, caller, outcome, details, hash } = Told::deserialize(deserializer)?;
        let details = serde_json::from_str(details.get()).unwrap_or_else(|_| details.get().to_owned());
        let hash = bytes(&hash).ok_or_else(|| serde::de::Error::custom("`hash` is no hash"))?;
        Ok(Self { seq, time, id, kind, caller, outcome, details, hash })
    }
}

/// Of hex digits: an entry that was changed may have any number of them.
fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    (0..hex.len()).step_by(2).map(pair).collect()
}

impl Serialize for Record {
    /// `details` is passed on byte by byte, so that a reader of the JSON can check the hash.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entry = serializer.serialize_struct("Record", 8)?;
        entry.serialize_field("seq", &self.seq)?;
        entry.serialize_field("time", &self.time)?;
        entry.serialize_field("id", &self.id)?;
        entry.serialize_field("kind", &self.kind)?;
        entry.serialize_field("caller", &self.caller)?;
        entry.serialize_field("outcome", &self.outcome)?;
        match serde_json::from_str::<&RawValue>(&self.details) {
            Ok(json) => entry.serialize_field("details", json)?,
            Err(_) => entry.serialize_field("details", &self.details)?,
        }
        entry.serialize_field("hash", &self.hash_hex())?;
        entry.end()
    }
}
