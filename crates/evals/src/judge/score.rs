//! From cases to a score.

use std::collections::BTreeMap;

use super::result::CaseResult;
use super::task::{GroupScore, Task};

/// Weighted, from 0 to 1; nothing run is nothing scored.
pub(crate) fn score(task: &Task, cases: &[CaseResult]) -> f64 {
    let mut groups: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    let mut parts: Vec<(f64, f64)> = Vec::new();
    for (case, result) in task.cases.iter().zip(cases) {
        let part = (case.weight(), result.score);
        match case.group.as_deref().filter(|group| task.groups.contains_key(*group)) {
            Some(group) => groups.entry(group).or_default().push(part),
            None => parts.push(part),
        }
    }
    for (name, members) in groups {
        let Some(group) = task.groups.get(name) else { continue };
        let worth = group.points.unwrap_or_else(|| members.iter().map(|(weight, _)| weight).sum());
        let share = match group.score {
            GroupScore::Minimum => members.iter().map(|(_, score)| *score).fold(1.0, f64::min),
            GroupScore::Sum => mean(&members),
        };
        parts.push((worth, share));
    }
    mean(&parts).clamp(0.0, 1.0)
}

fn mean(parts: &[(f64, f64)]) -> f64 {
    let weight: f64 = parts.iter().map(|(weight, _)| weight).sum();
    if weight > 0.0 { parts.iter().map(|(weight, score)| weight * score).sum::<f64>() / weight } else { 0.0 }
}
