//! MCP: what a model can call, on standard input and output and over HTTP.
//!
//! [`Tools`] is the one handler of all transports: it reads arguments, calls the engine or the judge, and puts the answer
//! into the protocol's words. What a tool may do is decided behind it, by the same corridor as everywhere.

mod answer;
mod http;
mod progress;
mod read;
mod runs;
mod schema;
mod sessions;
mod stdio;
mod table;
mod tools;

pub(crate) use http::routes;
pub use stdio::{MCP_PATH, MCP_PROTOCOL, serve_stdio};
