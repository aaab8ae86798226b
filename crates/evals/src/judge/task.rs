//! A judged task as written, and what of it is checked before anything runs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use types::{InputFile, LimitsSpec, Network, Policy, RelPath};

use super::error::JudgeError;
use super::value::Value;

/// Code and the cases it is run against.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Task {
    /// The caller's own name for it, given back with the result.
    pub task_id: Option<serde_json::Value>,
    /// `python` if absent.
    pub language: Option<String>,
    /// The code under test.
    pub code: String,
    /// Code that is run before it, in the same place.
    pub setup: String,
    /// What function cases call: `f`, `Class.method` or `Class().method`.
    pub entry: String,
    /// What test programs import the code by, beside `solution` and `main`.
    pub module: String,
    /// What it is run against.
    pub cases: Vec<Case>,
    /// Limits of each case; `wall_ms` is replaced by a case's own `timeout_ms`.
    pub limits: LimitsSpec,
    /// Files in `/work`, for every case anew.
    pub files: Vec<InputFile>,
    /// Files of the code under test itself, where it has several: beside it, and never beside a test or an evaluator.
    #[serde(skip)]
    pub tree: Vec<InputFile>,
    /// Environment on top of the minimal one.
    pub env: BTreeMap<String, String>,
    /// What the static check may do.
    pub policy: Policy,
    /// The way out, if any.
    pub network: Network,
    /// When to stop.
    pub stop: Stop,
    /// Subtasks by the name that cases carry.
    pub groups: BTreeMap<String, Group>,
    /// What must not differ from run to run.
    pub determinism: Determinism,
    /// Where in `code` the program is.
    pub extract: Extract,
    /// Whether test programs may share a process with the code where nothing else will do.
    pub sharing: Sharing,
}

/// When to stop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// Every case is run.
    #[default]
    Never,
    /// Cases after the first that fails are `not_run`.
    FirstFailure,
}

/// How the cases of a subtask make its score.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Group {
    /// What it is worth; the weight of its cases if absent.
    pub points: Option<f64>,
    /// All or nothing by the worst case, or the share of its weights.
    pub score: GroupScore,
}

/// How the cases of a subtask make its score.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupScore {
    /// That of the worst case.
    #[default]
    Minimum,
    /// By weight.
    Sum,
}

/// What must not differ from run to run.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Determinism {
    /// Python's order of sets and dictionaries of strings. Costs a fresh interpreter.
    pub hash_seed: Option<u32>,
    /// Such as `UTC`.
    pub timezone: Option<String>,
    /// Such as `C.UTF-8`.
    pub locale: Option<String>,
    /// Threads of numeric libraries.
    pub threads: Option<u32>,
    /// What time limits count.
    pub clock: Clock,
}

/// What time limits count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Time on the wall.
    #[default]
    Wall,
    /// Time on the processors, the same on a loaded machine; each case has a sandbox of its own then.
    Cpu,
}

/// Where the program is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extract {
    /// All of it is the program.
    #[default]
    None,
    /// In the last fenced block of the language, if there is any.
    Fenced,
}

/// Whether test and tested code may share a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Where a test cannot be served otherwise; the result says so.
    #[default]
    WhereNeeded,
    /// Never: such a test is `unsupported_value`.
    Never,
}

/// One test.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Case {
    /// Shown in results; its number if absent.
    pub name: String,
    /// Arguments, as JSON with Python literals.
    pub args: Option<Box<RawValue>>,
    /// Arguments by name.
    pub kwargs: Option<Box<RawValue>>,
    /// What must come back. `null` is `None`; absent is no opinion.
    #[serde(deserialize_with = "present")]
    pub expected: Option<Box<RawValue>>,
    /// The type of what must come back, such as `int` or `list[str]`.
    pub expected_type: Option<String>,
    /// The exception that must be raised, or one above it.
    pub expected_exception: Option<String>,
    /// A regular expression that the exception's message must match somewhere.
    pub expected_message: Option<String>,
    /// What the program reads.
    pub stdin: Option<String>,
    /// What it must write.
    pub stdout: Option<String>,
    /// How it must exit; 0 if absent.
    pub exit_code: Option<i32>,
    /// Its arguments.
    pub argv: Vec<String>,
    /// A test program.
    pub test: Option<String>,
    /// Trusted code that the test needs and that is not the tested code's own.
    pub test_setup: Option<String>,
    /// How the test program is run.
    pub runner: Runner,
    /// How answers are compared.
    pub compare: Option<Compare>,
    /// Its part of the score.
    pub weight: Option<f64>,
    /// Its own time limit.
    pub timeout_ms: Option<f64>,
    /// Whether results show more than its verdict.
    pub hidden: bool,
    /// The subtask it belongs to.
    pub group: Option<String>,
}

