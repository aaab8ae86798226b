//! Files of the caller's own machine, before they are placed.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

use super::place::Executable;

/// Opens what a request calls a file of the caller's machine. A door that has none to give leaves it out.
pub trait Inputs: Send {
    /// Opens the request's file number `index`, counted from 0; it may be asked for more than once.
    fn open(&mut self, index: usize, path: &Path) -> io::Result<Input<'_>>;
}

/// One of the caller's files, opened.
pub struct Input<'a> {
    /// From its start to its end.
    pub content: Box<dyn Read + 'a>,
    /// Whether anybody may execute it.
    pub executable: Executable,
}

/// The files of this machine, read with our own rights.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnFiles;

impl Inputs for OwnFiles {
    /// Regular files only; a FIFO is not waited for.
    fn open(&mut self, _index: usize, path: &Path) -> io::Result<Input<'_>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(open(path, flags, Mode::empty())?);
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let mode = std::os::unix::fs::PermissionsExt::mode(&meta.permissions());
        let executable = if mode & 0o111 == 0 { Executable::No } else { Executable::Yes };
        Ok(Input { content: Box::new(file), executable })
    }
}
