//! What a task says of scores: cases of the judge's, or an evaluator with the files beside it.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::beside::Beside;
use super::error::EvolveError;
use super::stage::{self, Stage};
use super::task::Written;
use crate::judge::Task;

/// What a program is worth.
#[derive(Debug, Clone)]
pub enum Scoring {
    /// By the judge's cases; their program is to be filled in.
    Cases(Box<Task>),
    /// By a program that returns numbers.
    Evaluator(Box<EvaluatorSpec>),
}

impl Scoring {
    pub(super) fn task_mut(&mut self) -> &mut Task {
        match self {
            Self::Cases(task) => task,
            Self::Evaluator(evaluator) => &mut evaluator.task,
        }
    }
}

/// A program that returns numbers about a program.
#[derive(Debug, Clone, Default)]
pub struct EvaluatorSpec {
    /// Its text.
    pub source: String,
    /// Files beside it, for it alone.
    pub files: Vec<types::InputFile>,
    /// The judge's task for both sandboxes, without cases.
    pub task: Task,
    /// The score from which on the next stage is worth its time.
    pub thresholds: Option<Vec<f64>>,
    /// Stages with limits of their own, in place of thresholds alone.
    pub stages: Vec<Stage>,
    /// Which number is the score; `combined_score`, or the mean of all, if absent.
    pub score: Option<String>,
}

/// What makes a score.
pub(super) fn scoring(written: &Written, language: &str, beside: Beside<'_>) -> Result<Scoring, EvolveError> {
    let Written { setup, entry, module, .. } = written;
    let mut cases: Vec<serde_json::Value> = Vec::new();
    for (index, test) in written.tests.iter().enumerate() {
        cases.push(json!({"name": format!("test {}", index + 1), "test": test}));
    }
    for case in &written.cases {
        cases.push(from_toml(case)?);
    }
    cases.extend(written.json_cases.iter().cloned());
    for (index, test) in written.hidden_tests.iter().enumerate() {
        cases.push(json!({"name": format!("hidden {}", index + 1), "test": test, "hidden": true}));
    }
    let mut task = json!({"language": language, "setup": setup, "entry": entry, "module": module, "env": written.env});
    let judges = [
        ("limits", &written.limits),
        ("policy", &written.policy),
        ("network", &written.network),
        ("groups", &written.groups),
        ("determinism", &written.determinism),
        ("sharing", &written.sharing),
        ("stop", &written.stop),
    ];
    for (name, value) in judges {
        if let Some(value) = value {
            task[name] = from_toml(value)?;
        }
    }
    task["files"] = written.files.iter().map(from_toml).collect::<Result<_, _>>()?;
    let is_tested = !cases.is_empty();
    task["cases"] = cases.into();
    let task = Task::from_json(&task.to_string())?;
    match (&written.evaluator, is_tested) {
        (Some(_), true) => {
            Err(EvolveError::Task("it has an `evaluator` and tests: a score comes from one of them".to_owned()))
        }
        (None, false) => Err(EvolveError::Task(
            "it has neither `tests` nor `cases` nor an `evaluator`: nothing would tell a good program from a bad one"
                .to_owned(),
        )),
        (None, true) if !written.stages.is_empty() => {
            Err(EvolveError::Task("`stages` are those of an `evaluator`, and there is none".to_owned()))
        }
        (None, true) => Ok(Scoring::Cases(Box::new(task))),
        (Some(path), false) => {
            let files = written.evaluator_files.iter().map(|file| input(beside, file)).collect::<Result<_, _>>()?;
            Ok(Scoring::Evaluator(Box::new(EvaluatorSpec {
                source: beside.text(path)?,
                files,
                task,
                thresholds: written.thresholds.clone(),
                stages: stage::read(&written.stages, written.thresholds.as_deref())?,
                score: written.score.clone(),
            })))
        }
    }
}

/// A file beside the task, for the evaluator's sandbox.
pub(super) fn input(beside: Beside<'_>, file: &Path) -> Result<types::InputFile, EvolveError> {
    let bytes = beside.bytes(file)?;
    let place = types::RelPath::new(file.to_string_lossy())
        .map_err(|_| EvolveError::Task(format!("`{}` leads out of the task's folder", file.display())))?;
    let content = match String::from_utf8(bytes) {
        Ok(text) => types::FileContent::Text(text),
        Err(error) => types::FileContent::Base64(STANDARD.encode(error.as_bytes())),
    };
    Ok(types::InputFile { path: place, content })
}

fn from_toml(value: &toml::Value) -> Result<serde_json::Value, EvolveError> {
    serde_json::to_value(value).map_err(|error| EvolveError::Task(error.to_string()))
}
