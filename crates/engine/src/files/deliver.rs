//! Writing a run's files into a folder of the caller's.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, mkdirat, open, openat2, renameat, unlinkat};
use rustix::io::Errno;

use super::collect::{Made, Receive, Received};
use super::tree::copy;
use crate::error::RunError;

/// A folder of the caller's. Inside it nothing is followed: what a link there points to was never asked for.
pub struct OutFolder {
    path: PathBuf,
    fd: OwnedFd,
    /// Part of every temporary name, so that the run cannot have made a file of that name.
    nonce: String,
}

/// As for the run's own tree, but the caller's folder may hold other file systems.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

impl OutFolder {
    /// Opens `path`, making it if it is not there.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let failed = |source: io::Error| RunError::Output { path: path.to_path_buf(), source };
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(failed)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = open(path, flags, Mode::empty()).map_err(|e| failed(e.into()))?;
        rustix::fs::access(path, rustix::fs::Access::WRITE_OK).map_err(|e| failed(e.into()))?;
        Ok(Self { path: path.to_path_buf(), fd, nonce: crate::id::random_hex() })
    }

    fn write(&self, made: &mut Made<'_>) -> io::Result<()> {
        let (folder, name) = made.path.rsplit_once('/').unwrap_or(("", made.path));
        let folder = self.folder(folder)?;
        let temporary = format!(".saggar-{}", self.nonce);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut into = File::from(openat2(&folder, temporary.as_str(), flags, made.executable.mode(), BENEATH)?);
        let written =
            copy(made.content, &mut into).and_then(|()| Ok(renameat(&folder, temporary.as_str(), &folder, name)?));
        if written.is_err() {
            let _ = unlinkat(&folder, temporary.as_str(), AtFlags::empty());
        }
        written
    }

    fn folder(&self, path: &str) -> io::Result<OwnedFd> {
        let mut folder = self.fd.try_clone()?;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            match mkdirat(&folder, part, Mode::from(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            folder = openat2(&folder, part, flags, Mode::empty(), BENEATH)?;
        }
        Ok(folder)
    }
}

impl Receive for OutFolder {
    /// Writes one file under its own name; it appears whole or not at all.
    fn receive(&mut self, mut made: Made<'_>) -> Result<Received, RunError> {
        let path = self.path.join(made.path);
        match self.write(&mut made) {
            Ok(()) => Ok(Received::Taken),
            Err(error) if is_in_the_way(&error) => Ok(Received::Refused),
            Err(source) => Err(RunError::Output { path, source }),
        }
    }
}

/// Whether something that the caller's folder holds already keeps a file out: a folder of that name, a link on the way.
fn is_in_the_way(error: &io::Error) -> bool {
    [Errno::ISDIR, Errno::NOTDIR, Errno::LOOP, Errno::NOTEMPTY, Errno::EXIST, Errno::XDEV]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
