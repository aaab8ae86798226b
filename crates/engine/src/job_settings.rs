//! `[jobs]` of the settings: what jobs of the server's callers may use that is the owner's. The engine only reads it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use crate::llm::Provider;

/// What jobs of others may use. What is not named here they cannot have.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobSettings {
    /// Jobs at once; others wait.
    pub running: usize,
    /// Models that may be asked for programs, by the names that tasks use.
    pub models: BTreeMap<String, JobModel>,
    /// The most that the models of one job may cost.
    pub max_cost_usd: Option<f64>,
    /// The most tokens of one job.
    pub max_tokens: Option<u64>,
    /// The folder of git repositories on which patches are tested.
    pub repositories: Option<PathBuf>,
    /// The folder of wheels from which their environments are made.
    pub wheels: Option<PathBuf>,
    /// Whether environments may be made from the index of packages, over the network, in place of wheels.
    pub index: bool,
}

impl Default for JobSettings {
    fn default() -> Self {
        Self {
            running: 2,
            models: BTreeMap::new(),
            max_cost_usd: None,
            max_tokens: None,
            repositories: None,
            wheels: None,
            index: false,
        }
    }
}

/// A model that may be asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobModel {
    /// What its server calls it; the name that tasks use, if absent.
    pub model: Option<String>,
    /// In whose words.
    pub provider: Provider,
    /// The provider's own server if absent; for `openai` any that is compatible.
    pub base_url: Option<String>,
    /// The environment variable that holds the key.
    pub api_key_env: Option<String>,
}
