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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evolve::member::{Evaluation, Proposal};

    fn member(iteration: u64, cases: &[f64]) -> Member {
        let metrics = cases.iter().enumerate().map(|(case, score)| (format!("case {case}"), *score)).collect();
        let score = cases.iter().sum::<f64>() / cases.len() as f64;
        let proposal = Proposal {
            iteration,
            island: 0,
            parent: None,
            others: Vec::new(),
            asked: String::new(),
            answer: String::new(),
            by: String::new(),
            code: Some(String::new()),
            shape: iteration.to_string(),
            error: None,
            usage: engine::usage::Totals::default(),
        };
        Member { proposal, evaluation: Some(Evaluation { score, metrics, ..Evaluation::default() }) }
    }

    #[test]
    fn whoever_alone_passes_a_case_may_be_a_parent_whatever_its_sum() {
        let members = [
            member(0, &[0.0, 0.0, 0.0]),
            member(1, &[1.0, 1.0, 0.0]),
            member(2, &[0.0, 0.0, 1.0]),
            member(3, &[0.5, 0.5, 0.5]),
        ];
        let front: Vec<(u64, usize)> =
            front(&members).iter().map(|(member, wins)| (member.iteration(), *wins)).collect();
        // Two cases and the sum are the second's, one case the third's; who is second everywhere is none of them.
        assert_eq!(front, [(1, 3), (2, 1)]);
        let chosen: std::collections::BTreeSet<u64> =
            (0..50).filter_map(|draw| choose(&members, &mut Rng::of(1, draw, 0)).parent).collect();
        assert_eq!(chosen, [1, 2].into());
    }
}
