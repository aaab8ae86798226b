//! A program of a run, and what became of it.

use std::collections::BTreeMap;

use engine::usage::Totals;
use serde::{Deserialize, Serialize};

/// A proposal as it is kept: what was asked, what was answered, what program that is.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// From 1 on; 0 is the starting program.
    pub iteration: u64,
    /// Where it lives; 0 where there are no islands.
    pub island: usize,
    /// What it was made from.
    pub parent: Option<u64>,
    /// What else was shown.
    pub others: Vec<u64>,
    /// A hash of the question: a replay must ask the same.
    pub asked: String,
    /// The answer, as it came; of a mutation what was done.
    pub answer: String,
    /// Who gave it: a model's name, or the generator's kind.
    pub by: String,
    /// The program, if there is one.
    pub code: Option<String>,
    /// What the program is, whatever its text looks like.
    pub shape: String,
    /// Why there is no program.
    pub error: Option<String>,
    /// What it took.
    pub usage: Totals,
}

/// What a program turned out to be worth.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Higher is better.
    pub score: f64,
    /// Between the best and the worst of several tries.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spread: f64,
    /// Cases that passed.
    #[serde(default)]
    pub passed: usize,
    /// All cases.
    #[serde(default)]
    pub total: usize,
    /// Each case or number, by name.
    #[serde(default)]
    pub metrics: BTreeMap<String, f64>,
    /// How each case ended.
    #[serde(default)]
    pub verdicts: BTreeMap<String, String>,
    /// What the next prompt says of it.
    #[serde(default)]
    pub feedback: String,
    /// Whether it had a say in its own score.
    #[serde(default)]
    pub trust: String,
    /// The earlier program that is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<u64>,
    /// Whether nobody could give it a score: less than any, though it is written as 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unscored: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

impl Evaluation {
    /// Whether it is better than another beyond what chance makes of the two.
    #[must_use]
    pub fn beats(&self, other: &Self) -> bool {
        self.rank() > other.rank() + self.spread.max(other.spread)
    }

    /// What is wrong with it, in a line; nothing if nothing is.
    #[must_use]
    pub fn trouble(&self) -> &str {
        let mut lines = self.feedback.lines().map(str::trim).filter(|line| !line.is_empty());
        let line = if self.unscored {
            lines.next()
        } else if self.passed < self.total {
            // The first line counts, the second says what.
            lines.nth(1)
        } else {
            lines.find(|line| line.starts_with("error"))
        };
        line.unwrap_or_default()
    }

    /// By what programs are put in order.
    #[must_use]
    pub const fn rank(&self) -> f64 {
        if self.unscored { f64::NEG_INFINITY } else { self.score }
    }
}

/// A proposal with its evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// What was proposed.
    pub proposal: Proposal,
    /// What it is worth; nothing if there is no program.
    pub evaluation: Option<Evaluation>,
}

impl Member {
    /// Its number.
    #[must_use]
    pub const fn iteration(&self) -> u64 {
        self.proposal.iteration
    }

    /// Its program.
    #[must_use]
    pub fn code(&self) -> &str {
        self.proposal.code.as_deref().unwrap_or_default()
    }

    /// By what it is put in order; no score is less than any.
    #[must_use]
    pub fn rank(&self) -> f64 {
        self.evaluation.as_ref().map_or(f64::NEG_INFINITY, Evaluation::rank)
    }

    /// Its score, as it is shown.
    #[must_use]
    pub fn score(&self) -> f64 {
        self.evaluation.as_ref().map_or(0.0, |evaluation| evaluation.score)
    }
}
