//! Keys: the first, made at the first start, and those that the owner makes for others.

mod first;
mod made;
mod ring;

pub(crate) use first::random_hex;
pub use made::{KeyError, KeyInfo, KeySpec, NewKey, create_key, list_keys, revoke_key};
pub(crate) use ring::Ring;

pub(crate) use first::Key;
