//! Logs of test runners, read and graded as the official harness does it: real ones, and hard ones made of them.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests fail loudly, and ask the official package")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use evals::swe::grade::read_log;
use evals::swe::prediction::Prediction;
use evals::swe::report::Report;
use evals::swe::row;
use serde_json::Value;

/// What is known of the logs of real instances: the official parser's map and the official grader's report.
fn known() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs/swe/logs.jsonl.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// Reads and grades one, and compares both with what is known.
fn compare(line: &str) {
    let known: Value = serde_json::from_str(line).unwrap();
    let folder = tempfile();
    let path = folder.join("row.jsonl");
    std::fs::write(&path, known["instance"].to_string()).unwrap();
    let instance = row::read(&path, &[]).unwrap().remove(0);
    std::fs::remove_dir_all(folder).unwrap();
    let log = known["log"].as_str().unwrap();
    let about = || format!("{} {} by {}\n{log}", instance.id, known["case"], known["instance"]["log_parser"]);
    let statuses = read_log(log, instance.parser.unwrap());
    assert_eq!(serde_json::to_value(&statuses).unwrap(), known["statuses"], "{}", about());
    let prediction: Prediction =
        serde_json::from_value(serde_json::json!({"instance_id": instance.id, "model_patch": "x"})).unwrap();
    let report = Report::of(&instance, &prediction, log);
    let reports = BTreeMap::from([(&instance.id, &report)]);
    assert_eq!(serde_json::to_value(reports).unwrap(), known["report"], "{}", about());
}

fn tempfile() -> std::path::PathBuf {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("swe-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn real_logs_are_read_and_graded_as_the_official_harness_did() {
    let known = known();
    assert_eq!(known.lines().map(compare).count(), 36);
}

#[test]
fn hard_logs_are_read_and_graded_as_the_official_package_does() {
    let python = std::env::var("SAGGAR_TEST_SWEBENCH").unwrap_or_else(|_| {
        format!("{}/.cache/saggar-test-tools/swebench/bin/python3", std::env::var("HOME").unwrap())
    });
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/swe/official.py");
    let mut child = Command::new(&python)
        .arg(script)
        .arg("3000")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{python}: {error}; scripts/test installs it"));
    let mut stdin = child.stdin.take().unwrap();
    let feeding = std::thread::spawn(move || stdin.write_all(known().as_bytes()).unwrap());
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let count = lines.map(|line| compare(&line.unwrap())).count();
    feeding.join().unwrap();
    assert!(child.wait().unwrap().success());
    assert!(count > 2500, "{count}");
}
