//! A folder of `OpenEvolve`'s as it is: `initial_program.*`, `evaluator.py` and, if it is there, a `config.yaml`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::beside::Beside;
use super::error::EvolveError;
use super::generator::{Choose, Edits, GeneratorKind, GeneratorSpec, ModelSpec};
use super::strategy::IslandsSpec;
use super::task::{Overrides, Spec, StrategyName, Written};
use super::yaml;

/// Files beside an evaluator that it may want, at most.
const MOST_FILES: usize = 200;
/// And how large they may be together.
const MOST_BYTES: u64 = 32 << 20;
/// What one evaluation may take, where the settings do not say.
const TIMEOUT_S: f64 = 300.0;

pub(super) fn load(folder: Beside<'_>, overrides: &Overrides) -> Result<Spec, EvolveError> {
    let names = folder.names()?;
    let program = names
        .iter()
        .find(|name| name.starts_with("initial_program."))
        .ok_or_else(|| EvolveError::Task("the folder has neither `task.toml` nor `initial_program.*`".to_owned()))?;
    if !names.iter().any(|name| name == "evaluator.py") {
        return Err(EvolveError::Task("the folder has no `evaluator.py`".to_owned()));
    }
    let is_config = |name: &&String| name.starts_with("config") && is_one_of(name, &["yaml", "yml"]);
    let config = names.iter().find(is_config);
    let config = match config {
        Some(name) => yaml::parse(&folder.text(Path::new(name))?)
            .map_err(|why| EvolveError::Task(format!("`{name}` cannot be read: {why}")))?,
        None => Value::Null,
    };
    let mut warnings = Vec::new();
    let mut written = written(&config, &mut warnings);
    written.program = Some(super::program::Written::Words(program.clone()));
    written.evaluator = Some(PathBuf::from("evaluator.py"));
    written.evaluator_files = beside(folder, &names, program);
    Spec::resolve(&written, folder, overrides, warnings)
}

/// All that makes a folder a task, and what its evaluator may want.
pub(super) fn files(folder: Beside<'_>) -> Result<Vec<PathBuf>, EvolveError> {
    let names = folder.names()?;
    let is_config = |name: &&String| name.starts_with("config") && is_one_of(name, &["yaml", "yml"]);
    let program = names.iter().find(|name| name.starts_with("initial_program.")).cloned().unwrap_or_default();
    let own = names.iter().filter(|name| **name == program || *name == "evaluator.py").map(PathBuf::from);
    let config = names.iter().find(is_config).map(PathBuf::from);
    Ok(own.chain(config).chain(beside(folder, &names, &program)).collect())
}

/// What else lies in the folder: an evaluator may read data, or import what is beside it.
fn beside(folder: Beside<'_>, names: &[String], program: &str) -> Vec<PathBuf> {
    let mut room = MOST_BYTES;
    let mut fits = |name: &&String| {
        let size = folder.size(name).unwrap_or(u64::MAX);
        let is_wanted = **name != program && *name != "evaluator.py" && !name.starts_with('.') && !is_ours(name);
        let fits = is_wanted && size <= room;
        room -= if fits { size } else { 0 };
        fits
    };
    names.iter().filter(|name| fits(name)).take(MOST_FILES).map(PathBuf::from).collect()
}

fn is_ours(name: &str) -> bool {
    name.starts_with("evolve.") || is_one_of(name, &["md", "png", "jpg", "pdf", "yaml", "yml"])
}

fn is_one_of(name: &str, endings: &[&str]) -> bool {
    let ending = Path::new(name).extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| endings.iter().any(|one| ending.eq_ignore_ascii_case(one)))
}

