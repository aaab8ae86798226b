//! A report in one file: score over time, lineage, the grid of elites, changes from parent to child, verdicts, cost.
//!
//! Everything that programs, models and tasks wrote is data in it: one JSON text, put on the page as text by its script.

use serde_json::{Value, json};

use super::{accepted, step};
use crate::evolve::error::EvolveError;
use crate::evolve::result::Outcome;
use crate::evolve::store::Store;
use crate::evolve::strategy::cell_of;

/// Programs whose text is in the report; of longer runs the last and the best.
const MOST: usize = 5_000;

/// The whole page.
pub fn html(store: &Store) -> Result<String, EvolveError> {
    let members = store.members()?;
    let outcome = Outcome::of(store)?;
    let about = store.about();
    let start = members.first().map(|member| member.code().to_owned()).unwrap_or_default();
    let steps = accepted(&members);
    let skipped = steps.len().saturating_sub(MOST);
    let steps: Vec<Value> = steps
        .into_iter()
        .enumerate()
        .filter(|(index, (_, accepted))| *index >= skipped || *accepted)
        .map(|(_, (member, accepted))| {
            let mut value = step(member, accepted);
            value["cell"] = json!(cell_of(&start, member.code()));
            value
        })
        .collect();
    let data = json!({
        "outcome": outcome, "prompt": about.prompt, "strategy": about.strategy, "generator": about.generator,
        "seed": about.seed, "target": about.target, "steps": steps,
    });
    // Nothing in the data can end the element that it stands in.
    let data = data.to_string().replace('<', "\\u003c");
    Ok(include_str!("report.html").replace("\"SAGGAR-DATA\"", &data))
}
