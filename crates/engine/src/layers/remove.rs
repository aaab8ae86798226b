//! Removing a tree that somebody else has filled: no link is followed, no depth is too deep, no mode in the way.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, chmodat, openat, renameat, unlinkat};
use rustix::io::Errno;

/// Folders are held open on the way down, and a stack has an end: what lies deeper is first brought up.
const DEEPEST: usize = 64;

/// Removes a folder with all that is in it.
pub(super) fn tree(path: &Path) -> io::Result<()> {
    let top = match open_folder(CWD, path) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    };
    let mut moved = 0;
    // Each round takes what the one before has brought up.
    while clear(top.as_fd(), top.as_fd(), 0, &mut moved)? {}
    match unlinkat(CWD, path, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Empties a folder; whether something was brought up to `top` for another round.
fn clear(top: BorrowedFd<'_>, folder: BorrowedFd<'_>, depth: usize, moved: &mut u64) -> io::Result<bool> {
    let mut again = false;
    for (name, kind) in entries(folder)? {
        if kind != FileType::Directory {
            unlink(folder, &name)?;
            continue;
        }
        if depth >= DEEPEST {
            *moved += 1;
            renameat(folder, &name, top, format!("saggar-moved-{moved}").as_str())?;
            again = true;
            continue;
        }
        let inner = match open_folder(folder, name.as_c_str()) {
            Ok(inner) => inner,
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(errno.into()),
        };
        again |= clear(top, inner.as_fd(), depth + 1, moved)?;
        drop(inner);
        match unlinkat(folder, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(again)
}

fn unlink(folder: BorrowedFd<'_>, name: &CString) -> io::Result<()> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn entries(folder: BorrowedFd<'_>) -> io::Result<Vec<(CString, FileType)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        let name = entry.file_name().to_owned();
        let kind = match entry.file_type() {
            FileType::Unknown => {
                FileType::from_raw_mode(rustix::fs::statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)
            }
            kind => kind,
        };
        found.push((name, kind));
    }
    Ok(found)
}

/// Opens a folder that we may empty, whatever its mode was.
fn open_folder<P: rustix::path::Arg + Copy>(at: BorrowedFd<'_>, path: P) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let _ = chmodat(at, path, Mode::RWXU, AtFlags::empty());
    openat(at, path, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_deep_tree_with_links_and_locked_folders_goes_and_nothing_else() {
        let scratch = std::env::temp_dir().join(format!("saggar-remove-{}", std::process::id()));
        let (doomed, other) = (scratch.join("doomed"), scratch.join("other"));
        fs::create_dir_all(&other).unwrap();
        fs::write(other.join("kept"), "x").unwrap();
        fs::create_dir_all(&doomed).unwrap();
        symlink(&other, doomed.join("link")).unwrap();
        let mut folder = open_folder(CWD, &doomed).unwrap();
        for _ in 0..500 {
            rustix::fs::mkdirat(&folder, "d", Mode::RWXU).unwrap();
            folder = open_folder(folder.as_fd(), "d").unwrap();
        }
        fs::create_dir(doomed.join("locked")).unwrap();
        fs::write(doomed.join("locked/file"), "x").unwrap();
        fs::set_permissions(doomed.join("locked"), fs::Permissions::from_mode(0o000)).unwrap();
        tree(&doomed).unwrap();
        assert!(!doomed.exists());
        assert!(other.join("kept").exists());
        fs::remove_dir_all(&scratch).unwrap();
    }
}
