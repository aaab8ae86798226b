//! What a sandbox uses, as far as somebody has asked.

use axum::response::Response;
use engine::Session;
use serde_json::{Value, json};
use std::time::SystemTime;
use types::Timestamp;

use super::envd::{Asked, json as answer};
use super::fault::Fault;
use super::sandbox::Sandbox;

/// Samples that are kept.
const MOST: usize = 500;

/// What it used at a moment.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    at: Timestamp,
    cpu_ms: f64,
    cpus: f64,
    /// Of all its processors, since the sample before.
    cpu_percent: f64,
    memory: u64,
    memory_total: u64,
    disk: u64,
    disk_total: u64,
}

impl Sample {
    fn seconds(&self) -> i64 {
        self.at.0.div_euclid(1_000_000)
    }

    fn told(&self) -> Value {
        json!({
            "timestamp": self.at,
            "timestampUnix": self.seconds(),
            "cpuCount": whole_cpus(self.cpus),
            "cpuUsedPct": self.cpu_percent,
            "memUsed": self.memory,
            "memTotal": self.memory_total,
            "memCache": 0,
            "diskUsed": self.disk,
            "diskTotal": self.disk_total,
        })
    }
}

/// Processors that a sandbox has, of which there is at least one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of processors is small and positive"
)]
pub(super) fn whole_cpus(cpus: f64) -> u32 {
    cpus.ceil().max(1.0) as u32
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "limits are positive and below 2^53")]
fn bytes(mb: Option<f64>) -> u64 {
    (mb.unwrap_or_default() * 1_048_576.0) as u64
}

async fn take(sandbox: &Sandbox, session: &Session) -> Result<Sample, Fault> {
    let info = session.info_with_usage().await?;
    let usage = info.usage.unwrap_or_default();
    let cpus = info.limits.cpus.unwrap_or(1.0);
    let at: Timestamp = SystemTime::now().into();
    let mut state = sandbox.state();
    let (before_at, before_cpu) =
        state.samples.last().map_or((sandbox.created, 0.0), |sample| (sample.at, sample.cpu_ms));
    let passed_ms = ((at.0 - before_at.0) as f64 / 1000.0).max(1.0);
    let used = (usage.usage.cpu_ms - before_cpu).max(0.0);
    let sample = Sample {
        at,
        cpu_ms: usage.usage.cpu_ms,
        cpus,
        cpu_percent: (used / passed_ms / cpus * 100.0).min(100.0),
        memory: usage.memory_bytes.unwrap_or(usage.usage.peak_memory_bytes),
        memory_total: bytes(info.limits.memory_mb),
        disk: usage.disk_bytes,
        disk_total: bytes(info.limits.disk_mb),
    };
    if state.samples.len() >= MOST {
        state.samples.remove(0);
    }
    state.samples.push(sample.clone());
    Ok(sample)
}

/// Samples between two moments, in seconds since 1970; the last is taken now, if it is between them.
pub(super) async fn between(sandbox: &Sandbox, start: Option<i64>, end: Option<i64>) -> Result<Vec<Value>, Fault> {
    if let Some(session) = sandbox.session() {
        take(sandbox, &session).await?;
    }
    let is_wanted = |sample: &&Sample| {
        let at = sample.seconds();
        start.is_none_or(|start| at >= start) && end.is_none_or(|end| at <= end)
    };
    Ok(sandbox.state().samples.iter().filter(is_wanted).map(Sample::told).collect())
}

/// As the program in the sandbox tells it.
pub(super) async fn now(asked: &Asked<'_>) -> Result<Response, Fault> {
    let sample = take(asked.sandbox, &asked.session).await?;
    Ok(answer(&json!({
        "ts": sample.seconds(),
        "cpu_count": whole_cpus(sample.cpus),
        "cpu_used_pct": sample.cpu_percent,
        "mem_total": sample.memory_total,
        "mem_used": sample.memory,
        "mem_cache": 0,
        "disk_used": sample.disk,
        "disk_total": sample.disk_total,
    })))
}
