//! A task as its author writes it, and what becomes of it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::beside::{Beside, read_text};
use super::error::EvolveError;
use super::generator::{GeneratorKind, GeneratorSpec};
use super::program::{self, Program};
use super::scoring::{Scoring, input, scoring};
use super::stage;
use super::strategy::StrategySpec;
use super::tree;

/// Iterations of a line of repairs, where the task does not say.
const REPAIRS: u64 = 5;
/// Iterations of the other strategies, where the task does not say.
const ITERATIONS: u64 = 100;
/// Proposals that are made and tried at once. The same on every machine: it is part of the history.
const PARALLEL: usize = 4;

/// A task with nothing left to look up.
#[derive(Debug, Clone)]
pub struct Spec {
    /// What is wanted, in words.
    pub prompt: String,
    /// As the judge names it.
    pub language: String,
    /// What cases call, if they call.
    pub entry: String,
    /// Where it starts: a program, or the files of a tree as one text.
    pub program: Option<String>,
    /// The file of a tree that is run.
    pub main: Option<String>,
    /// What a program is worth.
    pub scoring: Scoring,
    /// Whom the next program comes from.
    pub strategy: StrategySpec,
    /// Who proposes programs.
    pub generator: GeneratorSpec,
    /// How much may be spent.
    pub budget: Budget,
    /// The score that ends it.
    pub target: Option<f64>,
    /// The one source of chance.
    pub seed: u64,
    /// Proposals at once.
    pub parallel: usize,
    /// How often each program is tried.
    pub repeat: u32,
    /// The longest program.
    pub most_code: usize,
    /// Where relative paths are looked for.
    pub folder: PathBuf,
    /// What of the task makes its history: everything but budgets and target.
    pub fingerprint: String,
    /// What its author should know.
    pub warnings: Vec<String>,
}

/// How much may be spent. Calls that are under way when a limit is reached are not taken back.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Budget {
    /// Proposals.
    pub iterations: u64,
    /// Programs tried; those that were known already do not count.
    pub evaluations: Option<u64>,
    /// Time, over all its interruptions.
    pub wall: Option<Duration>,
    /// Tokens, sent and written.
    pub tokens: Option<u64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
}

/// What a caller says over a task.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// In place of the task's own.
    pub iterations: Option<u64>,
    /// In place of the task's own.
    pub target: Option<f64>,
    /// In place of the task's own.
    pub seed: Option<u64>,
    /// In place of all of the task's own.
    pub model: Option<String>,
    /// In place of the task's own.
    pub base_url: Option<String>,
}

/// The file as written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Written {
    pub(super) prompt: String,
    pub(super) language: Option<String>,
    pub(super) entry: String,
    pub(super) module: String,
    pub(super) setup: String,
    pub(super) tests: Vec<String>,
    pub(super) hidden_tests: Vec<String>,
    pub(super) cases: Vec<toml::Value>,
    /// The same for tasks that are no TOML: it has no word for nothing.
    #[serde(skip)]
    pub(super) json_cases: Vec<serde_json::Value>,
    pub(super) evaluator: Option<PathBuf>,
    pub(super) evaluator_files: Vec<PathBuf>,
    pub(super) thresholds: Option<Vec<f64>>,
    pub(super) stages: Vec<stage::Written>,
    pub(super) score: Option<String>,
    #[serde(alias = "initial_program", alias = "starting_program", alias = "initial_code", alias = "initial")]
    #[serde(alias = "seed_program", alias = "start", alias = "code")]
    pub(super) program: Option<program::Written>,
    pub(super) main: Option<String>,
    pub(super) strategy: Option<StrategyName>,
    pub(super) max_iterations: Option<u64>,
    pub(super) max_evaluations: Option<u64>,
    pub(super) max_wall_ms: Option<u64>,
    pub(super) max_tokens: Option<u64>,
    pub(super) max_cost_usd: Option<f64>,
    pub(super) target_score: Option<f64>,
    pub(super) seed: u64,
    pub(super) parallel: Option<usize>,
    pub(super) repeat: Option<u32>,
    pub(super) max_code_length: Option<usize>,
    pub(super) generator: GeneratorSpec,
    pub(super) islands: Option<super::strategy::IslandsSpec>,
    // What follows is the judge's, in the judge's words.
    pub(super) limits: Option<toml::Value>,
    pub(super) files: Vec<toml::Value>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) policy: Option<toml::Value>,
    pub(super) network: Option<toml::Value>,
    pub(super) groups: Option<toml::Value>,
    pub(super) determinism: Option<toml::Value>,
    pub(super) sharing: Option<toml::Value>,
    pub(super) stop: Option<toml::Value>,
}

