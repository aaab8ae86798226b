//! `saggar bench` measures what it says, and says it in the promised fields. How fast anything is, is no test's concern.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::process::Output;

use common::{folder, json, run, saggar, text};
use serde_json::Value;

/// A short bench of the named things; budgets may be met or not.
fn bench(only: &[&str]) -> Value {
    let mut arguments = vec!["bench", "--quick", "--json"];
    for name in only {
        arguments.extend(["--only", name]);
    }
    let output = run(&arguments);
    let report = json(&output);
    assert_eq!(output.status.code(), Some(i32::from(report["met"] != true)), "{}", text(&output.stderr));
    assert_eq!(report["budgets"].as_array().unwrap().last().unwrap()["name"], "errors", "{report}");
    assert_eq!(report["budgets"].as_array().unwrap().last().unwrap()["value"], 0.0, "{report}");
    report
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn set<'a>(names: &[&'a str]) -> BTreeSet<&'a str> {
    names.iter().copied().collect()
}

fn pairs(rows: &Value, first: &str, second: &str) -> Vec<String> {
    rows.as_array().unwrap().iter().map(|row| format!("{} {}", row[first], row[second]).replace('"', "")).collect()
}

#[test]
fn latency_has_a_row_for_each_contender_and_work() {
    let report = bench(&["latency", "cold", "library"]);
    let fields = "saggar date command machine isolation rows throughput memory growth remarks left_out budgets met";
    assert_eq!(keys(&report), fields.split(' ').collect());
    assert_eq!(report["command"], "saggar bench --quick --only latency --only cold --only library");
    let mut expected = Vec::new();
    for work in ["hello", "humaneval", "bash", "c"] {
        expected.extend(["plain", "cold", "library"].map(|contender| format!("{work} {contender}")));
    }
    assert_eq!(pairs(&report["rows"], "work", "contender"), expected);
    for row in report["rows"].as_array().unwrap() {
        let fields = "work contender version n p50_ms p99_ms warm_share errors first_error ratio";
        assert_eq!(keys(row), fields.split(' ').collect());
        assert_eq!((&row["n"], &row["errors"], &row["p99_ms"]), (&3.into(), &0.into(), &Value::Null), "{row}");
        assert!(row["p50_ms"].as_f64().unwrap() > 0.0 && row["ratio"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["warm_share"].is_null(), row["contender"] != "library", "{row}");
    }
    let names: Vec<&str> = report["budgets"].as_array().unwrap().iter().map(|b| b["name"].as_str().unwrap()).collect();
    let warm = ["warm_p50_library_hello", "warm_p50_library_humaneval"];
    let cold = ["cold_hello", "cold_humaneval", "cold_bash", "cold_c"];
    assert_eq!(names, [&warm[..], &cold[..], &["errors"][..]].concat());
    assert_eq!(keys(&report["budgets"][0]), set(&["name", "what", "bound", "limit", "unit", "value", "met"]));
    let machine = "cpu cores memory_bytes kernel python user load_before load_after";
    assert_eq!(keys(&report["machine"]), machine.split(' ').collect());
    assert!(report["machine"]["python"].as_str().unwrap().starts_with("Python 3"), "{report}");
}

#[test]
fn throughput_has_a_row_for_each_number_of_callers() {
    let report = bench(&["throughput", "library"]);
    let mut expected = Vec::new();
    for contender in ["plain", "library"] {
        expected.extend([1, 2, 4, 16, 64].map(|callers| format!("{contender} {callers}")));
    }
    assert_eq!(pairs(&report["throughput"], "contender", "callers"), expected);
    for row in report["throughput"].as_array().unwrap() {
        let fields = "contender callers runs_per_second n p50_ms p99_ms warm_share errors first_error ratio";
        assert_eq!(keys(row), fields.split(' ').collect());
        assert!(row["n"].as_u64().unwrap() >= row["callers"].as_u64().unwrap(), "{row}");
        assert!(row["runs_per_second"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert_eq!(report["rows"], Value::Array(Vec::new()));
}

#[test]
fn growth_hands_over_more_and_more_runs_at_once() {
    let report = bench(&["growth"]);
    let growth = &report["growth"];
    assert_eq!(keys(growth), set(&["levels", "order", "stopped"]));
    assert_eq!(pairs(&growth["levels"], "runs", "errors"), ["1 0", "10 0", "100 0"]);
    for level in growth["levels"].as_array().unwrap() {
        let fields = "runs total_ms per_run_ms first_ms median_ms last_ms at_once peak_rss_bytes errors first_error";
        assert_eq!(keys(level), fields.split(' ').collect());
        let [first, median, last] = ["first_ms", "median_ms", "last_ms"].map(|name| level[name].as_f64().unwrap());
        assert!(first <= median && median <= last, "{level}");
        assert!(level["at_once"].as_u64().unwrap() <= level["runs"].as_u64().unwrap(), "{level}");
    }
    // An engine that starts everything at once is not pushed further, and the report says so.
    assert_ne!(growth["order"].is_null(), growth["stopped"].is_null(), "{growth}");
}

#[test]
fn what_the_interpreter_loads_by_itself_is_a_row_of_its_own() {
    let report = bench(&["latency", "hello", "bash", "nosite"]);
    assert_eq!(pairs(&report["rows"], "work", "contender"), ["hello plain", "hello nosite", "bash plain"]);
}

#[test]
fn the_document_has_the_tables_and_no_home() {
    let place = folder("bench-document");
    let document = place.join("BENCHMARKS.md");
    let temporary = place.join("tmp");
    fs::create_dir(&temporary).unwrap();
    let path = document.to_str().unwrap();
    let arguments =
        ["bench", "run", "--quick", "--rounds", "2", "--only", "latency", "--only", "cold", "--only", "bash"];
    // What another measurement has written there stays; what this one wrote does not.
    let judged = "## The judge beside the data set's own evaluator\n\nkept\n";
    fs::write(&document, format!("# Benchmarks\n\noutdated\n\n{judged}")).unwrap();
    let output = saggar(&arguments).args(["--markdown", path]).env("TMPDIR", &temporary).output().unwrap();
    let shown = text(&output.stdout);
    let written = fs::read_to_string(&document).unwrap();
    for part in ["## Latency, one caller", "| bash | cold | 2 | ", "## Budgets", "| cold_bash | <= 4 ms | "] {
        assert!(written.contains(part), "{part}: {written}");
    }
    assert!(shown.contains("Latency, one caller\n") && shown.contains("cold_bash"), "{shown}");
    assert!(written.contains("Made by `saggar bench --quick --rounds 2 --only latency --only cold --only bash` on "));
    for word in ["/root", "/home", path] {
        assert!(!written.contains(word) && !shown.contains(word), "{word}: {written}");
    }
    assert!(written.ends_with(&format!("\n{judged}")) && !written.contains("outdated"), "{written}");
    assert_eq!(text(&output.stderr), "");
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "something is left behind");
}

#[test]
fn what_is_not_there_or_unknown_is_refused() {
    let code = |output: &Output| json(output)["error"]["code"].as_str().unwrap().to_owned();
    let output = run(&["bench", "e2b", "--client", "/nowhere/python3", "--json"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(json(&output)["error"]["message"].as_str().unwrap().contains("pip install e2b-code-interpreter"));
    for wrong in [&["--only", "podman"][..], &["--rounds", "0"], &["evolve"], &["judge"]] {
        let output = run(&[&["bench", "--json"], wrong].concat());
        assert_eq!((output.status.code(), code(&output).as_str()), (Some(2), "usage"), "{wrong:?}");
    }
}
