//! A run's files, from outside: placing inputs, finding what changed, bringing it back.
//!
//! The host reaches them only through one descriptor of the run's own tmpfs, never by a path of the host, and follows no
//! link. What is reported is regular files with plain names; everything else is counted and left where it is.

mod collect;
mod deliver;
mod glob;
mod place;
mod tree;

pub(crate) use collect::{Collected, Collection, Receive, Received};
pub(crate) use deliver::OutFolder;
pub(crate) use glob::Glob;
pub(crate) use place::{Executable, Placed};
pub use tree::WorkTree;