/// Whom the next program comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StrategyName {
    #[default]
    Repair,
    BestOfN,
    Islands,
    Pareto,
}

impl Spec {
    /// Reads a task: a TOML file, or a folder of `OpenEvolve`'s.
    pub fn load(path: &Path, overrides: &Overrides) -> Result<Self, EvolveError> {
        if path.is_dir() && !path.join("task.toml").is_file() {
            return super::folder::load(Beside::Folder(path), overrides);
        }
        let path = if path.is_dir() { path.join("task.toml") } else { path.to_path_buf() };
        let text = read_text(&path)?;
        let written: Written =
            toml::from_str(&text).map_err(|source| EvolveError::Toml { source: Box::new(source) })?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Self::resolve(&written, Beside::Folder(folder), overrides, Vec::new())
    }

    /// Reads a task that came from somebody else, with its files: an object of the fields that a TOML file has, or else
    /// what the files are by themselves. No file of this host is looked at, whatever it names.
    pub fn carried(
        task: Option<&serde_json::Value>,
        files: &BTreeMap<String, Vec<u8>>,
        overrides: &Overrides,
    ) -> Result<Self, EvolveError> {
        let beside = Beside::Carried(files);
        let written = match task {
            Some(task) => from_json(task)?,
            None if beside.has(Path::new("task.toml")) => toml::from_str(&beside.text(Path::new("task.toml"))?)
                .map_err(|source| EvolveError::Toml { source: Box::new(source) })?,
            None => return super::folder::load(beside, overrides),
        };
        Self::resolve(&written, beside, overrides, Vec::new())
    }

    /// Files that a task on this host names, and the task itself, for whoever sends it elsewhere: by their names there.
    pub fn files_of(path: &Path) -> Result<Vec<types::InputFile>, EvolveError> {
        if path.is_dir() && !path.join("task.toml").is_file() {
            let beside = Beside::Folder(path);
            return super::folder::files(beside)?.iter().map(|name| input(beside, name)).collect();
        }
        let path = if path.is_dir() { path.join("task.toml") } else { path.to_path_buf() };
        let text = read_text(&path)?;
        let written: Written =
            toml::from_str(&text).map_err(|source| EvolveError::Toml { source: Box::new(source) })?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let beside = Beside::Folder(folder);
        let program: Vec<PathBuf> = match &written.program {
            Some(program::Written::Words(words)) => vec![PathBuf::from(words)],
            Some(program::Written::Files(files)) => files.iter().map(PathBuf::from).collect(),
            None => Vec::new(),
        };
        let is_file = |name: &PathBuf| !name.to_string_lossy().contains('\n') && beside.has(name);
        let named = program.into_iter().filter(is_file).chain(written.evaluator).chain(written.evaluator_files);
        let mut files = named.map(|name| input(beside, &name)).collect::<Result<Vec<_>, _>>()?;
        let name = types::RelPath::new("task.toml").map_err(|_| EvolveError::Task("it has no name".to_owned()))?;
        files.push(types::InputFile { path: name, content: types::FileContent::Text(text) });
        Ok(files)
    }

