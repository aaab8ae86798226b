//! The doors of `saggar serve`: HTTP on a loopback port and a Unix socket, and the private one of the command line.
//!
//! A door turns what arrives into a request, calls [`engine::Engine::execute`] and turns the answer back. Who may connect
//! is decided here; what a run may do is not.

mod activity;
mod attach;
mod batch;
mod check;
mod e2b;
mod error;
mod events;
mod following;
mod frame;
mod fusion;
mod guard;
mod host;
mod http;
mod identity;
mod images;
mod jobs;
mod judge;
mod keys;
mod log;
mod mcp;
mod metrics;
mod openapi;
mod outlet;
mod patience;
mod places;
mod query;
mod runs;
mod serve;
mod sessions;
mod socket;
mod tls;
mod traces;

pub use attach::{ATTACH_PATH, Ask, InSession, MISMATCH, MOST_ASK, MadeFile, PROTOCOL, VERSION_HEADER};
pub use error::ServeError;
pub use frame::{CHUNK, Decoder, Frame, FrameError, Kind, encode};
pub use identity::{Scope, Scopes, UnknownScope};
pub use keys::{KeyError, KeyInfo, KeySpec, NewKey, create_key, list_keys, record_key, revoke_key};
pub use mcp::{MCP_PATH, MCP_PROTOCOL, serve_stdio};
pub use serve::{DEFAULT_LISTEN, Options, Server};
pub use socket::{connect, socket_path};

/// The version that both ends of the private door must share.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
