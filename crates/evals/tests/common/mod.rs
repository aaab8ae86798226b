//! A judge with a state folder of its own.
#![allow(clippy::unwrap_used, dead_code, reason = "tests fail loudly, and each file uses its share")]

use std::path::Path;
use std::sync::Arc;

use engine::{Caller, Engine, PoolSettings, Settings};
use evals::judge::{Judge, Judged, Task};
use serde_json::Value;
use types::ExecRequest;

/// One that keeps interpreters ready. To be made inside a runtime.
pub(crate) fn judge() -> Judge {
    Judge::new(engine(), Caller::default(), ExecRequest::default())
}

pub(crate) fn engine() -> Arc<Engine> {
    let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join("state");
    let pool = PoolSettings { running: 1000, ..PoolSettings::default() };
    Arc::new(Engine::open(Settings { state, pool, ..Settings::default() }).unwrap().with_pool())
}

pub(crate) async fn judged(judge: &Judge, task: &Value) -> Judged {
    let task = Task::from_any(&task.to_string()).unwrap();
    judge.judge(&task).await.unwrap()
}

/// Names and verdicts, as words.
pub(crate) fn verdicts(judged: &Judged) -> Vec<(&str, &str)> {
    judged.cases.iter().map(|case| (case.name.as_str(), case.verdict.name())).collect()
}
