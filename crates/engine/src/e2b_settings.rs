//! `[e2b]` of the settings.

use std::time::Duration;

use serde::Deserialize;
use types::Network;

use crate::backend::E2bBackendSettings;
use crate::settings::milliseconds;

/// What sandboxes of the E2B-compatible door may do beyond what their clients ask.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct E2bSettings {
    /// The way out of sandboxes whose clients do not turn it down. E2B's own have one; here it must be given.
    pub network: Network,
    /// Whether templates of ours are built when they are first asked for.
    pub build: bool,
    /// Whether the two ports are listened on that old clients know by heart.
    pub old_clients: bool,
    /// Processors of each sandbox, below the ceiling of all limits. E2B's own templates have two.
    pub cpus: u32,
    /// Sandboxes of each kind that was asked for, with a Python in each, that wait for their clients.
    pub ready: usize,
    /// How long they wait when nobody comes.
    #[serde(rename = "idle_ms", deserialize_with = "milliseconds")]
    pub idle: Duration,
    /// The server to which runs of the backend `e2b` go. It is another one than this door.
    pub backend: E2bBackendSettings,
}

impl Default for E2bSettings {
    fn default() -> Self {
        Self {
            network: Network::None,
            build: true,
            old_clients: false,
            cpus: 2,
            ready: 2,
            idle: Duration::from_hours(1),
            backend: E2bBackendSettings::default(),
        }
    }
}
