//! What a caller gets back.

use serde::{Deserialize, Serialize};

use crate::{BackendKind, Layer, LimitKind, Outcome};

/// Everything about how a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecResult {
    /// `run_` and 32 hex digits.
    pub id: String,
    /// Whether it exited with code 0.
    pub ok: bool,
    /// How it ended.
    pub outcome: Outcome,
    /// The recipe's name; `null` for a command.
    pub language: Option<String>,
    /// What isolated it.
    pub backend: BackendKind,
    /// The digest of the image that it ran in, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Whether a warm worker served it.
    pub start: Start,
    /// The compiler's own step, for compiled languages.
    pub compile: Option<Compile>,
    /// Every limit that was touched, also where the program lived on.
    pub limits_hit: Vec<LimitKind>,
    /// Kept output, as text.
    pub stdout: String,
    /// Kept error output, as text.
    pub stderr: String,
    /// All bytes written, kept or not.
    pub stdout_bytes: u64,
    /// All bytes written, kept or not.
    pub stderr_bytes: u64,
    /// Whether output was cut.
    pub stdout_truncated: bool,
    /// Whether error output was cut.
    pub stderr_truncated: bool,
    /// What it cost.
    pub usage: Usage,
    /// The exception that ended it, for Python and Node.
    pub exception: Option<Exception>,
    /// Files made or changed under `/work`.
    pub files: Vec<FileRecord>,
    /// What the static check saw.
    pub findings: Vec<Finding>,
    /// What a model needs to repair its code.
    pub feedback: Vec<Feedback>,
    /// What stood between it and the host.
    pub isolation: Isolation,
}

/// Whether a run got a warm worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Forked from a ready interpreter.
    Warm,
    /// Started from nothing.
    Cold,
}

/// The compiler's own step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compile {
    /// Whether the compiler exited with code 0.
    pub ok: bool,
    /// How the compiler ended.
    pub outcome: Outcome,
    /// Kept output.
    pub stdout: String,
    /// Kept error output: the messages.
    pub stderr: String,
    /// What it cost.
    pub usage: Usage,
}

/// What a step cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// From the program's start to its end.
    pub wall_ms: f64,
    /// Over the whole tree.
    pub cpu_ms: f64,
    /// The most memory the tree held at once, where a cgroup counts it; else the largest process.
    pub peak_memory_bytes: u64,
}

/// An uncaught exception, told by the interpreter itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exception {
    /// The class.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it said.
    pub message: String,
    /// Line of the user's own code, if any of it was involved.
    pub line: Option<u32>,
    /// As the interpreter prints it.
    pub traceback: String,
}

/// A file that the run made or changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Below `/work`.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its content's hash, in hex.
    pub sha256: String,
    /// Whether it was there before.
    pub change: Change,
    /// Its content, for those that `collect` matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// How a file differs from what the caller placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Not there before.
    Created,
    /// Placed by the caller, other content now.
    Modified,
}

/// Something the static check saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule's id.
    pub rule: String,
    /// How bad.
    pub severity: Severity,
    /// How bad, as a number.
    pub points: u32,
    /// Where.
    pub line: u32,
    /// Where.
    pub column: u32,
    /// What.
    pub message: String,
    /// Whether it refuses the run.
    pub blocks: bool,
    /// The file of the run that it is in, if that is not the program itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Odd.
    Low,
    /// Doubtful.
    Medium,
    /// Dangerous.
    High,
    /// Nobody writes this in good faith.
    Critical,
}

impl Severity {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

/// What a model needs to repair its code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    /// The class of the trouble: an exception's name, a limit, a signal.
    pub kind: String,
    /// What happened.
    pub message: String,
    /// What to try.
    pub hint: String,
    /// Line of the user's own code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The judged case, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
}

/// What stood between a run and the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// Layers that were on.
    pub layers: Vec<Layer>,
    /// Layers this host does not have, or that the caller gave up by name.
    pub missing: Vec<Layer>,
}
