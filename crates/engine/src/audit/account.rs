//! The account of one request: kept from its arrival on, written when it ends, however it ends.
//!
//! What a caller or a program chooses freely is bounded here, so that no entry grows with it. Nothing in an entry holds
//! a value of the environment, standard input, or words of the program.

use std::time::SystemTime;

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use types::{
    BackendKind, ErrorBody, ErrorCode, ExecRequest, ExecResult, FileRecord, Finding, LimitKind, Limits, LimitsSpec,
    Outcome, Policy, Start, Timestamp, Usage,
};

use super::Audit;
use super::entry::{Entry, Kind};
use super::refusals::Who;
use crate::engine::Caller;
use crate::error::RunError;
use crate::model_review::{Opinion, Verdict};
use crate::session::{SessionError, written};
use crate::usage::Totals;

/// Characters of a name or a message that a request could make long.
const LONG: usize = 300;
/// Files and findings that are listed; all are counted.
const MOST_LISTED: usize = 100;
/// Bytes of all listed file names together.
const MOST_NAMES: usize = 16 << 10;

/// A request and what is known of it.
pub(crate) struct Account<'a> {
    audit: &'a Audit,
    caller: &'a Caller,
    facts: Facts,
    /// Whether nobody has closed it: then whoever asked is gone.
    open: bool,
    /// Whether its result is part of a larger answer.
    is_part: bool,
}

/// A run's result, and what only the trail wants to know.
pub(crate) struct Executed {
    pub(crate) result: ExecResult,
    pub(crate) stdout: OutputFacts,
    pub(crate) stderr: OutputFacts,
}

/// An output, all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct OutputFacts {
    pub(crate) blake3: String,
    pub(crate) bytes: u64,
    pub(crate) truncated: bool,
}

/// What identifies a text without telling it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Digest {
    sha256: String,
    bytes: u64,
}

#[derive(Serialize)]
struct Facts {
    asked: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<String>,
    /// The session in which it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// The interpreter that stays, in which it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    /// The process that was left running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// The name of a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    /// Of the code, or of a command's words with a NUL after each.
    code: Digest,
    /// Of the arguments, with a NUL after each.
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Digest>,
    /// Code or command, where the settings ask for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    inputs: usize,
    policy: Policy,
    findings: Vec<Finding>,
    /// A model's verdict and what it cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    review: Option<ReviewFacts>,
    limits_asked: serde_json::Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits_granted: Option<serde_json::Value>,
    backend: Option<BackendKind>,
    /// The image that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    #[serde(flatten)]
    run: Option<RunFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorFacts>,
}

#[derive(Serialize)]
struct ReviewFacts {
    verdict: Option<Verdict>,
    confidence: Option<f64>,
    refused_by: Option<&'static str>,
    model: String,
    cached: bool,
    usage: Totals,
}

#[derive(Serialize)]
struct RunFacts {
    start: Start,
    /// What that image was, by content.
    #[serde(skip_serializing_if = "Option::is_none")]
    image_digest: Option<String>,
    ended: Outcome,
    limits_hit: Vec<LimitKind>,
    usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    compile: Option<CompileFacts>,
    stdout: OutputFacts,
    stderr: OutputFacts,
    files: Vec<FileFacts>,
    files_count: usize,
    layers: Vec<types::Layer>,
    layers_missing: Vec<types::Layer>,
}

#[derive(Serialize)]
struct CompileFacts {
    ended: Outcome,
    usage: Usage,
}

#[derive(Serialize)]
struct FileFacts {
    path: String,
    bytes: u64,
    sha256: String,
}

#[derive(Serialize)]
struct ErrorFacts {
    code: ErrorCode,
    message: String,
}

