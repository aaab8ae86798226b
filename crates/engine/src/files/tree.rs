//! A sandbox's writable files, from outside.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};

use jail::beneath;
use jail::contained::EntryKind;
use rustix::fs::{Gid, Uid, fchown};
use sha2::{Digest, Sha256};
use types::{LimitKind, RelPath};

use super::place::{Executable, Placed};

/// A sandbox's `/work` and `/tmp`, from outside. Nothing in it is followed: links lead nowhere.
///
/// Where the sandbox is on another machine each of these waits for it.
pub trait Tree: Sync {
    /// Writes one file below `/work`, with the folders above it, as the run's own.
    fn write(&self, path: &RelPath, content: &mut dyn Read, executable: Executable) -> io::Result<()>;
    /// Tells of the entries of a folder below `/work`, until it is told to stop.
    fn list(&self, folder: &str, each: &mut dyn FnMut(&[u8], EntryKind) -> ControlFlow<()>) -> io::Result<()>;
    /// Opens a regular file below `/work`.
    fn open(&self, path: &str) -> io::Result<Opened<'_>>;
    /// Reads a small file of `/tmp`, if it is a regular one and no longer than `most`.
    fn read_small(&self, path: &str, most: u64) -> Option<Vec<u8>>;
    /// Limits that are used up.
    fn full(&self) -> Vec<LimitKind>;
}

impl dyn Tree + '_ {
    /// Writes one file and remembers what it was. The last of equal names wins.
    pub(crate) fn place(
        &self,
        path: &RelPath,
        content: &mut dyn Read,
        executable: Executable,
        placed: &mut Placed,
    ) -> io::Result<()> {
        let mut content = Hashed { content, hash: Sha256::new() };
        self.write(path, &mut content, executable)?;
        placed.insert(path.as_str().to_owned(), content.hash.finalize().into());
        Ok(())
    }
}

/// A regular file of a run, opened.
pub struct Opened<'a> {
    /// In bytes, when it was opened.
    pub size: u64,
    /// Whether its owner may execute it.
    pub executable: Executable,
    /// From its start.
    pub content: Box<dyn Content + 'a>,
}

/// A file's content, which can be read more than once.
pub trait Content: Read {
    /// Goes back to its start.
    fn rewind(&mut self) -> io::Result<()>;
}

impl Content for File {
    fn rewind(&mut self) -> io::Result<()> {
        Seek::rewind(self)
    }
}

/// Hashes what passes.
struct Hashed<'a> {
    content: &'a mut dyn Read,
    hash: Sha256,
}

impl Read for Hashed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.content.read(buffer)?;
        self.hash.update(&buffer[..n]);
        Ok(n)
    }
}

/// A tree on this host, held by a descriptor. The tmpfs lives for as long as this does, also after the sandbox.
#[derive(Debug)]
pub(crate) struct WorkTree {
    root: OwnedFd,
    /// The host user and group of the run.
    owner: (u32, u32),
}

impl WorkTree {
    pub(crate) fn new(root: OwnedFd, owner: (u32, u32)) -> Self {
        Self { root, owner }
    }

    fn work(&self) -> io::Result<OwnedFd> {
        beneath::open_folder(&self.root, "work")
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

impl Tree for WorkTree {
    fn write(&self, path: &RelPath, content: &mut dyn Read, executable: Executable) -> io::Result<()> {
        let work = self.work()?;
        let mut file = beneath::create(work.as_fd(), path.as_str(), executable.mode(), &|fd| self.give(fd))?;
        copy(content, &mut file)
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(&[u8], EntryKind) -> ControlFlow<()>) -> io::Result<()> {
        beneath::list(self.work()?, folder, each)
    }

    fn open(&self, path: &str) -> io::Result<Opened<'_>> {
        let file = beneath::open_regular(self.work()?, path)?;
        let meta = file.metadata()?;
        Ok(Opened { size: meta.len(), executable: Executable::of(&meta), content: Box::new(file) })
    }

    fn read_small(&self, path: &str, most: u64) -> Option<Vec<u8>> {
        let file = beneath::open_regular(&self.root, &format!("tmp/{path}")).ok()?;
        let mut content = Vec::new();
        let read = file.take(most + 1).read_to_end(&mut content).ok()?;
        (read as u64 <= most).then_some(content)
    }

    fn full(&self) -> Vec<LimitKind> {
        beneath::full(&self.root)
    }
}

/// `io::copy` would map or splice; this reads what was hashed and no more.
pub(crate) fn copy(from: &mut dyn Read, into: &mut dyn Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => into.write_all(&buffer[..n])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
