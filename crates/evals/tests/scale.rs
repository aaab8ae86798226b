//! Large tasks: time grows with the cases, memory does not.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

mod common;

use std::io::Read;
use std::sync::Arc;

use common::{judge, judged};
use evals::judge::{Out, Progress, batch};
use serde_json::{Value, json};

/// One test at a time: each looks at the memory of this process.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Of this process, from the kernel.
fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() >> 10
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_cases_are_one_task() {
    let _alone = ALONE.lock().await;
    let cases: Vec<Value> =
        (0..10_000).map(|i| json!({"args": [i], "expected": i * 2 + i32::from(i == 5000)})).collect();
    let result = judged(&judge(), &json!({"code": "def f(x): return x * 2", "entry": "f", "cases": cases})).await;
    assert_eq!((result.passed, result.total), (9_999, 10_000));
    assert_eq!(result.cases[5000].verdict.name(), "wrong_answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_megabytes_of_output_in_each_case_cost_no_memory() {
    let _alone = ALONE.lock().await;
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

/// Long: a hundred thousand.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_many_tasks_takes_no_more_memory_than_a_short_one() {
    let _alone = ALONE.lock().await;
    let many: u64 = if std::env::var("SAGGAR_TEST_LONG").is_ok_and(|long| !long.is_empty()) { 100_000 } else { 600 };
    let line = |i: u64| {
        let case = json!({"args": [i], "expected": i * 2});
        json!({"task_id": i, "code": "def f(x): return x * 2", "entry": "f", "cases": [case]}).to_string() + "\n"
    };
    let mut next = 0;
    let lines = std::iter::from_fn(move || {
        next += 1;
        (next <= many).then(|| line(next))
    });
    let input = Lines { lines: Box::new(lines), rest: Vec::new() };
    let (mut early, mut late) = (0, 0);
    let progress = |told: Progress| {
        if told.done == many / 10 {
            early = resident_mib();
        } else if told.done == many {
            late = resident_mib();
        }
    };
    let out = Out::Writer(Box::new(std::io::sink()));
    let summary = batch(Arc::new(judge()), 4, Box::new(input), out, progress).await.unwrap();
    assert_eq!((summary.tasks, summary.all_passed), (many, many));
    assert!(early > 0 && late < early + 32, "{early} MiB after a tenth of the tasks, {late} MiB at the end");
}

/// Lines that are made as they are read.
struct Lines {
    lines: Box<dyn Iterator<Item = String> + Send>,
    rest: Vec<u8>,
}

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.rest.is_empty() {
            self.rest = self.lines.next().unwrap_or_default().into_bytes();
        }
        let count = self.rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.rest[..count]);
        self.rest.drain(..count);
        Ok(count)
    }
}
