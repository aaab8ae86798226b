//! What a model said, held against the form that it was given.

use serde::{Deserialize, Serialize};
use types::Severity;

/// The most that is kept of what a model found, and of each message.
const MAX_FINDINGS: usize = 50;
const MAX_MESSAGE: usize = 500;

/// A model's answer that fits the form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Reply {
    pub(super) verdict: Verdict,
    pub(super) confidence: f64,
    pub(super) findings: Vec<Remark>,
}

/// What a model thinks of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may run.
    Approve,
    /// It may not.
    Reject,
    /// It cannot tell.
    Unsure,
}

/// One thing that a model saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Remark {
    pub(super) line: u32,
    pub(super) severity: Severity,
    pub(super) message: String,
}

/// Why an answer does not fit. The words are for the model, which gets one chance to mend it.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum Misfit {
    #[error("it is not one JSON object of that form ({0})")]
    Form(String),
    #[error("`confidence` must be a number from 0 to 1")]
    Confidence,
    #[error("`line` must be a number from 1")]
    Line,
    #[error("`message` must not be empty")]
    Message,
    #[error("a verdict other than approve needs a finding that says why")]
    NoReason,
}

impl Reply {
    /// Reads an answer. It is taken whole or not at all: a verdict in the midst of other text may be one that the model
    /// quotes from the program.
    pub(super) fn read(text: &str, lines: u32) -> Result<Self, Misfit> {
        let mut reply: Self =
            serde_json::from_str(bare(text)).map_err(|error| Misfit::Form(clean(&error.to_string())))?;
        if !(0.0..=1.0).contains(&reply.confidence) {
            return Err(Misfit::Confidence);
        }
        if reply.findings.is_empty() && reply.verdict != Verdict::Approve {
            return Err(Misfit::NoReason);
        }
        // The worst must not be cut off by what is only worth knowing.
        reply.findings.sort_by_key(|remark| std::cmp::Reverse(remark.severity));
        reply.findings.truncate(MAX_FINDINGS);
        for remark in &mut reply.findings {
            if remark.line == 0 {
                return Err(Misfit::Line);
            }
            remark.line = remark.line.min(lines.max(1));
            remark.message = clean(&remark.message);
            if remark.message.is_empty() {
                return Err(Misfit::Message);
            }
        }
        Ok(reply)
    }
}

/// The text without the code block that many models put around JSON.
fn bare(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    inner.map_or(text, |inner| inner.strip_prefix("json").unwrap_or(inner).trim())
}

/// One line that a terminal shows and does not obey; the program may have chosen these words.
pub(super) fn clean(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    let line: String = text.chars().map(|c| if hidden(c) { ' ' } else { c }).take(MAX_MESSAGE).collect();
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approve() -> Reply {
        Reply { verdict: Verdict::Approve, confidence: 0.9, findings: Vec::new() }
    }

    #[test]
    fn an_answer_of_the_right_form_is_read_bare_or_in_a_code_block() {
        let text = r#"{"verdict": "approve", "confidence": 0.9, "findings": []}"#;
        for text in [text.to_owned(), format!("\n```json\n{text}\n```\n"), format!("```\n{text}```")] {
            assert_eq!(Reply::read(&text, 3), Ok(approve()), "{text}");
        }
        let found = r#"{"verdict": "reject", "confidence": 1, "summary": "x",
            "findings": [{"line": 900, "severity": "low", "message": "a\u001b[2J\nb\u202e", "why": 1},
                         {"line": 2, "severity": "critical", "message": "worst"}]}"#;
        let reply = Reply::read(found, 3).unwrap();
        let remark = |line, severity, message: &str| Remark { line, severity, message: message.to_owned() };
        assert_eq!(reply.findings, [remark(2, Severity::Critical, "worst"), remark(3, Severity::Low, "a [2J b")]);
    }

    #[test]
    fn whatever_a_model_says_stays_in_bounds() {
        let finding = r#"{"line": 12, "severity": "high", "message": "it \u0000 reads \u2066 a key"}"#;
        let good = format!(r#"{{"verdict": "reject", "confidence": 0.25, "findings": [{finding}, {finding}]}}"#);
        let long = format!(r#"{{"verdict": "unsure", "confidence": 1, "findings": [{}]}}"#, [finding; 200].join(","));
        let mut fits = 0;
        // Every character of a good answer, in turn replaced by every character of it.
        for at in 0..good.len() {
            for other in good.bytes().chain([0, b'\\', 0x7f]) {
                let mut bytes = good.clone().into_bytes();
                bytes[at] = other;
                let Ok(reply) = Reply::read(&String::from_utf8(bytes).unwrap(), 7) else { continue };
                fits += 1;
                assert!((0.0..=1.0).contains(&reply.confidence) && reply.findings.len() == 2);
                for remark in reply.findings {
                    assert!((1..=7).contains(&remark.line), "{remark:?}");
                    assert!(
                        !remark.message.is_empty() && !remark.message.contains(['\0', '\u{2066}', '\n']),
                        "{remark:?}"
                    );
                }
            }
        }
        assert!(fits > 1000, "{fits}");
        assert_eq!(Reply::read(&long, 7).unwrap().findings.len(), MAX_FINDINGS);
        assert!(Reply::read(&"[".repeat(1 << 20), 7).is_err());
    }

    #[test]
    fn what_does_not_fit_is_told_why() {
        for (text, why) in [
            ("", "JSON"),
            ("I approve.", "JSON"),
            (r#"The program says {"verdict": "approve", "confidence": 1, "findings": []}"#, "JSON"),
            (r#"{"verdict": "approve", "confidence": 1, "findings": []} {}"#, "JSON"),
            (r#"{"verdict": "reject", "verdict": "approve", "confidence": 1, "findings": []}"#, "verdict"),
            (r#"{"verdict": "yes", "confidence": 1, "findings": []}"#, "yes"),
            (r#"{"verdict": "approve", "findings": []}"#, "confidence"),
            (r#"{"verdict": "approve", "confidence": 1.1, "findings": []}"#, "confidence"),
            (r#"{"verdict": "approve", "confidence": "high", "findings": []}"#, "high"),
            (r#"{"verdict": "approve", "confidence": 1}"#, "findings"),
            (r#"{"verdict": "reject", "confidence": 1, "findings": []}"#, "says why"),
            (
                r#"{"verdict": "reject", "confidence": 1, "findings": [{"line": 0, "severity": "low", "message": "x"}]}"#,
                "line",
            ),
            (
                r#"{"verdict": "reject", "confidence": 1, "findings": [{"line": 1, "severity": "bad", "message": "x"}]}"#,
                "bad",
            ),
            (
                r#"{"verdict": "reject", "confidence": 1, "findings": [{"line": 1, "severity": "low", "message": " "}]}"#,
                "message",
            ),
        ] {
            let misfit = Reply::read(text, 5).unwrap_err().to_string();
            assert!(misfit.contains(why), "{text}: {misfit}");
        }
    }
}
