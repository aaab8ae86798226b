//! Limits as a user writes them, and as the engine enforces them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Limits as written: every field optional, unknown fields refused.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsSpec {
    /// Time on the clock, in milliseconds.
    pub wall_ms: Option<f64>,
    /// Time on the processors over the whole tree, in milliseconds; no limit of its own if absent.
    pub cpu_ms: Option<f64>,
    /// Memory of the whole tree, in MiB.
    pub memory_mb: Option<f64>,
    /// Share of the processors; 1.0 is one of them.
    pub cpus: Option<f64>,
    /// Processes and threads at once.
    pub pids: Option<u64>,
    /// Bytes that can be written, in MiB.
    pub disk_mb: Option<f64>,
    /// Files and folders that can be made.
    pub inodes: Option<u64>,
    /// Output kept of each stream, in KiB.
    pub output_kb: Option<f64>,
}

/// What the engine enforces: no gap left.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Time on the clock.
    pub wall: Duration,
    /// Time on the processors, if limited.
    pub cpu: Option<Duration>,
    /// Bytes of memory.
    pub memory: u64,
    /// Share of the processors.
    pub cpus: f64,
    /// Processes and threads.
    pub pids: u64,
    /// Bytes on disk (in memory, in fact: they count toward `memory` too).
    pub disk: u64,
    /// Files and folders.
    pub inodes: u64,
    /// Bytes kept of each output stream.
    pub output: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall: Duration::from_secs(30),
            cpu: None,
            memory: 512 << 20,
            cpus: 1.0,
            pids: 64,
            disk: 100 << 20,
            inodes: 20_000,
            output: 100 << 10,
        }
    }
}

/// The most that a caller may ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct Ceiling(pub Limits);

impl Default for Ceiling {
    /// What the owner of the machine may ask: bounds that only a mistake exceeds.
    fn default() -> Self {
        let day = Duration::from_hours(24);
        Self(Limits {
            wall: day,
            cpu: Some(day),
            memory: 1 << 40,
            cpus: 1024.0,
            pids: 1 << 20,
            disk: 1 << 40,
            inodes: 1 << 30,
            output: 1 << 30,
        })
    }
}

/// Why limits were refused. They are never changed in silence.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LimitError {
    /// Zero, negative, not a number, or so little that nothing could run.
    #[error("limit `{name}` is {asked}, and must be {least}")]
    TooSmall {
        /// The field.
        name: &'static str,
        /// What was asked.
        asked: String,
        /// What it must exceed or reach.
        least: &'static str,
    },
    /// More than this caller may have.
    #[error("limit `{name}` is {asked}, above the ceiling of {ceiling}")]
    AboveCeiling {
        /// The field.
        name: &'static str,
        /// What was asked.
        asked: String,
        /// What may be asked.
        ceiling: String,
    },
}

impl LimitsSpec {
    /// Fills gaps from `defaults` and refuses what is zero, absurd or above `ceiling`.
    pub fn resolve(&self, defaults: &Limits, ceiling: &Ceiling) -> Result<Limits, LimitError> {
        let most = &ceiling.0;
        let limits = Limits {
            wall: duration("wall_ms", self.wall_ms, defaults.wall)?,
            cpu: self.cpu_ms.map(|ms| duration("cpu_ms", Some(ms), Duration::ZERO)).transpose()?.or(defaults.cpu),
            memory: bytes("memory_mb", self.memory_mb, 1 << 20, (LEAST_MEMORY, "at least 1"), defaults.memory)?,
            cpus: self.cpus.unwrap_or(defaults.cpus),
            pids: count("pids", self.pids, defaults.pids)?,
            disk: bytes("disk_mb", self.disk_mb, 1 << 20, ABOVE_NOTHING, defaults.disk)?,
            inodes: count("inodes", self.inodes, defaults.inodes)?,
            output: bytes("output_kb", self.output_kb, 1 << 10, ABOVE_NOTHING, defaults.output)?,
        };
        // Below a hundredth the kernel's quota of 1 ms per 100 ms cannot express the share.
        if limits.cpus.is_nan() || limits.cpus < 0.01 {
            return Err(too_small("cpus", limits.cpus, "at least 0.01"));
        }
        within("wall_ms", limits.wall.as_millis(), most.wall.as_millis())?;
        if let (Some(cpu), Some(most)) = (limits.cpu, most.cpu) {
            within("cpu_ms", cpu.as_millis(), most.as_millis())?;
        }
        within("memory_mb", limits.memory >> 20, most.memory >> 20)?;
        within("cpus", limits.cpus, most.cpus)?;
        within("pids", limits.pids, most.pids)?;
        within("disk_mb", limits.disk >> 20, most.disk >> 20)?;
        within("inodes", limits.inodes, most.inodes)?;
        within("output_kb", limits.output >> 10, most.output >> 10)?;
        Ok(limits)
    }
}

