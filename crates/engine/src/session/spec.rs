//! What doors ask about sessions, and what they are told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use types::{BackendKind, Isolation, Limits, LimitsSpec, Network, Policy, Timestamp};

use crate::backend::{GuestUser, PlaceUsage, TerminalSize};

/// A session to create: every field may be left out, unknown ones are refused.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionSpec {
    /// What isolates; by the settings if absent.
    pub backend: Option<BackendKind>,
    /// An image to begin with.
    pub image: Option<String>,
    /// A snapshot to begin with.
    pub from: Option<String>,
    /// Limits of the whole; `wall_ms` and `output_kb` are what each command gets unless it says otherwise.
    pub limits: LimitsSpec,
    /// The way out, if any.
    pub network: Network,
    /// Environment of every process in it.
    pub env: BTreeMap<String, String>,
    /// How long it lives, unless somebody extends it: an hour if absent.
    pub ttl_ms: Option<u64>,
    /// After so long without a process or a call it ends; never by itself if absent.
    pub idle_ms: Option<u64>,
    /// Words of the caller's own, returned as they are.
    pub metadata: BTreeMap<String, String>,
}

/// A session as it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionInfo {
    /// `ses_` and 32 hex digits.
    pub id: String,
    /// Whether its processes run.
    pub state: SessionState,
    /// What isolates it.
    pub backend: BackendKind,
    /// The image that it began with.
    pub image: Option<String>,
    /// The snapshot that it began with.
    pub from: Option<String>,
    /// When it was created.
    pub created: Timestamp,
    /// When it ends.
    pub expires: Timestamp,
    /// After so long without a process or a call it ends.
    pub idle_ms: Option<u64>,
    /// What it may use.
    pub limits: LimitsSpec,
    /// What it can reach.
    pub network: Network,
    /// Words of the caller's own.
    pub metadata: BTreeMap<String, String>,
    /// Programs that run.
    pub processes: usize,
    /// What stands between it and the host.
    pub isolation: Isolation,
    /// What it has cost so far, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<PlaceUsage>,
}

/// Whether the processes of a session run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// They do.
    Running,
    /// They are frozen; memory is kept.
    Paused,
}

/// A command in a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CommandSpec {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Environment on top of the session's.
    pub env: BTreeMap<String, String>,
    /// What it reads; for a command in the background see `stdin_open`.
    pub stdin: String,
    /// Where it begins: `/work` if absent. `~` is the user's home.
    pub cwd: Option<String>,
    /// Who it is inside.
    pub user: GuestUser,
    /// `wall_ms` and `output_kb`; the rest is the session's.
    pub limits: LimitsSpec,
    /// What the static check may do with the command.
    pub policy: Policy,
    /// For a command in the background: whether more input may follow.
    pub stdin_open: bool,
    /// For a command in the background: a terminal of this size in place of pipes.
    pub terminal: Option<TerminalSize>,
    /// For a command in the background: a name to find it by.
    pub tag: Option<String>,
}

/// A program of a session, as it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessInfo {
    /// Its number inside.
    pub pid: u32,
    /// Its name, if it was given one.
    pub tag: Option<String>,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Where it began.
    pub cwd: String,
    /// Who it is inside.
    pub user: GuestUser,
    /// When it began.
    pub started: Timestamp,
    /// Whether somebody waits for it.
    pub background: bool,
    /// How it ended, if it has.
    pub outcome: Option<types::Outcome>,
}

/// Limits in the form of a request.
pub(crate) fn written(limits: &Limits) -> LimitsSpec {
    let ms = |time: std::time::Duration| time.as_secs_f64() * 1000.0;
    LimitsSpec {
        wall_ms: Some(ms(limits.wall)),
        cpu_ms: limits.cpu.map(ms),
        memory_mb: Some(limits.memory as f64 / f64::from(1 << 20)),
        cpus: Some(limits.cpus),
        pids: Some(limits.pids),
        disk_mb: Some(limits.disk as f64 / f64::from(1 << 20)),
        inodes: Some(limits.inodes),
        output_kb: Some(limits.output as f64 / 1024.0),
    }
}
