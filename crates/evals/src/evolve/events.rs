//! What is told while a run goes on.

use serde::Serialize;

use super::result::Outcome;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// It begins, or goes on.
    Started {
        /// The run's name.
        id: String,
        /// Where it is kept.
        folder: String,
        /// Iterations that were there before.
        resumed: u64,
    },
    /// There is a program, or there is none.
    Proposed {
        /// Which.
        iteration: u64,
        /// What it was made from.
        parent: Option<u64>,
        /// Where it lives.
        island: usize,
        /// Who made it.
        by: String,
        /// Why there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Calls that it took.
        calls: u64,
        /// Tokens that it took.
        tokens: u64,
        /// US dollars that it took; `null` if that is not known.
        cost_usd: Option<f64>,
    },
    /// A program was tried.
    Evaluated {
        /// Which.
        iteration: u64,
        /// What it is worth.
        score: f64,
        /// Cases that passed.
        passed: usize,
        /// All cases.
        total: usize,
        /// The earlier program that is the same.
        #[serde(skip_serializing_if = "Option::is_none")]
        duplicate_of: Option<u64>,
        /// Whether it is the best so far.
        accepted: bool,
        /// The best score so far.
        best: f64,
        /// What is wrong with it, in a line.
        #[serde(skip_serializing_if = "String::is_empty")]
        trouble: String,
    },
    /// It is over.
    Ended(Box<Outcome>),
}
