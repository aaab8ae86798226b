//! Requests and answers, by the names that `SandboxFusion` has for them. Fields that it does not know it ignores, and so do
//! we.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use types::LimitKind;

/// `POST /run_code`. Times are seconds.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct RunCode {
    #[serde(default = "ten")]
    pub(super) compile_timeout: f64,
    #[serde(default = "ten")]
    pub(super) run_timeout: f64,
    #[serde(rename = "memory_limit_MB", default = "none")]
    pub(super) memory_limit_mb: f64,
    pub(super) code: String,
    #[serde(default)]
    pub(super) stdin: Option<String>,
    pub(super) language: String,
    /// Base64 by path; those without content are passed over.
    #[serde(default)]
    pub(super) files: BTreeMap<String, Option<String>>,
    #[serde(default)]
    pub(super) fetch_files: Vec<String>,
}

fn ten() -> f64 {
    10.0
}

fn none() -> f64 {
    -1.0
}

/// What became of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Status {
    /// Every step exited with code 0.
    Success,
    /// One did not.
    Failed,
    /// We could not say.
    SandboxError,
}

/// What became of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum StepStatus {
    /// It ended, however.
    Finished,
    /// It could not be carried out.
    Error,
    /// It was killed at its time limit.
    TimeLimitExceeded,
}

/// One step: the compiler, or the program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Step {
    pub(super) status: StepStatus,
    /// Seconds.
    pub(super) execution_time: Option<f64>,
    /// Seconds.
    pub(super) cpu_time: Option<f64>,
    /// Negative for a signal; absent where it was killed for its time.
    pub(super) return_code: Option<i32>,
    pub(super) stdout: Option<String>,
    pub(super) stderr: Option<String>,
    /// The limit at which it was killed: clients that know of it can tell memory from a crash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<LimitKind>,
}

/// The answer of `/run_code`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct RunCodeAnswer {
    pub(super) status: Status,
    pub(super) message: String,
    pub(super) compile_result: Option<Step>,
    pub(super) run_result: Option<Step>,
    pub(super) executor_pod_name: Option<String>,
    pub(super) files: BTreeMap<String, String>,
    /// By which the audit trail knows the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
}

/// `POST /run_jupyter`. Times are seconds.
#[derive(Debug, Deserialize)]
pub(super) struct RunJupyter {
    pub(super) cells: Vec<String>,
    /// None, if 0.
    #[serde(default)]
    pub(super) cell_timeout: f64,
    #[serde(default = "usual_total")]
    pub(super) total_timeout: f64,
    #[serde(rename = "memory_limit_MB", default = "none")]
    pub(super) memory_limit_mb: f64,
    #[serde(default)]
    pub(super) files: BTreeMap<String, Option<String>>,
    #[serde(default)]
    pub(super) fetch_files: Vec<String>,
}

fn usual_total() -> f64 {
    45.0
}

/// What became of one cell.
#[derive(Debug, Default, Serialize)]
pub(super) struct Cell {
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) display: Vec<Value>,
    pub(super) error: Vec<Value>,
}

/// The answer of `/run_jupyter`.
#[derive(Debug, Serialize)]
pub(super) struct RunJupyterAnswer {
    pub(super) status: Status,
    pub(super) message: String,
    pub(super) driver: Option<Step>,
    pub(super) cells: Vec<Cell>,
    pub(super) executor_pod_name: Option<String>,
    pub(super) files: BTreeMap<String, String>,
}

/// `POST /submit`.
#[derive(Debug, Deserialize)]
pub(super) struct Submit {
    pub(super) dataset: String,
    pub(super) id: Value,
    pub(super) completion: String,
    pub(super) config: Config,
}

/// How a submission is judged.
#[derive(Debug, Deserialize)]
pub(super) struct Config {
    #[serde(default)]
    pub(super) dataset_type: Option<String>,
    #[serde(default)]
    pub(super) language: Option<String>,
    #[serde(default)]
    pub(super) compile_timeout: Option<f64>,
    #[serde(default)]
    pub(super) run_timeout: Option<f64>,
    #[serde(default)]
    pub(super) custom_extract_logic: Option<String>,
    #[serde(default)]
    pub(super) provided_data: Option<Value>,
    #[serde(default)]
    pub(super) extra: Extra,
}

/// What is asked beyond that.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Extra {
    /// Also those after one that failed.
    pub(super) run_all_cases: bool,
    /// Cases that passed are given back whole.
    pub(super) return_full_case: bool,
}

/// A case of a submission.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub(super) struct Case {
    pub(super) input: BTreeMap<String, String>,
    pub(super) output: BTreeMap<String, String>,
}

/// What became of a case.
#[derive(Debug, Serialize)]
pub(super) struct Tested {
    pub(super) passed: bool,
    pub(super) exec_info: RunCodeAnswer,
    pub(super) test_info: Case,
}

/// The answer of `/submit`.
#[derive(Debug, Serialize)]
pub(super) struct Evaluated {
    pub(super) id: Value,
    pub(super) accepted: bool,
    pub(super) extracted_code: String,
    pub(super) full_code: Option<String>,
    pub(super) test_code: Option<String>,
    pub(super) tests: Vec<Tested>,
    pub(super) extracted_type: Option<&'static str>,
    pub(super) extra: Option<Value>,
}
