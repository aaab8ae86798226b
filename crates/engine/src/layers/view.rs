//! What a stack of layers shows, looked at from outside of any sandbox.
//!
//! Layers are what guests wrote: no link of theirs is followed, and nothing but files is opened.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fgetxattr, openat, statat};
use rustix::io::Errno;

/// Marks a folder that hides what lower layers have in it.
const OPAQUE: &CStr = c"user.overlay.opaque";

/// A stack of layers.
pub(crate) struct View {
    roots: Vec<PathBuf>,
}

/// One folder as it is in the layers, topmost first. All of them together are what is seen.
pub(crate) struct Merged {
    parts: Vec<Part>,
}

struct Part {
    /// Counted from the top of the stack.
    layer: usize,
    folder: OwnedFd,
    opaque: bool,
}

/// One name in a folder.
pub(crate) struct Entry<'a> {
    folder: &'a OwnedFd,
    name: CString,
    pub(crate) stat: Stat,
}

impl View {
    /// Looks at folders of layers, topmost first.
    pub(crate) fn new(roots: Vec<PathBuf>) -> Self {
        Self { roots }
    }

    /// The top folder of all.
    pub(crate) fn root(&self) -> io::Result<Merged> {
        let mut parts = Vec::new();
        for (layer, root) in self.roots.iter().enumerate() {
            let folder = openat(CWD, root, FOLDER, Mode::empty())?;
            parts.push(Part { layer, opaque: is_opaque(&folder), folder });
        }
        Ok(Merged { parts }.without_hidden())
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Merged {
    /// What is below an opaque folder is not seen.
    fn without_hidden(mut self) -> Self {
        if let Some(last) = self.parts.iter().position(|part| part.opaque) {
            self.parts.truncate(last + 1);
        }
        self
    }

    /// Whether a layer above `depth` hides what lower ones have here.
    pub(crate) fn hides_below(&self, depth: usize) -> bool {
        self.parts.iter().any(|part| part.layer < depth && part.opaque)
    }

    /// The entry of this name, if one is seen.
    pub(crate) fn get(&self, name: &CStr) -> io::Result<Option<Entry<'_>>> {
        Ok(self.topmost(name)?.filter(|entry| !entry.is_whiteout()))
    }

    /// The topmost entry of this name, also one that only hides others.
    pub(crate) fn topmost(&self, name: &CStr) -> io::Result<Option<Entry<'_>>> {
        for part in &self.parts {
            match statat(&part.folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => return Ok(Some(Entry { folder: &part.folder, name: name.to_owned(), stat })),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(None)
    }

    /// The folder of this name below.
    pub(crate) fn below(&self, name: &CStr) -> io::Result<Self> {
        let mut parts = Vec::new();
        for part in &self.parts {
            match openat(&part.folder, name, FOLDER, Mode::empty()) {
                Ok(folder) => parts.push(Part { layer: part.layer, opaque: is_opaque(&folder), folder }),
                Err(Errno::NOENT) => {}
                // Something else than a folder hides what is below.
                Err(Errno::NOTDIR | Errno::LOOP) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Self { parts }.without_hidden())
    }

    /// Names that layers above `depth` have something to say about.
    pub(crate) fn names(&self, depth: usize) -> io::Result<BTreeSet<CString>> {
        let mut names = BTreeSet::new();
        for part in self.parts.iter().filter(|part| part.layer < depth) {
            for entry in Dir::read_from(&part.folder)? {
                let name = entry?.file_name().to_owned();
                if !matches!(name.to_bytes(), b"." | b"..") {
                    names.insert(name);
                }
            }
        }
        Ok(names)
    }
}

impl Entry<'_> {
    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    pub(crate) fn is_whiteout(&self) -> bool {
        self.kind() == FileType::CharacterDevice && self.stat.st_rdev == 0
    }

    /// The same file of the same layer.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.stat.st_dev, self.stat.st_ino) == (other.stat.st_dev, other.stat.st_ino)
    }

    pub(crate) fn open(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(self.folder.as_fd(), &self.name, flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    /// Where a link leads.
    pub(crate) fn target(&self) -> io::Result<Vec<u8>> {
        Ok(rustix::fs::readlinkat(self.folder, &self.name, Vec::new())?.into_bytes())
    }
}

fn is_opaque(folder: &OwnedFd) -> bool {
    let mut value = [0; 8];
    fgetxattr(folder, OPAQUE, &mut value[..]).is_ok_and(|length| value[..length] == *b"y")
}
