//! The filter of system calls: what is allowed is a table, what the kernel gets is a search tree.
//!
//! A list costs the kernel a millisecond at load, because it tries every system call against it once; a tree costs
//! about a tenth of that. Unknown calls answer `ENOSYS`, so that programs for newer kernels fall back.

mod table;
mod tree;

pub(crate) use tree::{names, parts, program, waiting};

/// Which filter a run gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Profile {
    /// The kernel counts the run's memory.
    Metered,
    /// Nobody counts memory that no process maps, so calls that make such memory are refused too.
    Unmetered,
}

/// Where files of a run are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Room {
    /// On a disk that takes no more than it may.
    Bounded,
    /// On one that is counted now and then: nobody may take room there without the work of filling it.
    Watched,
}
