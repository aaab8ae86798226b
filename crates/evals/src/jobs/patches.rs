//! Patches on repositories that somebody else wants to have graded.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use engine::{Admission, Caller, JobSettings};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{JobError, Progress, Rules, Site, Step};
use crate::swe::edits::Edits;
use crate::swe::evaluation::{Evaluation, Ground, Options, Told};
use crate::swe::plan::Plan;
use crate::swe::prediction::{Prediction, Predictions};
use crate::swe::report::Tree;
use crate::swe::row::{self, Instance};
use crate::swe::steps;
use crate::swe::timing::Timing;

/// Instances of one job.
const MOST_INSTANCES: usize = 5_000;
/// Patches at once.
const MOST_WORKERS: usize = 8;
/// How often tests are run.
const MOST_REPEATS: u32 = 20;
/// For one patch, if nobody says.
const USUAL_TIME: Duration = Duration::from_mins(30);
/// And at most.
const MOST_TIME: Duration = Duration::from_hours(4);
/// The run's name in the official layout.
const RUN: &str = "job";

/// Patches, as they are sent.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SweOrder {
    /// Rows of a data set.
    pub instances: Vec<Value>,
    /// What is graded; the rows' own patches if absent.
    pub predictions: Option<Patches>,
    /// What becomes of edits that could decide the verdict.
    pub edits: Edits,
    /// How often tests are run; once if absent.
    pub repeat: Option<u32>,
    /// For one patch and its tests.
    pub timeout_ms: Option<u64>,
    /// Patches at once.
    pub workers: Option<usize>,
    /// Whether the rows are looked at in place of patches: do tests fail without the solution and pass with it?
    pub validate_gold: bool,
}

/// What is graded.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Patches {
    /// The word `gold`: the rows' own.
    Named(String),
    /// A list of predictions.
    Given(Vec<Prediction>),
}

/// Patches that can be graded.
pub struct Work {
    instances: Vec<Instance>,
    predictions: Predictions,
    options: Options,
    repositories: PathBuf,
    validate: bool,
}

impl SweOrder {
    pub(super) fn plan(&self, rules: &Rules<'_>) -> Result<Work, JobError> {
        let repositories = repositories(rules.settings)?;
        if self.instances.is_empty() {
            return Err(JobError::Form("`instances` is empty".to_owned()));
        }
        if self.instances.len() > MOST_INSTANCES {
            return Err(JobError::TooMuch(format!("a job has at most {MOST_INSTANCES} instances")));
        }
        let instances = row::take(self.instances.clone())?;
        let predictions = match &self.predictions {
            None => Predictions::gold(&instances),
            Some(Patches::Named(name)) if name == "gold" => Predictions::gold(&instances),
            Some(Patches::Named(_)) => {
                return Err(JobError::Form("`predictions` is a list, or the word `gold`".to_owned()));
            }
            Some(Patches::Given(all)) => all.iter().cloned().collect(),
        };
        predictions.check(&instances)?;
        let tree = Tree::new(Path::new(""), RUN)?;
        for prediction in predictions.by_id.values() {
            tree.instance(&prediction.model, &prediction.instance_id)?;
        }
        for instance in &instances {
            // Where they are is the owner's affair; that one is missing can be told.
            steps::find(&repositories, &instance.repo)
                .map_err(|error| JobError::from(error).without(&repositories, "the server's repositories"))?;
            Plan::of(instance)?;
        }
        let time = self.timeout_ms.map_or(USUAL_TIME, Duration::from_millis);
        let workers = self.workers.unwrap_or(1);
        let repeat = self.repeat.unwrap_or(1);
        let most = (rules.places / rules.settings.running.max(1)).clamp(1, MOST_WORKERS);
        if !(1..=most).contains(&workers) || !(1..=MOST_REPEATS).contains(&repeat) || time > MOST_TIME || time.is_zero()
        {
            return Err(JobError::TooMuch(format!(
                "a job has 1 to {most} `workers`, 1 to {MOST_REPEATS} times `repeat`, and at most four hours for a patch"
            )));
        }
        let options = Options {
            workers,
            time,
            edits: self.edits,
            repeat,
            again: false,
            repos: Some(repositories.clone()),
            origin: None,
            wheels: rules.settings.wheels.clone(),
            ground: Ground::Native,
        };
        Ok(Work { instances, predictions, options, repositories, validate: self.validate_gold })
    }
}

/// The owner's repositories, if patches of others may be tested on them.
fn repositories(settings: &JobSettings) -> Result<PathBuf, JobError> {
    let refuse = |what: &str, hint| JobError::NotAllowed { what: what.to_owned(), hint };
    let Some(folder) = &settings.repositories else {
        return Err(refuse(
            "this server has no repositories for jobs",
            "`repositories` in [jobs] of its settings names a folder of them",
        ));
    };
    if settings.wheels.is_none() && !settings.index {
        return Err(refuse(
            "this server has nothing to make environments from for jobs",
            "`wheels` in [jobs] of its settings names a folder, or `index = true` lets them use the index of packages",
        ));
    }
    Ok(folder.clone())
}

