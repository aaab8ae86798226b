//! Warm workers under mixed load for a while: right outcomes, flat memory, flat latency, nothing left.
//!
//! `SAGGAR_TEST_LOAD` is for how many seconds; without it a short look.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

mod common;

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{bash, children, is_zygote, python, settings, settle};
use engine::{Caller, Delivery, Engine, PoolSettings, Settings};
use types::{ExecRequest, ExecResult, LimitKind, LimitsSpec, Outcome};

const CALLERS: usize = 16;

/// One kind of run, and what must come of it.
struct Kind {
    request: fn() -> ExecRequest,
    is_right: fn(&ExecResult) -> bool,
}

fn limited(code: &str, limits: LimitsSpec) -> ExecRequest {
    ExecRequest { limits, ..python(code) }
}

/// Short, crashing, out of memory, out of time, forking. The first is the one whose latency is looked at.
const KINDS: &[Kind] = &[
    Kind { request: || python("print(sum(range(100)))"), is_right: |r| r.ok && r.stdout == "4950\n" },
    Kind {
        request: || python("def f(n):\n    return f(n - 1) / n\nf(3)\nimport sys\nsys.setrecursionlimit(50)\nf(99)"),
        is_right: |r| r.outcome == Outcome::Exited { code: 1 } && r.exception.is_some(),
    },
    Kind {
        request: || python("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)"),
        is_right: |r| r.outcome == Outcome::Signaled { signal: 11 },
    },
    Kind {
        request: || {
            let limits = LimitsSpec { memory_mb: Some(48.0), ..LimitsSpec::default() };
            limited("b = bytearray(200 << 20)\nprint(len(b))", limits)
        },
        is_right: |r| r.outcome == Outcome::LimitExceeded { limit: LimitKind::Memory },
    },
    Kind {
        request: || limited("while True: pass", LimitsSpec { wall_ms: Some(60.0), ..LimitsSpec::default() }),
        is_right: |r| r.outcome == Outcome::LimitExceeded { limit: LimitKind::Wall },
    },
    Kind {
        request: || {
            python(
                "import os\nfor _ in range(8):\n    if os.fork() == 0:\n        os.setsid()\n        while True: os.wait3(0) if 0 else __import__('time').sleep(9)\nprint('left them')",
            )
        },
        is_right: |r| r.ok && r.stdout == "left them\n",
    },
    Kind { request: || bash("for i in 1 2 3; do (echo $i); done"), is_right: |r| r.ok && r.stdout == "1\n2\n3\n" },
    Kind {
        request: || ExecRequest { language: Some("node".to_owned()), ..python("console.log(6 * 7)") },
        is_right: |r| r.ok && r.stdout == "42\n",
    },
];

/// Resident bytes and open descriptors of this process and all below it that are not runs.
fn sizes() -> (u64, usize) {
    let keepers = children(std::process::id());
    let helpers: Vec<u32> = keepers.iter().flat_map(|keeper| children(*keeper)).filter(|pid| is_ours(*pid)).collect();
    let mut sum = (0, 0);
    for pid in keepers.into_iter().chain(helpers).chain([std::process::id()]) {
        let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        sum.0 += statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096;
        sum.1 += fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    }
    sum
}

/// Zygotes and sweepers; inits come and go.
fn is_ours(pid: u32) -> bool {
    is_zygote(pid) || fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.contains("sweeper"))
}

#[test]
fn mixed_load_changes_nothing() {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(mixed_load());
    settle(|| children(std::process::id()).iter().all(|pid| children(*pid).is_empty()), "processes");
}

async fn mixed_load() {
    let seconds = std::env::var("SAGGAR_TEST_LOAD").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let pool = PoolSettings { idle: Duration::from_secs(2), ..settings().pool };
    let engine = Arc::new(Engine::open(Settings { pool, ..settings() }).unwrap().with_pool());
    let whole = Duration::from_secs(seconds);
    // Buffers and zygotes are there after the first quarter; from then on nothing may grow.
    let early = load(&engine, whole / 4).await;
    let before = sizes();
    let late = load(&engine, whole / 4 * 3).await;
    let after = sizes();
    eprintln!(
        "{} and {} runs; short ones took {:?}, then {:?}; {before:?}, then {after:?}",
        early.0, late.0, early.1, late.1
    );
    assert!(after.0 < before.0 + (24 << 20), "memory grew from {} to {} bytes", before.0, after.0);
    assert!(after.1 < before.1 + 64, "descriptors grew from {} to {}", before.1, after.1);
    assert!(late.1 < early.1 * 3, "latency grew from {:?} to {:?}", early.1, late.1);
}

/// Sixteen callers, each with every kind in turn: how many runs there were, and the median of the short ones.
async fn load(engine: &Arc<Engine>, whole: Duration) -> (usize, Duration) {
    let start = Instant::now();
    let (count, times) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let mut callers = Vec::new();
    for number in 0..CALLERS {
        let (engine, count, times) = (Arc::clone(engine), Arc::clone(&count), Arc::clone(&times));
        callers.push(tokio::spawn(async move {
            let caller = Caller { name: number.to_string(), ..Caller::default() };
            for kind in (number..).map(|step| step % KINDS.len()) {
                if start.elapsed() > whole {
                    return;
                }
                let begun = Instant::now();
                let result = engine.execute(&caller, (KINDS[kind].request)(), Delivery::default()).await.unwrap();
                assert!((KINDS[kind].is_right)(&result), "kind {kind}: {result:?}");
                count.fetch_add(1, Ordering::Relaxed);
                if kind == 0 {
                    times.lock().unwrap().push(begun.elapsed());
                }
            }
        }));
    }
    for caller in callers {
        caller.await.unwrap();
    }
    let mut times = times.lock().unwrap();
    times.sort_unstable();
    (count.load(Ordering::Relaxed), times[times.len() / 2])
}
