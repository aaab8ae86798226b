//! What a run came to.

use std::collections::BTreeMap;

use engine::usage::Totals;
use serde::Serialize;

use super::bundle;
use super::error::EvolveError;
use super::member::{Evaluation, Member};
use super::store::{End, Store};

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The run's name.
    pub id: String,
    /// The best program, if any was tried.
    pub best: Option<Best>,
    /// Proposals; the starting program is none.
    pub iterations: u64,
    /// Programs tried; those that were known already are not tried again.
    pub evaluations: u64,
    /// The limit that ended it, by its name; `null` while it goes on.
    pub stop_reason: Option<String>,
    /// Whether the score that was wanted is there, and was there when the best program was judged again.
    pub target_reached: bool,
    /// The best program, judged once more in sandboxes of its own.
    #[serde(rename = "final", skip_serializing_if = "Option::is_none")]
    pub last_word: Option<LastWord>,
    /// What it took.
    pub usage: Usage,
    /// Where its history is.
    pub folder: String,
}

/// The best program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Best {
    /// Which; 0 is the starting program.
    pub iteration: u64,
    /// What it is worth.
    pub score: f64,
    /// Its text; of a tree the texts of its files, each after a line that names it.
    pub code: String,
    /// The files of a tree, by path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<BTreeMap<String, String>>,
}

/// The best program, judged once more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LastWord {
    /// What it is worth.
    pub score: f64,
    /// Cases that passed, hidden ones too.
    pub passed: usize,
    /// All cases.
    pub total: usize,
}

/// What a run took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Usage {
    /// Calls to models or commands, answered or not.
    pub calls: u64,
    /// Tokens sent.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// US dollars; `null` as soon as the cost of one call is not known.
    pub cost_usd: Option<f64>,
    /// Time, over all interruptions.
    pub wall_ms: f64,
}

impl Outcome {
    /// Reads it from a run's history.
    pub fn of(store: &Store) -> Result<Self, EvolveError> {
        let members = store.members()?;
        let best = best(&members);
        let end = store.end()?;
        let usage = spent(&members);
        let last_word = end.as_ref().and_then(|end| end.last_word.as_ref());
        let target = store.about().target;
        Ok(Self {
            id: store.about().id.clone(),
            target_reached: reached(best, last_word, target),
            best: best.map(|member| Best {
                iteration: member.iteration(),
                score: member.score(),
                code: member.code().to_owned(),
                files: store.about().main.as_ref().and_then(|_| files_of(member.code())),
            }),
            iterations: members.iter().filter(|member| member.iteration() > 0).count() as u64,
            evaluations: evaluations(&members),
            last_word: last_word.map(|told| LastWord { score: told.score, passed: told.passed, total: told.total }),
            stop_reason: end.map(|End { stop_reason, .. }| stop_reason),
            usage: Usage {
                calls: usage.calls,
                prompt_tokens: usage.prompt_tokens,
                completion_tokens: usage.completion_tokens,
                cost_usd: usage.cost_usd(),
                wall_ms: store.wall_ms()?,
            },
            folder: store.folder().display().to_string(),
        })
    }
}

/// The files of a tree, by path.
#[must_use]
pub fn files_of(code: &str) -> Option<BTreeMap<String, String>> {
    let files = bundle::split(code)?;
    Some(files.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect())
}

/// One text of the files of a tree, as answers may have it.
#[must_use]
pub fn text_of(files: &BTreeMap<String, String>) -> String {
    bundle::join(files.iter().map(|(path, text)| (path.as_str(), text.as_str())))
}

/// The best program of a history: the first that no other has beaten.
#[must_use]
pub fn best(members: &[Member]) -> Option<&Member> {
    let tried = members.iter().filter_map(|member| Some((member, member.evaluation.as_ref()?)));
    let best = tried.reduce(|best, next| if next.1.beats(best.1) { next } else { best });
    best.map(|(member, _)| member)
}

/// What all of its questions took.
pub(crate) fn spent(members: &[Member]) -> Totals {
    let mut totals = Totals::default();
    for member in members {
        totals.add(&member.proposal.usage);
    }
    totals
}

/// Programs that were really tried.
pub(crate) fn evaluations(members: &[Member]) -> u64 {
    let is_own = |member: &&Member| member.evaluation.as_ref().is_some_and(|told| told.duplicate_of.is_none());
    members.iter().filter(is_own).count() as u64
}

/// A score that is not there when it is looked at again was not reached. Numbers of an evaluator may differ from time to
/// time, so that only cases have this last word.
fn reached(best: Option<&Member>, last_word: Option<&Evaluation>, target: Option<f64>) -> bool {
    let Some(best) = best else { return false };
    let Some(target) = target else { return true };
    let is_confirmed = last_word.is_none_or(|told| told.total == 0 || told.score >= target);
    best.rank() >= target && is_confirmed
}
