//! Answers in the protocol's words: a few lines for a model, the contract's own type for a program, images for both.

use std::fmt::Write as _;

use engine::{RunError, SessionError};
use evals::judge::JudgeError;
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::{Value, json};
use types::{CellResult, CheckResult, Compile, ErrorBody, ErrorCode, ExecResult, LimitKind, Outcome};

use crate::error::Refusal;

/// The most of one output that is repeated as text; all that was kept is in the structured result.
const MOST_OUTPUT: usize = 16 << 10;
/// What is told of findings and feedback as text.
const MOST_REMARKS: usize = 10;

/// What came of a call.
pub(super) struct Answer {
    text: String,
    images: Vec<ContentBlock>,
    structured: Value,
}

/// Why nothing came of it: saggar failed, or the call was wrong.
pub(super) struct Failed(pub(super) ErrorBody);

impl Answer {
    pub(super) fn new(text: impl Into<String>, structured: &impl Serialize) -> Result<Self, Failed> {
        let structured = serde_json::to_value(structured).map_err(|error| {
            let message = format!("the answer has no JSON form: {error}");
            Failed(ErrorBody { code: ErrorCode::SandboxFailed, message, hint: "report this as a bug".to_owned() })
        })?;
        Ok(Self { text: text.into(), images: Vec::new(), structured })
    }

    /// Adds an image, and says at which place of the content it is.
    pub(super) fn add_image(&mut self, base64: String, mime: &str) -> usize {
        self.images.push(ContentBlock::image(base64, mime));
        self.images.len()
    }

    pub(super) fn into_result(self) -> CallToolResult {
        let content = std::iter::once(ContentBlock::text(self.text)).chain(self.images).collect();
        let mut result = CallToolResult::success(content);
        result.structured_content = Some(self.structured);
        result
    }
}

impl Failed {
    pub(super) fn into_result(self) -> CallToolResult {
        let Self(body) = self;
        let code = serde_json::to_value(body.code).unwrap_or_default();
        let text = format!("error: {} ({})\nhint: {}", body.message, code.as_str().unwrap_or_default(), body.hint);
        let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
        result.structured_content = Some(json!({ "error": body }));
        result
    }
}

impl From<RunError> for Failed {
    fn from(error: RunError) -> Self {
        Self(error.body())
    }
}

impl From<SessionError> for Failed {
    fn from(error: SessionError) -> Self {
        Self(error.body())
    }
}

impl From<JudgeError> for Failed {
    fn from(error: JudgeError) -> Self {
        Self(error.body())
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.into_body())
    }
}

/// A run in a few lines.
pub(super) fn of_run(result: &ExecResult) -> Result<Answer, Failed> {
    Answer::new(told(result), result)
}

/// A cell in a few lines, with what it showed. Images are content of their own; in the structured result `{"content": n}`
/// stands for each, so that no model reads them as text.
pub(super) fn of_cell(mut cell: CellResult) -> Result<Answer, Failed> {
    let mut text = told(&cell.run);
    let mut images = Vec::new();
    for bundle in &mut cell.results {
        for (mime, value) in bundle.iter_mut() {
            if is_image(mime)
                && let Value::String(base64) = value
            {
                images.push((std::mem::take(base64), mime.clone()));
                *value = json!({ "content": images.len() });
            }
        }
        if let Some(plain) = bundle.get("text/plain").and_then(Value::as_str) {
            put(&mut text, "shown", plain);
        }
    }
    if cell.context_lost {
        text.push_str("the interpreter ended: its variables are lost, files are not\n");
    }
    let mut answer = Answer::new(text, &cell)?;
    for (base64, mime) in images {
        // The driver may break lines, as Python's encoder does.
        answer.add_image(base64.split_whitespace().collect(), &mime);
    }
    Ok(answer)
}

/// Those that the protocol's clients show.
fn is_image(mime: &str) -> bool {
    matches!(mime, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// A check in a few lines.
pub(super) fn of_check(result: &CheckResult) -> Result<Answer, Failed> {
    let mut text = if result.ok { "nothing blocks this code\n" } else { "this code would be refused\n" }.to_owned();
    if let Some(error) = &result.syntax_error {
        let _ = writeln!(text, "syntax error at {}:{}: {}", error.line, error.column, error.message);
    }
    for finding in result.findings.iter().take(MOST_REMARKS) {
        let (line, column, severity) = (finding.line, finding.column, finding.severity.name());
        let _ = writeln!(text, "{line}:{column} {severity} {}: {}", finding.rule, finding.message);
    }
    Answer::new(text, result)
}

/// How a run ended, what it wrote, and what to do about it.
fn told(result: &ExecResult) -> String {
    let mut text = format!("{}\n", ended(&result.outcome));
    if let Some(Compile { ok: false, stdout, stderr, .. }) = &result.compile {
        text = format!("it does not compile: {text}");
        put(&mut text, "compiler", stdout);
        put(&mut text, "compiler", stderr);
    }
    put(&mut text, "stdout", &result.stdout);
    put(&mut text, "stderr", &result.stderr);
    if result.stdout_truncated || result.stderr_truncated {
        let _ = writeln!(
            text,
            "output was cut: {} bytes on stdout and {} on stderr in all; `limits.output_kb` keeps more",
            result.stdout_bytes, result.stderr_bytes
        );
    }
    for file in result.files.iter().take(MOST_REMARKS) {
        let _ = writeln!(text, "file: {} ({} bytes)", file.path, file.bytes);
    }
    for feedback in result.feedback.iter().take(MOST_REMARKS) {
        let _ = writeln!(text, "{}: {}\nhint: {}", feedback.kind, feedback.message, feedback.hint);
    }
    text
}

fn ended(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Exited { code } => format!("exited with code {code}"),
        Outcome::Signaled { signal } => format!("ended by signal {signal}"),
        Outcome::LimitExceeded { limit: LimitKind::Wall | LimitKind::Cpu } => "killed at its time limit".to_owned(),
        Outcome::LimitExceeded { limit } => format!("killed at its {} limit", limit.name()),
        Outcome::Refused { rule } => format!("refused by {rule}: nothing was run"),
        Outcome::Cancelled => "taken back".to_owned(),
    }
}

/// Adds an output under its name, its middle left out if it is long.
fn put(text: &mut String, name: &str, output: &str) {
    if output.trim().is_empty() {
        return;
    }
    let _ = writeln!(text, "--- {name}");
    let half = MOST_OUTPUT / 2;
    if output.len() <= MOST_OUTPUT {
        text.push_str(output);
    } else {
        let head = output.floor_char_boundary(half);
        let tail = output.ceil_char_boundary(output.len() - half);
        let _ = write!(text, "{}\n… {} bytes left out …\n{}", &output[..head], tail - head, &output[tail..]);
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_output_keeps_its_ends_and_whole_characters() {
        let mut text = String::new();
        put(&mut text, "stdout", &format!("first {} last", "é".repeat(MOST_OUTPUT)));
        assert!(text.starts_with("--- stdout\nfirst é") && text.ends_with("é last\n"), "{text}");
        assert!(text.len() < MOST_OUTPUT + 100);
    }

    #[test]
    fn a_failure_says_what_to_do_next() {
        let body = ErrorBody { code: ErrorCode::Busy, message: "too many".to_owned(), hint: "wait".to_owned() };
        let result = Failed(body).into_result();
        assert_eq!(result.is_error, Some(true));
        let wanted = json!({"error": {"code": "busy", "message": "too many", "hint": "wait"}});
        assert_eq!(result.structured_content, Some(wanted));
    }
}