/// A field that is there is there, `null` or not.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// How a test program is run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runner {
    /// By what it defines.
    #[default]
    Auto,
    /// Its text is all there is.
    Script,
    /// `check(candidate)` is called with the entry.
    Check,
    /// Its `TestCase` classes.
    Unittest,
    /// Its test functions.
    Pytest,
}

impl Runner {
    /// The name on the wire.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Script => "script",
            Self::Check => "check",
            Self::Unittest => "unittest",
            Self::Pytest => "pytest",
        }
    }
}

/// How answers are compared.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Compare {
    /// Equal as Python has it, types of containers told apart. For outputs: every byte.
    Exact,
    /// Numbers may differ a little; in outputs, numbers among the tokens.
    Float {
        /// Relative to the expected number.
        #[serde(default = "relative")]
        rel: f64,
        /// Whatever the number.
        #[serde(default = "absolute")]
        abs: f64,
    },
    /// Items, or lines, in any order.
    Unordered,
    /// As JSON sees it: tuples are lists, keys are strings.
    Json,
    /// Blanks at the ends of lines and empty lines at the end do not count.
    Rstrip,
    /// Blanks at both ends of lines and empty lines do not count.
    Lines,
    /// Only the words count, not what is between them.
    Tokens,
    /// The expected text is a regular expression for all of the output.
    Regex,
    /// As `SandboxFusion` has it.
    Sandboxfusion,
    /// As `LiveCodeBench` has it.
    Livecodebench,
    /// As APPS has it.
    Apps,
    /// A program of the task's own.
    Checker {
        /// Its language.
        #[serde(default = "python")]
        language: String,
        /// It reads `input`, `output` and `answer` from files of these names and prints a score from 0 to 1.
        code: String,
    },
}

fn relative() -> f64 {
    1e-9
}

fn absolute() -> f64 {
    1e-12
}

fn python() -> String {
    "python".to_owned()
}

/// What kind of case it is, with what it says, checked.
#[derive(Debug)]
pub(crate) enum Plan {
    Call(Call),
    Program(Io),
    Test(Test),
}

/// A call into the code.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) args: Value,
    pub(crate) kwargs: Value,
    pub(crate) expected: Option<Value>,
    pub(crate) raises: Option<Raises>,
}

/// An exception that must come.
#[derive(Debug)]
pub(crate) struct Raises {
    pub(crate) name: String,
    pub(crate) message: Option<regex::Regex>,
}

/// A run of the code as a program.
#[derive(Debug)]
pub(crate) struct Io {
    pub(crate) stdin: String,
    pub(crate) stdout: Option<String>,
    pub(crate) exit_code: i32,
}

/// A test program.
#[derive(Debug)]
pub(crate) struct Test {
    pub(crate) source: String,
    pub(crate) setup: String,
    pub(crate) runner: Runner,
}

impl Task {
    /// Reads a task; every wrong field is said by name.
    pub fn from_json(text: &str) -> Result<Self, JudgeError> {
        let task: Self = serde_json::from_str(text).map_err(JudgeError::Task)?;
        task.check()?;
        Ok(task)
    }

    /// Refuses what could not be judged.
    pub fn check(&self) -> Result<(), JudgeError> {
        for (index, case) in self.cases.iter().enumerate() {
            let wrong = |why: String| JudgeError::Case { case: case.shown_name(index), why };
            let plan = case.plan().map_err(wrong)?;
            if matches!(plan, Plan::Call(_)) && self.entry.is_empty() {
                return Err(wrong("it calls a function, but the task has no `entry`".to_owned()));
            }
            if matches!(plan, Plan::Program(_)) && !self.setup.is_empty() {
                return Err(wrong(
                    "`setup` is for calls and tests; a case with stdin or stdout runs the code alone".to_owned(),
                ));
            }
            if let Some(group) = &case.group
                && !self.groups.is_empty()
                && !self.groups.contains_key(group)
            {
                return Err(wrong(format!("there is no group `{group}` in `groups`")));
            }
        }
        if !self.setup.is_empty() && !matches!(self.language(), "python" | "python3" | "py") {
            let why = format!("`setup` is Python, and the task is in {}", self.language());
            return Err(JudgeError::Case { case: "setup".to_owned(), why });
        }
        let words = |name: &str| !name.is_empty() && name.split('.').all(is_word);
        if !self.entry.is_empty() && !words(&self.entry) {
            return Err(JudgeError::Entry(self.entry.clone()));
        }
        for group in self.groups.values() {
            weight(group.points).map_err(|why| JudgeError::Case { case: "groups".to_owned(), why })?;
        }
        Ok(())
    }

    pub(crate) fn language(&self) -> &str {
        self.language.as_deref().unwrap_or("python")
    }
}

