//! Whoever has a file of the disk open for writing, by a descriptor or in memory.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use super::folders::Folders;
use crate::wire::Writer;

/// The most that are named.
const MOST: usize = 50;
/// The longest name of a file that is told.
const LONGEST: usize = 300;
/// Set in the mode of a link of `/proc` to what is open for writing.
const WRITABLE: u32 = 0o200;

/// One entry for each process that writes. The kernel has the last word; this is for names.
pub(super) fn find(folders: &Folders, processes: BTreeSet<i32>) -> Vec<Writer> {
    let writer = |pid: i32| {
        let file = opened(folders, pid).or_else(|| mapped(folders, pid))?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Some(Writer { pid, name: plain(name.trim()), file: plain(&file) })
    };
    processes.into_iter().filter_map(writer).take(MOST).collect()
}

/// A process that keeps to itself what it has open.
pub(super) fn hidden(pid: i32) -> Option<Writer> {
    match fs::read_dir(format!("/proc/{pid}/fd")) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            Some(Writer { pid, name: plain(name.trim()), file: "(hidden)".to_owned() })
        }
        _ => None,
    }
}

fn opened(folders: &Folders, pid: i32) -> Option<String> {
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
        let Ok(meta) = fs::symlink_metadata(entry.path()) else { continue };
        if meta.mode() & WRITABLE == 0 {
            continue;
        }
        let number = entry.file_name();
        let info = format!("/proc/{pid}/fdinfo/{}", number.to_string_lossy());
        let mount = fs::read_to_string(info).ok().and_then(|info| mount_of(&info));
        if mount.is_some_and(|mount| folders.of_mount(mount).is_some()) {
            return Some(fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned());
        }
    }
    None
}

fn mapped(folders: &Folders, pid: i32) -> Option<String> {
    let maps = fs::read(format!("/proc/{pid}/maps")).ok()?;
    let maps = String::from_utf8_lossy(&maps);
    maps.lines().find_map(|line| {
        let (range, path) = (line.split(' ').next()?, line.split_once('/')?.1);
        let path = format!("/{path}");
        let link = format!("/proc/{pid}/map_files/{}", without_zeros(range)?);
        let is_open = || fs::symlink_metadata(link).is_ok_and(|meta| meta.mode() & WRITABLE != 0);
        (folders.hold(&path) && is_open()).then_some(path)
    })
}

/// Ranges have no leading zeros where files that are mapped are listed.
fn without_zeros(range: &str) -> Option<String> {
    let (from, to) = range.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(format!("{:x}-{:x}", number(from)?, number(to)?))
}

fn mount_of(info: &str) -> Option<u64> {
    info.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok())
}

/// Names are the programs' to choose.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_of_open_files_is_understood() {
        assert_eq!(mount_of("pos:\t0\nflags:\t0100001\nmnt_id:\t412\nino:\t9\n"), Some(412));
        assert_eq!(mount_of("pos:\t0\n"), None);
        assert_eq!(without_zeros("00400000-7f00-"), None);
        assert_eq!(without_zeros("00400000-00452000").as_deref(), Some("400000-452000"));
        assert_eq!(plain("a\x1b[2Jb\n"), "a[2Jb");
    }
}
