//! Instances of a data set, in every shape that they come in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value as Json;

use super::error::SweError;
use super::grade::EvalType;
use super::log::Parser;
use super::plan::{InstallConfig, Recipe};

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
    /// How the log is read; None where neither the row nor the project's name tells.
    pub parser: Option<Parser>,
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

impl From<Row> for Instance {
    fn from(row: Row) -> Self {
        let config = row.install_config.as_ref();
        let name = row.log_parser.or_else(|| config.and_then(|config| config.log_parser.clone()));
        let parser = match &name {
            Some(name) => Parser::named(name),
            None => Parser::of(&row.repo),
        };
        Self {
            id: row.instance_id,
            repo: row.repo,
            patch: row.patch,
            fail_to_pass: row.fail_to_pass.0,
            pass_to_pass: row.pass_to_pass.0,
            parser,
            eval_type: row.eval_type,
            base_commit: row.base_commit.unwrap_or_default(),
            version: row.version.unwrap_or_default(),
            test_patch: row.test_patch.unwrap_or_default(),
            eval_script: row.eval_script.filter(|script| !script.trim().is_empty()),
            recipe: row.recipe,
            install_config: row.install_config,
        }
    }
}

/// Reads a data set: a list in a `.json` file, or one row on each line. With ids, only those, which must all be there.
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

/// Objects of a `.json` file (a list, or the values of an object) or of one with an object on each line; each with its
/// number or line.
pub(super) fn records<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Vec<(usize, T)>, SweError> {
    let text = std::fs::read_to_string(path).map_err(|source| SweError::File { path: path.to_path_buf(), source })?;
    let wrong = |line: usize, why: String| SweError::Content { path: path.to_path_buf(), line: Some(line), why };
    if path.extension().is_some_and(|extension| extension == "json") {
        let whole: Json = serde_json::from_str(&text).map_err(|error| wrong(error.line(), error.to_string()))?;
        let values: Vec<Json> = match whole {
            Json::Array(values) => values,
            Json::Object(values) => values.into_iter().map(|(_, value)| value).collect(),
            _ => return Err(wrong(1, "it is neither a list nor an object".to_owned())),
        };
        let numbered = values.into_iter().enumerate();
        return numbered
            .map(|(at, value)| match serde_json::from_value(value) {
                Ok(record) => Ok((at + 1, record)),
                Err(error) => Err(wrong(at + 1, error.to_string())),
            })
            .collect();
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| match serde_json::from_str(line) {
            Ok(record) => Ok((at + 1, record)),
            Err(error) => Err(wrong(at + 1, error.to_string())),
        })
        .collect()
}