    pub(super) fn resolve(
        written: &Written,
        beside: Beside<'_>,
        overrides: &Overrides,
        warnings: Vec<String>,
    ) -> Result<Self, EvolveError> {
        let wrong = |why: &str| EvolveError::Task(why.to_owned());
        let program = written.program.as_ref().map(|words| program::read(words, written.main.as_deref(), beside));
        let program = program.transpose()?;
        let language = match (&written.language, &program) {
            (Some(language), _) | (None, Some(Program { language: Some(language), .. })) => language.clone(),
            _ => "python".to_owned(),
        };
        let name = written.strategy.unwrap_or_default();
        let mut generator = written.generator.clone();
        if let Some(model) = &overrides.model {
            generator.model = Some(model.clone());
            generator.models.clear();
        }
        if let Some(base_url) = &overrides.base_url {
            generator.base_url = Some(base_url.clone());
            for model in &mut generator.models {
                model.base_url = None;
            }
        }
        let islands = written.islands.clone().unwrap_or_default();
        islands.check().map_err(|why| EvolveError::Task(why.to_owned()))?;
        let strategy = match name {
            StrategyName::Repair => StrategySpec::Repair,
            StrategyName::BestOfN => StrategySpec::BestOfN,
            StrategyName::Islands => StrategySpec::Islands(islands),
            StrategyName::Pareto => StrategySpec::Pareto,
        };
        let mut scoring = scoring(written, &language, beside)?;
        let (start, main) = match program {
            Some(Program { text, main, fixed, .. }) => {
                scoring.task_mut().files.extend(fixed);
                (Some(text), main)
            }
            None => (None, None),
        };
        let target = overrides.target.or(written.target_score);
        let target = target.or(matches!(scoring, Scoring::Cases(_)).then_some(1.0));
        if target.is_some_and(|target| !target.is_finite()) {
            return Err(wrong("`target_score` must be a number"));
        }
        let parallel = written.parallel.unwrap_or(PARALLEL);
        let repeat = written.repeat.unwrap_or(1);
        if !(1..=256).contains(&parallel) || !(1..=1000).contains(&repeat) {
            return Err(wrong("`parallel` must be from 1 to 256, `repeat` from 1 to 1000"));
        }
        if written.max_cost_usd.is_some_and(|cost| !(cost.is_finite() && cost >= 0.0)) {
            return Err(wrong("`max_cost_usd` must be an amount of money"));
        }
        let most = if matches!(strategy, StrategySpec::Repair) { REPAIRS } else { ITERATIONS };
        let mut spec = Self {
            prompt: written.prompt.clone(),
            language,
            entry: written.entry.clone(),
            program: start,
            main,
            scoring,
            // One line has one next step.
            parallel: if matches!(strategy, StrategySpec::Repair) { 1 } else { parallel },
            strategy,
            generator,
            budget: Budget {
                iterations: overrides.iterations.or(written.max_iterations).unwrap_or(most),
                evaluations: written.max_evaluations,
                wall: written.max_wall_ms.map(Duration::from_millis),
                tokens: written.max_tokens,
                cost_usd: written.max_cost_usd,
            },
            target,
            seed: overrides.seed.unwrap_or(written.seed),
            repeat,
            most_code: written.max_code_length.unwrap_or(100_000),
            folder: beside.folder(),
            fingerprint: String::new(),
            warnings,
        };
        spec.check()?;
        spec.fingerprint = spec.print(written);
        Ok(spec)
    }

