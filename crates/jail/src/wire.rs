//! What the engine and the keeper say to each other, and the keeper and a sandbox's init.
//!
//! Postcard frames on a `SEQPACKET` socket: one message, one packet, descriptors beside it.

mod session;

use serde::{Deserialize, Serialize};
pub use serde_bytes::ByteBuf;
use types::{Layer, LimitKind};

pub use session::{Disk, Extent, GuestIds, ProcessId, ProcessOrder, SessionNews, SessionOrder, Swapped, Writer};
pub(crate) use session::{FromSession, ToSession};

/// The largest message. Code and files never travel here; arguments and environment do.
pub const MAX_MESSAGE: usize = 192 << 10;

/// The most descriptors beside one message.
pub(crate) const MAX_FDS: usize = 16;

/// Names one sandbox of one keeper.
pub type SandboxId = u32;

/// Names one zygote of one keeper.
pub type ZygoteId = u32;

/// What the root of every sandbox of this keeper is made from, and where its cgroups may go.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Host trees shown read-only.
    pub binds: Vec<Bind>,
    /// Host folders that lie below all of this as one, lowest first: an image.
    pub layers: Vec<String>,
    /// Symbolic links, as `(guest path, target)`.
    pub links: Vec<(String, String)>,
    /// Small files, as `(guest path, content)`.
    pub files: Vec<(String, ByteBuf)>,
    /// A cgroup that was handed over; found by itself if absent.
    pub cgroup: Option<String>,
    /// Whether there will be zygotes, whose workers the keeper may have to adopt.
    pub zygotes: bool,
    /// Whether its sandboxes stay: they get terminals, homes and users.
    pub sessions: bool,
}

/// One host tree or device shown inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// On the host.
    pub host: String,
    /// Inside.
    pub guest: String,
    /// What may be done with it.
    pub kind: BindKind,
}

/// What a bind shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BindKind {
    /// A folder or file: readable, executable.
    Tree,
    /// A device node: usable, not executable.
    Device,
}

/// From the engine.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToKeeper {
    /// First message of all.
    Setup(Setup),
    /// Start a zygote. It has failed when [`FromKeeper::ZygoteGone`] says so.
    Zygote(Zygote),
    /// Let a zygote go as soon as its last worker has ended.
    Retire(ZygoteId),
    /// Give a zygote up that does not start. Answered by [`FromKeeper::ZygoteGone`].
    Discard(ZygoteId),
    /// Make a sandbox. Answered by [`FromKeeper::Created`]. For one with a way out, the channel travels beside it over
    /// which its init hands out the other end of its device.
    Create(Create),
    /// Start a program that will wait for its order; standard streams travel beside it. Answered by
    /// [`FromKeeper::Prepared`].
    Prestart(Start),
    /// Change the limits of a sandbox in which nothing was started yet. Answered by [`FromKeeper::Leased`].
    Lease {
        /// Which.
        id: SandboxId,
        /// Its limits from now on.
        limits: Limits,
    },
    /// Start the program; standard input, output and error travel beside it. A program that waits is told its arguments
    /// and environment.
    Start(Start),
    /// The caller takes the run back, or ends the sandbox that stays.
    Cancel(SandboxId),
    /// Something for a sandbox that stays.
    Session(SandboxId, SessionOrder),
}

/// An interpreter that is started once and forked for each run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Zygote {
    /// Chosen by the engine.
    pub id: ZygoteId,
    /// The interpreter.
    pub program: String,
    /// Arguments, the interpreter's own name included.
    pub argv: Vec<String>,
    /// Environment as `NAME=value`.
    pub env: Vec<String>,
}

/// A sandbox to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Create {
    /// Chosen by the engine.
    pub id: SandboxId,
    /// Walls that the caller can do without, should the host not have them.
    pub accept: Vec<Layer>,
    /// What it may use.
    pub limits: Limits,
    /// Whether it has a way out.
    pub network: bool,
    /// The zygote whose fork waits in it, if one should.
    pub zygote: Option<ZygoteId>,
    /// Whether its worker has time to warm up.
    pub rehearse: bool,
    /// The disk of a sandbox that stays; without one it is for one program.
    pub disk: Option<Disk>,
}

/// What a sandbox may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: u64,
    /// Processors in thousandths.
    pub millicpus: u64,
    /// Processes and threads.
    pub pids: u64,
    /// Bytes on disk.
    pub disk: u64,
    /// Files and folders.
    pub inodes: u64,
    /// Nanoseconds on the clock, from the program's start.
    pub wall: u64,
    /// Nanoseconds on the processors.
    pub cpu: Option<u64>,
}

