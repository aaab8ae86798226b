//! What is said about a sandbox that stays: its disk, its processes.

use serde::{Deserialize, Serialize};
use types::Layer;

use super::{Cost, End, Rlimits, Trouble};

/// Names one process of one sandbox.
pub type ProcessId = u32;

/// The disk of a sandbox that stays: layers below, a writable one on top. All are folders of one folder of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// The folder of the host that holds them.
    pub folder: String,
    /// Read-only layers by their paths below it, topmost first; at least one.
    pub lower: Vec<String>,
    /// The writable one: a path below the folder, with `files` and `work` in it.
    pub top: String,
    /// What of the sandbox's root lies on it.
    pub extent: Extent,
}

/// What lies on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Extent {
    /// `/work`, `/home` and `/tmp`; the rest is the base root.
    Folders,
    /// Everything.
    Root,
}

/// How guest users are written on the host's disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuestIds {
    /// Guest user n is host user `first` + n.
    Range {
        /// Host user of the guest's root.
        first: u32,
    },
    /// The one guest user is this host user and group.
    One {
        /// The user.
        uid: u32,
        /// The group.
        gid: u32,
    },
}

/// What a sandbox that stays is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum SessionOrder {
    /// Start a program; its three streams travel beside it, unless it gets a terminal.
    Start(ProcessOrder),
    /// Send a signal to a process's group.
    Signal {
        /// Whose.
        process: ProcessId,
        /// Which.
        signal: i32,
    },
    /// Kill a process with all that it started.
    Kill(ProcessId),
    /// Kill everybody, also those whom programs left running.
    KillAll,
    /// Stop every process where it is. Answered by [`SessionNews::Done`].
    Freeze,
    /// Let them go on. Answered by [`SessionNews::Done`].
    Thaw,
    /// Say what it has cost so far. Answered by [`SessionNews::Measured`].
    Measure,
    /// Put another disk in the place of the one in use. Answered by [`SessionNews::Swapped`].
    Swap {
        /// The new one; what is written on the old is the topmost of its lower layers.
        disk: Disk,
        /// Whether processes are killed that have a file of the old one open for writing.
        kill: bool,
    },
}

/// A program to start in a sandbox that stays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessOrder {
    /// Chosen by the engine.
    pub process: ProcessId,
    /// Candidates for the program's path, tried in order.
    pub programs: Vec<String>,
    /// Arguments, the program's own name included.
    pub argv: Vec<String>,
    /// Environment as `NAME=value`.
    pub env: Vec<String>,
    /// Where it begins.
    pub cwd: String,
    /// Guest user and group.
    pub user: u32,
    /// Columns and rows of its terminal, if it gets one.
    pub terminal: Option<(u16, u16)>,
    /// Nanoseconds on the clock, after which it is killed with all that it started.
    pub wall: Option<u64>,
}

/// What is heard of a sandbox that stays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum SessionNews {
    /// It is ready; its root travels beside it.
    Opened {
        /// How its users are written outside.
        ids: GuestIds,
        /// Layers that are on.
        layers: Vec<Layer>,
    },
    /// A program runs; its terminal's other end travels beside it, if it has one.
    Started {
        /// Which.
        process: ProcessId,
        /// Its number inside.
        pid: i32,
    },
    /// A program could not be started.
    Refused {
        /// Which.
        process: ProcessId,
        /// Why.
        trouble: Trouble,
    },
    /// A program ended.
    Ended {
        /// Which.
        process: ProcessId,
        /// How.
        end: End,
        /// What it and those it waited for cost.
        cost: Cost,
    },
    /// What was asked is done.
    Done,
    /// What came of putting another disk in place; the root, which may be another one, travels beside it.
    Swapped(Swapped),
    /// What the whole has cost so far.
    Measured {
        /// Like that of a run.
        cost: Cost,
        /// Bytes of memory now, if counted.
        memory: Option<u64>,
    },
}

/// What came of putting another disk in the place of one that was in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Swapped {
    /// It is there. Nothing can write to the old one any more.
    Done,
    /// Nothing was done: these write to it; if none is named, somebody who is no process of the sandbox does.
    Writers(Vec<Writer>),
    /// Nothing was done.
    Failed(Trouble),
    /// It was begun and could not be finished; the sandbox ends.
    Broken(Trouble),
}

/// A process with a file open for writing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writer {
    /// Its number inside.
    pub pid: i32,
    /// What it is called, by its own word.
    pub name: String,
    /// One of the files.
    pub file: String,
}

/// From the keeper to the init of a sandbox that stays.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToSession {
    /// Start a program.
    Start { order: ProcessOrder, limits: Rlimits },
    /// Signal the group of this process.
    Signal { pid: i32, signal: i32 },
    /// Kill what this process started, and itself.
    Kill(ProcessId),
    /// Signal everybody.
    All { signal: i32 },
}

/// From the init of a sandbox that stays, or from the parent of one of its programs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromSession {
    Started {
        process: ProcessId,
        pid: i32,
    },
    Refused {
        process: ProcessId,
        trouble: Trouble,
    },
    /// Status as the kernel gives it, nanoseconds on the processors, bytes of the largest process.
    Ended {
        process: ProcessId,
        status: i32,
        cpu: u64,
        largest: u64,
    },
}
