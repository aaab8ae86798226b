//! An engine with a state folder of its own, and short programs.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

use std::path::Path;
use std::sync::Arc;

use engine::{Engine, Settings};
use types::{ExecRequest, Source};

pub(crate) fn engine() -> Arc<Engine> {
    let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join("state");
    Arc::new(Engine::open(Settings { state, ..Settings::default() }).unwrap())
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
