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
