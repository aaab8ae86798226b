//! Findings as SARIF 2.1.0, which editors and code hosts show beside the code.

use policy::Rule;
use serde_json::{Value, json};
use types::{CheckResult, Finding, Severity};

/// The log of one check. `name` is the file as the caller named it.
pub(super) fn log(checked: &CheckResult, name: &str) -> Value {
    // Own rules are known by their findings only.
    let rules: Vec<Value> =
        policy::rules().filter(|rule| checked.findings.iter().any(|found| found.rule == rule.id)).map(rule).collect();
    let results: Vec<Value> = checked.findings.iter().map(|finding| result(finding, name)).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "saggar",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn rule(rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "shortDescription": {"text": rule.message.replace("{}", "…")},
        "defaultConfiguration": {"level": level(rule.severity)},
    })
}

fn result(finding: &Finding, name: &str) -> Value {
    json!({
        "ruleId": finding.rule,
        "level": level(finding.severity),
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": {
            "artifactLocation": {"uri": uri(finding.file.as_deref().unwrap_or(name))},
            "region": {"startLine": finding.line, "startColumn": finding.column},
        }}],
        "properties": {"severity": finding.severity, "points": finding.points, "blocks": finding.blocks},
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Info | Severity::Low => "note",
        Severity::Medium => "warning",
        Severity::High | Severity::Critical => "error",
    }
}

/// A path as a URI reference: what is not plain is written as bytes.
fn uri(path: &str) -> String {
    path.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_references() {
        assert_eq!(uri("src/a b.py"), "src/a%20b.py");
        assert_eq!(uri("ü"), "%C3%BC");
    }
}
