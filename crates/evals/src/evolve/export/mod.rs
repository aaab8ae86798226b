//! A run for other programs and for people: lines of JSON, a checkpoint of `OpenEvolve`'s, a report.

mod checkpoint;
mod html;

use serde_json::{Value, json};

pub use checkpoint::checkpoint;
pub use html::html;

use super::error::EvolveError;
use super::member::Member;
use super::store::Store;

/// One iteration, with everything that is known of it.
#[must_use]
pub fn step(member: &Member, accepted: bool) -> Value {
    let proposal = &member.proposal;
    let told = member.evaluation.as_ref();
    json!({
        "iteration": proposal.iteration,
        "parent": proposal.parent,
        "others": proposal.others,
        "island": proposal.island,
        "by": proposal.by,
        "code": proposal.code,
        "answer": proposal.answer,
        "error": proposal.error,
        "score": told.map(|told| told.score),
        "unscored": told.is_some_and(|told| told.unscored),
        "spread": told.map(|told| told.spread),
        "accepted": accepted,
        "passed": told.map(|told| told.passed),
        "total": told.map(|told| told.total),
        "metrics": told.map(|told| &told.metrics),
        "verdicts": told.map(|told| &told.verdicts),
        "feedback": told.map(|told| &told.feedback),
        "trust": told.map(|told| &told.trust),
        "duplicate_of": told.and_then(|told| told.duplicate_of),
        "usage": proposal.usage,
    })
}

/// Each iteration with whether it was the best when it came.
#[must_use]
pub fn accepted(members: &[Member]) -> Vec<(&Member, bool)> {
    let mut best: Option<&super::member::Evaluation> = None;
    let mut all = Vec::with_capacity(members.len());
    for member in members {
        let Member { evaluation, .. } = member;
        let beats = evaluation.as_ref().is_some_and(|own| best.is_none_or(|best| own.beats(best)));
        if beats {
            best = evaluation.as_ref();
        }
        all.push((member, beats));
    }
    all
}

/// A line for each iteration.
pub fn jsonl(store: &Store) -> Result<String, EvolveError> {
    let members = store.members()?;
    let mut text = String::new();
    for (member, accepted) in accepted(&members) {
        text.push_str(&step(member, accepted).to_string());
        text.push('\n');
    }
    Ok(text)
}
