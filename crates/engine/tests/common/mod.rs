//! An engine with a state folder of its own, and short programs.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]
#![allow(dead_code, reason = "each test file uses its share")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use engine::{Engine, PoolSettings, Settings};
use types::{ExecRequest, Source};

pub(crate) fn settings() -> Settings {
    let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join("state");
    // Nobody waits in line, unless that is the test.
    let pool = PoolSettings { running: 1000, ..PoolSettings::default() };
    Settings { state, pool, ..Settings::default() }
}

pub(crate) fn engine() -> Arc<Engine> {
    Arc::new(Engine::open(settings()).unwrap())
}

pub(crate) fn bash(code: &str) -> ExecRequest {
    ExecRequest { language: Some("bash".to_owned()), code: Some(Source(code.into())), ..ExecRequest::default() }
}

pub(crate) fn python(code: &str) -> ExecRequest {
    ExecRequest { code: Some(Source(code.into())), ..ExecRequest::default() }
}

/// Children of a process, by all its threads.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()).collect()
}

pub(crate) fn is_zygote(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("--zygote"))
}

/// Waits in this thread alone: for the end of what is not ours to run.
pub(crate) fn settle(done: impl Fn() -> bool, what: &str) {
    let start = std::time::Instant::now();
    while !done() {
        assert!(start.elapsed().as_secs() < 30, "{what} are left behind");
        std::thread::yield_now();
    }
}
pub(crate) mod sessions;
