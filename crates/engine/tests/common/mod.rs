//! An engine with a state folder of its own, and short programs.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]
#![allow(dead_code, reason = "each test file uses its share")]

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

pub(crate) fn settle(done: impl Fn() -> bool, what: &str) {
    let start = std::time::Instant::now();
    while !done() {
        assert!(start.elapsed().as_secs() < 30, "{what} are left behind");
        std::thread::yield_now();
    }
}
