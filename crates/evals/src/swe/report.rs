//! The files of the official harness, with its names and keys.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Statuses;
use super::edits::Edits;
use super::error::SweError;
use super::grade::{self, Resolution, TestsStatus};
use super::integrity::Integrity;
use super::prediction::{Prediction, Predictions};
use super::row::Instance;
use super::signs::{self, Weight};
use super::timing::Timing;

/// What is said of one instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "the format's own fields")]
pub struct Report {
    /// There was no patch at all.
    #[serde(rename = "patch_is_None")]
    pub patch_is_none: bool,
    /// There was one.
    pub patch_exists: bool,
    /// A log was found that can be graded.
    pub patch_successfully_applied: bool,
    /// Every test passes that must.
    pub resolved: bool,
    /// The log cannot be graded, and the environment is at fault.
    #[serde(default)]
    pub infra_failure: bool,
    /// What the log shows of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infra_failure_reason: Option<String>,
    /// Each test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests_status: Option<TestsStatus>,
    /// What an honest patch does not do; only where something of it was seen. Not in the official format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrity: Option<Integrity>,
}

impl Report {
    /// Grades a log.
    #[must_use]
    pub fn of(instance: &Instance, prediction: &Prediction, log: &str) -> Self {
        if prediction.patch.is_none() {
            return Self { patch_is_none: true, ..Self::default() };
        }
        let report = Self { patch_exists: true, ..Self::default() };
        let Some(statuses) = instance.parser.and_then(|parser| grade::read_log(log, parser)) else {
            let sign = signs::found(log);
            return Self {
                infra_failure: sign.is_some_and(|(_, weight)| weight == Weight::Environment),
                infra_failure_reason: sign.map(|(reason, _)| reason.to_owned()),
                ..report
            };
        };
        let graded = grade::grade(&statuses, &instance.fail_to_pass, &instance.pass_to_pass, instance.eval_type);
        Self {
            patch_successfully_applied: true,
            resolved: graded.resolution() == Resolution::Full,
            tests_status: Some(graded),
            ..report
        }
    }

    /// Takes other statuses in place of the log's.
    pub(super) fn regrade(&mut self, instance: &Instance, statuses: &Statuses) {
        let graded = grade::grade(statuses, &instance.fail_to_pass, &instance.pass_to_pass, instance.eval_type);
        self.resolved = graded.resolution() == Resolution::Full;
        self.patch_successfully_applied = true;
        self.tests_status = Some(graded);
    }

    /// The report in a folder, if there is one that can be read.
    pub(super) fn read(folder: &Path, id: &str) -> Result<Option<Self>, SweError> {
        let Some(content) = text(&folder.join("report.json"))? else { return Ok(None) };
        let reports = serde_json::from_str::<BTreeMap<String, Self>>(&content).ok();
        Ok(reports.and_then(|mut reports| reports.remove(id)))
    }

    /// Writes `integrity.json` and, last, `report.json`.
    pub(super) fn write(&self, id: &str, folder: &Path, edits: Edits) -> Result<(), SweError> {
        let mut report = self.clone();
        if let Some(integrity) = report.integrity.take() {
            write(&folder.join("integrity.json"), &integrity)?;
            report.integrity = Some(integrity).filter(|seen| edits == Edits::Strict && seen.is_suspicious());
        }
        write(&folder.join("report.json"), &BTreeMap::from([(id, &report)]))
    }
}

/// Where the files of a run are: `logs/run_evaluation/RUN/MODEL/INSTANCE`.
#[derive(Debug, Clone)]
pub struct Tree {
    run: PathBuf,
    id: String,
}

impl Tree {
    /// The tree of a run below a folder.
    pub fn new(folder: &Path, run: &str) -> Result<Self, SweError> {
        Ok(Self { run: folder.join("logs/run_evaluation").join(single(run)?), id: run.to_owned() })
    }

    /// Writes down what the run is about.
    pub fn begin(&self, dataset: &Path) -> Result<(), SweError> {
        let path = self.run.join("run.json");
        std::fs::create_dir_all(&self.run).map_err(|source| SweError::File { path: self.run.clone(), source })?;
        if path.exists() {
            return Ok(());
        }
        let created = types::Timestamp::from(std::time::SystemTime::now());
        let about = serde_json::json!({"dataset": dataset, "split": null, "task_repo": null, "created_at": created});
        write(&path, &about)
    }

    /// Writes down what the run took.
    pub fn time(&self, timing: &Timing) -> Result<PathBuf, SweError> {
        let path = self.run.join("timing.json");
        write(&path, timing)?;
        Ok(path)
    }

    /// The folder of an instance.
    pub fn instance(&self, model: &str, id: &str) -> Result<PathBuf, SweError> {
        Ok(self.run.join(single(&model.replace('/', "__"))?).join(single(id)?))
    }

    /// Grades the log of an instance that ran, and writes its `report.json`. None where there is no log.
    pub fn grade(&self, instance: &Instance, prediction: &Prediction) -> Result<Option<Report>, SweError> {
        let folder = self.instance(&prediction.model, &instance.id)?;
        let Some(log) = text(&folder.join("test_output.txt"))? else { return Ok(None) };
        let report = Report::of(instance, prediction, &log);
        write(&folder.join("report.json"), &BTreeMap::from([(&instance.id, &report)]))?;
        Ok(Some(report))
    }

