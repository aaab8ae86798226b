//! The weaker meters: what a run's tree uses, read from its own `/proc`, where no cgroup counts.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, RawDir, fstatfs, openat};
use rustix::io::Errno;

/// A run's `/proc`, handed over by its init.
pub(super) struct Watch {
    proc: OwnedFd,
}

impl Watch {
    pub(super) fn new(proc: OwnedFd) -> Self {
        Self { proc }
    }

    /// Nanoseconds on the processors of everything alive and everything that init reaped.
    pub(super) fn cpu(&self) -> u64 {
        let ticks: u64 = self
            .processes()
            .iter()
            .filter_map(|pid| self.read(pid, "stat"))
            .filter_map(|stat| cpu_ticks(&stat))
            .sum();
        ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second())
    }

    /// Bytes held by the tree: its processes, and the files it keeps in memory.
    pub(super) fn memory(&self, writable: &OwnedFd) -> u64 {
        let files = fstatfs(writable).map_or(0, |fs| (fs.f_blocks - fs.f_bfree) * fs.f_bsize.unsigned_abs());
        let processes = self.processes();
        let page = rustix::param::page_size() as u64;
        // Cheap and too high: pages shared by forks are counted once for each.
        let resident: u64 =
            processes.iter().filter_map(|pid| self.read(pid, "statm")).filter_map(|statm| field(&statm, 1)).sum();
        let upper = resident * page + files;
        if processes.len() <= 2 { upper } else { self.proportional(&processes, files).unwrap_or(upper).min(upper) }
    }

    /// Shared pages divided among those who share them: exact, at the price of a walk through every page table.
    fn proportional(&self, processes: &[String], files: u64) -> Option<u64> {
        let (mut anonymous, mut shared) = (0, 0);
        for pid in processes {
            let Some(rollup) = self.read(pid, "smaps_rollup") else { continue };
            anonymous += kilobytes(&rollup, "Pss_Anon:")? * 1024;
            shared += kilobytes(&rollup, "Pss_Shmem:")? * 1024;
        }
        // Mapped files of the writable tree are in both numbers.
        Some(anonymous + files.max(shared))
    }

    fn processes(&self) -> Vec<String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(folder) = openat(&self.proc, c".", flags, Mode::empty()) else { return Vec::new() };
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut entries = RawDir::new(folder, &mut space);
        let mut found = Vec::new();
        while let Some(Ok(entry)) = entries.next() {
            if let Ok(name) = entry.file_name().to_str()
                && name.bytes().all(|byte| byte.is_ascii_digit())
            {
                found.push(name.to_owned());
            }
        }
        found
    }

    fn read(&self, pid: &str, file: &str) -> Option<String> {
        let path = format!("{pid}/{file}");
        let fd = openat(&self.proc, path.as_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut text = vec![0; 4096];
        let mut length = 0;
        loop {
            match rustix::io::read(&fd, &mut text[length..]) {
                Ok(0) => break,
                Ok(n) => length += n,
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
            if length == text.len() {
                break;
            }
        }
        text.truncate(length);
        Some(String::from_utf8_lossy(&text).into_owned())
    }
}

/// User, system, and both of reaped children. The name in brackets is the program's to choose.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let rest = stat.rsplit_once(')')?.1;
    (11..15).map(|index| field(rest, index)).sum()
}

fn field(text: &str, index: usize) -> Option<u64> {
    text.split_whitespace().nth(index)?.parse().ok()
}

fn kilobytes(rollup: &str, key: &str) -> Option<u64> {
    field(rollup.lines().find_map(|line| line.strip_prefix(key))?, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_cannot_forge_its_times() {
        let stat = "7 (x) S 1 2) R 1 7 7 0 -1 4194304 100 0 0 0 12 3 4 5 20 0 1 0 100 1000 10";
        assert_eq!(cpu_ticks(stat), Some(24));
        assert_eq!(cpu_ticks("garbage"), None);
    }

    #[test]
    fn rollup_lines_are_found_by_name() {
        let rollup = "5581a000-7ffd000 ---p 0 00:00 0 [rollup]\nRss: 100 kB\nPss_Anon:      72 kB\nPss_Shmem: 0 kB\n";
        assert_eq!(kilobytes(rollup, "Pss_Anon:"), Some(72));
        assert_eq!(kilobytes(rollup, "Swap:"), None);
    }
}
