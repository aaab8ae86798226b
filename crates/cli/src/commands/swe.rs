//! `saggar swe`: patches on repositories, graded as SWE-bench does it.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use evals::swe::prediction::Predictions;
use evals::swe::report::{Summary, Tree};
use evals::swe::row;

use crate::failure::{Failure, print_json};
use crate::table::print;

/// Grade patches on repositories, SWE-bench style
#[derive(Debug, Args)]
pub(crate) struct Swe {
    #[command(subcommand)]
    command: SweCommand,
}

#[derive(Debug, Subcommand)]
enum SweCommand {
    Report(Report),
}

/// Grade the logs of a run again, and write its reports anew
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  saggar swe report --dataset instances.jsonl --predictions preds.jsonl --run-id first\n\nIt reads logs/run_evaluation/RUN/MODEL/INSTANCE/test_output.txt below the working directory, as the official harness\nand others leave it, and starts nothing."
)]
struct Report {
    /// Instances: a list in a .json file, or one on each line
    #[arg(long, value_name = "FILE")]
    dataset: PathBuf,
    /// Patches: a .json or .jsonl file, or `gold` for those of the data set
    #[arg(long, value_name = "FILE|gold")]
    predictions: PathBuf,
    /// Name of the run
    #[arg(long, value_name = "ID")]
    run_id: String,
    /// Only these instances
    #[arg(long, value_name = "ID", num_args = 1..)]
    instance_ids: Vec<String>,
    /// Where the summary goes
    #[arg(long = "report-dir", value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Print the summary as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Swe {
    pub(crate) fn wants_json(&self) -> bool {
        let SweCommand::Report(report) = &self.command;
        report.json
    }

    pub(crate) fn execute(self) -> Result<u8, Failure> {
        let SweCommand::Report(report) = self.command;
        report.execute()
    }
}

impl Report {
    fn execute(self) -> Result<u8, Failure> {
        let instances = row::read(&self.dataset, &self.instance_ids)?;
        let predictions = if self.predictions == Path::new("gold") {
            Predictions::gold(&instances)
        } else {
            Predictions::read(&self.predictions)?
        };
        predictions.check(&instances)?;
        let tree = Tree::new(Path::new("."), &self.run_id)?;
        for instance in &instances {
            if let Some(prediction) = predictions.by_id.get(&instance.id).filter(|prediction| !prediction.is_empty()) {
                tree.grade(instance, prediction)?;
            }
        }
        let (path, summary) = tree.summarise(&instances, &predictions, &self.folder)?;
        if self.json {
            print_json(&summary)?;
        } else {
            print(&["", "instances"], &counts(&summary), &format!("\nwritten to {}", path.display()))?;
        }
        Ok(0)
    }
}

fn counts(summary: &Summary) -> Vec<Vec<String>> {
    let counts = [
        ("all", summary.total_instances),
        ("with a patch or an empty one", summary.submitted_instances),
        ("resolved", summary.resolved_instances),
        ("not resolved", summary.unresolved_instances),
        ("empty patch", summary.empty_patch_instances),
        ("error: no report", summary.error_instances),
        ("environment at fault", summary.infra_failure_instances),
        ("environment perhaps at fault", summary.ambiguous_failure_instances),
    ];
    counts.map(|(name, count)| vec![name.to_owned(), count.to_string()]).into()
}
