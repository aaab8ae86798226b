//! What the static check says of code.

use serde::{Deserialize, Serialize};

use crate::{Finding, Policy};

/// What can be said of code without running it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// Whether nothing blocks and the code can be parsed.
    pub ok: bool,
    /// The recipe's name; `null` for a command.
    pub language: Option<String>,
    /// By what it was judged: the policy asked for, or the settings' if that is stricter.
    pub policy: Policy,
    /// What was seen, in the order of the code.
    pub findings: Vec<Finding>,
    /// The first place that cannot be parsed.
    pub syntax_error: Option<SyntaxError>,
    /// The sum that guard goes by.
    pub points: u32,
    /// The rule that blocks.
    pub refused_by: Option<String>,
}

/// Where code cannot be parsed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyntaxError {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// The parser's words.
    pub message: String,
}
