//! Numbers: moved by a step that adapts to its success, or taken from another program with as many of them.

use super::Edit;
use super::sites::{Figure, Literal, Sites};
use crate::evolve::rng::Rng;

/// A number without a size is moved as if it had this one.
const LEAST_SIZE: f64 = 0.01;

/// Moves one number, the numbers of one row, or all of one table.
pub(super) fn moved(sites: &Sites, step: f64, rng: &mut Rng) -> Option<Vec<Edit>> {
    let literals = &sites.literals;
    let one = rng.pick(literals)?;
    let draw = rng.fraction();
    let group: Vec<&Literal> = match (one.table, one.row) {
        (_, Some(row)) if draw < 0.45 => literals.iter().filter(|literal| literal.row == Some(row)).collect(),
        (Some(table), _) if draw < 0.6 => literals.iter().filter(|literal| literal.table == Some(table)).collect(),
        _ => vec![one],
    };
    // A few large steps keep it from settling too early, many small ones let it settle at all.
    let reach = step * (rng.gauss() * 0.8).exp();
    // The more move at once, the less each does.
    let each = reach / (group.len() as f64).sqrt().max(1.0);
    let edits = group.into_iter().filter_map(|literal| {
        let size = size(literal, literals);
        let value = shifted(literal.value, each * size * rng.gauss(), rng)?;
        Some(Edit { at: literal.at.clone(), text: value })
    });
    Some(edits.collect())
}

/// Numbers of a table are as large as its numbers are on the whole: a coordinate near 0 moves as far as one near 1.
fn size(literal: &Literal, all: &[Literal]) -> f64 {
    let Some(table) = literal.table else { return literal.value.size().max(LEAST_SIZE) };
    let (mut sum, mut count) = (0.0, 0.0);
    for other in all.iter().filter(|other| other.table == Some(table)) {
        sum += other.value.size();
        count += 1.0;
    }
    f64::max(sum / f64::max(count, 1.0), LEAST_SIZE)
}

fn shifted(value: Figure, by: f64, rng: &mut Rng) -> Option<String> {
    match value {
        Figure::Float(float) => {
            let moved = float + by;
            moved.is_finite().then(|| written(moved))
        }
        Figure::Int(int) => {
            #[expect(clippy::cast_possible_truncation, reason = "it saturates, which is as good as any other number")]
            let by = by.round() as i64;
            // A whole number moves by one at least, and now and then it doubles or halves.
            let least = if rng.fraction() < 0.5 { 1 } else { -1 };
            let moved = match rng.below(8) {
                0 => int.checked_mul(2)?,
                1 => int / 2,
                _ => int.checked_add(if by == 0 { least } else { by })?,
            };
            Some(moved.to_string())
        }
    }
}

/// As Python writes it: a whole one keeps its point.
fn written(float: f64) -> String {
    let text = format!("{float}");
    if text.contains(['.', 'e', 'E']) { text } else { format!("{text}.0") }
}

/// Takes about half of the numbers of another program that has as many, rows as a whole.
pub(super) fn crossed(own: &Sites, theirs: &Sites, rng: &mut Rng) -> Option<Vec<Edit>> {
    if own.literals.len() != theirs.literals.len() || own.literals.len() < 2 {
        return None;
    }
    let share = rng.fraction() * 0.5;
    let mut edits = Vec::new();
    let (mut row, mut takes) = (None, false);
    for (own, other) in own.literals.iter().zip(&theirs.literals) {
        if own.row.is_none() || own.row != row {
            takes = rng.fraction() < share;
            row = own.row;
        }
        if takes && own.value != other.value {
            let text = match other.value {
                Figure::Int(int) => int.to_string(),
                Figure::Float(float) => written(float),
            };
            edits.push(Edit { at: own.at.clone(), text });
        }
    }
    Some(edits)
}
