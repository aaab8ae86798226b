//! Linux isolation: the keeper program, its walls and its meters.
//!
//! The engine is threaded and only spawns; the keeper has one thread, makes every sandbox and owns it. When the keeper
//! or its parent dies, every sandbox dies. This crate is the only home of `unsafe`, in its module `sys`.

pub mod beneath;
mod cgroup;
mod channel;
pub mod clerk;
mod client;
pub mod contained;
mod disk;
#[doc(hidden)]
pub mod fuzz;
mod ids;
mod init;
pub mod inside;
mod keeper;
pub mod measure;
mod program;
pub mod remove;
mod rlimits;
mod seccomp;
mod stage;
pub mod sudo;
mod swap;
mod sys;
mod way_out;
mod wire;
mod zygote;

pub use channel::Channel;
pub use client::{KeeperHandle, Message, SpawnError};
pub use ids::{SHARED_COUNT, SHARED_FIRST, shifts_ids};
pub use init::CWD_STEP;
pub use keeper::{DISK_STEP, NO_WORKER, run as run_keeper};
pub use stage::STACK_STEP;
pub use way_out::{
    MTU as NETWORK_MTU, RESOLVER as NETWORK_RESOLVER, STEP as NETWORK_STEP, receive as receive_descriptor,
};
pub use wire::{
    Bind, BindKind, ByteBuf, Cost, Create, Disk, End, Extent, FromKeeper, GuestIds, Limits, MAX_MESSAGE, ProcessId,
    ProcessOrder, SandboxId, SessionNews, SessionOrder, Setup, Start, Swapped, ToKeeper, Trouble, Writer, Zygote,
    ZygoteId,
};

/// Names of the system calls that a program may make with some arguments, for whoever filters by name.
pub fn allowed_calls() -> impl Iterator<Item = &'static str> {
    seccomp::names()
}

/// Descriptors in flight are counted against the sender's own limit, and for all runs of a user together.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    // Staying where we are is no failure.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// The engine's channel, which the keeper program inherits as its standard input. Everything else is closed.
#[must_use]
pub fn adopt_engine() -> Option<Channel> {
    sys::close_all_but(&[]).ok()?;
    sys::reset_signals();
    let _ = rustix::thread::set_name(c"saggar-keeper");
    rustix::process::umask(rustix::fs::Mode::from(0o022));
    raise_descriptor_limit();
    sys::inherited(0).map(Channel::from_fd)
}
