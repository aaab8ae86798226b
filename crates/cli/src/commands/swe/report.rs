//! `saggar swe report`: logs that are there, graded again.

use std::path::Path;

use clap::Args;
use evals::swe::report::Tree;

use super::{Source, counts};
use crate::failure::{Failure, print_json};
use crate::table::print;

/// Grade the logs of a run again, and write its reports anew
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  saggar swe report --dataset instances.jsonl --predictions preds.jsonl --run-id first\n\nIt reads logs/run_evaluation/RUN/MODEL/INSTANCE/test_output.txt below the working directory, as the official harness\nand others leave it, and starts nothing. Logs alone are believed: what `saggar swe eval` heard beside them is not asked."
)]
pub(super) struct Report {
    #[command(flatten)]
    pub(super) source: Source,
}

impl Report {
    pub(super) fn execute(self) -> Result<u8, Failure> {
        let (instances, predictions) = self.source.read()?;
        let tree = Tree::new(Path::new("."), &self.source.run_id)?;
        for instance in &instances {
            if let Some(prediction) = predictions.by_id.get(&instance.id).filter(|prediction| !prediction.is_empty()) {
                tree.grade(instance, prediction)?;
            }
        }
        let (path, summary) = tree.summarise(&instances, &predictions, &self.source.folder)?;
        if self.source.json {
            print_json(&summary)?;
        } else {
            print(&["", "instances"], &counts(&summary), &format!("\nwritten to {}", path.display()))?;
        }
        Ok(0)
    }
}
