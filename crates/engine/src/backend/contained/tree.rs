//! A sandbox's files, by way of our program in it: nothing passes through a file of this machine.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jail::contained::{EntryKind, Folder, FrameKind, MOST_CONTENT, Order, Report, frame};
use types::{LimitKind, RelPath};

use super::errands::wait;
use super::link::Link;
use crate::files::{Content, Executable, Opened, Tree};

/// A sandbox's `/work` and `/tmp`. Each question waits for its answer; there is one at a time.
pub(in crate::backend) struct ContainedTree(Mutex<Link>);

impl ContainedTree {
    pub(in crate::backend) fn new(link: Link) -> Self {
        Self(Mutex::new(link))
    }

    pub(in crate::backend) fn link_mut(&mut self) -> &mut Link {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::backend) fn is_alive(&self) -> bool {
        self.link().is_alive()
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, order: &Order) -> io::Result<Report> {
        let mut link = self.link();
        wait(link.order(order)).and_then(|()| wait(link.report())).map_err(io::Error::other).and_then(refused)
    }
}

impl Tree for ContainedTree {
    fn write(&self, path: &RelPath, content: &mut dyn Read, executable: Executable) -> io::Result<()> {
        let mut link = self.link();
        let order = Order::Place { path: path.as_str().to_owned(), executable: executable == Executable::Yes };
        wait(link.order(&order)).map_err(io::Error::other)?;
        let mut buffer = vec![0; MOST_CONTENT];
        // The end is told in any case: it is waited for.
        let copied = loop {
            match content.read(&mut buffer) {
                Ok(0) => break Ok(()),
                Ok(n) => {
                    let frame = frame(FrameKind::Content, &buffer[..n]);
                    wait(link.send(frame)).map_err(io::Error::other)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        let answer = wait(link.send(frame(FrameKind::End, &[]))).and_then(|()| wait(link.report()));
        copied.and(answer.map_err(io::Error::other).and_then(refused).map(drop))
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(&[u8], EntryKind) -> ControlFlow<()>) -> io::Result<()> {
        let mut link = self.link();
        let order = Order::List { folder: folder.to_owned() };
        wait(link.order(&order)).map_err(io::Error::other)?;
        let mut flow = ControlFlow::Continue(());
        // One that was heard to its end though nobody wanted more of it; a folder that has no end is somebody's lie.
        for _ in 0..MOST_REPORTS {
            match wait(link.report()).map_err(io::Error::other).and_then(refused)? {
                Report::Entries(entries) => {
                    flow = entries.iter().try_fold((), |(), (name, kind)| match flow {
                        ControlFlow::Continue(()) => each(name, *kind),
                        ControlFlow::Break(()) => ControlFlow::Break(()),
                    });
                }
                Report::Done => return Ok(()),
                _ => return Err(unexpected()),
            }
        }
        Err(unexpected())
    }

    fn open(&self, path: &str) -> io::Result<Opened<'_>> {
        let Report::File { size, executable } = self.ask(&Order::Stat { path: path.to_owned() })? else {
            return Err(unexpected());
        };
        let executable = if executable { Executable::Yes } else { Executable::No };
        let content = Remote { tree: self, path: path.to_owned(), size, left: size, kept: None, state: State::Unread };
        Ok(Opened { size, executable, content: Box::new(content) })
    }

    fn read_small(&self, path: &str, most: u64) -> Option<Vec<u8>> {
        let mut link = self.link();
        let order = Order::Read { folder: Folder::Tmp, path: path.to_owned(), most: most + 1 };
        wait(link.order(&order)).ok()?;
        let mut content = Vec::new();
        while let Some(piece) = piece(&mut link).ok()? {
            content.extend(piece);
            // As much was asked for, and nobody sends more who means well.
            if content.len() as u64 > most + 1 {
                return None;
            }
        }
        (content.len() as u64 <= most).then_some(content)
    }

    fn full(&self) -> Vec<LimitKind> {
        match self.ask(&Order::Room) {
            Ok(Report::Full(hits)) => hits,
            _ => Vec::new(),
        }
    }
}

/// The most reports that tell of one folder: more entries than a run's disk can hold.
const MOST_REPORTS: usize = 1 << 16;

/// Files up to this size are asked for once, however often they are read.
const MOST_KEPT: u64 = 1 << 20;

/// A file of the sandbox. While it is being read nothing else can be asked, so whoever stops early leaves the rest
/// to be thrown away.
struct Remote<'a> {
    tree: &'a ContainedTree,
    path: String,
    size: u64,
    /// What is still to come of it; no more is taken, whatever is sent.
    left: u64,
    /// All of it, if it is small.
    kept: Option<Vec<u8>>,
    state: State,
}

enum State {
    /// Nothing was asked for.
    Unread,
    /// What has come and was not read yet, and how much of it was.
    Reading { piece: Vec<u8>, at: usize },
    /// All of it has come.
    Over,
}

impl Remote<'_> {
    /// The next piece, if what comes is what was announced.
    fn piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        let piece = piece(&mut self.tree.link())?;
        let length = piece.as_ref().map_or(0, |piece| piece.len() as u64);
        self.left = self.left.checked_sub(length).ok_or_else(unexpected)?;
        Ok(piece)
    }

    fn ask(&self) -> io::Result<()> {
        let order = Order::Read { folder: Folder::Work, path: self.path.clone(), most: self.size };
        wait(self.tree.link().order(&order)).map_err(io::Error::other)
    }

    /// Throws away what is still on its way.
    fn finish(&mut self) {
        while let State::Reading { .. } = self.state {
            match self.piece() {
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => self.state = State::Over,
            }
        }
    }
}