fn written(config: &Value, warnings: &mut Vec<String>) -> Written {
    let at = |path: &str| config.pointer(path).filter(|value| !value.is_null());
    let number = |path: &str| at(path).and_then(Value::as_f64);
    let count = |path: &str| at(path).and_then(Value::as_u64);
    let text = |path: &str| at(path).and_then(Value::as_str).map(str::to_owned);
    let evaluator = number("/evaluator/timeout").unwrap_or(TIMEOUT_S);
    let mut limits = toml::Table::new();
    limits.insert("wall_ms".to_owned(), (evaluator * 1000.0).into());
    if let Some(memory) = number("/evaluator/memory_limit_mb") {
        limits.insert("memory_mb".to_owned(), memory.into());
    }
    if let Some(cpus) = number("/evaluator/cpu_limit") {
        limits.insert("cpus".to_owned(), cpus.into());
    }
    let is_cascade = at("/evaluator/cascade_evaluation").and_then(Value::as_bool).unwrap_or(true);
    let thresholds = at("/evaluator/cascade_thresholds").and_then(Value::as_array);
    let thresholds = thresholds.map_or(vec![0.5, 0.75, 0.9], |all| all.iter().filter_map(Value::as_f64).collect());
    let islands = IslandsSpec::default();
    let every = count("/database/migration_interval").unwrap_or(islands.migration_every);
    let number_of_islands = count("/database/num_islands").and_then(|count| usize::try_from(count).ok()).unwrap_or(5);
    let share = |path: &str, usual: f64| number(path).unwrap_or(usual).clamp(0.0, 1.0);
    let explore = share("/database/exploration_ratio", 0.2);
    let exploit = share("/database/exploitation_ratio", 0.7).min(1.0 - explore);
    let islands = IslandsSpec {
        count: number_of_islands.max(1),
        bins: count("/database/feature_bins").and_then(|bins| usize::try_from(bins).ok()).unwrap_or(islands.bins),
        explore,
        exploit,
        migration_every: every.saturating_mul(number_of_islands.max(1) as u64),
        ..islands
    };
    if let Some(key) = text("/llm/api_key")
        && !key.starts_with("${")
    {
        warnings.push("`api_key` of config.yaml is not used: keys come from the environment".to_owned());
    }
    let is_diff = at("/diff_based_evolution").and_then(Value::as_bool).unwrap_or(true);
    Written {
        prompt: text("/prompt/system_message").unwrap_or_else(|| "Improve the program.".to_owned()),
        language: text("/language"),
        strategy: Some(StrategyName::Islands),
        max_iterations: count("/max_iterations"),
        seed: count("/random_seed").or(count("/database/random_seed")).unwrap_or(42),
        parallel: count("/evaluator/parallel_evaluations")
            .and_then(|count| usize::try_from(count).ok())
            .map(|n| n.clamp(1, 256)),
        thresholds: is_cascade.then_some(thresholds),
        // Only what their own program would refuse.
        max_code_length: count("/max_code_length").and_then(|count| usize::try_from(count).ok()),
        limits: Some(toml::Value::Table(limits)),
        islands: Some(islands),
        generator: GeneratorSpec {
            kind: GeneratorKind::Model,
            model: text("/llm/primary_model"),
            models: models(config),
            base_url: text("/llm/api_base"),
            api_key_env: text("/llm/api_key")
                .and_then(|key| Some(key.strip_prefix("${")?.strip_suffix('}')?.to_owned())),
            temperature: number("/llm/temperature"),
            max_tokens: count("/llm/max_tokens").and_then(|count| u32::try_from(count).ok()),
            timeout_ms: count("/llm/timeout").map(|seconds| seconds.saturating_mul(1000)),
            retries: count("/llm/retries").and_then(|count| u32::try_from(count).ok()),
            choose: Choose::Weights,
            edits: if is_diff { Edits::Diff } else { Edits::Full },
            ..GeneratorSpec::default()
        },
        ..Written::default()
    }
}

fn models(config: &Value) -> Vec<ModelSpec> {
    let model = |model: String, weight: Option<f64>, base_url: Option<String>| ModelSpec {
        model,
        provider: None,
        base_url,
        api_key_env: None,
        weight: weight.filter(|weight| *weight > 0.0).unwrap_or(1.0),
    };
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    if let Some(all) = config.pointer("/llm/models").and_then(Value::as_array) {
        let one = |value: &Value| {
            Some(model(text(value, "name")?, value.get("weight").and_then(Value::as_f64), text(value, "api_base")))
        };
        return all.iter().filter_map(one).collect();
    }
    let Some(llm) = config.get("llm") else { return Vec::new() };
    ["primary", "secondary"]
        .iter()
        .filter_map(|rank| {
            let weight = llm.get(format!("{rank}_model_weight")).and_then(Value::as_f64);
            Some(model(text(llm, &format!("{rank}_model"))?, weight, None)).filter(|_| weight != Some(0.0))
        })
        .collect()
}
