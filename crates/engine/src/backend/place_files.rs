//! The files of a sandbox that stays, and why something could not be done with them.

use std::fs::File;
use std::io::{self, Read};

use jail::inside;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;
use types::{ErrorCode, GuestPath};

use super::BoxFuture;
use super::place::GuestUser;

/// The files of a place, by the paths that its processes see. No path leads outside, through whatever links.
pub trait PlaceFiles: Send + Sync {
    /// One entry; a link is followed, and its target is told.
    fn stat<'a>(&'a self, path: &'a GuestPath) -> BoxFuture<'a, Result<FileEntry, FileError>>;
    /// Entries below a folder, sorted, each folder before what is in it; links are not followed.
    fn list<'a>(&'a self, path: &'a GuestPath, depth: u32) -> BoxFuture<'a, Result<Vec<FileEntry>, FileError>>;
    /// The content of a regular file, as long as it was when it was opened.
    fn read<'a>(&'a self, path: &'a GuestPath) -> BoxFuture<'a, Result<FileContentStream, FileError>>;
    /// Makes or replaces a regular file with all folders above it, owned by `user`; returns its bytes.
    fn write<'a>(
        &'a self,
        path: &'a GuestPath,
        user: GuestUser,
        mode: u32,
        content: &'a mut (dyn AsyncRead + Send + Unpin),
    ) -> BoxFuture<'a, Result<u64, FileError>>;
    /// Makes a folder with all above it; one that is there already is [`FileError::Exists`].
    fn make_folder<'a>(&'a self, path: &'a GuestPath, user: GuestUser) -> BoxFuture<'a, Result<(), FileError>>;
    /// Moves within the place, making folders above the new name.
    fn rename<'a>(&'a self, from: &'a GuestPath, to: &'a GuestPath) -> BoxFuture<'a, Result<(), FileError>>;
    /// Removes whatever is there, with all below it. Nothing there is no error.
    fn remove<'a>(&'a self, path: &'a GuestPath) -> BoxFuture<'a, Result<(), FileError>>;
    /// Words that were attached to files, by the path of each: extended attributes `user.PREFIX…`, without that prefix. What
    /// is not there, or has none, has none.
    fn marks<'a>(&'a self, paths: Vec<GuestPath>, prefix: &'static str)
    -> BoxFuture<'a, Result<Vec<Marks>, FileError>>;
    /// Attaches words to a file in place of those that it had with this prefix.
    fn mark<'a>(
        &'a self,
        path: &'a GuestPath,
        prefix: &'static str,
        marks: Marks,
    ) -> BoxFuture<'a, Result<(), FileError>>;
    /// Everything below a folder, or one file, as a tar. No link is followed.
    fn pack<'a>(&'a self, path: &'a GuestPath) -> BoxFuture<'a, Result<Box<dyn AsyncRead + Send + Unpin>, FileError>>;
    /// Unpacks a tar below a folder, which is made; at most so many entries, all owned by `user`. Files and links of the
    /// same names are replaced.
    fn unpack<'a>(
        &'a self,
        path: &'a GuestPath,
        user: GuestUser,
        most: u64,
        content: &'a mut (dyn AsyncRead + Send + Unpin),
    ) -> BoxFuture<'a, Result<Unpacked, FileError>>;
    /// What happens in a folder from now on, until nobody receives.
    fn watch<'a>(
        &'a self,
        path: &'a GuestPath,
        reach: Reach,
    ) -> BoxFuture<'a, Result<mpsc::Receiver<FileEvent>, FileError>>;
}

pub use jail::inside::Marks;

/// What came out of an archive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Unpacked {
    /// Entries of the archive.
    pub entries: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Entries that were left out: devices and pipes.
    pub skipped: u64,
}

/// How far down somebody watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// What is in the folder itself.
    Folder,
    /// Everything below it, also in folders that are made later.
    All,
}

/// Something that happened to an entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FileEvent {
    /// What.
    #[serde(rename = "type")]
    pub change: FileChange,
    /// To what, by its whole path.
    pub path: String,
    /// Its new path, if it was renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// What can happen to an entry of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    /// It is there.
    Create,
    /// Its content changed.
    Write,
    /// It is gone.
    Remove,
    /// It has another name.
    Rename,
    /// Its owner, mode or attributes changed.
    Attributes,
    /// More happened than could be told; look for yourself.
    Overflow,
}

/// The content of a file on its way out.
pub struct FileContentStream {
    /// How many bytes will come, unless somebody writes it meanwhile.
    pub bytes: u64,
    /// The bytes.
    pub content: Box<dyn AsyncRead + Send + Unpin>,
}

impl FileContentStream {
    /// So many bytes of a regular file of this host.
    pub(crate) fn of(file: File, bytes: u64) -> Self {
        Self { bytes, content: Box::new(Content { file: file.take(bytes) }) }
    }
}

/// A regular file, read a piece at a time. Its bytes are on a disk of this host, so nobody waits long.
struct Content {
    file: io::Take<File>,
}

