//! What the judge answers.

use serde::Serialize;
use types::{Feedback, Finding, Isolation, Usage};

/// A judged task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judged {
    /// `judge_` and 32 hex digits.
    pub id: String,
    /// The caller's own name for the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<serde_json::Value>,
    /// Weighted, from 0 to 1.
    pub score: f64,
    /// Cases that passed.
    pub passed: usize,
    /// All cases.
    pub total: usize,
    /// Whether there are cases and all of them passed.
    pub all_passed: bool,
    /// In the task's order.
    pub cases: Vec<CaseResult>,
    /// What a model needs to repair its code.
    pub feedback: Vec<Feedback>,
    /// What the static check saw.
    pub findings: Vec<Finding>,
    /// Of all sandboxes together; memory is the most of any.
    pub usage: Usage,
    /// What stood between the code and the host.
    pub isolation: Isolation,
}

/// What became of one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseResult {
    /// As the task has it.
    pub name: String,
    /// Whether it counts in full.
    pub passed: bool,
    /// What class of end it was.
    pub verdict: Verdict,
    /// From 0 to 1.
    pub score: f64,
    /// What came back, cut; empty if hidden.
    pub output: String,
    /// What is wrong; empty if hidden.
    pub detail: String,
    /// By the judge's own clock.
    pub wall_ms: f64,
    /// Whether test and tested code shared a process.
    pub trust: Trust,
}

/// What class of end a case had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As expected.
    Pass,
    /// Another value or output.
    WrongAnswer,
    /// A value of another type.
    WrongType,
    /// An exception that nobody expected.
    Exception,
    /// None, though one was expected.
    NoException,
    /// Another one than expected.
    WrongException,
    /// Too slow.
    Timeout,
    /// Too much memory.
    Memory,
    /// Ended by a signal, or with an exit code that says so.
    Crashed,
    /// It left before it answered.
    ExitedEarly,
    /// It does not compile.
    CompileError,
    /// It wrote into what is not its own.
    Tampered,
    /// A value that cannot be told as data.
    UnsupportedValue,
    /// A case before it failed.
    NotRun,
    /// The static check refused the code.
    Refused,
}

impl Verdict {
    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::WrongAnswer => "wrong_answer",
            Self::WrongType => "wrong_type",
            Self::Exception => "exception",
            Self::NoException => "no_exception",
            Self::WrongException => "wrong_exception",
            Self::Timeout => "timeout",
            Self::Memory => "memory",
            Self::Crashed => "crashed",
            Self::ExitedEarly => "exited_early",
            Self::CompileError => "compile_error",
            Self::Tampered => "tampered",
            Self::UnsupportedValue => "unsupported_value",
            Self::NotRun => "not_run",
            Self::Refused => "refused",
        }
    }
}

/// Whether test and tested code shared a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// They did not: the verdict cannot be forged.
    #[default]
    Separate,
    /// They did, or tested code was asked to compare.
    Shared,
}

/// What a way of running a case found out, before it is shown to anybody.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finished {
    pub(crate) verdict: Verdict,
    pub(crate) score: f64,
    pub(crate) output: String,
    pub(crate) detail: String,
    /// The exception's class and line, where there was one.
    pub(crate) exception: Option<(String, Option<u32>)>,
    pub(crate) wall_ms: f64,
    pub(crate) trust: Trust,
    /// A value in full, where a checker has the last word.
    pub(crate) to_check: Option<String>,
}

impl Finished {
    pub(crate) fn new(verdict: Verdict, detail: impl Into<String>) -> Self {
        let score = if verdict == Verdict::Pass { 1.0 } else { 0.0 };
        Self {
            verdict,
            score,
            output: String::new(),
            detail: detail.into(),
            exception: None,
            wall_ms: 0.0,
            trust: Trust::Separate,
            to_check: None,
        }
    }

    pub(crate) fn pass(output: String) -> Self {
        Self { output, ..Self::new(Verdict::Pass, "") }
    }

    pub(crate) fn with_output(self, output: String) -> Self {
        Self { output, ..self }
    }
}
