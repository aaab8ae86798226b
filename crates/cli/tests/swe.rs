//! `saggar swe` as people call it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::fs;
use std::path::Path;

use common::{folder, json, saggar, text};
use serde_json::{Value, json};

/// A data set of four, in the shapes in which rows come, with a prediction for each of the first three.
fn prepare(place: &Path) {
    let rows = [
        json!({"instance_id": "a__b-1", "repo": "pallets/flask", "FAIL_TO_PASS": "[\"t.py::mend\"]", "PASS_TO_PASS": "[\"t.py::keep\"]"}),
        json!({"instance_id": "a__b-2", "repo": "a/b", "log_parser": "parse_log_pytest", "FAIL_TO_PASS": ["t.py::mend"], "PASS_TO_PASS": []}),
        json!({"instance_id": "a__b-3", "repo": "a/b", "install_config": {"log_parser": "parse_log_pytest"}, "FAIL_TO_PASS": ["x"], "PASS_TO_PASS": []}),
        json!({"instance_id": "a__b-4", "repo": "a/b", "FAIL_TO_PASS": ["x"], "PASS_TO_PASS": []}),
    ];
    fs::write(place.join("rows.jsonl"), rows.map(|row| row.to_string()).join("\n")).unwrap();
    let prediction =
        |id: &str, patch: Value| json!({"instance_id": id, "model_name_or_path": "some/model", "model_patch": patch});
    let all = json!({"a__b-1": prediction("a__b-1", json!("diff")), "a__b-2": prediction("a__b-2", json!("diff")), "a__b-3": prediction("a__b-3", Value::Null)});
    fs::write(place.join("predictions.json"), all.to_string()).unwrap();
}

fn log(place: &Path, id: &str, text: &str) {
    let folder = place.join("logs/run_evaluation/first/some__model").join(id);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("test_output.txt"), text).unwrap();
}

fn report(place: &Path, more: &[&str]) -> std::process::Output {
    let words = ["swe", "report", "--dataset", "rows.jsonl", "--predictions", "predictions.json", "--run-id", "first"];
    saggar(&[&words, more].concat()).current_dir(place).output().unwrap()
}

#[test]
fn logs_become_the_official_reports() {
    let place = folder("swe-report");
    prepare(&place);
    let between = |lines: &str| format!("+ : '>>>>> Start Test Output'\n{lines}\n+ : '>>>>> End Test Output'\n");
    log(&place, "a__b-1", &between("PASSED t.py::mend\nPASSED t.py::keep"));
    log(&place, "a__b-2", &between("FAILED t.py::mend - ModuleNotFoundError: x"));
    let summary = json(&report(&place, &["--json", "--report-dir", "out"]));
    let written: Value = serde_json::from_slice(&fs::read(place.join("out/some__model.first.json")).unwrap()).unwrap();
    assert_eq!(summary, written);
    let expected = [
        ("total_instances", json!(4)),
        ("submitted_ids", json!(["a__b-1", "a__b-2", "a__b-3"])),
        ("resolved_ids", json!(["a__b-1"])),
        ("unresolved_ids", json!(["a__b-2"])),
        ("empty_patch_ids", json!(["a__b-3"])),
        ("incomplete_ids", json!(["a__b-4"])),
        ("error_ids", json!([])),
        ("ambiguous_failure_ids", json!(["a__b-2"])),
        ("failure_reasons", json!({"a__b-2": "missing_module"})),
        ("schema_version", json!(2)),
    ];
    for (key, value) in expected {
        assert_eq!(summary[key], value, "{key}");
    }
    let one = fs::read(place.join("logs/run_evaluation/first/some__model/a__b-1/report.json")).unwrap();
    let one: Value = serde_json::from_slice(&one).unwrap();
    assert_eq!(one["a__b-1"]["tests_status"]["FAIL_TO_PASS"]["success"], json!(["t.py::mend"]));
}

#[test]
fn what_was_not_run_is_an_error_and_never_resolved() {
    let place = folder("swe-no-logs");
    prepare(&place);
    let summary = json(&report(&place, &["--json"]));
    assert_eq!((&summary["error_ids"], &summary["resolved_instances"]), (&json!(["a__b-1", "a__b-2"]), &json!(0)));
}

#[test]
fn names_stay_in_their_folder_and_unknown_instances_are_named() {
    let place = folder("swe-names");
    prepare(&place);
    let outside = json!({"x": {"instance_id": "a__b-1", "model_name_or_path": "..", "model_patch": "diff"}});
    fs::write(place.join("predictions.json"), outside.to_string()).unwrap();
    let refused = report(&place, &["--json"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stdout));
    assert!(json(&refused)["error"]["message"].as_str().unwrap().contains("`..`"));
    let unknown = json!([{"instance_id": "c__d-9", "model_patch": "diff"}]);
    fs::write(place.join("predictions.json"), unknown.to_string()).unwrap();
    let refused = report(&place, &["--json"]);
    assert!(json(&refused)["error"]["message"].as_str().unwrap().contains("c__d-9"));
}
