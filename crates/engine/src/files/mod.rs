//! A run's files, from outside: placing inputs, finding what changed, bringing it back.
//!
//! On this host they are reached only through one descriptor of the run's own tmpfs, never by a path of the host; in a
//! container by its process 1. Neither follows a link. What is reported is regular files with plain names; everything else is counted and left where it is.

mod collect;
mod deliver;
mod glob;
mod input;
mod own;
mod place;
mod tree;

pub(crate) use collect::{Collected, Collection};
pub use collect::{Made, Receive, Received};
pub use deliver::OutFolder;
pub(crate) use glob::Glob;
pub use input::{Input, Inputs, OwnFiles};
pub(crate) use own::read_own;
pub use place::Executable;
pub(crate) use place::Placed;
pub(crate) use tree::WorkTree;
pub use tree::{Content, Opened, Tree};
