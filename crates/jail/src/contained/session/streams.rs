//! The streams of one program of a session.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::contained::Engine;
use crate::contained::input::Input;
use crate::contained::wire::{FrameKind, MOST_OUTPUT, Report, addressed};
use crate::wire::ProcessId;

/// The most that is read at once.
const PIECE: usize = 16 << 10;

/// Our ends of a program's streams.
pub(super) struct Streams {
    input: Input<Rc<OwnedFd>>,
    stdout: Option<Rc<OwnedFd>>,
    stderr: Option<Rc<OwnedFd>>,
    kind: Kind,
    /// Bytes of output that the engine takes before it has passed on any.
    room: usize,
    /// Whether the end of its output was told.
    told: bool,
}

/// What they are.
enum Kind {
    Pipes,
    /// A terminal, once the program has it.
    Terminal(Option<Rc<OwnedFd>>),
}

/// One of them.
#[derive(Clone, Copy)]
pub(super) enum Source {
    In,
    Out,
    Err,
}

impl Streams {
    /// Our ends, and the program's. A terminal comes later, from the program's parent.
    pub(super) fn new(terminal: bool) -> Result<(Self, Vec<OwnedFd>), Errno> {
        let none = Self {
            input: Input::new(None)?,
            stdout: None,
            stderr: None,
            kind: if terminal { Kind::Terminal(None) } else { Kind::Pipes },
            room: MOST_OUTPUT,
            told: false,
        };
        if terminal {
            return Ok((none, Vec::new()));
        }
        let (stdin_read, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stdout, stdout_write) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, stderr_write) = pipe_with(PipeFlags::CLOEXEC)?;
        for ours in [&stdout, &stderr] {
            rustix::io::ioctl_fionbio(ours, true)?;
        }
        let input = Input::new(Some(Rc::new(stdin)))?;
        let [stdout, stderr] = [stdout, stderr].map(|fd| Some(Rc::new(fd)));
        Ok((Self { input, stdout, stderr, ..none }, vec![stdin_read, stdout_write, stderr_write]))
    }

    /// Takes our end of its terminal.
    pub(super) fn connect(&mut self, terminal: OwnedFd) -> Result<(), Errno> {
        rustix::io::ioctl_fionbio(&terminal, true)?;
        let terminal = Rc::new(terminal);
        self.input.connect(Rc::clone(&terminal));
        self.stdout = Some(Rc::clone(&terminal));
        self.kind = Kind::Terminal(Some(terminal));
        Ok(())
    }

    /// What is waited for now.
    pub(super) fn watched(
        &self,
        process: ProcessId,
    ) -> impl Iterator<Item = (ProcessId, Source, BorrowedFd<'_>, i16)> + '_ {
        let hears = self.room > 0;
        let (stdout, stderr) = (self.stdout.as_ref().filter(|_| hears), self.stderr.as_ref().filter(|_| hears));
        [
            self.input.wanting().map(|fd| (process, Source::In, fd, libc::POLLOUT)),
            stdout.map(|fd| (process, Source::Out, fd.as_fd(), libc::POLLIN)),
            stderr.map(|fd| (process, Source::Err, fd.as_fd(), libc::POLLIN)),
        ]
        .into_iter()
        .flatten()
    }

    /// Does what can be done with one of them.
    pub(super) fn serve(&mut self, process: ProcessId, source: Source) -> Result<(), Errno> {
        match source {
            Source::In => self.feed(process)?,
            Source::Out => {
                if !pass_on(process, self.stdout.as_deref(), FrameKind::Out, &mut self.room)? {
                    self.stdout = None;
                }
            }
            Source::Err => {
                if !pass_on(process, self.stderr.as_deref(), FrameKind::Err, &mut self.room)? {
                    self.stderr = None;
                }
            }
        }
        self.tell_end(process)
    }

    /// More input has come, or its end.
    pub(super) fn input(&mut self, process: ProcessId, content: Option<&[u8]>) -> Result<(), Errno> {
        match content {
            Some(content) => self.input.push(content),
            None => self.input.end(),
        }
        self.feed(process)
    }

    /// This much of its output was passed on.
    pub(super) fn passed(&mut self, bytes: usize) {
        self.room = self.room.saturating_add(bytes).min(MOST_OUTPUT);
    }

    /// Nobody reads its output any more: it is told by a broken pipe.
    pub(super) fn deafen(&mut self, process: ProcessId) -> Result<(), Errno> {
        (self.stdout, self.stderr) = (None, None);
        if let Kind::Terminal(None) = self.kind {
            self.kind = Kind::Pipes;
        }
        self.tell_end(process)
    }

    /// Gives its terminal another size.
    pub(super) fn resize(&self, (columns, rows): (u16, u16)) {
        if let Kind::Terminal(Some(terminal)) = &self.kind {
            // One that is gone has none.
            let _ = tcsetwinsize(terminal, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 });
        }
    }

    /// Whether nothing will come of them any more.
    pub(super) fn are_over(&self) -> bool {
        self.told && self.input.is_closed()
    }

    /// Gives the program what it takes, and tells the engine how much that was.
    fn feed(&mut self, process: ProcessId) -> Result<(), Errno> {
        if let Kind::Terminal(None) = self.kind {
            return Ok(());
        }
        match self.input.feed() {
            0 => Ok(()),
            bytes => Engine::report(&Report::Fed { process, bytes }),
        }
    }

    fn tell_end(&mut self, process: ProcessId) -> Result<(), Errno> {
        let awaited = matches!(self.kind, Kind::Terminal(None));
        if self.told || awaited || self.stdout.is_some() || self.stderr.is_some() {
            return Ok(());
        }
        self.told = true;
        if let Kind::Terminal(_) = self.kind {
            // Nobody is left at it. What reads a pipe may have closed its outputs alone.
            self.input.close();
        }
        Engine::report(&Report::Over(process))
    }
}

/// Passes on one piece of output; whether there may be more.
fn pass_on(process: ProcessId, fd: Option<&OwnedFd>, kind: FrameKind, room: &mut usize) -> Result<bool, Errno> {
    let Some(fd) = fd else { return Ok(false) };
    let mut buffer = [0; PIECE];
    let most = PIECE.min(*room);
    match rustix::io::read(fd, &mut buffer[..most]) {
        Ok(0) => Ok(most == 0),
        Ok(n) => {
            *room -= n;
            Engine::say(&addressed(kind, process, &buffer[..n]))?;
            Ok(true)
        }
        Err(Errno::INTR | Errno::AGAIN) => Ok(true),
        // The last who had a terminal open is gone: that is an error here, not an end.
        Err(_) => Ok(false),
    }
}
