//! What the engine and process 1 of a container say to each other, over that process's own standard streams.
//!
//! A frame is its kind, four bytes of length and the payload. Orders and reports are postcard; content is as it is.

use serde::{Deserialize, Serialize};
use types::{Layer, LimitKind};

use crate::measure::Fallen;
use crate::wire::{Cost, End, Limits, MAX_MESSAGE, ProcessId, SessionNews, SessionOrder};

/// The most content in one frame, and the most input that is on its way to a program.
pub const MOST_CONTENT: usize = 64 << 10;

/// The most output of one program of a session that is on its way to whoever reads it.
pub const MOST_OUTPUT: usize = 256 << 10;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// An [`Order`], or a [`Report`].
    Message,
    /// What a program wrote on standard output.
    Out,
    /// What it wrote on standard error.
    Err,
    /// Part of a file, or of a program's input.
    Content,
    /// The end of that.
    End,
    /// A packet of its network, from its IP header on: either way, and whenever it comes.
    Packet,
}

const KINDS: [FrameKind; 6] =
    [FrameKind::Message, FrameKind::Out, FrameKind::Err, FrameKind::Content, FrameKind::End, FrameKind::Packet];

/// To process 1 of a container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Furnish the container and close what its engine has left open: first of all, and once. Answered by
    /// [`Report::Ready`], or by [`Report::Failed`] where the way out that it is to have cannot be had.
    Close {
        /// Of the disk, and how many processors programs see.
        limits: Limits,
        /// Whether it has a way out: packets go over this stream, to whoever routes them.
        way_out: bool,
    },
    /// Write a file below `/work`; its content follows. Answered by [`Report::Done`] or [`Report::Failed`].
    Place {
        /// Below `/work`.
        path: String,
        /// Whether it may be executed.
        executable: bool,
    },
    /// Start a program; its input follows, no more than [`MOST_CONTENT`] ahead of [`Report::Took`]. Answered by
    /// [`Report::Started`] or [`Report::Failed`], then output, then [`Report::Ended`].
    Start {
        /// Candidates for its path, tried in order.
        programs: Vec<String>,
        /// Arguments, its own name included.
        argv: Vec<String>,
        /// `NAME=value`.
        env: Vec<String>,
        /// What it may use.
        limits: Limits,
    },
    /// End the program and all it started.
    Kill,
    /// Tell what is in a folder. Answered by [`Report::Entries`], as many as it takes, then [`Report::Done`].
    List {
        /// Below `/work`.
        folder: String,
    },
    /// Tell of a regular file. Answered by [`Report::File`] or [`Report::Failed`].
    Stat {
        /// Below `/work`.
        path: String,
    },
    /// Send a regular file, from its start: content and its end, or [`Report::Failed`].
    Read {
        /// Where to look.
        folder: Folder,
        /// Below that.
        path: String,
        /// No more bytes than this.
        most: u64,
    },
    /// Tell which limits of the disk are used up. Answered by [`Report::Full`].
    Room,
    /// In place of [`Order::Close`]: furnish and close the container as one that stays, and serve a session in it until
    /// the end. Answered by [`Report::Ready`]; all that follows is about programs by their numbers, and so are the first
    /// bytes of content, of its end, and of output.
    Open {
        /// Of the whole.
        limits: Limits,
        /// Folders of its disk, and others of the image in whose place they show as well. Where they cannot, the answer is
        /// [`Report::Failed`], and there is no session.
        shown: Vec<(String, String)>,
        /// As for [`Order::Close`].
        way_out: bool,
    },
    /// In a session: the same that a keeper is told.
    Session(SessionOrder),
    /// In a session: this much of a program's output was passed on. No more than [`MOST_OUTPUT`] is ever on its way.
    Passed {
        /// Which.
        process: ProcessId,
        /// Bytes.
        bytes: u32,
    },
    /// In a session: nobody reads a program's output any more.
    Deaf(ProcessId),
    /// In a session: the terminal of a program has another size.
    Resize {
        /// Which.
        process: ProcessId,
        /// Columns and rows.
        size: (u16, u16),
    },
    /// In a session: tell how many processes there are. Answered by [`Report::Counted`].
    Count,
    /// In a session: tell who writes to its disk, or end them. Answered by [`SessionNews::Swapped`].
    Settle {
        /// Whether they are ended.
        kill: bool,
    },
}

/// A writable folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Folder {
    /// `/work`.
    Work,
    /// `/tmp`.
    Tmp,
}

