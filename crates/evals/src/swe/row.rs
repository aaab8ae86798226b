//! Instances of a data set, in every shape that they come in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value as Json;

use super::diff;
use super::error::SweError;
use super::grade::EvalType;
use super::log::Parser;
use super::plan::{InstallConfig, Recipe};
use super::records::records;

/// One instance: a repository at a commit, and the tests that a patch must mend and must not break.
#[derive(Debug, Clone)]
pub struct Instance {
    /// `OWNER__NAME-NUMBER`.
    pub id: String,
    /// `OWNER/NAME`.
    pub repo: String,
    /// The gold patch.
    pub patch: String,
    /// Tests that a patch must mend.
    pub fail_to_pass: Vec<String>,
    /// Tests that it must not break.
    pub pass_to_pass: Vec<String>,
    /// How the log is read; None where the row names a way that is not known.
    pub parser: Option<Parser>,
    /// What the row calls it.
    pub parser_name: Option<String>,
    /// How tests that the log does not name are taken.
    pub eval_type: EvalType,
    /// The commit that patches are for.
    pub base_commit: String,
    /// Of the project.
    pub version: String,
    /// The tests of the solution.
    pub test_patch: String,
    /// The whole script, in rows since version 5.
    pub eval_script: Option<String>,
    /// The environment, if the row or a file beside it describes it.
    pub recipe: Option<Recipe>,
    /// The same as SWE-rebench describes it.
    pub install_config: Option<InstallConfig>,
    /// The image that has it, in a daemon that keeps images.
    pub image: Option<String>,
    /// What breaks the tests, in SWE-smith: it is put into the tree before everything else.
    pub bug: Option<String>,
}

/// A row as it is in a file.
#[derive(Debug, Deserialize)]
struct Row {
    instance_id: String,
    #[serde(default)]
    repo: String,
    #[serde(default)]
    patch: String,
    #[serde(default, rename = "FAIL_TO_PASS", alias = "fail_to_pass")]
    fail_to_pass: Tests,
    #[serde(default, rename = "PASS_TO_PASS", alias = "pass_to_pass")]
    pass_to_pass: Tests,
    #[serde(default)]
    log_parser: Option<String>,
    #[serde(default)]
    eval_type: EvalType,
    #[serde(default)]
    install_config: Option<InstallConfig>,
    #[serde(default)]
    recipe: Option<Recipe>,
    #[serde(default)]
    base_commit: Option<String>,
    #[serde(default)]
    version: Option<String>,
    #[serde(default)]
    test_patch: Option<String>,
    #[serde(default)]
    eval_script: Option<String>,
    #[serde(default)]
    image_name: Option<String>,
    #[serde(default, alias = "docker_image")]
    image: Option<String>,
}

/// A list, or the text of one.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "Json")]
struct Tests(Vec<String>);

impl TryFrom<Json> for Tests {
    type Error = String;

    fn try_from(value: Json) -> Result<Self, String> {
        let list = match value {
            Json::String(text) => serde_json::from_str(&text).map_err(|error| format!("a list of tests: {error}"))?,
            Json::Null => Vec::new(),
            other => serde_json::from_value(other).map_err(|error| format!("a list of tests: {error}"))?,
        };
        Ok(Self(list))
    }
}

impl Row {
    /// The project and commit of a row of SWE-smith, whose repository is `swesmith/OWNER__NAME.COMMIT`.
    fn smith(&self) -> Option<(String, String)> {
        if self.image_name.is_none() || self.test_patch.is_some() {
            return None;
        }
        let name = self.repo.strip_prefix("swesmith/")?;
        let (project, commit) = name.rsplit_once('.')?;
        let (owner, name) = project.split_once("__")?;
        let is_commit = commit.len() >= 7 && commit.bytes().all(|c| c.is_ascii_hexdigit());
        is_commit.then(|| (format!("{owner}/{name}"), commit.to_owned()))
    }
}

