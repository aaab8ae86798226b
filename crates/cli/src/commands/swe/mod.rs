//! `saggar swe`: patches on repositories, graded as SWE-bench does it.

mod away;
mod eval;
mod progress;
mod report;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use evals::swe::prediction::Predictions;
use evals::swe::report::Summary;
use evals::swe::row::{self, Instance};

use crate::failure::Failure;

/// Grade patches on repositories, SWE-bench style
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  saggar swe eval --dataset instances.jsonl --predictions patches.jsonl --run-id first --repos mirrors"
)]
pub(crate) struct Swe {
    #[command(subcommand)]
    command: SweCommand,
}

#[derive(Debug, Subcommand)]
enum SweCommand {
    Eval(Box<eval::Eval>),
    Report(report::Report),
}

impl Swe {
    pub(crate) fn wants_json(&self) -> bool {
        match &self.command {
            SweCommand::Eval(eval) => eval.source.json,
            SweCommand::Report(report) => report.source.json,
        }
    }

    pub(crate) fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        match self.command {
            SweCommand::Eval(eval) => eval.execute(config),
            SweCommand::Report(report) => report.execute(),
        }
    }
}

/// What is graded, and where it is told.
#[derive(Debug, Args)]
struct Source {
    /// Instances: a list in a .json file, a table in a .parquet file, or one on each line
    #[arg(long, value_name = "FILE")]
    dataset: PathBuf,
    /// Patches: a .json or .jsonl file, or `gold` for those of the data set
    #[arg(long, value_name = "FILE|gold", default_value = "gold")]
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

impl Source {
    fn read(&self) -> Result<(Vec<Instance>, Predictions), Failure> {
        let instances = row::read(&self.dataset, &self.instance_ids)?;
        let mut predictions = if self.predictions == Path::new("gold") {
            Predictions::gold(&instances)
        } else {
            Predictions::read(&self.predictions)?
        };
        if !self.instance_ids.is_empty() {
            predictions.keep(&self.instance_ids);
        }
        predictions.check(&instances)?;
        Ok((instances, predictions))
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