/// From process 1 of a container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Report {
    /// It has closed what it can; these layers it has seen to be on.
    Ready {
        /// Which.
        layers: Vec<Layer>,
    },
    /// It was done.
    Done,
    /// It could not be done.
    Failed {
        /// The kernel's answer.
        errno: i32,
    },
    /// The program runs.
    Started,
    /// The program has taken this much of its input.
    Took(u32),
    /// All its processes are gone.
    Ended {
        /// How.
        end: End,
        /// What it cost.
        cost: Cost,
    },
    /// Part of a folder.
    Entries(Vec<(Vec<u8>, EntryKind)>),
    /// A regular file.
    File {
        /// In bytes.
        size: u64,
        /// Whether its owner may execute it.
        executable: bool,
    },
    /// Limits of the disk that are used up.
    Full(Vec<LimitKind>),
    /// In a session: the same that a keeper says.
    Session(SessionNews),
    /// In a session: a program has taken this much of its input.
    Fed {
        /// Which.
        process: ProcessId,
        /// Bytes.
        bytes: u32,
    },
    /// In a session: everybody who held a program's outputs is gone.
    Over(ProcessId),
    /// In a session: processes but the first.
    Counted(u32),
    /// In a session: it has reached a limit of the whole, and ends.
    Spent(LimitKind),
    /// In a session: free space has fallen so far where its disk is.
    Fallen(Fallen),
}

/// What an entry of a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// Anything else.
    Special,
}

impl Order {
    /// As a frame.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        message(self)
    }
}

impl Report {
    /// As a frame.
    pub(super) fn frame(&self) -> Vec<u8> {
        message(self)
    }

    /// From a frame's payload.
    #[must_use]
    pub fn read(payload: &[u8]) -> Option<Self> {
        postcard::from_bytes(payload).ok()
    }
}

fn message(message: &impl Serialize) -> Vec<u8> {
    // What cannot be written cannot be read at the other end either, which then says so.
    frame(FrameKind::Message, &postcard::to_stdvec(message).unwrap_or_default())
}

/// One frame.
#[must_use]
pub fn frame(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    let number = KINDS.iter().position(|other| *other == kind).and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX);
    let mut frame = Vec::with_capacity(5 + payload.len());
    frame.push(number);
    frame.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// One frame about a program of a session.
#[must_use]
pub fn addressed(kind: FrameKind, process: ProcessId, payload: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(4 + payload.len());
    whole.extend_from_slice(&process.to_le_bytes());
    whole.extend_from_slice(payload);
    frame(kind, &whole)
}

/// Which program the payload of such a frame is about, and the rest of it.
#[must_use]
pub fn address(payload: &[u8]) -> Option<(ProcessId, &[u8])> {
    let (process, rest) = payload.split_first_chunk::<4>()?;
    Some((ProcessId::from_le_bytes(*process), rest))
}

/// Bytes that cannot be frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Garbled;

/// Cuts a stream of bytes into frames.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    /// What was taken out already.
    taken: usize,
}

impl Frames {
    /// More bytes have come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame that is whole.
    pub fn next_frame(&mut self) -> Result<Option<(FrameKind, Vec<u8>)>, Garbled> {
        let rest = &self.bytes[self.taken..];
        let Some((header, rest)) = rest.split_first_chunk::<5>() else { return Ok(None) };
        let kind = *KINDS.get(usize::from(header[0])).ok_or(Garbled)?;
        let length = u32::from_le_bytes([header[1], header[2], header[3], header[4]]) as usize;
        if length > MAX_MESSAGE {
            return Err(Garbled);
        }
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        let payload = payload.to_vec();
        self.taken += 5 + length;
        Ok(Some((kind, payload)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in_however_they_were_cut() {
        let order = Order::List { folder: "a/b".to_owned() };
        let whole = [order.frame(), frame(FrameKind::Content, &[7; 300]), frame(FrameKind::End, &[])].concat();
        for size in [1, 2, 5, 64, 1000] {
            let mut frames = Frames::default();
            let mut seen = Vec::new();
            for piece in whole.chunks(size) {
                frames.push(piece);
                while let Some(frame) = frames.next_frame().unwrap() {
                    seen.push(frame);
                }
            }
            let kinds: Vec<_> = seen.iter().map(|(kind, payload)| (*kind, payload.len())).collect();
            assert_eq!(kinds[1..], [(FrameKind::Content, 300), (FrameKind::End, 0)]);
            assert_eq!(postcard::from_bytes::<Order>(&seen[0].1).unwrap(), order);
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        for bytes in [[9, 0, 0, 0, 0], [0, 255, 255, 255, 255]] {
            let mut frames = Frames::default();
            frames.push(&bytes);
            assert_eq!(frames.next_frame(), Err(Garbled));
        }
    }
}