impl From<Row> for Instance {
    fn from(mut row: Row) -> Self {
        let mut bug = None;
        if let Some((repo, commit)) = row.smith() {
            // There the patch is the bug, and what undoes it the solution.
            let patch = std::mem::take(&mut row.patch);
            row.patch = diff::reversed(&patch);
            bug = Some(patch);
            row.repo = repo;
            row.base_commit = Some(commit);
            row.log_parser.get_or_insert_with(|| "smith".to_owned());
        }
        let config = row.install_config.as_ref();
        let name = row.log_parser.or_else(|| config.and_then(|config| config.log_parser.clone()));
        let parser = match &name {
            Some(name) => Parser::named(name),
            // What the tests of any other project in Python are run by.
            None => Parser::of(&row.repo).or_else(|| Parser::named("pytest")),
        };
        Self {
            id: row.instance_id,
            repo: row.repo,
            patch: row.patch,
            fail_to_pass: row.fail_to_pass.0,
            pass_to_pass: row.pass_to_pass.0,
            parser,
            parser_name: name,
            eval_type: row.eval_type,
            base_commit: row.base_commit.unwrap_or_default(),
            version: row.version.unwrap_or_default(),
            test_patch: row.test_patch.unwrap_or_default(),
            eval_script: row.eval_script.filter(|script| !script.trim().is_empty()),
            recipe: row.recipe,
            install_config: row.install_config,
            image: row.image.or(row.image_name).filter(|image| !image.trim().is_empty()),
            bug,
        }
    }
}

/// Reads a data set: a list in a `.json` file, a table in a `.parquet` file, or one row on each line. With ids, only those,
/// which must all be there.
pub fn read(path: &Path, ids: &[String]) -> Result<Vec<Instance>, SweError> {
    let mut instances = Vec::new();
    let mut seen = BTreeMap::new();
    for (line, row) in records::<Row>(path)? {
        let instance = Instance::from(row);
        if let Some(first) = seen.insert(instance.id.clone(), line) {
            let why = format!("`{}` is there twice, first as number {first}", instance.id);
            return Err(SweError::Content { path: path.to_path_buf(), line: Some(line), why });
        }
        if ids.is_empty() || ids.contains(&instance.id) {
            instances.push(instance);
        }
    }
    let missing: BTreeSet<&String> = ids.iter().filter(|id| !seen.contains_key(*id)).collect();
    if missing.is_empty() {
        return Ok(instances);
    }
    Err(SweError::UnknownInstances(missing.into_iter().cloned().collect()))
}

/// Rows of a file as they are written, for whoever sends them elsewhere. With ids, only those, which must all be there.
pub fn raw(path: &Path, ids: &[String]) -> Result<Vec<Json>, SweError> {
    let is_wanted = |row: &Json| row["instance_id"].as_str().is_some_and(|id| ids.iter().any(|own| own == id));
    let rows: Vec<Json> = records::<Json>(path)?.into_iter().map(|(_, row)| row).collect();
    let rows: Vec<Json> = rows.into_iter().filter(|row| ids.is_empty() || is_wanted(row)).collect();
    let lacks = |id: &&String| !rows.iter().any(|row| row["instance_id"].as_str() == Some(id.as_str()));
    let missing: Vec<String> = ids.iter().filter(lacks).cloned().collect();
    if missing.is_empty() { Ok(rows) } else { Err(SweError::UnknownInstances(missing)) }
}

/// Takes rows as they came from somebody else; each instance may be there once.
pub fn take(rows: Vec<Json>) -> Result<Vec<Instance>, SweError> {
    let (mut instances, mut seen) = (Vec::with_capacity(rows.len()), BTreeSet::new());
    for (at, row) in rows.into_iter().enumerate() {
        let wrong = |why: String| SweError::Content { path: "instances".into(), line: Some(at + 1), why };
        let row: Row = serde_json::from_value(row).map_err(|error| wrong(error.to_string()))?;
        if !seen.insert(row.instance_id.clone()) {
            return Err(wrong(format!("`{}` is there twice", row.instance_id)));
        }
        instances.push(Instance::from(row));
    }
    Ok(instances)
}

/// Takes environments from a file, one JSON object a line with `instance_id` and `recipe`, over those of the rows.
pub fn take_environments(instances: &mut [Instance], path: &Path) -> Result<(), SweError> {
    /// A line of it.
    #[derive(Deserialize)]
    struct Environment {
        instance_id: String,
        recipe: Recipe,
    }
    for (_, Environment { instance_id, recipe }) in records::<Environment>(path)? {
        if let Some(instance) = instances.iter_mut().find(|instance| instance.id == instance_id) {
            instance.recipe = Some(recipe);
        }
    }
    Ok(())
}
