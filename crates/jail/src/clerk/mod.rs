//! A program of ours inside a container that looks after files for the engine: it is one of the session's own, with no
//! right that the others lack, so whatever path it is given, it can do no more than they.
//!
//! Under the name [`NAME`] the keeper's program is a clerk. It is asked one thing over its standard input, answers over its
//! standard output, and ends.

mod look;
mod wire;

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{getgid, getuid};
use rustix::time::Timespec;
use types::GuestPath;

use crate::contained::{FrameKind, Frames, MOST_CONTENT, frame};
use crate::inside::{Files, Reach};
use crate::measure;
use crate::wire::GuestIds;
use look::Look;
pub use wire::{Answer, Ask};

/// By which name the program knows that it is a clerk.
pub const NAME: &str = "saggar-clerk";

/// Entries in one answer: a path has 4096 bytes at most.
const AT_ONCE: usize = 32;

/// How often a watched folder is looked at.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Does the one thing that it is asked.
#[must_use]
pub fn run() -> ExitCode {
    let mut input = Input { frames: Frames::default(), piece: Vec::new(), at: 0, over: false };
    let done = input.ask().and_then(|ask| Clerk::open()?.serve(ask, &mut input));
    let told = done.or_else(|error| say(&Answer::Failed { errno: errno(&error), said: error.to_string() }));
    if told.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn errno(error: &io::Error) -> Option<i32> {
    let known = match error.kind() {
        io::ErrorKind::AlreadyExists => Some(libc::EEXIST),
        io::ErrorKind::IsADirectory => Some(libc::EISDIR),
        io::ErrorKind::StorageFull => Some(libc::ENOSPC),
        io::ErrorKind::FileTooLarge => Some(libc::EFBIG),
        _ => None,
    };
    error.raw_os_error().or(known)
}

struct Clerk {
    files: Files,
    root: Arc<OwnedFd>,
    user: u32,
}

impl Clerk {
    fn open() -> io::Result<Self> {
        let root = Arc::new(open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?);
        let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
        let ids = GuestIds::One { uid, gid };
        Ok(Self { files: Files::new(Arc::clone(&root), ids), root, user: uid })
    }

    fn serve(&self, ask: Ask, input: &mut Input) -> io::Result<()> {
        let files = &self.files;
        match ask {
            Ask::Stat(path) => say(&Answer::Entry(files.stat(&guest(path)?)?)),
            Ask::List { path, depth } => {
                let entries = files.list(&guest(path)?, depth)?;
                entries.chunks(AT_ONCE).try_for_each(|some| say(&Answer::Entries(some.to_vec())))?;
                say(&Answer::Done)
            }
            Ask::Read(path) => {
                let (file, bytes) = files.read(&guest(path)?)?;
                say(&Answer::File(bytes))?;
                io::copy(&mut file.take(bytes), &mut Output)?;
                write(&frame(FrameKind::End, &[]))
            }
            Ask::Write { path, mode } => {
                let mut file = files.create(&guest(path)?, self.user, mode)?;
                say(&Answer::Ready)?;
                io::copy(input, &mut file)?;
                say(&Answer::Done)
            }
            Ask::MakeFolder(path) => files.make_folder(&guest(path)?, self.user).and_then(|()| say(&Answer::Done)),
            Ask::Rename { from, to } => {
                files.rename(&guest(from)?, &guest(to)?, self.user)?;
                say(&Answer::Done)
            }
            Ask::Remove(path) => files.remove(&guest(path)?).and_then(|()| say(&Answer::Done)),
            Ask::Marks { paths, prefix } => {
                let marks: io::Result<_> =
                    paths.into_iter().map(|path| Ok(files.marks(&guest(path)?, &prefix))).collect();
                say(&Answer::Marks(marks?))
            }
            Ask::Mark { path, prefix, marks } => {
                files.mark(&guest(path)?, &prefix, &marks)?;
                say(&Answer::Done)
            }
            Ask::Pack(path) => {
                let packing = files.packing(&guest(path)?)?;
                say(&Answer::Ready)?;
                let mut output = io::BufWriter::with_capacity(MOST_CONTENT, Output);
                packing.write(&mut output)?;
                output.flush()?;
                write(&frame(FrameKind::End, &[]))
            }
            Ask::Unpack { path, most } => {
                let done = files.unpack(&guest(path)?, self.user, most, &mut *input)?;
                // What follows the archive is read, or whoever sends it would see a broken pipe.
                io::copy(input, &mut io::sink())?;
                say(&Answer::Unpacked(done))
            }
            Ask::Watch { path, reach } => watch(&guest(path)?, reach),
            Ask::Measure => {
                let (bytes, entries) = measure::all(&self.root);
                say(&Answer::Used { bytes, entries })
            }
        }
    }
}

/// Tells what happens until nobody listens.
fn watch(path: &GuestPath, reach: Reach) -> io::Result<()> {
    let mut look = Look::new(path.as_str(), reach)?;
    say(&Answer::Ready)?;
    loop {
        let output = rustix::stdio::stdout();
        let mut polled = [PollFd::new(&output, PollFlags::empty())];
        match poll(&mut polled, Some(&LOOK)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
        let Some(events) = look.again() else { return Ok(()) };
        events.chunks(AT_ONCE).try_for_each(|some| say(&Answer::Events(some.to_vec())))?;
    }
}

fn guest(path: String) -> io::Result<GuestPath> {
    GuestPath::new(path).map_err(io::Error::other)
}

fn say(answer: &Answer) -> io::Result<()> {
    write(&answer.frame())
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Content on its way out.
struct Output;

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.chunks(MOST_CONTENT) {
            write(&frame(FrameKind::Content, piece))?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What comes in: what it is asked, then content.
struct Input {
    frames: Frames,
    piece: Vec<u8>,
    at: usize,
    over: bool,
}

impl Input {
    fn ask(&mut self) -> io::Result<Ask> {
        match self.next()? {
            Some((FrameKind::Message, payload)) => postcard::from_bytes(&payload).map_err(io::Error::other),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn next(&mut self) -> io::Result<Option<(FrameKind, Vec<u8>)>> {
        let mut buffer = [0; 16 << 10];
        loop {
            match self.frames.next_frame() {
                Err(_) => return Err(io::ErrorKind::InvalidData.into()),
                Ok(Some(frame)) => return Ok(Some(frame)),
                Ok(None) => {}
            }
            match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
                Ok(0) => return Ok(None),
                Ok(n) => self.frames.push(&buffer[..n]),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() && !self.over {
            match self.next()? {
                Some((FrameKind::Content, piece)) => (self.piece, self.at) = (piece, 0),
                Some((FrameKind::End, _)) => self.over = true,
                // Whoever sends it went away: a part must not be taken for the whole.
                _ => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let n = into.len().min(self.piece.len() - self.at);
        into[..n].copy_from_slice(&self.piece[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}