/// A program to start in a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The sandbox.
    pub id: SandboxId,
    /// Candidates for the program's path, tried in order; more than one when it is looked up on `PATH`. A worker is there
    /// already and needs none.
    pub programs: Vec<String>,
    /// Arguments, the program's own name included; a worker's begin with its file.
    pub argv: Vec<String>,
    /// Environment as `NAME=value`.
    pub env: Vec<String>,
}

/// To the engine.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromKeeper {
    /// The root is made; what meters this host has.
    Ready {
        /// Second walls and meters that every sandbox will have.
        available: Vec<Layer>,
        /// Those it will not have, and why.
        missing: Vec<(Layer, String)>,
    },
    /// The keeper cannot work on this host.
    Unusable(Trouble),
    /// The sandbox exists; its writable tree's descriptor travels beside it.
    Created {
        /// Which.
        id: SandboxId,
        /// Host user and group that own its files.
        owner: (u32, u32),
    },
    /// The worker of a sandbox is there and waits.
    Prepared {
        /// Which.
        id: SandboxId,
    },
    /// The limits of a sandbox are changed.
    Leased {
        /// Which.
        id: SandboxId,
    },
    /// A zygote is gone, or was none to begin with.
    ZygoteGone {
        /// Which.
        id: ZygoteId,
    },
    /// The sandbox is gone, and all its processes with it.
    Ended {
        /// Which.
        id: SandboxId,
        /// How.
        end: End,
        /// What it cost.
        cost: Cost,
        /// Layers that were on.
        layers: Vec<Layer>,
    },
    /// Something about a sandbox that stays.
    Session(SandboxId, SessionNews),
}

/// Something that could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// The layer that could not be had, if it is one.
    pub layer: Option<Layer>,
    /// What was tried.
    pub step: String,
    /// The kernel's answer.
    pub errno: i32,
}

/// How a sandbox ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// The main program ended by itself.
    Exited(i32),
    /// A signal that the keeper did not send.
    Signaled(i32),
    /// Killed at a limit.
    Limit(LimitKind),
    /// Taken back.
    Cancelled,
    /// It could not be set up, or the program could not be started.
    Failed(Trouble),
}

/// What a run cost, and which limits it touched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Nanoseconds from the program's start.
    pub wall: u64,
    /// Nanoseconds on the processors.
    pub cpu: u64,
    /// Bytes at the peak.
    pub memory: u64,
    /// Limits touched, whether or not one ended the run.
    pub hits: Vec<LimitKind>,
}

/// From the keeper to a sandbox's init.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToInit {
    /// Identity and cgroups are in place: build the root and seal.
    Go {
        /// Whether the child writes its own id maps, to this host user and group.
        map_own: Option<(u32, u32)>,
        /// User and group to become.
        guest: (u32, u32),
        /// Namespaces that the host refused and the caller gave up.
        without: Vec<Layer>,
        /// Walls that may fail.
        accept: Vec<Layer>,
        /// Whether nobody counts memory outside processes.
        unmetered: bool,
        /// Whether a worker will come in: it needs the namespaces and the rules.
        open: bool,
        /// Whether it stays, and what lies on its disk.
        stays: Option<Extent>,
        /// Whether its network is on loan: it is up already, and nobody inside has a right over it.
        lent: bool,
    },
    /// Something for a sandbox that stays.
    Session(ToSession),
    /// Start the program; its standard streams travel beside it.
    /// A fourth descriptor is the channel of a program that waits for its order.
    Start { programs: Vec<String>, argv: Vec<String>, env: Vec<String>, limits: Rlimits },
}

/// Limits that each process of a run carries itself.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Rlimits {
    /// Processes and threads, the second meter.
    pub(crate) pids: u64,
    /// `RLIMIT_DATA`, where no cgroup counts memory.
    pub(crate) data: Option<u64>,
    /// Whole seconds of processor time per process, the second meter.
    pub(crate) cpu: Option<u64>,
}

/// From a sandbox's init to the keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromInit {
    /// Everything is closed. Its `/proc` and its mounts travel beside it, then, if it stays, its root and its processes, if it is open, all namespaces and the
    /// Landlock rules.
    Sealed { layers: Vec<Layer> },
    /// A step failed; nothing of the user's ran.
    Failed(Trouble),
    /// The main program exited with a code.
    Exited(i32),
    /// A signal ended the main program.
    Signaled(i32),
    /// Something about a process of a sandbox that stays.
    Session(FromSession),
}