impl AsyncRead for Content {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        let read = self.file.read(buffer.initialize_unfilled());
        std::task::Poll::Ready(read.map(|n| buffer.advance(n)))
    }
}

/// What there is to know of one entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FileEntry {
    /// The last part of its path.
    pub name: String,
    /// The whole path.
    pub path: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: FileKind,
    /// Its size.
    pub bytes: u64,
    /// Permission bits.
    pub mode: u32,
    /// Its owner, as seen inside.
    pub uid: u32,
    /// Its group, as seen inside.
    pub gid: u32,
    /// When its content changed last, in milliseconds since 1970.
    pub modified_ms: i64,
    /// Where a link leads, as it is written in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// What an entry of a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

impl From<inside::Entry> for FileEntry {
    fn from(entry: inside::Entry) -> Self {
        let name = entry.name().to_owned();
        let inside::Entry { path, kind, bytes, mode, uid, gid, modified_ms, target } = entry;
        let kind = match kind {
            inside::Kind::File => FileKind::File,
            inside::Kind::Folder => FileKind::Folder,
            inside::Kind::Link => FileKind::Link,
            inside::Kind::Other => FileKind::Other,
        };
        Self { name, path, kind, bytes, mode, uid, gid, modified_ms, target }
    }
}

impl From<inside::Event> for FileEvent {
    fn from(event: inside::Event) -> Self {
        let change = match event.change {
            inside::Change::Create => FileChange::Create,
            inside::Change::Write => FileChange::Write,
            inside::Change::Remove => FileChange::Remove,
            inside::Change::Rename => FileChange::Rename,
            inside::Change::Attributes => FileChange::Attributes,
            inside::Change::Overflow => FileChange::Overflow,
        };
        Self { change, path: event.path, to: event.to }
    }
}

impl From<inside::Unpacked> for Unpacked {
    fn from(inside::Unpacked { entries, bytes, skipped }: inside::Unpacked) -> Self {
        Self { entries, bytes, skipped }
    }
}

impl From<Reach> for inside::Reach {
    fn from(reach: Reach) -> Self {
        match reach {
            Reach::Folder => Self::Folder,
            Reach::All => Self::All,
        }
    }
}

/// Why something could not be done with a file of a place.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Nothing is there.
    #[error("`{0}` does not exist in the session")]
    Missing(GuestPath),
    /// Something is there already.
    #[error("`{0}` exists already in the session")]
    Exists(GuestPath),
    /// It is a folder, and a file is wanted, or the other way round.
    #[error("`{path}` is {found}, not {wanted}")]
    Kind {
        /// Which.
        path: GuestPath,
        /// What it is.
        found: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// The disk of the session is full, or its quota used up.
    #[error("there is no room for `{0}` on the session's disk")]
    Full(GuestPath),
    /// It cannot be changed: a part of the root that all sandboxes share.
    #[error("`{0}` is read-only in the session")]
    ReadOnly(GuestPath),
    /// More entries than one answer takes.
    #[error("`{path}` has more than {most} entries below it")]
    TooMany {
        /// The folder.
        path: GuestPath,
        /// The most that are told.
        most: usize,
    },
    /// Whatever else the kernel or the backend says.
    #[error("`{path}` cannot be used: {source}")]
    Io {
        /// Which.
        path: GuestPath,
        /// Why.
        source: io::Error,
    },
}

impl FileError {
    /// The kernel's answer about `path`.
    #[must_use]
    pub fn from_io(path: &GuestPath, source: io::Error) -> Self {
        let path = path.clone();
        match source.kind() {
            io::ErrorKind::NotFound => Self::Missing(path),
            io::ErrorKind::AlreadyExists => Self::Exists(path),
            io::ErrorKind::IsADirectory => Self::Kind { path, found: "a folder", wanted: "a file" },
            io::ErrorKind::NotADirectory => Self::Kind { path, found: "below a file", wanted: "in a folder" },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full(path),
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly(path),
            _ => Self::Io { path, source },
        }
    }

    /// The same where entries are listed, of which there may be too many.
    pub(super) fn of_list(path: &GuestPath, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::FileTooLarge => Self::TooMany { path: path.clone(), most: inside::MOST_ENTRIES },
            _ => Self::from_io(path, source),
        }
    }

    /// What a program matches on.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Missing(_) => ErrorCode::NotFound,
            Self::Exists(_) | Self::Kind { .. } | Self::ReadOnly(_) | Self::TooMany { .. } | Self::Io { .. } => {
                ErrorCode::InvalidRequest
            }
            Self::Full(_) => ErrorCode::ResourcesExhausted,
        }
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Missing(_) => "`saggar session ls ID PATH` shows what is there",
            Self::Exists(_) => "remove it first, or choose another name",
            Self::Kind { .. } | Self::Io { .. } => "`saggar session ls ID PATH` shows what it is",
            Self::Full(_) => "remove something, or create the session with a larger --disk",
            Self::ReadOnly(_) => "write below /work, /home/user or /tmp",
            Self::TooMany { .. } => "ask for less depth, or for a folder further down",
        }
    }
}
