//! What is told of files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Words that are attached to a file, by name.
pub type Marks = BTreeMap<String, String>;

/// What there is to know of one entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The whole path.
    pub path: String,
    /// What it is.
    pub kind: Kind,
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
    pub target: Option<String>,
}

impl Entry {
    /// The last part of its path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// What an entry of a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

/// What came out of an archive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpacked {
    /// Entries of the archive.
    pub entries: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Entries that were left out: devices and pipes.
    pub skipped: u64,
}

/// How far down somebody watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
    /// What is in the folder itself.
    Folder,
    /// Everything below it, also in folders that are made later.
    All,
}

/// Something that happened to an entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What.
    pub change: Change,
    /// To what, by its whole path.
    pub path: String,
    /// Its new path, if it was renamed.
    pub to: Option<String>,
}

/// What can happen to an entry of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
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
