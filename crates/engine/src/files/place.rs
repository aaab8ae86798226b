//! Placing a caller's files in `/work`.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Gid, Mode, OFlags, Uid, fchown, mkdirat, openat2};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use types::RelPath;

use super::tree::{BENEATH, WorkTree};

/// Hashes of placed files, by path: what a later change is measured against.
pub(crate) type Placed = BTreeMap<String, [u8; 32]>;

/// Whether a file may be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executable {
    /// By whoever may read it.
    Yes,
    /// By nobody.
    No,
}

impl Executable {
    /// What the owner's bit says.
    pub(crate) fn of(meta: &Metadata) -> Self {
        if meta.mode() & 0o100 == 0 { Self::No } else { Self::Yes }
    }

    /// The whole mode: set-id bits stay behind.
    pub(crate) fn mode(self) -> Mode {
        Mode::from(if self == Self::Yes { 0o755 } else { 0o644 })
    }
}

impl WorkTree {
    /// Writes one file, with the folders above it, as the run's own. The last of equal names wins.
    pub(crate) fn place(
        &self,
        path: &RelPath,
        content: &mut dyn Read,
        executable: Executable,
        placed: &mut Placed,
    ) -> io::Result<()> {
        let mut folder = self.folder("work")?;
        let mut parts: Vec<&str> = path.as_str().split('/').collect();
        let name = parts.pop().unwrap_or_default();
        for part in parts {
            folder = self.subfolder(&folder, part)?;
        }
        let mode = executable.mode();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat2(&folder, name, flags, mode, BENEATH)?;
        rustix::fs::fchmod(&file, mode)?;
        self.give(&file)?;
        let hash = copy(content, &mut File::from(file))?;
        placed.insert(path.as_str().to_owned(), hash);
        Ok(())
    }

    fn subfolder(&self, folder: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
        let made = match mkdirat(folder, name, Mode::from(0o755)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let inner = openat2(folder, name, flags, Mode::empty(), BENEATH)?;
        if made {
            self.give(&inner)?;
        }
        Ok(inner)
    }

    /// Makes the run the owner. Only root has another owner to give to.
    pub(crate) fn give(&self, fd: impl AsFd) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(self.owner.0), Gid::from_raw(self.owner.1));
        if uid != rustix::process::geteuid() {
            fchown(fd, Some(uid), Some(gid))?;
        }
        Ok(())
    }
}

fn copy(from: &mut dyn Read, into: &mut File) -> io::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let n = match from.read(&mut buffer) {
            Ok(0) => return Ok(hash.finalize().into()),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(&buffer[..n]);
        into.write_all(&buffer[..n])?;
    }
}
