//! What the audit trail is told of a verdict. Nothing in it is a word of the program or of a test.

use std::collections::BTreeMap;
use std::time::SystemTime;

use engine::{Caller, Entry, Kind};
use serde::Serialize;
use sha2::{Digest, Sha256};
use types::{ErrorCode, Finding, Policy, Timestamp, Usage};

use super::error::JudgeError;
use super::result::{Judged, Trust, Verdict};
use super::task::Task;

/// Characters of a name or a message that a task could make long.
const LONG: usize = 300;
/// Findings that are listed; cases are counted.
const MOST_LISTED: usize = 100;

/// A task that is being judged, and what the trail will want to know of it.
pub(super) struct Account {
    caller: String,
    facts: Facts,
}

#[derive(Serialize)]
struct Facts {
    asked: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<String>,
    language: String,
    code: Code,
    policy: Policy,
    /// Of the task; how many were run is in `verdicts`.
    cases: usize,
    #[serde(flatten)]
    told: Option<Told>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Error>,
}

/// What identifies the code without telling it.
#[derive(Serialize)]
struct Code {
    sha256: String,
    bytes: usize,
}

#[derive(Serialize)]
struct Told {
    passed: usize,
    score: f64,
    /// How many cases ended in which way.
    verdicts: BTreeMap<&'static str, usize>,
    /// Of these, those in which tested code had a say.
    shared: usize,
    findings: Vec<Finding>,
    usage: Usage,
}

#[derive(Serialize)]
struct Error {
    code: ErrorCode,
    message: String,
}

impl Account {
    pub(super) fn open(caller: &Caller, task: &Task) -> Self {
        let hash = Sha256::digest(task.code.as_bytes());
        let facts = Facts {
            asked: SystemTime::now().into(),
            key: caller.key().map(str::to_owned),
            task_id: task.task_id.as_ref().map(|id| short(&id.to_string())),
            language: short(task.language()),
            code: Code { sha256: hex(&hash), bytes: task.code.len() },
            policy: task.policy,
            cases: task.cases.len(),
            told: None,
            error: None,
        };
        Self { caller: short(&caller.name), facts }
    }

    /// The entry of a task, judged or not.
    pub(super) fn close(mut self, id: &str, end: Result<&Judged, &JudgeError>) -> Entry {
        let outcome = match end {
            Ok(judged) => {
                self.facts.told = Some(Told::of(judged));
                outcome(judged).to_owned()
            }
            Err(error) => {
                let body = error.body();
                self.facts.error = Some(Error { code: body.code, message: short(&body.message) });
                name(body.code)
            }
        };
        // Our own types always have a JSON form.
        let details = serde_json::to_string(&self.facts).unwrap_or_default();
        Entry { id: id.to_owned(), kind: Kind::Judge, caller: self.caller, outcome, details }
    }
}

impl Told {
    fn of(judged: &Judged) -> Self {
        let mut verdicts = BTreeMap::new();
        for case in &judged.cases {
            *verdicts.entry(case.verdict.name()).or_default() += 1;
        }
        Self {
            passed: judged.passed,
            score: judged.score,
            verdicts,
            shared: judged.cases.iter().filter(|case| case.trust == Trust::Shared).count(),
            findings: judged.findings.iter().take(MOST_LISTED).map(seen).collect(),
            usage: judged.usage,
        }
    }
}

/// A finding without its words: they may be the program's own.
fn seen(finding: &Finding) -> Finding {
    Finding {
        rule: short(&finding.rule),
        message: String::new(),
        file: finding.file.as_deref().map(short),
        ..finding.clone()
    }
}

/// One word for all cases.
fn outcome(judged: &Judged) -> &'static str {
    let refused = judged.cases.iter().any(|case| case.verdict == Verdict::Refused);
    match () {
        () if judged.all_passed => "passed",
        () if refused => "refused",
        () => "failed",
    }
}

/// An error's code as it is written.
fn name(code: ErrorCode) -> String {
    serde_json::to_value(code).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Bytes as they are written.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

fn short(text: &str) -> String {
    text.chars().take(LONG).collect()
}