/// A name, or a name and `()`.
fn is_word(word: &str) -> bool {
    let name = word.strip_suffix("()").unwrap_or(word);
    name.chars().enumerate().all(|(i, c)| c == '_' || c.is_alphabetic() || (i > 0 && c.is_alphanumeric()))
        && !name.is_empty()
}

fn weight(weight: Option<f64>) -> Result<f64, String> {
    match weight.unwrap_or(1.0) {
        weight if weight.is_finite() && weight >= 0.0 => Ok(weight),
        weight => Err(format!("a weight must be a number from 0 on, not {weight}")),
    }
}

impl Case {
    /// Its name, or its number.
    pub(crate) fn shown_name(&self, index: usize) -> String {
        if self.name.is_empty() { (index + 1).to_string() } else { self.name.clone() }
    }

    pub(crate) fn weight(&self) -> f64 {
        self.weight.unwrap_or(1.0)
    }

    pub(crate) fn wall(&self) -> Option<Duration> {
        self.timeout_ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok())
    }

    /// What it asks, with its values read.
    pub(crate) fn plan(&self) -> Result<Plan, String> {
        weight(self.weight)?;
        if self.timeout_ms.is_some_and(|ms| !(ms.is_finite() && ms > 0.0)) {
            return Err("`timeout_ms` must be above 0".to_owned());
        }
        let is_io = self.stdin.is_some() || self.stdout.is_some() || self.exit_code.is_some() || !self.argv.is_empty();
        let is_call = self.args.is_some()
            || self.kwargs.is_some()
            || self.expected.is_some()
            || self.expected_type.is_some()
            || self.expected_exception.is_some();
        match (is_call, is_io, &self.test) {
            (false, false, Some(test)) => {
                let setup = self.test_setup.clone().unwrap_or_default();
                Ok(Plan::Test(Test { source: test.clone(), setup, runner: self.runner }))
            }
            (false, true, None) => self.io(),
            (_, false, None) => self.call(),
            (true, true, _) => {
                Err("it has fields of a call (args, expected …) and of a program (stdin, stdout)".to_owned())
            }
            (_, _, Some(_)) => Err("`test` goes with no other kind of case".to_owned()),
        }
    }

    fn io(&self) -> Result<Plan, String> {
        match &self.compare {
            Some(Compare::Json) => return Err("`compare` kind json is for values".to_owned()),
            Some(Compare::Regex) => {
                let pattern = self.stdout.as_deref().unwrap_or_default();
                super::text::whole(pattern).map_err(|error| format!("`stdout` is no regular expression: {error}"))?;
            }
            _ => {}
        }
        Ok(Plan::Program(Io {
            stdin: self.stdin.clone().unwrap_or_default(),
            stdout: self.stdout.clone(),
            exit_code: self.exit_code.unwrap_or(0),
        }))
    }

    fn call(&self) -> Result<Plan, String> {
        match self.compare {
            Some(Compare::Rstrip | Compare::Lines | Compare::Tokens | Compare::Regex | Compare::Sandboxfusion) => {
                return Err("this kind of `compare` is for outputs".to_owned());
            }
            Some(Compare::Float { rel, abs }) if !(rel >= 0.0 && abs >= 0.0) => {
                return Err("`rel` and `abs` must be numbers from 0 on".to_owned());
            }
            _ => {}
        }
        let read = |name: &str, raw: &Option<Box<RawValue>>| {
            let value = raw.as_ref().map(|raw| Value::from_json(raw.get())).transpose();
            value.map_err(|error| format!("`{name}` cannot be read: {error}"))
        };
        let args = match read("args", &self.args)? {
            None | Some(Value::None) => Vec::new(),
            Some(Value::List(items) | Value::Tuple(items)) => items,
            Some(_) => return Err("`args` must be a list".to_owned()),
        };
        let kwargs = match read("kwargs", &self.kwargs)? {
            None | Some(Value::None) => Value::Dict(Vec::new()),
            Some(value @ Value::Dict(_)) => value,
            Some(_) => return Err("`kwargs` must be an object".to_owned()),
        };
        if let Some(text) = &self.expected_type {
            super::typing::Type::parse(text).ok_or_else(|| format!("`expected_type` {text} cannot be read"))?;
        }
        let message = self.expected_message.as_deref().map(regex::Regex::new).transpose();
        let message = message.map_err(|error| format!("`expected_message` is no regular expression: {error}"))?;
        let raises = self.expected_exception.clone().filter(|name| !name.is_empty());
        Ok(Plan::Call(Call {
            args: Value::Tuple(args),
            kwargs,
            expected: read("expected", &self.expected)?,
            raises: raises.map(|name| Raises { name, message }),
        }))
    }
}

/// The file name under which Python code is loaded.
pub(crate) fn solution() -> Option<RelPath> {
    RelPath::new("solution.py").ok()
}
