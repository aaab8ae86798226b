//! How much a session's disk holds.

mod gauge;
mod unlinked;

use std::collections::HashSet;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fchmod, fstat, openat, statat};
use rustix::io::Errno;

pub use gauge::{Fallen, Gauge};
use unlinked::Unlinked;

/// Those folders, from the root.
const FOLDERS: [&str; 3] = ["work", "home", "tmp"];
/// Folders that are held open on the way down. From deeper ones the way back is by `..`.
const HELD: usize = 200;

/// Bytes and entries of the three folders that a session's disk is made of, seen from within.
pub(crate) fn all(root: &OwnedFd) -> (u64, u64) {
    let mut sum = Sum::default();
    let mut devices = Vec::new();
    for folder in FOLDERS {
        if let Ok(name) = CString::new(folder)
            && let Ok(top) = open(root, &name)
        {
            devices.extend(fstat(&top).map(|stat| stat.st_dev));
            sum.walk(top);
        }
    }
    if let Ok(proc) = open(root, &c"proc".to_owned()) {
        sum.add_unlinked(&proc, &devices);
    }
    (sum.bytes, sum.entries)
}

/// What is counted so far. A file with several names is one.
#[derive(Debug, Default)]
pub struct Sum {
    /// As much as it takes: files may have holes.
    pub bytes: u64,
    /// Files, folders and all else that has a name, or that somebody has open without one.
    pub entries: u64,
    seen: HashSet<u64>,
}

impl Sum {
    /// Adds all that lies below a folder, however deep. Folders that are closed to us are opened if they are ours.
    pub fn add_folder(&mut self, folder: &Path) {
        if let Ok(name) = CString::new(folder.as_os_str().as_bytes())
            && let Ok(top) = open(CWD, &name)
        {
            self.walk(top);
        }
    }

    /// Adds files of these devices that have no name, but that a process in this `/proc` has open.
    pub fn add_unlinked(&mut self, proc: &OwnedFd, devices: &[u64]) {
        Unlinked::new(self, devices).add(proc);
    }

    fn walk(&mut self, top: OwnedFd) {
        let Ok(device) = fstat(&top).map(|stat| stat.st_dev) else { return };
        let mut left = names(&top);
        let mut path: Vec<(Above, Vec<CString>)> = Vec::new();
        let mut here = top;
        loop {
            let Some(name) = left.pop() else {
                let Some((above, rest)) = path.pop() else { return };
                let Some(above) = above.back_from(&here) else {
                    // Somebody moves folders while they are looked at, deeper than anybody needs them: what is not seen may
                    // be anything.
                    self.entries = u64::MAX / 2;
                    return;
                };
                (here, left) = (above, rest);
                continue;
            };
            let Ok(stat) = statat(&here, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if stat.st_dev != device {
                continue;
            }
            self.add(&stat);
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                continue;
            }
            if let Ok(inner) = open(&here, &name) {
                let inside = names(&inner);
                let above = std::mem::replace(&mut here, inner);
                let above = if path.len() < HELD { Above::Held(above) } else { Above::known(&above) };
                path.push((above, std::mem::replace(&mut left, inside)));
            }
        }
    }

    fn add(&mut self, stat: &Stat) {
        if stat.st_nlink > 1
            && FileType::from_raw_mode(stat.st_mode) != FileType::Directory
            && !self.seen.insert(stat.st_ino)
        {
            return;
        }
        self.add_once(stat);
    }

    fn add_once(&mut self, stat: &Stat) {
        self.entries = self.entries.saturating_add(1);
        self.bytes = self.bytes.saturating_add(u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512));
    }
}

/// The folder above one that is looked at.
enum Above {
    Held(OwnedFd),
    /// Its device and number.
    Known(Option<(u64, u64)>),
}

impl Above {
    fn known(folder: &OwnedFd) -> Self {
        Self::Known(identity(folder))
    }

    /// Goes back to it; nothing if it is not there any more.
    fn back_from(self, below: &OwnedFd) -> Option<OwnedFd> {
        match self {
            Self::Held(folder) => Some(folder),
            Self::Known(known) => {
                let folder = open(below, &c"..".to_owned()).ok()?;
                (known.is_some() && identity(&folder) == known).then_some(folder)
            }
        }
    }
}

fn identity(folder: &OwnedFd) -> Option<(u64, u64)> {
    fstat(folder).ok().map(|stat| (stat.st_dev, stat.st_ino))
}

/// Opens a folder. One of our own that was closed to hide what is in it is opened for the moment that it takes.
fn open(above: impl AsFd, name: &CString) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(&above, name, flags | OFlags::RDONLY, Mode::empty()) {
        Err(Errno::ACCESS) => {}
        other => return other,
    }
    let reach = openat(&above, name, flags | OFlags::PATH, Mode::empty())?;
    let mode = Mode::from_raw_mode(fstat(&reach)?.st_mode);
    rustix::fs::chmod(format!("/proc/self/fd/{}", reach.as_raw_fd()), Mode::RWXU)?;
    let opened = openat(&reach, c".", flags | OFlags::RDONLY, Mode::empty());
    if let Ok(folder) = &opened {
        let _ = fchmod(folder, mode);
    }
    opened
}

fn names(folder: &OwnedFd) -> Vec<CString> {
    let entries = Dir::read_from(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_owned()).filter(|name| !matches!(name.to_bytes(), b"." | b"..")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_deep_tree_is_counted_to_its_end() {
        let scratch = std::env::temp_dir().join(format!("saggar-measure-deep-{}", std::process::id()));
        fs::create_dir_all(scratch.join("work")).unwrap();
        let root = rustix::fs::open(&scratch, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let mut here = open(&root, &c"work".to_owned()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&here, c"d", Mode::RWXU).unwrap();
            // After the folder in the order of names or before it: it is counted on the way back at some depth.
            for name in [c"a", c"z"] {
                openat(&here, name, OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
            }
            here = open(&here, &c"d".to_owned()).unwrap();
        }
        let (_, entries) = all(&root);
        crate::remove::folder(&scratch).unwrap();
        assert_eq!(entries, 9000);
    }

    #[test]
    fn folders_that_are_closed_and_second_names_hide_nothing_and_add_nothing() {
        let scratch = std::env::temp_dir().join(format!("saggar-measure-{}", std::process::id()));
        fs::create_dir_all(scratch.join("work/closed")).unwrap();
        fs::write(scratch.join("work/closed/file"), vec![7; 100_000]).unwrap();
        fs::hard_link(scratch.join("work/closed/file"), scratch.join("work/again")).unwrap();
        fs::set_permissions(scratch.join("work/closed"), fs::Permissions::from_mode(0o000)).unwrap();
        let root = rustix::fs::open(&scratch, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let (bytes, entries) = all(&root);
        let mode = fs::metadata(scratch.join("work/closed")).unwrap().permissions().mode();
        crate::remove::folder(&scratch).unwrap();
        assert!((100_000..200_000).contains(&bytes), "{bytes}");
        assert_eq!((entries, mode & 0o777), (2, 0));
    }
}
