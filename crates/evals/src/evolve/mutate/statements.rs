//! Statements: left out, doubled, swapped with a neighbour, taken from another program.

use super::Edit;
use super::sites::{Line, Sites};
use crate::evolve::rng::Rng;

/// Leaves one out, doubles it, or swaps it with the next.
pub(super) fn changed(code: &str, sites: &Sites, rng: &mut Rng) -> Option<Vec<Edit>> {
    let index = rng.below(sites.lines.len());
    let line = sites.lines.get(index)?;
    let text = whole(code, line);
    match rng.below(3) {
        0 if line.is_only => {
            Some(vec![Edit { at: line.at.clone(), text: format!("{}pass\n", " ".repeat(line.indent)) }])
        }
        0 => Some(vec![Edit { at: line.at.clone(), text: String::new() }]),
        1 => Some(vec![Edit { at: line.at.end..line.at.end, text }]),
        _ => {
            let next = sites.lines[index + 1..].iter().find(|next| next.body == line.body)?;
            let (first, second) = (line.at.clone(), next.at.clone());
            Some(vec![Edit { at: first, text: whole(code, next) }, Edit { at: second, text }])
        }
    }
}

/// Puts a statement of another program before or in the place of one.
pub(super) fn transplanted(code: &str, own: &Sites, other: &str, theirs: &Sites, rng: &mut Rng) -> Option<Vec<Edit>> {
    let place = rng.pick(&own.lines)?;
    let taken = rng.pick(&theirs.lines)?;
    let shift = " ".repeat(place.indent);
    let lines = whole(other, taken);
    let mut moved = String::new();
    for line in lines.lines() {
        moved.push_str(&shift);
        moved.push_str(line.get(taken.indent..).unwrap_or_default());
        moved.push('\n');
    }
    if moved.trim() == whole(code, place).trim() {
        return None;
    }
    let at = if rng.fraction() < 0.5 { place.at.start..place.at.start } else { place.at.clone() };
    Some(vec![Edit { at, text: moved }])
}

/// Its lines, with a line break at the end.
fn whole(code: &str, line: &Line) -> String {
    let text = &code[line.at.clone()];
    if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}
