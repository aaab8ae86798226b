//! The weaker meters: what a run's tree uses, read from its own `/proc`, where no cgroup counts.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, RawDir, fstatfs, openat};
use rustix::io::Errno;

use crate::init::below;
use crate::sys;

/// A run's `/proc`, handed over by its init.
pub(crate) struct Watch {
    proc: OwnedFd,
    /// Whose descendants are the run's; all that there are, if none is named.
    parent: Option<i32>,
    /// The most that each process was seen to have used: children that nobody waits for are in no parent's account.
    used: BTreeMap<String, u64>,
}

impl Watch {
    pub(super) fn new(proc: OwnedFd) -> Self {
        Self { proc, parent: None, used: BTreeMap::new() }
    }

    /// Of what is below one process, in a `/proc` that has others too.
    pub(crate) fn below(proc: OwnedFd, parent: i32) -> Self {
        Self { proc, parent: Some(parent), used: BTreeMap::new() }
    }

    /// How many processes there are.
    pub(super) fn count(&self) -> usize {
        self.processes().len()
    }

    /// Nanoseconds on the processors, as far as looking from time to time can tell.
    pub(super) fn cpu(&mut self) -> u64 {
        let (mut waited_for, mut alive) = (0, 0);
        for pid in self.processes() {
            let Some((own, children)) = self.read(&pid, "stat").and_then(|stat| cpu_ticks(&stat)) else { continue };
            waited_for += children;
            alive += own;
            let most = self.used.entry(pid).or_default();
            *most = own.max(*most);
        }
        let seen: u64 = self.used.values().sum();
        seen.max(alive + waited_for) * (1_000_000_000 / sys::clock_ticks())
    }

    /// Nanoseconds of those who are alive, and of whom they have waited for.
    pub(crate) fn living_cpu(&self) -> u64 {
        let ticks = |pid: &String| self.read(pid, "stat").and_then(|stat| cpu_ticks(&stat));
        let ticks = self.processes().iter().filter_map(ticks).map(|(own, children)| own + children).sum::<u64>();
        ticks * (1_000_000_000 / sys::clock_ticks())
    }

    /// Whether the tree holds more than `limit` bytes: its processes, and the files it keeps in memory.
    pub(super) fn exceeds(&self, limit: u64, writable: &OwnedFd) -> bool {
        let files = fstatfs(writable).map_or(0, |fs| (fs.f_blocks - fs.f_bfree) * fs.f_bsize.unsigned_abs());
        self.memory(limit, files) > limit
    }

    /// Bytes that its processes hold, with `files` that lie in memory: exact where a cheap look says more than `limit`.
    pub(crate) fn memory(&self, limit: u64, files: u64) -> u64 {
        let processes = self.processes();
        let page = sys::page_size();
        // Cheap and too high: pages shared by forks are counted once for each.
        let threads: Vec<String> = processes.iter().filter_map(|pid| self.living_thread(pid)).collect();
        let resident: u64 =
            threads.iter().filter_map(|path| self.read(path, "statm")).filter_map(|statm| field(&statm, 1)).sum();
        let cheap = resident * page + files;
        if cheap > limit { self.proportional(&threads, files).unwrap_or(cheap) } else { cheap }
    }

    /// A path to a thread that still has the process's memory: its leader may have ended before the others, and then
    /// has none.
    fn living_thread(&self, pid: &str) -> Option<String> {
        let has_memory = |path: &String| self.read(path, "statm").and_then(|statm| field(&statm, 0)) > Some(0);
        if has_memory(&pid.to_owned()) {
            return Some(pid.to_owned());
        }
        let tasks = format!("{pid}/task");
        self.numbers(&tasks).into_iter().map(|thread| format!("{tasks}/{thread}")).find(has_memory)
    }

    /// Shared pages divided among those who share them: exact, at the price of a walk through every page table.
    fn proportional(&self, processes: &[String], files: u64) -> Option<u64> {
        let (mut anonymous, mut shared) = (0, 0);
        for pid in processes {
            // Unreadable while its process lives: then the cheap number must do.
            let rollup = self.read(pid, "smaps_rollup")?;
            if rollup.is_empty() {
                continue;
            }
            anonymous += kilobytes(&rollup, "Pss_Anon:")? * 1024;
            shared += kilobytes(&rollup, "Pss_Shmem:")? * 1024;
        }
        // Mapped files of the writable tree are in both numbers.
        Some(anonymous + files.max(shared))
    }

    fn processes(&self) -> Vec<String> {
        match self.parent {
            None => self.numbers("."),
            Some(parent) => below(parent, &BTreeSet::new()).iter().map(ToString::to_string).collect(),
        }
    }

    /// Entries of a folder whose names are numbers.
    fn numbers(&self, path: &str) -> Vec<String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(folder) = openat(&self.proc, path, flags, Mode::empty()) else { return Vec::new() };
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

/// Its own time, and that of children it waited for. The name in brackets is the program's to choose.
fn cpu_ticks(stat: &str) -> Option<(u64, u64)> {
    let rest = stat.rsplit_once(')')?.1;
    let sum = |first: usize| field(rest, first)?.checked_add(field(rest, first + 1)?);
    Some((sum(11)?, sum(13)?))
}

fn field(text: &str, index: usize) -> Option<u64> {
    text.split_whitespace().nth(index)?.parse().ok()
}

fn kilobytes(rollup: &str, key: &str) -> Option<u64> {
    field(rollup.lines().find_map(|line| line.strip_prefix(key))?, 0)
}

/// For the fuzzer: every reader of a run's own words.
pub(crate) fn parse_anything(text: &str) {
    let _ = (cpu_ticks(text), field(text, 1), kilobytes(text, "Pss_Anon:"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_cannot_forge_its_times() {
        let stat = "7 (x) S 1 2) R 1 7 7 0 -1 4194304 100 0 0 0 12 3 4 5 20 0 1 0 100 1000 10";
        assert_eq!(cpu_ticks(stat), Some((15, 9)));
        assert_eq!(cpu_ticks("garbage"), None);
    }

    #[test]
    fn rollup_lines_are_found_by_name() {
        let rollup = "5581a000-7ffd000 ---p 0 00:00 0 [rollup]\nRss: 100 kB\nPss_Anon:      72 kB\nPss_Shmem: 0 kB\n";
        assert_eq!(kilobytes(rollup, "Pss_Anon:"), Some(72));
        assert_eq!(kilobytes(rollup, "Swap:"), None);
    }
}
