//! What it was measured on. No names of hosts or people, no paths.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::process::{Invocation, Minimal};

/// What it was measured on.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    pub(super) cpu: String,
    pub(super) cores: usize,
    pub(super) memory_bytes: Option<u64>,
    pub(super) kernel: String,
    /// The interpreter's own words.
    pub(super) python: String,
    /// `root` or `user`.
    pub(super) user: &'static str,
    /// Load average of the last minute, before and after: others' work shows up in our figures.
    pub(super) load_before: Option<f64>,
    pub(super) load_after: Option<f64>,
}

impl Machine {
    pub(super) fn look(python: &str) -> Self {
        let asked = Invocation::new(vec![python.to_owned(), "--version".to_owned()], Minimal::Yes).trial();
        Self {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            cores: cores(),
            memory_bytes: kib("/proc/meminfo", "MemTotal").map(|kib| kib << 10),
            kernel: first_line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()),
            python: asked.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned()),
            user: if field("/proc/self/status", "Uid").is_some_and(|ids| ids.starts_with('0')) {
                "root"
            } else {
                "user"
            },
            load_before: load(),
            load_after: None,
        }
    }

    /// Whether others were at work when we began.
    pub(super) fn was_busy(&self) -> bool {
        self.load_before.is_some_and(|load| load > 0.5 * self.cores as f64)
    }
}

/// Processors that we may use.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Load average of the last minute.
pub(super) fn load() -> Option<f64> {
    first_line("/proc/loadavg")?.split(' ').next()?.parse().ok()
}

/// A size from our own status, in KiB.
pub(super) fn status_kib(name: &str) -> Option<u64> {
    kib("/proc/self/status", name)
}

/// Today in UTC, as `2026-11-15`.
pub(super) fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    date(seconds / 86_400)
}

/// Days since 1970 as a date: <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>
fn date(days: u64) -> String {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

fn kib(file: &str, name: &str) -> Option<u64> {
    field(file, name)?.split(' ').next()?.parse().ok()
}

/// The value on the line `name: value`.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let values = text.lines().filter_map(|line| line.split_once(':'));
    let mut named = values.filter(|(key, _)| key.trim() == name);
    named.next().map(|(_, value)| value.trim().to_owned())
}

fn first_line(file: &str) -> Option<String> {
    fs::read_to_string(file).ok()?.lines().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (days, text) in [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_772, "2026-11-15")] {
            assert_eq!(date(days), text);
        }
    }
}
