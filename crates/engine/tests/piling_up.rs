//! Many runs one after another: nothing piles up. A process of its own, because it counts what the process has.
//!
//! `SAGGAR_TEST_LONG=1` runs the full number.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{bash, engine, settle};
use engine::{Caller, Delivery, Engine};
use types::{LimitKind, LimitsSpec, Outcome};

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Resident bytes of a process.
fn resident(pid: u32) -> u64 {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

fn keepers() -> Vec<u32> {
    let pid = std::process::id();
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    found
}

/// Groups of our keepers that still exist, in any hierarchy.
fn groups() -> usize {
    let prefixes: Vec<String> = keepers().iter().map(|pid| format!("saggar-{pid}-")).collect();
    let mut count = 0;
    let mut folders = vec![Path::new("/sys/fs/cgroup").to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let name = entry.file_name().to_string_lossy().into_owned();
                count += usize::from(prefixes.iter().any(|prefix| name.starts_with(prefix)));
                folders.push(entry.path());
            }
        }
    }
    count
}

#[tokio::test(flavor = "current_thread")]
async fn nothing_piles_up() {
    let total: usize = if std::env::var_os("SAGGAR_TEST_LONG").is_some() { 20_000 } else { 1_000 };
    let engine = engine();
    // Warm up: the keeper and its buffers.
    rounds(&engine, 50).await;
    let keeper = *keepers().first().unwrap();
    let me = std::process::id();
    settle(|| groups() == 0, "groups");
    let before = (descriptors(me), descriptors(keeper));
    let memory = (resident(me), resident(keeper));
    rounds(&engine, total).await;
    settle(|| groups() == 0, "groups");
    settle(|| descriptors(me) <= before.0 && descriptors(keeper) <= before.1, "descriptors");
    let grown = (resident(me).saturating_sub(memory.0), resident(keeper).saturating_sub(memory.1));
    assert!(grown.0 < 16 << 20 && grown.1 < 2 << 20, "memory grew by {grown:?} bytes over {total} runs");
    let children = fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children")).unwrap();
    assert_eq!(children, "", "zombies or survivors");
}

/// `total` runs of mixed kinds, sixteen at a time.
async fn rounds(engine: &Arc<Engine>, total: usize) {
    let next = Arc::new(AtomicUsize::new(0));
    let mut callers = Vec::new();
    for _ in 0..16 {
        let (engine, next) = (Arc::clone(engine), Arc::clone(&next));
        callers.push(tokio::spawn(async move {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= total {
                    return;
                }
                one(&engine, i).await;
            }
        }));
    }
    for caller in callers {
        caller.await.unwrap();
    }
}

async fn one(engine: &Engine, i: usize) {
    let (mut request, wanted) = match i % 50 {
        7 => (bash("sleep 60"), Outcome::LimitExceeded { limit: LimitKind::Wall }),
        17 => (bash("kill -SEGV $$"), Outcome::Signaled { signal: 11 }),
        27 => (bash("for i in 1 2 3 4 5; do sleep 60 & done; exit 3"), Outcome::Exited { code: 3 }),
        37 => (bash("head -c 300000 /dev/zero; exit 4"), Outcome::Exited { code: 4 }),
        _ => (bash("exit 0"), Outcome::Exited { code: 0 }),
    };
    if i % 50 == 7 {
        request.limits = LimitsSpec { wall_ms: Some(20.0), ..LimitsSpec::default() };
    }
    let result = engine.execute(&Caller::default(), request, Delivery::default()).await.unwrap();
    assert_eq!(result.outcome, wanted, "run {i}");
}
