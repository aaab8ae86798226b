//! Stages of an evaluator with limits of their own: the cheap ones first, the dear ones for who is worth them.

use serde::{Deserialize, Serialize};
use types::LimitsSpec;

use super::error::EvolveError;

/// Stages that a task may have.
const MOST: usize = 16;

/// A stage as written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Written {
    threshold: Option<f64>,
    limits: LimitsSpec,
}

/// One stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stage {
    /// Which functions of the evaluator are this stage: the first that is there.
    pub functions: Vec<String>,
    /// The score from which on the next stage is worth its time.
    pub threshold: Option<f64>,
    /// What differs from the task's own limits.
    pub limits: LimitsSpec,
}

impl Stage {
    /// The task's limits with the stage's own over them.
    pub(crate) fn over(&self, limits: &LimitsSpec) -> LimitsSpec {
        let LimitsSpec { wall_ms, cpu_ms, memory_mb, cpus, pids, disk_mb, inodes, output_kb } = self.limits.clone();
        LimitsSpec {
            wall_ms: wall_ms.or(limits.wall_ms),
            cpu_ms: cpu_ms.or(limits.cpu_ms),
            memory_mb: memory_mb.or(limits.memory_mb),
            cpus: cpus.or(limits.cpus),
            pids: pids.or(limits.pids),
            disk_mb: disk_mb.or(limits.disk_mb),
            inodes: inodes.or(limits.inodes),
            output_kb: output_kb.or(limits.output_kb),
        }
    }
}

/// The stages of a task, first to last. Each is `evaluate_stage1`, `evaluate_stage2`, …; the last may be `evaluate`.
pub(super) fn read(written: &[Written], thresholds: Option<&[f64]>) -> Result<Vec<Stage>, EvolveError> {
    if !written.is_empty() && thresholds.is_some() {
        return Err(EvolveError::Task("it has `thresholds` and `stages`: a stage has its own `threshold`".to_owned()));
    }
    if written.len() > MOST || written.iter().any(|stage| stage.threshold.is_some_and(f64::is_nan)) {
        return Err(EvolveError::Task(format!("`stages` must be at most {MOST}, each `threshold` a number")));
    }
    let stage = |(index, stage): (usize, &Written)| {
        let mut functions = vec![format!("evaluate_stage{}", index + 1)];
        functions.extend((index + 1 == written.len()).then(|| "evaluate".to_owned()));
        Stage { functions, threshold: stage.threshold, limits: stage.limits.clone() }
    };
    Ok(written.iter().enumerate().map(stage).collect())
}