fn duration(name: &'static str, ms: Option<f64>, default: Duration) -> Result<Duration, LimitError> {
    let Some(ms) = ms else { return Ok(default) };
    if ms.is_nan() || ms <= 0.0 {
        return Err(too_small(name, ms, "above 0"));
    }
    // Past any ceiling is still a number to compare with the ceiling.
    Ok(Duration::try_from_secs_f64(ms / 1000.0).unwrap_or(Duration::MAX))
}

/// Below that no program of any language comes to its first line, and what is said of it would be "0 MiB".
const LEAST_MEMORY: u64 = 1 << 20;
/// The least number of bytes, and how that is said.
const ABOVE_NOTHING: (u64, &str) = (1, "above 0");

fn too_small(name: &'static str, asked: f64, least: &'static str) -> LimitError {
    LimitError::TooSmall { name, asked: asked.to_string(), least }
}

fn bytes(
    name: &'static str,
    amount: Option<f64>,
    unit: u64,
    (least, said): (u64, &'static str),
    default: u64,
) -> Result<u64, LimitError> {
    let Some(amount) = amount else { return Ok(default) };
    let bytes = amount * unit as f64;
    if bytes.is_nan() || bytes < least as f64 {
        return Err(too_small(name, amount, said));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; `as` saturates")]
    Ok(bytes as u64)
}

fn count(name: &'static str, amount: Option<u64>, default: u64) -> Result<u64, LimitError> {
    match amount.unwrap_or(default) {
        0 => Err(too_small(name, 0.0, "above 0")),
        amount => Ok(amount),
    }
}

fn within<T: PartialOrd + ToString + Copy>(name: &'static str, asked: T, ceiling: T) -> Result<(), LimitError> {
    if asked > ceiling {
        return Err(LimitError::AboveCeiling { name, asked: asked.to_string(), ceiling: ceiling.to_string() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(spec: &LimitsSpec) -> Result<Limits, LimitError> {
        spec.resolve(&Limits::default(), &Ceiling::default())
    }

    #[test]
    fn an_empty_request_gets_the_defaults_of_the_contract() {
        assert_eq!(resolve(&LimitsSpec::default()), Ok(Limits::default()));
    }

    #[test]
    fn half_a_second_stays_half_a_second() {
        let limits = resolve(&LimitsSpec { wall_ms: Some(500.0), ..LimitsSpec::default() }).unwrap();
        assert_eq!(limits.wall, Duration::from_millis(500));
    }

    #[test]
    fn zero_negative_and_absurd_limits_are_refused() {
        for spec in [
            LimitsSpec { wall_ms: Some(0.0), ..LimitsSpec::default() },
            LimitsSpec { wall_ms: Some(-1.0), ..LimitsSpec::default() },
            LimitsSpec { wall_ms: Some(f64::INFINITY), ..LimitsSpec::default() },
            LimitsSpec { cpu_ms: Some(0.0), ..LimitsSpec::default() },
            LimitsSpec { memory_mb: Some(0.0), ..LimitsSpec::default() },
            LimitsSpec { memory_mb: Some(f64::NAN), ..LimitsSpec::default() },
            LimitsSpec { memory_mb: Some(1e30), ..LimitsSpec::default() },
            LimitsSpec { pids: Some(0), ..LimitsSpec::default() },
            LimitsSpec { pids: Some(u64::MAX), ..LimitsSpec::default() },
            LimitsSpec { cpus: Some(0.0), ..LimitsSpec::default() },
            LimitsSpec { cpus: Some(1e9), ..LimitsSpec::default() },
            LimitsSpec { inodes: Some(0), ..LimitsSpec::default() },
            LimitsSpec { output_kb: Some(0.0), ..LimitsSpec::default() },
        ] {
            assert!(resolve(&spec).is_err(), "{spec:?}");
        }
    }

    #[test]
    fn what_is_too_little_is_told_with_what_was_asked_and_the_least() {
        let memory = |mib: f64| resolve(&LimitsSpec { memory_mb: Some(mib), ..LimitsSpec::default() });
        let refused = memory(1.0 / 1024.0).unwrap_err().to_string();
        assert_eq!(refused, "limit `memory_mb` is 0.0009765625, and must be at least 1");
        assert_eq!(memory(1.0).map(|limits| limits.memory), Ok(1 << 20));
    }
}
