//! Removing a tree that a guest has filled, and may go on filling: through no link, however deep, whatever its modes.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Folders that are held open on the way down; what lies deeper is first brought up.
const DEEPEST: usize = 64;

/// Removes a folder of ours with all that is in it. Nothing there is no error.
pub fn folder(path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    tree(CWD, &name)
}

/// Removes `name` in `folder`, with all below it. Nothing there is no error.
pub fn tree(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(errno.into()),
    }
    let Some(top) = open(folder, name)? else { return Ok(()) };
    let mut brought_up = 0_u64;
    loop {
        let before = brought_up;
        empty(top.as_fd(), &top, &mut brought_up)?;
        if brought_up == before {
            break;
        }
    }
    match unlinkat(folder, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Empties a folder but for what was brought up into `top`.
fn empty(folder: BorrowedFd<'_>, top: &OwnedFd, brought_up: &mut u64) -> io::Result<()> {
    let mut path: Vec<(OwnedFd, CString, Vec<CString>)> = Vec::new();
    let mut left = names(folder)?;
    loop {
        let here = path.last().map_or(folder, |(fd, ..)| fd.as_fd());
        let Some(name) = left.pop() else {
            // This folder is empty: away with it, and on with the one above.
            let Some((_, name, above)) = path.pop() else { return Ok(()) };
            let parent = path.last().map_or(folder, |(fd, ..)| fd.as_fd());
            match unlinkat(parent, &name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
            left = above;
            continue;
        };
        match unlinkat(here, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(errno) => return Err(errno.into()),
        }
        if path.len() >= DEEPEST {
            *brought_up += 1;
            renameat(here, &name, top, aside()?.as_str())?;
            continue;
        }
        if let Some(inner) = open(here, &name)? {
            let inside = names(inner.as_fd())?;
            path.push((inner, name, std::mem::replace(&mut left, inside)));
        }
    }
}

/// A name that nobody else has.
fn aside() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!(".saggar-removed-{:032x}", u128::from_le_bytes(bytes)))
}

/// Opens a folder that we may empty, whatever its mode was; `None` if it is gone.
fn open(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let reach = match openat(folder, name, flags | OFlags::PATH, Mode::empty()) {
        Ok(reach) => reach,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    if !geteuid().is_root() {
        // By descriptor: a name could lead elsewhere by now. Where it does not help, the next call says so.
        let _ = rustix::fs::chmod(format!("/proc/self/fd/{}", reach.as_raw_fd()), Mode::RWXU);
    }
    Ok(Some(openat(&reach, c".", flags | OFlags::RDONLY, Mode::empty())?))
}

fn names(folder: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_deep_tree_goes_and_what_its_links_name_stays() {
        let scratch = std::env::temp_dir().join(aside().unwrap());
        let (doomed, kept) = (scratch.join("doomed"), scratch.join("kept"));
        fs::create_dir_all(&doomed).unwrap();
        fs::write(&kept, "x").unwrap();
        symlink(&scratch, doomed.join("link")).unwrap();
        fs::create_dir(doomed.join("locked")).unwrap();
        fs::write(doomed.join("locked/file"), "x").unwrap();
        fs::set_permissions(doomed.join("locked"), fs::Permissions::from_mode(0o000)).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = rustix::fs::open(&doomed, flags, Mode::empty()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&folder, "d", Mode::RWXU).unwrap();
            folder = openat(&folder, "d", flags, Mode::empty()).unwrap();
        }
        let above = rustix::fs::open(&scratch, flags, Mode::empty()).unwrap();
        tree(above.as_fd(), c"doomed").unwrap();
        assert!(!doomed.exists());
        assert!(kept.exists());
        super::folder(&scratch).unwrap();
        assert!(!scratch.exists());
    }
}
