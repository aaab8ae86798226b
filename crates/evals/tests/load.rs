//! Verdicts on a machine that has much else to do.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{judge, judged};
use serde_json::json;

/// Threads that keep every processor busy for as long as it lives.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn new() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let count = 4 * std::thread::available_parallelism().unwrap().get();
        let spin = |stop: Arc<AtomicBool>| {
            move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        };
        let threads = (0..count).map(|_| std::thread::spawn(spin(Arc::clone(&stop)))).collect();
        Self { stop, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

/// Long: fifty times over, with and without load in turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_loaded_machine_gives_the_verdicts_of_an_idle_one() {
    let rounds = if std::env::var("SAGGAR_TEST_LONG").is_ok_and(|long| !long.is_empty()) { 100 } else { 2 };
    let code = "import time\ndef f(how):\n    end = time.process_time() + {'short': 0.1, 'long': 9.0}.get(how, 0)\n    while time.process_time() < end: pass\n    if how == 'sleep': time.sleep(0.8)\n    return 1";
    let case = |how: &str, verdict: &str| json!({"name": verdict, "args": [how], "expected": 1, "timeout_ms": 700});
    let cases = [case("short", "pass"), case("long", "timeout"), case("sleep", "pass"), case("none", "pass")];
    let task = json!({"code": code, "entry": "f", "determinism": {"clock": "cpu"}, "cases": cases});
    let judge = judge();
    for round in 0..rounds {
        let load = (round % 2 == 0).then(Load::new);
        let result = judged(&judge, &task).await;
        for case in &result.cases {
            assert_eq!(case.verdict.name(), case.name, "round {round}, load {}: {result:?}", load.is_some());
        }
    }
}

/// The same for tests, of every form that needs a sandbox of its own for the test.
#[tokio::test(flavor = "multi_thread")]
async fn processor_time_decides_for_test_programs_too() {
    let code = "import time\ndef f(how):\n    end = time.process_time() + (60 if how == 'spin' else 0)\n    while time.process_time() < end: pass\n    if how == 'sleep': time.sleep(0.9)\n    return how";
    let forms = [
        ("script", "assert f('HOW') == 'HOW'"),
        ("script", "import math\nfor _ in range(1):\n    assert f('HOW') == 'HOW'"),
        ("check", "import math\ndef check(candidate):\n    assert candidate('HOW') == 'HOW'"),
        ("check", "def check(candidate):\n    assert candidate('HOW') == 'HOW'"),
        (
            "unittest",
            "import unittest\nclass T(unittest.TestCase):\n    def test_f(self): self.assertEqual(f('HOW'), 'HOW')",
        ),
        ("auto", "def test_f():\n    assert f('HOW') == 'HOW'"),
        // In the code's own process.
        ("script", "import inspect\ninspect.getsource(f)\nassert f('HOW') == 'HOW'"),
    ];
    let case = |verdict: &str, runner: &str, test: String| json!({"name": verdict, "test": test, "runner": runner, "timeout_ms": 600});
    let mut cases = Vec::new();
    for (runner, test) in forms {
        cases.push(case("pass", runner, test.replace("HOW", "sleep")));
        cases.push(case("timeout", runner, test.replace("HOW", "spin")));
    }
    // The test's own time counts as well, and waiting does not.
    cases.push(case("timeout", "script", "f('none')\nwhile True: pass".to_owned()));
    cases.push(case("pass", "script", "import time\nf('none')\ntime.sleep(0.9)".to_owned()));
    let task = json!({"code": code, "entry": "f", "determinism": {"clock": "cpu"}, "cases": cases});
    let judge = judge();
    for loaded in [false, true] {
        let _load = loaded.then(Load::new);
        let result = judged(&judge, &task).await;
        for (index, case) in result.cases.iter().enumerate() {
            assert_eq!(case.verdict.name(), case.name, "case {index}, load {loaded}: {result:?}");
        }
    }
}