impl<'a> Account<'a> {
    /// Begins with what the request says.
    pub(crate) fn open(audit: &'a Audit, caller: &'a Caller, request: &ExecRequest) -> Self {
        let command = request.argv.as_deref().unwrap_or_default();
        let code = match &request.code {
            Some(code) => Digest::of([&code.0[..]]),
            None => Digest::of_words(command),
        };
        let source = || match &request.code {
            Some(code) => String::from_utf8_lossy(&code.0).into_owned(),
            None => command.join("\0"),
        };
        let facts = Facts {
            asked: SystemTime::now().into(),
            key: caller.key().map(str::to_owned),
            language: request.language.as_deref().map(short),
            session: None,
            context: None,
            pid: None,
            program: command.first().map(|name| short(name)),
            code,
            args: (!request.args.is_empty()).then(|| Digest::of_words(&request.args)),
            source: audit.keep_source.then(source),
            inputs: request.files.len(),
            policy: request.policy,
            findings: Vec::new(),
            review: None,
            limits_asked: compact(&request.limits),
            limits_granted: None,
            backend: request.backend,
            image: request.image.as_deref().map(short),
            run: None,
            error: None,
        };
        Self { audit, caller, facts, open: true, is_part: false }
    }

    /// It is part of something that is recorded itself before it is answered: the trail is told of both at once.
    pub(crate) fn part(mut self) -> Self {
        self.is_part = true;
        self
    }

    /// By what the code was judged: the request's policy, or a stricter one of the settings.
    pub(crate) fn policy(&mut self, policy: Policy) {
        self.facts.policy = policy;
    }

    /// In which session it runs.
    pub(crate) fn session(&mut self, id: &str) {
        self.facts.session = Some(id.to_owned());
    }

    /// What was seen in its code.
    pub(crate) fn findings(&mut self, findings: &[Finding]) {
        self.facts.findings = self.seen(findings);
    }

    /// The interpreter of a session in which it ran.
    pub(crate) fn context(&mut self, context: &str) {
        self.facts.context = Some(short(context));
    }

    /// Writes that something of a session goes on from here by itself.
    pub(crate) async fn started(mut self, session: &str, pid: u32) -> Result<(), RunError> {
        self.open = false;
        self.facts.pid = Some(pid);
        Ok(self.audit.record(self.entry(session.to_owned(), Kind::Session, "started".to_owned())).await?)
    }

    /// Writes how something in a session did not come about, and gives the reason back.
    pub(crate) async fn failed(mut self, error: SessionError) -> Result<SessionError, RunError> {
        match error {
            SessionError::Run(error) => match self.close(Err(error)).await {
                Ok(_) => Err(RunError::CheckFailed),
                Err(error) => Ok(error.into()),
            },
            SessionError::Refused { rule } => {
                self.open = false;
                let entry = self.entry(crate::id::run_id(), Kind::Refused, "refused".to_owned());
                self.audit.record(entry).await?;
                Ok(SessionError::Refused { rule })
            }
            other => {
                self.fail(&other.body()).await?;
                Ok(other)
            }
        }
    }

    /// Writes an entry of a request that failed in a way of its own.
    pub(crate) async fn fail(mut self, body: &ErrorBody) -> Result<(), RunError> {
        self.open = false;
        self.facts.error = Some(ErrorFacts { code: body.code, message: short(&body.message) });
        Ok(self.audit.record(self.entry(crate::id::run_id(), Kind::Error, name(body.code))).await?)
    }

    /// What admission made of the limits.
    pub(crate) fn grant(&mut self, limits: &Limits) {
        self.facts.limits_granted = Some(compact(&written(limits)));
    }

    /// What a model said of the program.
    pub(crate) fn review(&mut self, opinion: &Opinion) {
        self.facts.review = Some(ReviewFacts {
            verdict: opinion.verdict,
            confidence: opinion.confidence,
            refused_by: opinion.refused_by,
            model: short(&opinion.model),
            cached: opinion.cached,
            usage: opinion.usage,
        });
    }

    /// Writes the entry; the answer may leave when this returns, or an error in its place.
    pub(crate) async fn close(mut self, end: Result<Executed, RunError>) -> Result<ExecResult, RunError> {
        self.open = false;
        match end {
            Ok(executed) => {
                let entry = self.of_result(&executed);
                if self.is_part {
                    self.audit.record_with_next(entry);
                } else {
                    self.audit.record(entry).await?;
                }
                Ok(executed.result)
            }
            // There is nothing that it could be written to.
            Err(error @ RunError::Audit(_)) => Err(error),
            Err(error @ RunError::Admission(_)) => {
                let who =
                    Who { caller: short(&self.caller.name), key: self.facts.key.take(), outcome: name(error.code()) };
                self.audit.reject(who, self.facts.code.clone()).await?;
                Err(error)
            }
            Err(error) => {
                let body = error.body();
                self.facts.error = Some(ErrorFacts { code: body.code, message: short(&body.message) });
                self.audit.record(self.entry(crate::id::run_id(), Kind::Error, name(body.code))).await?;
                Err(error)
            }
        }
    }

