//! Evolution: programs are proposed, tried and improved, and the best is kept.
//!
//! Scores come from the judge or from an evaluator in a sandbox of its own; nothing that a program says or does makes its
//! score. History is a database that is written as it happens ([`Store`]); everything else is derived from it.

mod beside;
mod blocks;
mod budget;
mod bundle;
mod error;
mod evaluate;
mod events;
mod export;
mod folder;
mod generator;
mod member;
mod mutate;
mod patch;
mod program;
mod prompt;
mod result;
mod rng;
mod run;
mod runs;
mod scoring;
mod stage;
mod store;
mod strategy;
mod task;
mod tree;
mod yaml;

pub use budget::Stop;
pub use error::EvolveError;
pub use events::Event;
pub use export::{accepted, checkpoint, html, jsonl, step};
pub use generator::{
    Answer, Ask, Choose, Edits, Form, Generator, GeneratorKind, GeneratorSpec, Known, Manual, ModelSpec, Models,
    Mutations, Mutator, Repair, Replay, Silence, Tried,
};
pub use member::{Evaluation, Member, Proposal};
pub use result::{Best, LastWord, Outcome, Usage, best, files_of, text_of};
pub use run::{Evolution, Listener};
pub use runs::Runs;
pub use scoring::{EvaluatorSpec, Scoring};
pub use stage::Stage;
pub use store::{About, End, Store, Use};
pub use strategy::{IslandsSpec, StrategySpec};
pub use task::{Budget, Overrides, Spec};
