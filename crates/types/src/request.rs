//! What a caller asks for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{LimitsSpec, PolicyFile, RelPath};

/// One run, as every door hands it to the engine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExecRequest {
    /// Name of a recipe; `python` if absent.
    pub language: Option<String>,
    /// The program's text.
    pub code: Option<Source>,
    /// A command in place of `code`.
    pub argv: Option<Vec<String>>,
    /// File name of the code in `/work`; the recipe's own if absent.
    pub file_name: Option<RelPath>,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// What the program reads on standard input.
    pub stdin: String,
    /// Files placed in `/work` beforehand.
    pub files: Vec<InputFile>,
    /// Environment on top of the minimal one.
    pub env: BTreeMap<String, String>,
    /// Limits; gaps are filled with the defaults.
    pub limits: LimitsSpec,
    /// The way out, if any.
    pub network: Network,
    /// What the static check may do.
    pub policy: Policy,
    /// Whether a model must review the program first.
    pub review: bool,
    /// If not empty, the code may import nothing else.
    pub allow_imports: Vec<String>,
    /// What the code may not import.
    pub deny_imports: Vec<String>,
    /// Lists and rules on top of the built-in ones: what a policy file holds.
    pub policy_file: Option<PolicyFile>,
    /// What isolates; by the settings if absent.
    pub backend: Option<BackendKind>,
    /// What the root is made from; the host's system folders if absent.
    pub image: Option<String>,
    /// Globs of files to bring back with their content.
    pub collect: Vec<String>,
    /// Whether a fresh interpreter must be started, though one waits.
    pub cold: bool,
}

/// A program's text. Files may hold any bytes (a coding line says which); requests hold text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Source(pub Vec<u8>);

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Source({} bytes)", self.0.len())
    }
}

impl From<String> for Source {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl From<Source> for String {
    fn from(source: Source) -> Self {
        Self::from_utf8_lossy(&source.0).into_owned()
    }
}

/// A file placed in `/work` before the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputFile {
    /// Where, below `/work`.
    pub path: RelPath,
    /// What is in it.
    #[serde(flatten)]
    pub content: FileContent,
}

/// A file's content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileContent {
    /// UTF-8 text.
    Text(String),
    /// Any bytes.
    Base64(String),
    /// A file of the caller's own machine. Only the command line makes these: no wire form has a host path.
    #[serde(skip)]
    Host(std::path::PathBuf),
}

/// What a run may reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Its own loopback and nothing else.
    #[default]
    None,
    /// A way out of its own namespace.
    Open,
}

/// What the static check does with its findings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// No check.
    Off,
    /// Findings are reported, nothing is refused.
    #[default]
    Report,
    /// What is critical refuses the run, or more than 15 points in sum.
    Guard,
    /// Everything of medium severity and above refuses the run.
    Strict,
}

impl Policy {
    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Report => "report",
            Self::Guard => "guard",
            Self::Strict => "strict",
        }
    }
}

/// What isolates a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// Linux namespaces on this host.
    #[default]
    Native,
    /// A Docker engine.
    Docker,
    /// An E2B-compatible service.
    E2b,
}

impl BackendKind {
    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Docker => "docker",
            Self::E2b => "e2b",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contracts_example_is_read_whole() {
        let request: ExecRequest = serde_json::from_str(
            r#"{"language": "python", "code": "print(1)", "args": [], "stdin": "",
             "files": [{"path": "data.csv", "text": "a,b\n"}, {"path": "x.bin", "base64": "AAE="}],
             "env": {"K": "V"}, "limits": {"wall_ms": 30000, "cpu_ms": null, "memory_mb": 512, "cpus": 1.0, "pids": 64,
             "disk_mb": 100, "inodes": 20000, "output_kb": 100}, "network": "none", "policy": "report", "backend": "native",
             "image": null, "collect": ["**"]}"#,
        )
        .unwrap();
        assert_eq!(request.files.len(), 2);
        assert_eq!(request.files[1].content, FileContent::Base64("AAE=".to_owned()));
        assert_eq!(request.limits.pids, Some(64));
    }

    #[test]
    fn unknown_fields_and_paths_that_leave_are_refused() {
        for bad in [
            r#"{"code": "1", "nettwork": "open"}"#,
            r#"{"code": "1", "limits": {"memory": 5}}"#,
            r#"{"code": "1", "files": [{"path": "../x", "text": ""}]}"#,
            r#"{"code": "1", "files": [{"path": "x", "host": "/etc/shadow"}]}"#,
        ] {
            assert!(serde_json::from_str::<ExecRequest>(bad).is_err(), "{bad}");
        }
    }
}