    /// Writes what has become of all, from what is in the tree.
    pub fn summarise(
        &self,
        instances: &[Instance],
        predictions: &Predictions,
        folder: &Path,
    ) -> Result<(PathBuf, Summary), SweError> {
        let mut summary = Summary::new(instances.len(), predictions);
        for instance in instances {
            match predictions.by_id.get(&instance.id) {
                None => drop(summary.incomplete_ids.insert(instance.id.clone())),
                Some(prediction) if prediction.is_empty() => {
                    summary.empty_patch_ids.insert(instance.id.clone());
                }
                Some(prediction) => self.add(&mut summary, &instance.id, &prediction.model)?,
            }
        }
        summary.count();
        let name = format!("{}.{}.json", predictions.model.replace('/', "__"), self.id);
        let path = folder.join(single(&name)?);
        std::fs::create_dir_all(folder).map_err(|source| SweError::File { path: folder.to_path_buf(), source })?;
        write(&path, &summary)?;
        Ok((path, summary))
    }

    fn add(&self, summary: &mut Summary, id: &str, model: &str) -> Result<(), SweError> {
        let folder = self.instance(model, id)?;
        let exists = text(&folder.join("report.json"))?.is_some();
        if exists {
            summary.completed_ids.insert(id.to_owned());
        }
        let ids = match Report::read(&folder, id)? {
            None => &mut summary.error_ids,
            Some(report) if report.resolved => {
                summary.resolved_ids.insert(id.to_owned());
                return Ok(());
            }
            Some(_) => &mut summary.unresolved_ids,
        };
        ids.insert(id.to_owned());
        let logs = [text(&folder.join("test_output.txt"))?, text(&folder.join("run_instance.log"))?];
        let logs: Vec<String> = logs.into_iter().flatten().collect();
        if let Some((reason, weight)) = signs::found(&logs.join("\n")) {
            let ids = match weight {
                Weight::Environment => &mut summary.infra_failure_ids,
                Weight::Ambiguous => &mut summary.ambiguous_failure_ids,
            };
            ids.insert(id.to_owned());
            summary.failure_reasons.insert(id.to_owned(), reason.to_owned());
        }
        Ok(())
    }
}

/// What has become of all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the format's own names")]
pub struct Summary {
    pub total_instances: usize,
    pub submitted_instances: usize,
    pub completed_instances: usize,
    pub resolved_instances: usize,
    pub unresolved_instances: usize,
    pub infra_failure_instances: usize,
    pub ambiguous_failure_instances: usize,
    pub empty_patch_instances: usize,
    pub error_instances: usize,
    pub completed_ids: BTreeSet<String>,
    pub incomplete_ids: BTreeSet<String>,
    pub empty_patch_ids: BTreeSet<String>,
    pub submitted_ids: BTreeSet<String>,
    pub resolved_ids: BTreeSet<String>,
    pub unresolved_ids: BTreeSet<String>,
    pub infra_failure_ids: BTreeSet<String>,
    pub ambiguous_failure_ids: BTreeSet<String>,
    pub failure_reasons: BTreeMap<String, String>,
    pub error_ids: BTreeSet<String>,
    pub schema_version: u32,
}

impl Summary {
    fn new(total: usize, predictions: &Predictions) -> Self {
        Self {
            total_instances: total,
            submitted_instances: predictions.by_id.len(),
            submitted_ids: predictions.by_id.keys().cloned().collect(),
            schema_version: 2,
            ..Self::default()
        }
    }

    fn count(&mut self) {
        self.completed_instances = self.completed_ids.len();
        self.resolved_instances = self.resolved_ids.len();
        self.unresolved_instances = self.unresolved_ids.len();
        self.infra_failure_instances = self.infra_failure_ids.len();
        self.ambiguous_failure_instances = self.ambiguous_failure_ids.len();
        self.empty_patch_instances = self.empty_patch_ids.len();
        self.error_instances = self.error_ids.len();
    }
}

/// A name that is one part of a path.
fn single(name: &str) -> Result<&str, SweError> {
    let mut parts = Path::new(name).components();
    let is_single = matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name);
    if is_single && !name.contains('\0') { Ok(name) } else { Err(SweError::Name(name.to_owned())) }
}

/// What a file holds; None where there is none. Bytes that are no text are replaced.
fn text(path: &Path) -> Result<Option<String>, SweError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(SweError::File { path: path.to_path_buf(), source }),
    }
}

/// Writes a text whole or not at all.
pub(super) fn write_text(path: &Path, text: &str) -> Result<(), SweError> {
    put(path, text.as_bytes())
}

/// Writes JSON whole or not at all, with the indentation of the official files.
fn write(path: &Path, value: &impl Serialize) -> Result<(), SweError> {
    let failed = |source| SweError::File { path: path.to_path_buf(), source };
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    value.serialize(&mut serializer).map_err(|error| failed(error.into()))?;
    put(path, &bytes)
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), SweError> {
    let failed = |source| SweError::File { path: path.to_path_buf(), source };
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    std::fs::write(&beside, bytes).map_err(failed)?;
    std::fs::rename(&beside, path).map_err(failed)
}
