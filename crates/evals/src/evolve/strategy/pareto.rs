//! Parents that are best at something: a program that alone passes one case is worth keeping, whatever its sum.

use std::collections::BTreeMap;

use super::{Choice, OTHERS, tops};
use crate::evolve::member::Member;
use crate::evolve::rng::Rng;

/// One of those who are best at some case, the oftener the more likely.
pub(super) fn choose(members: &[Member], rng: &mut Rng) -> Choice {
    let front = front(members);
    let weights: Vec<f64> = front.iter().map(|(_, wins)| *wins as f64).collect();
    let parent = rng.weighted(&weights).and_then(|index| front.get(index)).map(|(member, _)| member.iteration());
    let others = tops(front.iter().map(|(member, _)| *member), parent, OTHERS);
    Choice { island: 0, parent, others }
}

/// Those who are best at some case, with the number of such cases. Of equals the first counts.
fn front(members: &[Member]) -> Vec<(&Member, usize)> {
    let mut best: BTreeMap<&str, (f64, usize)> = BTreeMap::new();
    for (place, member) in members.iter().enumerate() {
        let Some(evaluation) = &member.evaluation else { continue };
        if evaluation.duplicate_of.is_some() {
            continue;
        }
        let whole = [("", evaluation.score)];
        let cases = evaluation.metrics.iter().map(|(name, score)| (name.as_str(), *score));
        for (name, score) in cases.chain(whole) {
            let entry = best.entry(name).or_insert((score, place));
            if score > entry.0 {
                *entry = (score, place);
            }
        }
    }
    let mut wins: BTreeMap<usize, usize> = BTreeMap::new();
    for (_, place) in best.values() {
        *wins.entry(*place).or_default() += 1;
    }
    wins.into_iter().map(|(place, wins)| (&members[place], wins)).collect()
}
