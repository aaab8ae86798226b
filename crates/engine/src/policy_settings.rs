//! `[policy]` of the settings, and policy files.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use types::{Policy, PolicyFile};

use crate::settings::SettingsError;

/// What the static check asks of every request, whatever that says itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySettings {
    /// No request gets a milder policy.
    pub least: Policy,
    /// Commands that `exec` may run; any, if there is no list.
    pub commands: Option<Vec<String>>,
    /// Lists and rules.
    pub file: PolicyFile,
}

impl Default for PolicySettings {
    fn default() -> Self {
        Self { least: Policy::Off, commands: None, file: PolicyFile::default() }
    }
}

/// The section as written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PolicySection {
    least: Option<Policy>,
    file: Option<PathBuf>,
    allow_imports: Vec<String>,
    deny_imports: Vec<String>,
    commands: Option<Vec<String>>,
    preset: Option<String>,
}

impl PolicySection {
    pub(crate) fn resolve(self, settings: &Path) -> Result<PolicySettings, SettingsError> {
        let mut file = self.file.as_deref().map(read_policy_file).transpose()?.unwrap_or_default();
        file.allow_imports.extend(self.allow_imports);
        file.deny_imports.extend(self.deny_imports);
        let mut commands = self.commands;
        if let Some(name) = self.preset {
            let Some(preset) = policy::preset(&name) else {
                return Err(SettingsError::Preset { path: settings.to_path_buf(), name });
            };
            commands.get_or_insert_default().extend(preset.iter().map(|&command| command.to_owned()));
        }
        Ok(PolicySettings { least: self.least.unwrap_or(PolicySettings::default().least), commands, file })
    }
}

/// Reads a policy file.
pub fn read_policy_file(path: &Path) -> Result<PolicyFile, SettingsError> {
    let text =
        fs::read_to_string(path).map_err(|source| SettingsError::PolicyRead { path: path.to_path_buf(), source })?;
    toml::from_str(&text)
        .map_err(|source| SettingsError::PolicyParse { path: path.to_path_buf(), source: Box::new(source) })
}
