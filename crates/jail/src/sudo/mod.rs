//! `sudo` of a sandbox that stays: a program that asks process 1 to start another as somebody else.
//!
//! No file has a set-id bit and nobody gains a right by starting a program: process 1 has those rights from the start, over
//! the sandbox's own users alone, and listens on an abstract socket of the sandbox's network. Everybody inside may ask.

mod arguments;
mod client;
mod people;

pub use client::run;

use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use serde::{Deserialize, Serialize};

use crate::wire::Trouble;

/// What the program is called, and its path below the base root.
pub const NAME: &str = "sudo";
/// Where it lies, below the root.
pub(crate) const PATH: &str = "opt/saggar/bin/sudo";

/// Where process 1 listens.
pub(crate) fn address() -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(b"saggar-sudo")
}

/// From whoever asks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// Start this; the three standard streams travel beside it.
    Start(Wish),
    /// Signal its group.
    Signal(i32),
}

/// A program to start as somebody else.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Wish {
    /// User and group.
    pub(crate) user: (u32, u32),
    /// Candidates for the program's path, tried in order.
    pub(crate) programs: Vec<String>,
    pub(crate) argv: Vec<String>,
    /// As `NAME=value`.
    pub(crate) env: Vec<String>,
    pub(crate) cwd: String,
}

/// To whoever asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// It ended with this status, as the kernel gives it.
    Ended(i32),
    /// It could not be started.
    Refused(Trouble),
}
