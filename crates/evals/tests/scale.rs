//! Large tasks: time grows with the cases, memory does not.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

mod common;

use common::{judge, judged};
use serde_json::{Value, json};

/// Of this process, from the kernel.
fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() >> 10
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_cases_are_one_task() {
    let cases: Vec<Value> =
        (0..10_000).map(|i| json!({"args": [i], "expected": i * 2 + i32::from(i == 5000)})).collect();
    let result = judged(&judge(), &json!({"code": "def f(x): return x * 2", "entry": "f", "cases": cases})).await;
    assert_eq!((result.passed, result.total), (9_999, 10_000));
    assert_eq!(result.cases[5000].verdict.name(), "wrong_answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_megabytes_of_output_in_each_case_cost_no_memory() {
    let code = "import sys\ndef f(x):\n    for _ in range(100): sys.stdout.write('x' * (1 << 20))\n    return x";
    let cases: Vec<Value> = (0..5).map(|i| json!({"args": [i], "expected": i, "timeout_ms": 60000})).collect();
    let judge = judge();
    let before = resident_mib();
    let result = judged(&judge, &json!({"code": code, "entry": "f", "cases": cases})).await;
    assert!(result.all_passed, "{result:?}");
    let program = "import sys\nfor _ in range(100): sys.stdout.write('x' * (1 << 20))";
    let cases: Vec<Value> = (0..3).map(|_| json!({"stdin": "", "stdout": "x", "timeout_ms": 60000})).collect();
    let result = judged(&judge, &json!({"code": program, "cases": cases})).await;
    assert!(result.cases.iter().all(|case| case.verdict.name() == "wrong_answer"), "{result:?}");
    let grown = resident_mib().saturating_sub(before);
    assert!(grown < 64, "grew by {grown} MiB");
}
