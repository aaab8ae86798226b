//! Runs every case under `specs/` through the command line and compares what it promises.
//!
//! A case is a folder with `case.toml` and its program. What `expect` names must be exactly so; what it does not name is
//! free.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// What the case shows, in a sentence.
    claim: String,
    run: Run,
    expect: toml::Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    file: String,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    stdin: String,
}

fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs");
    let folders = |path: &Path| -> Vec<PathBuf> {
        let mut found: Vec<_> = fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()).collect();
        found.sort();
        found
    };
    folders(&root).iter().flat_map(|area| folders(area)).filter(|case| case.join("case.toml").is_file()).collect()
}

/// Runs one case; the list of what is not as promised.
fn differences(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("case.toml")).unwrap();
    let case: Case = toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    assert!(!case.claim.is_empty());
    let mut child = Command::new(env!("CARGO_BIN_EXE_saggar"))
        .arg("run")
        .arg(&case.run.file)
        .arg("--json")
        .args(&case.run.options)
        .arg("--")
        .args(&case.run.args)
        .current_dir(folder)
        .env("SAGGAR_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("specs-state"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = case.run.stdin.into_bytes();
    let writer = std::thread::spawn(move || drop(std::io::Write::write_all(&mut stdin, &input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let mut result: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    result["exit"] = json!(output.status.code());
    // Of feedback, cases name the kinds; of files, what does not depend on the clock.
    result["feedback_kinds"] = kinds(&result["feedback"]);
    let expected = serde_json::to_value(&case.expect).unwrap();
    let mut found = Vec::new();
    compare("", &expected, &result, &mut found);
    found
}

fn kinds(feedback: &Value) -> Value {
    feedback.as_array().map_or(Value::Null, |list| list.iter().map(|f| f["kind"].clone()).collect())
}

/// Tables are compared by the keys that are expected, everything else as a whole.
fn compare(path: &str, expected: &Value, found: &Value, out: &mut Vec<String>) {
    match expected {
        Value::Object(wanted) => {
            for (key, value) in wanted {
                compare(&format!("{path}.{key}"), value, &found[key], out);
            }
        }
        // TOML has no null.
        Value::String(text) if text == "<null>" && found.is_null() => {}
        _ if path == ".files" => {
            let brief = |file: &Value| json!([file["path"], file["bytes"], file["change"]]);
            let found: Value = found.as_array().map_or(Value::Null, |files| files.iter().map(brief).collect());
            if *expected != found {
                out.push(format!("{path}: expected {expected}, found {found}"));
            }
        }
        _ if expected != found => out.push(format!("{path}: expected {expected}, found {found}")),
        _ => {}
    }
}

#[test]
fn every_case_holds() {
    let cases = cases();
    assert!(cases.len() > 30, "only {} cases were found", cases.len());
    // Two at a time: most cases wait.
    let next = std::sync::atomic::AtomicUsize::new(0);
    let failed = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let differences = differences(case);
                    if !differences.is_empty() {
                        failed.lock().unwrap().push(format!("{}: {}", case.display(), differences.join("; ")));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {} cases:\n{}", failed.len(), cases.len(), failed.join("\n"));
}