    fn check(&self) -> Result<(), EvolveError> {
        let wrong = |why: &str| Err(EvolveError::Task(why.to_owned()));
        let generator = &self.generator;
        match generator.kind {
            GeneratorKind::Model if generator.model.is_none() && generator.models.is_empty() => {
                return wrong("`model` of [generator] is missing");
            }
            GeneratorKind::Model
                if generator.models.iter().any(|model| model.weight.is_nan() || model.weight <= 0.0) =>
            {
                return wrong("`weight` of a model must be above 0");
            }
            GeneratorKind::Command if generator.command.is_empty() => {
                return wrong("`command` of [generator] is missing: the program and its arguments, as a list");
            }
            GeneratorKind::Replay if generator.from.is_none() => {
                return wrong("`from` of [generator] is missing: the run to replay, by its id or folder");
            }
            GeneratorKind::Manual if generator.queue.is_none() => {
                return wrong("`queue` of [generator] is missing: a folder for questions and answers");
            }
            GeneratorKind::Mutate if self.program.is_none() => {
                return wrong("`program` is missing: mutators need a program to start from");
            }
            GeneratorKind::Mutate if !self.is_python() => {
                return wrong("mutators know Python alone");
            }
            GeneratorKind::Mutate if !self.program.as_deref().is_some_and(tree::is_mutable) => {
                return wrong("`program` cannot be read as Python, so that mutators could not change it");
            }
            _ => {}
        }
        if self.prompt.trim().is_empty() && self.program.is_none() {
            return wrong("it has neither `prompt` nor `program`");
        }
        if let Some(program) = &self.program {
            super::blocks::check_all(program).map_err(|why| EvolveError::Task(why.to_owned()))?;
        }
        Ok(())
    }

    /// Whether programs are Python.
    #[must_use]
    pub fn is_python(&self) -> bool {
        matches!(self.language.as_str(), "python" | "python3" | "py")
    }

    /// What a file of the language ends with.
    #[must_use]
    pub fn suffix(&self) -> &'static str {
        match self.language.as_str() {
            "python" | "python3" | "py" => "py",
            "node" | "javascript" | "js" => "js",
            "typescript" | "ts" => "ts",
            "bash" | "sh" => "sh",
            "cpp" | "c++" | "cxx" => "cpp",
            "c" => "c",
            "rust" => "rs",
            "go" => "go",
            "java" => "java",
            _ => "txt",
        }
    }

    fn print(&self, written: &Written) -> String {
        let scoring = match &self.scoring {
            Scoring::Cases(_) => {
                let toml = written.cases.iter().map(|case| format!("{case:?}"));
                let json = written.json_cases.iter().map(ToString::to_string);
                json!({
                    "tests": written.tests, "hidden": written.hidden_tests, "setup": written.setup,
                    "module": written.module, "cases": toml.chain(json).collect::<Vec<_>>(),
                })
            }
            Scoring::Evaluator(evaluator) => json!({
                "source": evaluator.source, "files": evaluator.files, "thresholds": evaluator.thresholds,
                "score": evaluator.score, "stages": evaluator.stages,
            }),
        };
        let judged = [&written.limits, &written.policy, &written.network, &written.determinism, &written.sharing];
        let judged: Vec<String> = judged.iter().map(|value| format!("{value:?}")).collect();
        // Where a model is served does not change what it says.
        let generator = GeneratorSpec { base_url: None, api_key_env: None, ..self.generator.clone() };
        let words = json!({
            "prompt": self.prompt, "language": self.language, "entry": self.entry, "program": self.program,
            "scoring": scoring, "judged": judged, "strategy": self.strategy, "generator": generator,
            "seed": self.seed, "parallel": self.parallel, "repeat": self.repeat, "most_code": self.most_code,
        });
        sha256(&words.to_string())
    }
}

/// A text's hash, as hex digits.
pub(crate) fn sha256(text: &str) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(text.as_bytes()) {
        // Writing into memory does not fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// A task of JSON. What is null is not said, but in cases, where it is a value.
fn from_json(task: &serde_json::Value) -> Result<Written, EvolveError> {
    let wrong = |error: serde_json::Error| EvolveError::Task(error.to_string());
    let mut task = task.clone();
    let cases = task.as_object_mut().and_then(|task| task.remove("cases"));
    drop_nulls(&mut task);
    let json_cases = cases.filter(|cases| !cases.is_null()).map(serde_json::from_value).transpose().map_err(wrong)?;
    Ok(Written { json_cases: json_cases.unwrap_or_default(), ..serde_json::from_value(task).map_err(wrong)? })
}

fn drop_nulls(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        serde_json::Value::Array(values) => values.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
