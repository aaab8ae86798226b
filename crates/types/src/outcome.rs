//! How a run ended.

use serde::{Deserialize, Serialize};

/// How a run ended. A bad end is still an answer, never an `Err`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// The program ended by itself.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// A signal the engine did not send ended it.
    Signaled {
        /// The signal's number.
        signal: i32,
    },
    /// The engine killed it at a limit.
    LimitExceeded {
        /// Which one.
        limit: LimitKind,
    },
    /// Policy refused it; nothing ran.
    Refused {
        /// The rule that refused it.
        rule: String,
    },
    /// The caller took it back.
    Cancelled,
}

impl Outcome {
    /// Exit 0 by itself is the only good end.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        *self == Self::Exited { code: 0 }
    }

    /// The name on the wire.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Exited { .. } => "exited",
            Self::Signaled { .. } => "signaled",
            Self::LimitExceeded { .. } => "limit_exceeded",
            Self::Refused { .. } => "refused",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A limit of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// Time on the clock.
    Wall,
    /// Time on the processors, over the whole tree.
    Cpu,
    /// Memory of the whole tree, files in memory included.
    Memory,
    /// Bytes written.
    Disk,
    /// Files and folders made.
    Inodes,
    /// Processes and threads.
    Pids,
}

impl LimitKind {
    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Inodes => "inodes",
            Self::Pids => "pids",
        }
    }
}
