//! Every verdict is in the audit trail before it is told.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

mod common;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use common::judged;
use engine::{Caller, Engine, Filter, PoolSettings, Reader, Record, Settings};
use evals::judge::{Judge, Out, Task, batch};
use serde_json::{Value, json};
use types::ExecRequest;

const ADD: &str = "def add(a, b): return a + b";

/// A judge with a trail of its own.
fn judge(name: &str) -> (PathBuf, Judge) {
    let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trail").join(name);
    let _ = std::fs::remove_dir_all(&state);
    let pool = PoolSettings { running: 1000, ..PoolSettings::default() };
    let settings = Settings { state: state.clone(), pool, ..Settings::default() };
    let engine = Arc::new(Engine::open(settings).unwrap().with_pool());
    (state, Judge::new(engine, Caller { name: "somebody".to_owned(), ..Caller::default() }, ExecRequest::default()))
}

fn entries(state: &Path) -> Vec<Record> {
    let reader = Reader::open(state).unwrap();
    assert!(reader.verify().unwrap().ok);
    let mut entries = reader.newest(&Filter::default(), 10_000).unwrap();
    entries.reverse();
    entries
}

fn of_judge(state: &Path) -> Vec<Record> {
    entries(state).into_iter().filter(|entry| entry.kind == "judge").collect()
}

fn task(code: &str, expected: i32) -> Value {
    let case = |i: i32| json!({"args": [i, 2], "expected": expected, "hidden": true});
    json!({"task_id": "t", "code": code, "entry": "add", "policy": "guard", "cases": [case(1), case(2)]})
}

#[tokio::test(flavor = "multi_thread")]
async fn verdicts_refusals_and_errors_have_entries_with_what_they_are_about() {
    let (state, judge) = judge("verdicts");
    let tasks = [
        ("failed", task(ADD, 3)),
        ("refused", task("import os\nos.system('id')\ndef add(a, b): return 3", 3)),
        ("passed", json!({"code": ADD, "cases": [{"test": "assert add(1, 2) == 3"}], "entry": "add"})),
    ];
    let mut told = Vec::new();
    for (outcome, task) in &tasks {
        let result = judged(&judge, task).await;
        // The entry is there when the verdict is.
        let last = entries(&state).pop().unwrap();
        assert_eq!((last.id.as_str(), last.kind.as_str(), last.outcome.as_str()), (&*result.id, "judge", *outcome));
        assert_eq!(last.caller, "somebody");
        told.push(serde_json::from_str::<Value>(&last.details).unwrap());
    }
    assert_eq!(told[0]["verdicts"], json!({"pass": 1, "wrong_answer": 1}));
    assert_eq!((&told[0]["score"], &told[0]["cases"]), (&json!(0.5), &json!(2)));
    assert_eq!((&told[1]["verdicts"], &told[1]["policy"]), (&json!({"refused": 2}), &json!("guard")));
    assert_eq!(told[2]["code"]["bytes"], ADD.len());
    // Its sandboxes have entries too, of the same code.
    let runs: Vec<Value> = entries(&state)
        .iter()
        .filter(|entry| entry.kind == "run")
        .map(|entry| serde_json::from_str(&entry.details).unwrap())
        .collect();
    assert!(runs.iter().any(|run| run["code"] == told[0]["code"]), "{runs:?}");
    let mut endless = task(ADD, 3);
    endless["limits"] = json!({"wall_ms": 1e13});
    let error = judge.judge(&Task::from_any(&endless.to_string()).unwrap()).await.unwrap_err();
    let last = entries(&state).pop().unwrap();
    assert_eq!((last.kind.as_str(), json!(last.outcome)), ("judge", serde_json::to_value(error.code()).unwrap()));
}

/// Lines for whoever looks at them.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_leaves_an_entry_for_each_line_by_the_lines_own_id() {
    let (state, judge) = judge("batch");
    let lines: String = (0..40).map(|i| task(&format!("{ADD} + {}", i % 2), 4).to_string() + "\n").collect();
    let out = Lines::default();
    let input = Box::new(std::io::Cursor::new(lines.into_bytes()));
    let summary = batch(Arc::new(judge), 4, input, Out::Writer(Box::new(out.clone())), |_| {}).await.unwrap();
    assert_eq!(summary.tasks, 40);
    let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
    let mut ids: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned())
        .collect();
    let mut found: Vec<String> = of_judge(&state).into_iter().map(|entry| entry.id).collect();
    ids.sort();
    found.sort();
    assert_eq!(ids, found);
}
