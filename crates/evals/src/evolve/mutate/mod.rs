//! Changes of a Python program by its syntax tree: numbers, operators, statements, parts of other programs.
//!
//! Each is an edit of the text at a place that the tree names, so that everything else stays as it was written. Only what
//! is between evolve marks changes, if there are any.

mod literals;
mod operators;
mod sites;
mod statements;

use std::ops::Range;

use self::sites::Sites;
use super::blocks;
use super::generator::Mutations;
use super::rng::Rng;
use super::tree;

/// How often another change is drawn, when one came to nothing.
const TRIES: usize = 12;

/// One change of a text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Edit {
    pub(super) at: Range<usize>,
    pub(super) text: String,
}

/// Another program, one change away; nothing if nothing can be changed.
pub(crate) fn mutate(code: &str, others: &[&str], weights: &Mutations, step: f64, rng: &mut Rng) -> Option<String> {
    let open = open_ranges(code);
    let sites = policy::bounded_python(code, |code| Sites::of(code, &open)).flatten()?;
    let kinds = [weights.literals, weights.operators, weights.statements, weights.transplants];
    for _ in 0..TRIES {
        let edits = match rng.weighted(&kinds)? {
            0 => literals::moved(&sites, step, rng),
            1 => operators::changed(&sites, rng),
            2 => statements::changed(code, &sites, rng),
            _ => transplanted(code, &sites, others, rng),
        };
        let Some(made) = edits.filter(|edits| !edits.is_empty()).map(|edits| apply(code, edits)) else { continue };
        if made != code && tree::is_python(&made) {
            return Some(made);
        }
    }
    None
}

/// A part of another program, of those that are shown.
fn transplanted(code: &str, sites: &Sites, others: &[&str], rng: &mut Rng) -> Option<Vec<Edit>> {
    let other = rng.pick(others)?;
    let open = open_ranges(other);
    let theirs = policy::bounded_python(other, |other| Sites::of(other, &open)).flatten()?;
    if rng.fraction() < 0.5
        && let Some(edits) = literals::crossed(sites, &theirs, rng)
    {
        return Some(edits);
    }
    statements::transplanted(code, sites, other, &theirs, rng)
}

/// What of a program may change.
fn open_ranges(code: &str) -> Vec<Range<usize>> {
    let Ok(Some(parts)) = blocks::parts(code) else { return std::iter::once(0..code.len()).collect() };
    let mut at = 0;
    let mut open = Vec::new();
    for (fixed, block) in parts.fixed.iter().zip(&parts.open) {
        at += fixed.len();
        open.push(at..at + block.len());
        at += block.len();
    }
    open
}

/// Edits that do not touch each other, from the last to the first.
fn apply(code: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.at.start);
    let mut text = code.to_owned();
    for edit in edits.iter().rev() {
        if text.is_char_boundary(edit.at.start) && text.is_char_boundary(edit.at.end) {
            text.replace_range(edit.at.clone(), &edit.text);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "import math\n# EVOLVE-BLOCK-START\ndef f(x):\n    y = x * 2.5 + 1\n    if y < 10 and x > -3:\n        y = y - 1\n    return y\n# EVOLVE-BLOCK-END\nTABLE = [(0.1, 0.2), (0.3, 0.4)]\n";

    #[test]
    fn every_mutant_is_a_program_and_changes_only_what_may_change() {
        let weights = Mutations::default();
        let mut seen = std::collections::BTreeSet::new();
        for iteration in 0..300 {
            let mut rng = Rng::of(5, iteration, 0);
            let mutant = mutate(CODE, &[CODE], &weights, 0.3, &mut rng).unwrap();
            assert!(tree::is_python(&mutant), "{mutant}");
            assert!(mutant.starts_with("import math\n# EVOLVE-BLOCK-START\n"), "{mutant}");
            assert!(mutant.ends_with("# EVOLVE-BLOCK-END\nTABLE = [(0.1, 0.2), (0.3, 0.4)]\n"), "{mutant}");
            seen.insert(mutant);
        }
        assert!(seen.len() > 100, "{}", seen.len());
        for part in ["x / 2.5", "y <= 10", " or ", "y + 1"] {
            assert!(seen.iter().any(|mutant| mutant.contains(part)), "{part}");
        }
    }

    #[test]
    fn the_same_chance_makes_the_same_mutant() {
        let made = || mutate(CODE, &[CODE], &Mutations::default(), 0.3, &mut Rng::of(1, 2, 3));
        assert_eq!(made(), made());
        assert_eq!(mutate("pass\n", &[], &Mutations::default(), 0.3, &mut Rng::of(1, 2, 3)), None);
        assert_eq!(mutate("def (", &[], &Mutations::default(), 0.3, &mut Rng::of(1, 2, 3)), None);
        let deep = format!("x = {}1{}", "(".repeat(100_000), ")".repeat(100_000));
        assert_eq!(mutate(&deep, &[], &Mutations::default(), 0.3, &mut Rng::of(1, 2, 3)), None);
    }

    #[test]
    fn numbers_of_equal_programs_are_crossed() {
        let weights = Mutations { literals: 0.0, operators: 0.0, statements: 0.0, transplants: 1.0, step: 0.1 };
        let other = "x = [5.0, 6.0, 7.0, 8.0]\n";
        let made: Vec<String> = (0..40)
            .filter_map(|i| mutate("x = [1.0, 2.0, 3.0, 4.0]\n", &[other], &weights, 0.1, &mut Rng::of(1, i, 0)))
            .collect();
        assert!(made.iter().any(|code| code.contains("1.0") && code.contains("8.0")), "{made:?}");
    }
}