impl Read for Remote<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match &mut self.state {
                State::Over => return Ok(0),
                State::Unread => {
                    if let Some(kept) = &self.kept {
                        self.state = State::Reading { piece: kept.clone(), at: 0 };
                        continue;
                    }
                    self.left = self.size;
                    self.ask()?;
                    self.state = State::Reading { piece: Vec::new(), at: 0 };
                }
                State::Reading { piece: current, at } if *at < current.len() => {
                    let n = buffer.len().min(current.len() - *at);
                    buffer[..n].copy_from_slice(&current[*at..*at + n]);
                    *at += n;
                    return Ok(n);
                }
                State::Reading { .. } if self.kept.is_some() => self.state = State::Over,
                State::Reading { .. } if self.size <= MOST_KEPT => {
                    let mut whole = Vec::new();
                    while let Some(piece) = self.piece()? {
                        whole.extend(piece);
                    }
                    self.kept = Some(whole);
                    self.state = State::Unread;
                }
                State::Reading { .. } => match self.piece() {
                    Ok(Some(piece)) => self.state = State::Reading { piece, at: 0 },
                    Ok(None) => self.state = State::Over,
                    Err(error) => {
                        self.state = State::Over;
                        return Err(error);
                    }
                },
            }
        }
    }
}

impl Content for Remote<'_> {
    fn rewind(&mut self) -> io::Result<()> {
        if self.kept.is_none() {
            self.finish();
        }
        self.state = State::Unread;
        Ok(())
    }
}

impl Drop for Remote<'_> {
    fn drop(&mut self) {
        if self.kept.is_none() {
            self.finish();
        }
    }
}

/// The next piece of a file that was asked for; `None` at its end.
fn piece(link: &mut Link) -> io::Result<Option<Vec<u8>>> {
    match wait(link.next()).map_err(io::Error::other)? {
        (FrameKind::Content, piece) => Ok(Some(piece)),
        (FrameKind::End, _) => Ok(None),
        (FrameKind::Message, payload) => {
            let report = link.read(&payload).map_err(io::Error::other)?;
            Err(refused(report).err().unwrap_or_else(unexpected))
        }
        (FrameKind::Out | FrameKind::Err | FrameKind::Packet, _) => Err(unexpected()),
    }
}

/// The kernel's answer, where it was a refusal.
fn refused(report: Report) -> io::Result<Report> {
    match report {
        Report::Failed { errno } => Err(io::Error::from_raw_os_error(errno)),
        other => Ok(other),
    }
}

fn unexpected() -> io::Error {
    io::Error::other("our program in the sandbox said what it should not say")
}
