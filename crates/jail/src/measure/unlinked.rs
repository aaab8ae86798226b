//! Files without a name that somebody has open, or in memory: no walk over folders finds them, and they take room.
//!
//! What is only on its way from one process to another, in a socket that nobody reads, is seen by nobody.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};

use super::Sum;

/// Descriptors and mappings that are looked at at most. A program that has more open is counted as far as that goes.
const MOST: usize = 200_000;
/// How the kernel ends the name of a file that has none any more.
const GONE: &[u8] = b" (deleted)";
/// Of what one process has in memory; that is as much as the kernel lets it have by itself.
const LONGEST: u64 = 32 << 20;

/// Looks through the processes of one sandbox.
pub(super) struct Unlinked<'a> {
    pub(super) sum: &'a mut Sum,
    /// The file systems that files of the disk can be said to be on.
    pub(super) devices: &'a [u64],
    looked: usize,
}

impl<'a> Unlinked<'a> {
    pub(super) fn new(sum: &'a mut Sum, devices: &'a [u64]) -> Self {
        Self { sum, devices, looked: 0 }
    }

    /// Adds those that anybody in this `/proc` has.
    pub(super) fn add(&mut self, proc: &OwnedFd) {
        for process in numbers(proc) {
            // Threads may have descriptors of their own.
            let Some(tasks) = folder(proc, &format!("{process}/task")) else { continue };
            for open in numbers(&tasks).into_iter().filter_map(|task| folder(&tasks, &format!("{task}/fd"))) {
                self.add_open(&open);
            }
            self.add_mapped(proc, process);
        }
    }

    fn add_open(&mut self, open: &OwnedFd) {
        for number in numbers(open) {
            if self.looked >= MOST {
                return;
            }
            self.looked += 1;
            if let Ok(stat) = statat(open, number.to_string(), AtFlags::empty()) {
                self.add_stat(&stat);
            }
        }
    }

    fn add_mapped(&mut self, proc: &OwnedFd, process: u32) {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let Ok(maps) = openat(proc, format!("{process}/maps"), flags, Mode::empty()) else { return };
        let mut maps = BufReader::new(File::from(maps).take(LONGEST));
        let (mut line, mut seen) = (Vec::new(), BTreeSet::new());
        while self.looked < MOST && maps.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            self.looked += 1;
            if let Some((range, inode)) = gone(line.trim_ascii_end())
                && seen.insert(inode)
                && let Ok(stat) = statat(proc, format!("{process}/map_files/{range}"), AtFlags::empty())
            {
                self.add_stat(&stat);
            }
            line.clear();
        }
    }

    fn add_stat(&mut self, stat: &rustix::fs::Stat) {
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if is_file && stat.st_nlink == 0 && self.devices.contains(&stat.st_dev) && self.sum.seen.insert(stat.st_ino) {
            self.sum.add_once(stat);
        }
    }
}

/// The range of a mapping whose file has no name, as its link is called, and the number of the file.
fn gone(line: &[u8]) -> Option<(String, u64)> {
    let text = std::str::from_utf8(line.strip_suffix(GONE)?.split(|byte| *byte == b'/').next()?).ok()?;
    let mut words = text.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    // Links have no leading zeros.
    Some((format!("{:x}-{:x}", number(from)?, number(to)?), words.nth(3)?.parse().ok()?))
}

fn folder(above: &OwnedFd, name: &str) -> Option<OwnedFd> {
    openat(above, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Entries that are numbers.
fn numbers(folder: impl AsFd) -> Vec<u32> {
    let number = |name: &CStr| name.to_str().ok()?.parse().ok();
    let entries = Dir::read_from(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| number(entry.file_name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_of_mappings_is_understood() {
        let line = b"00400000-00452000 rw-s 00000000 00:2a 173521   /work/a (b) (deleted)";
        assert_eq!(gone(line), Some(("400000-452000".to_owned(), 173_521)));
        assert_eq!(gone(b"00400000-00452000 rw-s 00000000 00:2a 173521   /work/a"), None);
        assert_eq!(gone(b"7ffe-7fff rw-p 00000000 00:00 0   [stack]"), None);
    }
}
