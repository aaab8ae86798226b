//! Where the parts of an image lie: a folder, or a tar whose parts can be read in any order.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use tar::{Archive, EntryType};

use super::ImageError;
use super::budget::Budget;
use super::compress;
use crate::layers::Draft;

/// The most that a description of an image has.
const DESCRIPTION: u64 = 4 << 20;

/// The parts of an image, by name.
pub(super) enum Parts {
    /// A folder, as an OCI layout is.
    Folder(OwnedFd),
    /// A tar: where each regular file of it begins, and its bytes.
    Tar(File, BTreeMap<String, (u64, u64)>),
}

impl Parts {
    /// A folder of the host.
    pub(super) fn of_folder(path: &Path) -> Result<Self, ImageError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(path, flags, Mode::empty());
        folder.map(Self::Folder).map_err(|errno| ImageError::Source { path: path.to_path_buf(), source: errno.into() })
    }

    /// A tar, unpacked into the draft first if it is packed.
    pub(super) fn of_tar(mut file: File, draft: &Draft) -> Result<Self, ImageError> {
        let mut start = [0; 4];
        let read = file.read(&mut start).map_err(ImageError::Archive)?;
        file.rewind().map_err(ImageError::Archive)?;
        if compress::is_packed(&start[..read]) {
            let mut plain = draft.scratch("archive.tar")?;
            let mut unpacked = compress::unpacked(file).map_err(ImageError::Archive)?;
            copy_within(&mut unpacked, &mut plain, &mut Budget::default())?;
            plain.rewind().map_err(ImageError::Archive)?;
            file = plain;
        }
        let mut parts = BTreeMap::new();
        let mut count = Budget::default();
        let mut archive = Archive::new(file.try_clone().map_err(ImageError::Archive)?);
        for entry in archive.entries_with_seek().map_err(ImageError::Archive)? {
            let entry = entry.map_err(ImageError::Archive)?;
            count.take_entry()?;
            if entry.header().entry_type() == EntryType::Regular
                && let Ok(name) = std::str::from_utf8(&entry.path_bytes())
            {
                let name = name.trim_start_matches("./").to_owned();
                parts.insert(name, (entry.raw_file_position(), entry.size()));
            }
        }
        Ok(Self::Tar(file, parts))
    }

    /// Whether there is such a part.
    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Self::Folder(folder) => open_part(folder, name).is_ok(),
            Self::Tar(_, parts) => parts.contains_key(name),
        }
    }

    /// A part from its beginning.
    pub(super) fn read(&self, name: &str) -> Result<Box<dyn Read + '_>, ImageError> {
        let missing = || ImageError::Manifest(format!("`{}` is not there", super::tree::shown(name.as_bytes())));
        match self {
            Self::Folder(folder) => Ok(Box::new(open_part(folder, name).map_err(|_| missing())?)),
            Self::Tar(file, parts) => {
                let (start, bytes) = *parts.get(name).ok_or_else(missing)?;
                Ok(Box::new(Section { file, at: start, left: bytes }))
            }
        }
    }

    /// A description.
    pub(super) fn json<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T, ImageError> {
        let mut text = Vec::new();
        self.read(name)?.take(DESCRIPTION + 1).read_to_end(&mut text).map_err(ImageError::Archive)?;
        if text.len() as u64 > DESCRIPTION {
            return Err(ImageError::Manifest(format!("`{name}` is too large")));
        }
        serde_json::from_slice(&text).map_err(|error| ImageError::Manifest(format!("`{name}`: {error}")))
    }

    /// The tar as a whole.
    pub(super) fn whole(&self) -> Option<Box<dyn Read + '_>> {
        match self {
            Self::Folder(_) => None,
            Self::Tar(file, _) => Some(Box::new(Section { file, at: 0, left: u64::MAX })),
        }
    }
}

/// A part of a layout; what a link there points to was never part of it.
fn open_part(folder: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let file = File::from(openat2(folder, name, flags, Mode::empty(), resolve)?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Some bytes of a file.
struct Section<'a> {
    file: &'a File,
    at: u64,
    left: u64,
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let mut file = self.file;
        file.seek(SeekFrom::Start(self.at))?;
        let read = file.read(&mut buffer[..most])?;
        self.at += read as u64;
        self.left -= read as u64;
        Ok(read)
    }
}

/// Copies no more than the budget allows.
pub(super) fn copy_within(from: &mut dyn Read, to: &mut File, budget: &mut Budget) -> Result<(), ImageError> {
    let mut buffer = vec![0; 128 << 10];
    loop {
        let read = from.read(&mut buffer).map_err(ImageError::Archive)?;
        if read == 0 {
            return Ok(());
        }
        budget.take_bytes(read as u64)?;
        let written = io::Write::write_all(to, &buffer[..read]);
        written.map_err(|source| ImageError::Write { path: "archive.tar".to_owned(), source })?;
    }
}
