//! What comes of code that is run in an interpreter that stays.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ExecResult;

/// One thing in every form in which it shows itself, by MIME type. Images are base64.
pub type Bundle = BTreeMap<String, serde_json::Value>;

/// What came of one cell: a run's result, and what the cell showed.
///
/// `outcome` is `exited` with 0 where the cell came to its end, with 1 where an exception ended it, with its own code where
/// it asked to leave; `cancelled` where it was interrupted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// As of any run; `files` and `compile` are empty.
    #[serde(flatten)]
    pub run: ExecResult,
    /// The context that it ran in.
    pub context: String,
    /// Its number in that context, from 1; 0 if it did not come to count.
    pub execution_count: u64,
    /// What it showed, in order.
    pub results: Vec<Bundle>,
    /// Which of `results` is the value of its last expression.
    pub main_result: Option<usize>,
    /// Things and forms that were shown and too large or too many to keep.
    pub results_dropped: u32,
    /// Whether the context ended with it: its variables are lost, and the next cell begins anew.
    pub context_lost: bool,
}
