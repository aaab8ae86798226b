//! Keys: the first, made at the first start, and those that the owner makes for others.

mod first;
mod http;
mod made;
mod ring;

pub(crate) use first::random_hex;
pub(crate) use http::routes;
pub use made::{KeyError, KeyInfo, KeySpec, NewKey, create_key, list_keys, record_key, revoke_key};
pub(crate) use ring::Ring;

pub(crate) use first::Key;