impl Work {
    pub(super) fn total(&self) -> u64 {
        if self.validate { self.instances.len() as u64 } else { self.predictions.by_id.len() as u64 }
    }

    pub(super) async fn carry_out(&self, site: &Site) -> Result<Value, JobError> {
        let tree = Tree::new(&site.folder, RUN)?;
        tree.begin(Path::new("instances"))?;
        // The job was counted as a whole.
        let caller = Caller { admission: Admission::Done, ..site.caller.clone() };
        let evaluation = Evaluation::new(Arc::clone(&site.engine), caller, self.options.clone(), tree.clone());
        let evaluation = Arc::new(evaluation);
        let hidden = [site.folder.clone(), self.repositories.clone()];
        let (listener, done) = (Arc::clone(&site.listener), AtomicU64::new(0));
        let shown = hidden.clone();
        let tell = Arc::new(move |told: &Told, total: usize| {
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            let progress = Progress { done, total: total as u64, best: None };
            listener(Step { name: "instance", data: without(json!(told), &shown), progress });
        });
        let began = Instant::now();
        let told = if self.validate {
            evaluation.validate(&self.instances, tell).await?
        } else {
            evaluation.run(&self.instances, &self.predictions, tell).await?
        };
        let timing = Timing::of(&told, self.options.workers, began.elapsed(), evaluation.made());
        tree.time(&timing)?;
        let told: Vec<Value> = told.iter().map(|told| without(json!(told), &hidden)).collect();
        if self.validate {
            return Ok(json!({"id": site.id, "instances": told}));
        }
        let (_, summary) = tree.summarise(&self.instances, &self.predictions, &site.folder)?;
        Ok(json!({"id": site.id, "summary": summary, "instances": told}))
    }
}

/// What is told of an instance, without paths of this host.
fn without(mut told: Value, paths: &[PathBuf]) -> Value {
    if let Some(note) = told["note"].as_str() {
        let mut note = note.to_owned();
        for path in paths {
            note = note.replace(&*path.to_string_lossy(), "…");
        }
        told["note"] = note.into();
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(order: Value, settings: &JobSettings) -> Result<Work, JobError> {
        let order: SweOrder = serde_json::from_value(order).unwrap();
        order.plan(&Rules { settings, places: 32, earlier: &|_| None })
    }

    fn row(repo: &str) -> Value {
        json!({"instance_id": "o__n-1", "repo": repo, "base_commit": "0".repeat(40), "patch": "", "test_patch": "",
            "recipe": {"python": "3.11", "pip": ["pytest"], "test_cmd": "pytest"}, "FAIL_TO_PASS": [], "PASS_TO_PASS": []})
    }

    #[test]
    fn only_repositories_that_the_settings_name_are_used() {
        let folder = std::env::temp_dir().join(engine::new_id("saggar-mirrors"));
        std::fs::create_dir_all(folder.join("o__n/.git/objects")).unwrap();
        std::fs::write(folder.join("o__n/.git/HEAD"), "").unwrap();
        let order = |repo: &str| json!({"instances": [row(repo)]});
        let code = |order: Value, settings: &JobSettings| json!(plan(order, settings).err().unwrap().body().code);
        assert_eq!(code(order("o/n"), &JobSettings::default()), "forbidden");
        let named = JobSettings { repositories: Some(folder.clone()), ..JobSettings::default() };
        assert_eq!(code(order("o/n"), &named), "forbidden", "environments need somewhere to come from");
        let settings = JobSettings { index: true, ..named };
        assert!(plan(order("o/n"), &settings).is_ok());
        for repo in ["o/other", "../n", "/etc", "o/n/..", ""] {
            let error = plan(order(repo), &settings).err().unwrap();
            assert!(!error.body().message.contains(&*folder.to_string_lossy()), "{error}");
        }
        for wrong in [
            json!({"instances": []}),
            json!({"instances": [row("o/n"), row("o/n")]}),
            json!({"instances": [row("o/n")], "predictions": "silver"}),
            json!({"instances": [row("o/n")], "predictions": [{"instance_id": "x"}]}),
            json!({"instances": [row("o/n")], "predictions": [{"instance_id": "o__n-1", "model_name_or_path": ".."}]}),
        ] {
            assert_eq!(code(wrong.clone(), &settings), "invalid_request", "{wrong}");
        }
        assert_eq!(code(json!({"instances": [row("o/n")], "workers": 1000}), &settings), "invalid_limit");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
