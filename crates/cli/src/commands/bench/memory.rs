//! What a worker costs while it waits.

use std::fs;
use std::time::Duration;

use engine::Engine;
use serde::Serialize;

use super::statistics::median;

/// Idle workers' own memory: pages that nobody shares with them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Memory {
    pub(super) workers: usize,
    pub(super) private_bytes_p50: f64,
    pub(super) private_bytes_max: f64,
}

/// Time for a pool to fill.
const PAUSE: Duration = Duration::from_millis(500);

/// Looks at every idle worker; nothing if there is none.
pub(super) async fn measure(engine: &Engine) -> Option<Memory> {
    tokio::time::sleep(PAUSE).await;
    let rollups = idle_workers(engine).into_iter().map(|pid| fs::read_to_string(format!("/proc/{pid}/smaps_rollup")));
    let mut private: Vec<f64> = rollups.flatten().filter_map(|text| private_bytes(&text)).collect();
    private.sort_by(f64::total_cmp);
    let private_bytes_max = *private.last()?;
    Some(Memory { workers: private.len(), private_bytes_p50: median(&private)?, private_bytes_max })
}

/// Host pids of workers that wait for a run. The engine has none yet: `engine.idle_workers()` goes here.
fn idle_workers(_engine: &Engine) -> Vec<u32> {
    Vec::new()
}

/// `Private_Clean` and `Private_Dirty` of a `smaps_rollup`.
fn private_bytes(rollup: &str) -> Option<f64> {
    let kib = |name: &str| {
        let rest = rollup.lines().find_map(|line| line.strip_prefix(name))?;
        rest.trim().strip_suffix(" kB")?.trim().parse::<u32>().ok()
    };
    Some(f64::from(kib("Private_Clean:")? + kib("Private_Dirty:")?) * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_pages_are_added_up() {
        let text = "55d0-7ffe ---p 00000000 00:00 0  [rollup]\nRss:    9000 kB\nPrivate_Clean:        12 kB\nPrivate_Dirty:       500 kB\n";
        assert_eq!(private_bytes(text), Some(512.0 * 1024.0));
        assert_eq!(private_bytes("Rss: 1 kB\n"), None);
        assert!(
            private_bytes(&fs::read_to_string("/proc/self/smaps_rollup").unwrap()).is_some_and(|bytes| bytes > 0.0)
        );
    }
}
