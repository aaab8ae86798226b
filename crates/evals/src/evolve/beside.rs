//! What lies beside a task: the folder of its author, or files that came along with it from somebody else.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::error::EvolveError;

/// Files longer than this are no programs.
const MOST_PROGRAM: u64 = 4 << 20;

/// Where the files are that a task names.
#[derive(Debug, Clone, Copy)]
pub(super) enum Beside<'a> {
    /// In a folder; its author may name files elsewhere, too.
    Folder(&'a Path),
    /// In the request: no name leads to a file of this host.
    Carried(&'a BTreeMap<String, Vec<u8>>),
}

impl Beside<'_> {
    /// Where relative paths begin; nowhere, if nothing is on this host.
    pub(super) fn folder(&self) -> PathBuf {
        match self {
            Self::Folder(folder) => folder.to_path_buf(),
            Self::Carried(_) => PathBuf::new(),
        }
    }

    pub(super) fn has(&self, name: &Path) -> bool {
        match self {
            Self::Folder(folder) => folder.join(name).is_file(),
            Self::Carried(files) => name.to_str().is_some_and(|name| files.contains_key(name)),
        }
    }

    /// Names of files at the top, in order.
    pub(super) fn names(&self) -> Result<Vec<String>, EvolveError> {
        let mut names: Vec<String> = match self {
            Self::Folder(folder) => fs::read_dir(folder)
                .map_err(|source| EvolveError::Read { path: folder.to_path_buf(), source })?
                .flatten()
                .filter(|entry| entry.path().is_file())
                .filter_map(|entry| entry.file_name().into_string().ok())
                .collect(),
            Self::Carried(files) => files.keys().filter(|name| !name.contains('/')).cloned().collect(),
        };
        names.sort();
        Ok(names)
    }

    pub(super) fn size(&self, name: &str) -> Option<u64> {
        match self {
            Self::Folder(folder) => fs::metadata(folder.join(name)).ok().map(|about| about.len()),
            Self::Carried(files) => files.get(name).map(|bytes| bytes.len() as u64),
        }
    }

    pub(super) fn bytes(&self, name: &Path) -> Result<Vec<u8>, EvolveError> {
        let (path, read) = match self {
            Self::Folder(folder) => (folder.join(name), fs::read(folder.join(name))),
            Self::Carried(files) => {
                let found = name.to_str().and_then(|name| files.get(name)).cloned();
                (name.to_path_buf(), found.ok_or(ErrorKind::NotFound.into()))
            }
        };
        read.map_err(|source| EvolveError::Read { path, source })
    }

    /// The text of a file of moderate size.
    pub(super) fn text(&self, name: &Path) -> Result<String, EvolveError> {
        let bytes = match self {
            Self::Folder(folder) => return read_text(&folder.join(name)),
            Self::Carried(_) => self.bytes(name)?,
        };
        let failed = |kind: ErrorKind| EvolveError::Read { path: name.to_path_buf(), source: kind.into() };
        if bytes.len() as u64 > MOST_PROGRAM {
            return Err(failed(ErrorKind::FileTooLarge));
        }
        String::from_utf8(bytes).map_err(|_| failed(ErrorKind::InvalidData))
    }
}

/// The text of a file of moderate size.
pub(super) fn read_text(path: &Path) -> Result<String, EvolveError> {
    let failed = |source| EvolveError::Read { path: path.to_path_buf(), source };
    let size = fs::metadata(path).map_err(failed)?.len();
    if size > MOST_PROGRAM {
        return Err(failed(ErrorKind::FileTooLarge.into()));
    }
    fs::read_to_string(path).map_err(failed)
}
