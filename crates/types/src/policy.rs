//! A policy file: lists and rules on top of the built-in ones, as TOML on disk and as an object in a request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Severity;

/// Lists and rules on top of the built-in ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyFile {
    /// If not empty, nothing else may be imported.
    pub allow_imports: Vec<String>,
    /// May not be imported.
    pub deny_imports: Vec<String>,
    /// If given, `exec` runs nothing else.
    pub commands: Option<Vec<String>>,
    /// Ids of rules that are left out.
    pub ignore: Vec<String>,
    /// Files of the run that are trusted, and lists of their own for them.
    pub tools: ToolFiles,
    /// Lists for single files of the run, on top of the general ones.
    pub files: BTreeMap<String, ImportLists>,
    /// Own rules.
    pub rules: Vec<OwnRule>,
}

/// One pair of lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImportLists {
    /// If not empty, nothing else may be imported.
    pub allow_imports: Vec<String>,
    /// May not be imported.
    pub deny_imports: Vec<String>,
}

/// A trusted prelude: only its own lists hold for it, so that code from elsewhere need not be given what it needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolFiles {
    /// Names of the files, as in the request.
    pub files: Vec<String>,
    /// If not empty, nothing else may be imported.
    pub allow_imports: Vec<String>,
    /// May not be imported.
    pub deny_imports: Vec<String>,
}

/// A rule of somebody's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnRule {
    /// What findings call it.
    pub id: String,
    /// The language it is for; all if absent.
    #[serde(default)]
    pub language: Option<String>,
    /// How bad.
    pub severity: Severity,
    /// How bad, as a number; as usual for the severity if absent.
    #[serde(default)]
    pub points: Option<u32>,
    /// What a person reads; `{}` is what was seen.
    #[serde(default)]
    pub message: Option<String>,
    /// What kind of thing `names` are.
    #[serde(rename = "match")]
    pub matches: OwnMatch,
    /// What it is about.
    pub names: Vec<String>,
}

/// What the names of a rule are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnMatch {
    /// Modules.
    Import,
    /// Full names, such as `os.system`, called or not.
    Name,
    /// Full names that are called.
    Call,
    /// Attributes of whatever.
    Attribute,
    /// Methods of whatever.
    Method,
    /// Parts of texts.
    Text,
    /// Commands of the shell.
    Command,
}
