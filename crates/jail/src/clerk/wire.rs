//! What a clerk is asked, and what it answers: frames over its standard streams.

use serde::{Deserialize, Serialize};

use crate::contained::{FrameKind, frame};
use crate::inside::{Entry, Event, Marks, Reach, Unpacked};

/// What a clerk is asked: one thing, first of all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Ask {
    /// Answered by [`Answer::Entry`].
    Stat(String),
    /// Answered by [`Answer::Entries`], as many as it takes, then [`Answer::Done`].
    List {
        /// The folder.
        path: String,
        /// How many levels of it.
        depth: u32,
    },
    /// Answered by [`Answer::File`], then content and its end.
    Read(String),
    /// Content and its end follow. Answered by [`Answer::Ready`] and, after the end, by [`Answer::Done`].
    Write {
        /// The file.
        path: String,
        /// Its permissions.
        mode: u32,
    },
    /// Answered by [`Answer::Done`].
    MakeFolder(String),
    /// Answered by [`Answer::Done`].
    Rename {
        /// What it is called.
        from: String,
        /// What it is to be called.
        to: String,
    },
    /// Answered by [`Answer::Done`].
    Remove(String),
    /// Answered by [`Answer::Marks`].
    Marks {
        /// The files.
        paths: Vec<String>,
        /// What names begin with.
        prefix: String,
    },
    /// Answered by [`Answer::Done`].
    Mark {
        /// The file.
        path: String,
        /// What names begin with.
        prefix: String,
        /// The words.
        marks: Marks,
    },
    /// Answered by [`Answer::Ready`], then content and its end, or [`Answer::Failed`] in its place.
    Pack(String),
    /// Content and its end follow. Answered by [`Answer::Unpacked`].
    Unpack {
        /// The folder.
        path: String,
        /// Entries at most.
        most: u64,
    },
    /// Answered by [`Answer::Ready`], then by [`Answer::Events`] until nobody reads.
    Watch {
        /// The folder.
        path: String,
        /// How far down.
        reach: Reach,
    },
    /// Answered by [`Answer::Used`].
    Measure,
}

/// What a clerk answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// It was done.
    Done,
    /// It can begin.
    Ready,
    /// It could not be done.
    Failed {
        /// The kernel's answer, if it was the kernel's.
        errno: Option<i32>,
        /// Why, in words.
        said: String,
    },
    /// One entry.
    Entry(Entry),
    /// Some entries.
    Entries(Vec<Entry>),
    /// A regular file of so many bytes.
    File(u64),
    /// Words of each file.
    Marks(Vec<Marks>),
    /// What came out of an archive.
    Unpacked(Unpacked),
    /// What happened.
    Events(Vec<Event>),
    /// Bytes and entries of the folders that the session's disk is made of.
    Used {
        /// Bytes.
        bytes: u64,
        /// Entries.
        entries: u64,
    },
}

impl Ask {
    /// As a frame.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        frame(FrameKind::Message, &postcard::to_stdvec(self).unwrap_or_default())
    }
}

impl Answer {
    pub(super) fn frame(&self) -> Vec<u8> {
        frame(FrameKind::Message, &postcard::to_stdvec(self).unwrap_or_default())
    }

    /// From a frame's payload, which a program of the session could have written.
    #[must_use]
    pub fn read(payload: &[u8]) -> Option<Self> {
        postcard::from_bytes(payload).ok()
    }
}