    fn of_result(&mut self, executed: &Executed) -> Entry {
        let Executed { result, stdout, stderr } = executed;
        let kind = if matches!(result.outcome, Outcome::Refused { .. }) { Kind::Refused } else { Kind::Run };
        self.facts.language.clone_from(&result.language);
        self.facts.findings = self.seen(&result.findings);
        self.facts.run = Some(RunFacts {
            start: result.start,
            image_digest: result.image.clone(),
            ended: ended(&result.outcome),
            limits_hit: result.limits_hit.clone(),
            usage: result.usage,
            compile: result
                .compile
                .as_ref()
                .map(|compile| CompileFacts { ended: compile.outcome.clone(), usage: compile.usage }),
            stdout: stdout.clone(),
            stderr: stderr.clone(),
            files: listed(&result.files),
            files_count: result.files.len(),
            layers: result.isolation.layers.clone(),
            layers_missing: result.isolation.missing.clone(),
        });
        self.entry(result.id.clone(), kind, result.outcome.name().to_owned())
    }

    /// Findings as they are kept. Their words may be the program's own, so they stay only where the program does.
    fn seen(&self, findings: &[Finding]) -> Vec<Finding> {
        let kept = |finding: &Finding| Finding {
            rule: short(&finding.rule),
            message: if self.audit.keep_source { short(&finding.message) } else { String::new() },
            file: finding.file.as_deref().map(short),
            ..finding.clone()
        };
        findings.iter().take(MOST_LISTED).map(kept).collect()
    }

    fn entry(&self, id: String, kind: Kind, outcome: String) -> Entry {
        Entry { id, kind, caller: short(&self.caller.name), outcome, details: json(&self.facts) }
    }
}

impl Drop for Account<'_> {
    /// A caller who goes away takes the run with him, but not its entry.
    fn drop(&mut self) {
        if self.open {
            self.audit.record_later(self.entry(crate::id::run_id(), Kind::Run, "abandoned".to_owned()));
        }
    }
}

impl Audit {
    /// Records that somebody was turned away from something that is no run.
    pub(crate) async fn turn_away(&self, caller: &Caller, act: &str, error: &RunError) -> Result<(), RunError> {
        let key = caller.key().map(str::to_owned);
        let who = Who { caller: short(&caller.name), key, outcome: name(error.code()) };
        Ok(self.reject(who, Digest::of([act.as_bytes()])).await?)
    }
}

impl Digest {
    fn of<'b>(parts: impl IntoIterator<Item = &'b [u8]>) -> Self {
        let (mut hasher, mut bytes) = (Sha256::new(), 0);
        for part in parts {
            hasher.update(part);
            bytes += part.len() as u64;
        }
        Self { sha256: crate::id::hex(&hasher.finalize()), bytes }
    }

    fn of_words(words: &[String]) -> Self {
        Self::of(words.iter().flat_map(|word| [word.as_bytes(), &b"\0"[..]]))
    }
}

/// A rule may be the request's own, and as long as that likes.
fn ended(outcome: &Outcome) -> Outcome {
    match outcome {
        Outcome::Refused { rule } => Outcome::Refused { rule: short(rule) },
        other => other.clone(),
    }
}

/// As many files as there is room for.
fn listed(files: &[FileRecord]) -> Vec<FileFacts> {
    let mut room = MOST_NAMES;
    let fits = |file: &&FileRecord| {
        let left = room.checked_sub(file.path.len());
        room = left.unwrap_or(0);
        left.is_some()
    };
    files
        .iter()
        .take(MOST_LISTED)
        .take_while(fits)
        .map(|file| FileFacts { path: file.path.clone(), bytes: file.bytes, sha256: file.sha256.clone() })
        .collect()
}

/// Without what was not said.
fn compact(limits: &LimitsSpec) -> serde_json::Value {
    let mut value = serde_json::to_value(limits).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
    value
}

/// An error's code as it is written.
fn name(code: ErrorCode) -> String {
    serde_json::to_value(code).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn short(text: &str) -> String {
    text.chars().take(LONG).collect()
}

/// Our own types always have a JSON form.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
