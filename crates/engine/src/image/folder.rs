//! A folder of the host as a layer.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, open, openat, readlinkat, statat};
use sha2::{Digest, Sha256};

use super::ImageError;
use super::tree::{EntryPath, Facts, Tree};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Copies a folder; what comes back is a hash over all that was copied, in an order of its own.
pub(super) fn copy(source: &Path, tree: &mut Tree<'_>) -> Result<Sha256, ImageError> {
    let failed = |errno: rustix::io::Errno| ImageError::Source { path: source.to_path_buf(), source: errno.into() };
    // The folder itself may be named by a link; nothing in it is followed.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(source, flags, Mode::empty()).map_err(failed)?;
    let device = rustix::fs::fstat(&root).map_err(failed)?.st_dev;
    let mut walk = Walk { source, device, hash: Sha256::new(), tree };
    walk.folder(&root, b"")?;
    Ok(walk.hash)
}

struct Walk<'a, 'b, 'c> {
    source: &'a Path,
    device: u64,
    hash: Sha256,
    tree: &'b mut Tree<'c>,
}

impl Walk<'_, '_, '_> {
    fn folder(&mut self, folder: &OwnedFd, path: &[u8]) -> Result<(), ImageError> {
        let mut names = Vec::new();
        for entry in Dir::read_from(folder).map_err(|errno| self.failed(errno.into()))? {
            let entry = entry.map_err(|errno| self.failed(errno.into()))?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.push(entry.file_name().to_owned());
            }
        }
        names.sort();
        for name in names {
            let at = if path.is_empty() { name.to_bytes().to_vec() } else { [path, b"/", name.to_bytes()].concat() };
            let Some(entry) = EntryPath::new(&at)? else { continue };
            let found = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(|errno| self.failed(errno.into()))?;
            let facts = facts(&found);
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory => {
                    self.note(b'd', &at, facts, b"");
                    self.tree.folder(&entry, facts)?;
                    // What is mounted there is something else: `/proc`, another disk.
                    if found.st_dev == self.device {
                        let inner = openat(folder, &name, FOLDER, Mode::empty());
                        let inner = inner.map_err(|errno| self.failed(errno.into()))?;
                        self.folder(&inner, &at)?;
                    }
                }
                FileType::RegularFile => {
                    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                    let file = openat(folder.as_fd(), &name, flags, Mode::empty());
                    let mut file =
                        Hashed { file: file.map_err(|errno| self.failed(errno.into()))?.into(), hash: Sha256::new() };
                    self.tree.file(&entry, facts, &mut file)?;
                    let content = file.hash.finalize();
                    self.note(b'f', &at, facts, &content);
                }
                FileType::Symlink => {
                    let target = readlinkat(folder, &name, Vec::new()).map_err(|errno| self.failed(errno.into()))?;
                    self.note(b'l', &at, facts, target.to_bytes());
                    self.tree.symlink(&entry, facts, target.to_bytes())?;
                }
                _ => self.tree.left_out += 1,
            }
        }
        Ok(())
    }

    /// Every part with its length, so that no two trees are written alike.
    fn note(&mut self, kind: u8, path: &[u8], facts: Facts, content: &[u8]) {
        self.hash.update([kind]);
        for part in [path, content] {
            self.hash.update((part.len() as u64).to_le_bytes());
            self.hash.update(part);
        }
        self.hash.update(facts.mode.to_le_bytes());
        for number in [facts.uid, facts.gid, facts.modified.cast_unsigned()] {
            self.hash.update(number.to_le_bytes());
        }
    }

    fn failed(&self, source: std::io::Error) -> ImageError {
        ImageError::Source { path: self.source.to_path_buf(), source }
    }
}

/// A file that is hashed as it is read.
struct Hashed {
    file: File,
    hash: Sha256,
}

impl std::io::Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.hash.update(&buffer[..read]);
        Ok(read)
    }
}

fn facts(found: &Stat) -> Facts {
    Facts {
        mode: found.st_mode & 0o7777,
        uid: u64::from(found.st_uid),
        gid: u64::from(found.st_gid),
        modified: found.st_mtime,
    }
}
