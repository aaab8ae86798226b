//! Who proposes programs: one question, one answer.

mod manual;
mod model;
mod mutate;
mod replay;
mod spec;

use std::collections::BTreeMap;

use engine::BoxFuture;
use engine::llm::Message;
use engine::usage::Totals;
use serde::Serialize;

pub use manual::Manual;
pub use model::Models;
pub use mutate::Mutator;
pub use replay::Replay;
pub use spec::{Choose, Edits, GeneratorKind, GeneratorSpec, ModelSpec, Mutations};

use super::error::EvolveError;
use super::member::Proposal;
pub use super::patch::Form;

/// One question.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Which program it is for.
    pub iteration: u64,
    /// Chance for whoever needs any: the same for the same iteration of the same run.
    pub seed: u64,
    /// As the judge names it.
    pub language: String,
    /// What cases call, if they call.
    pub entry: String,
    /// What is wanted, as the task has it.
    pub task: String,
    /// The whole question for a model.
    pub messages: Vec<Message>,
    /// The program to improve.
    pub parent: Option<Known>,
    /// The best so far.
    pub best: Option<Known>,
    /// Others that may help.
    pub others: Vec<Known>,
    /// How far mutators move numbers.
    pub step: f64,
    /// What is wrong with the answer before, if this is the second question.
    pub repair: Option<Repair>,
    /// What became of earlier answers, by who gave them.
    pub tried: BTreeMap<String, Tried>,
}

/// A program that is known.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Known {
    /// Which one it is.
    pub iteration: u64,
    /// What it is worth.
    pub score: f64,
    /// Its text.
    pub code: String,
    /// What was wrong with it.
    pub feedback: String,
}

/// An answer that was none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Repair {
    /// As it came.
    pub answer: String,
    /// Why no program could be made of it.
    pub reason: String,
}

/// What became of somebody's earlier answers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tried {
    /// How many there were.
    pub count: u64,
    /// How many made a better program of their parent.
    pub better: u64,
    /// What they cost together, as far as that is known.
    pub cost_usd: f64,
}

/// What came of a question, and what it took.
#[derive(Debug)]
pub struct Answer {
    /// Who gave it.
    pub by: String,
    /// What it is, or why there is none.
    pub what: Result<Form, Silence>,
    /// What it took, answered or not.
    pub usage: Totals,
    /// In place of all that: as it was recorded once.
    pub recorded: Option<Box<Proposal>>,
}

impl Answer {
    /// An answer that has cost nothing.
    #[must_use]
    pub fn free(by: impl Into<String>, what: Result<Form, Silence>) -> Self {
        Self { by: by.into(), what, usage: Totals::default(), recorded: None }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Silence {
    /// There will be none any more, and that is in order.
    Exhausted,
    /// Not this time.
    Failed(String),
    /// Never.
    Fatal(EvolveError),
}

/// Proposes programs. Whether it may be asked again after a failure it says itself.
pub trait Generator: Send + Sync {
    /// Answers one question.
    fn propose<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Answer>;
    /// Whether an answer that cannot be used is worth a second question.
    fn can_repair(&self) -> bool {
        true
    }
}
