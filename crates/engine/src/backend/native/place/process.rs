//! Programs in a sandbox that stays: their pipes or their terminal, and what is done to them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use jail::{ProcessId, SandboxId, SessionOrder};
use rustix::fs::{Gid, OFlags, Uid, fchown, fcntl_getfl, fcntl_setfl};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use types::Layer;

use super::{Link, NativePlace};
use crate::backend::board::{Board, Expected};
use crate::backend::native::link::Finished;
use crate::backend::native::{ended, new_pipe, reader};
use crate::backend::{Connection, Control, Process, ProcessSpec, Stream, TerminalSize};
use crate::error::BackendError;

/// Pieces of output or input that wait for a reader.
const QUEUE: usize = 4;
/// As much as a pipe holds.
const PIECE: usize = 64 << 10;

/// Our ends of a program's streams.
enum Streams {
    Pipes { stdin: Option<OwnedFd>, stdout: pipe::Receiver, stderr: pipe::Receiver },
    Terminal,
}

impl NativePlace {
    /// Starts a program and connects it.
    pub(super) async fn start_process(&self, spec: ProcessSpec) -> Result<Process, BackendError> {
        let owner = self.owner(spec.user).ok_or(BackendError::Lacks { what: "user `root`" })?;
        let (streams, theirs) = self.streams(spec.connection, owner)?;
        let (process, Expected { started, over }) = self.board.expect();
        let (order, called) = spec.ordered(process);
        let fds: Vec<BorrowedFd<'_>> = theirs.iter().map(AsFd::as_fd).collect();
        self.link.order(self.id, SessionOrder::Start(order), &fds)?;
        drop(fds);
        drop(theirs);
        let (pid, master) = called.started(started).await?;
        let (input, output, master) = connect(streams, master)?;
        let layers: Vec<Layer> = self.layers.clone();
        let control =
            Handle { link: Arc::clone(&self.link), board: Arc::clone(&self.board), id: self.id, process, master };
        Ok(Process {
            pid: pid.unsigned_abs(),
            input,
            output,
            ended: Box::pin(async move {
                let (end, cost) = over.await.map_err(|_| BackendError::PlaceGone)?;
                ended(Finished::Ended { end, cost, layers }, &called.name)
            }),
            control: Arc::new(control),
        })
    }

    /// Our ends and the program's.
    fn streams(&self, how: Connection, owner: (u32, u32)) -> Result<(Streams, Vec<OwnedFd>), BackendError> {
        if let Connection::Terminal(_) = how {
            return Ok((Streams::Terminal, Vec::new()));
        }
        let (stdin_read, stdin) = new_pipe()?;
        let (stdout, stdout_write) = reader()?;
        let (stderr, stderr_write) = reader()?;
        let theirs = vec![stdin_read, stdout_write, stderr_write];
        if !matches!(self.ids, jail::GuestIds::One { .. }) {
            // `/dev/stdin` and its like open the pipe anew, as whoever the program is.
            let (uid, gid) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
            let given = theirs.iter().try_for_each(|pipe| fchown(pipe, Some(uid), Some(gid)));
            given.map_err(|errno| BackendError::Host(errno.into()))?;
        }
        let stdin = (how == Connection::Pipes).then_some(stdin);
        Ok((Streams::Pipes { stdin, stdout, stderr }, theirs))
    }
}

type Input = Option<mpsc::Sender<Vec<u8>>>;
type Output = mpsc::Receiver<(Stream, Vec<u8>)>;
type Master = Option<Arc<AsyncFd<OwnedFd>>>;

/// Moves bytes between a program and whoever asks, until both ends have had enough.
fn connect(streams: Streams, master: Option<OwnedFd>) -> Result<(Input, Output, Master), BackendError> {
    let (tell, output) = mpsc::channel(QUEUE);
    match (streams, master) {
        (Streams::Pipes { stdin, stdout, stderr }, _) => {
            tokio::spawn(copy_out(stdout, Stream::Out, tell.clone()));
            tokio::spawn(copy_out(stderr, Stream::Err, tell));
            let input = stdin.map(|stdin| {
                let (input, pieces) = mpsc::channel(QUEUE);
                let sender = pipe::Sender::from_owned_fd(stdin).map_err(BackendError::Host)?;
                tokio::spawn(copy_in(pieces, sender));
                Ok::<_, BackendError>(input)
            });
            Ok((input.transpose()?, output, None))
        }
        (Streams::Terminal, Some(master)) => {
            let flags = fcntl_getfl(&master).map_err(|errno| BackendError::Host(errno.into()))?;
            fcntl_setfl(&master, flags | OFlags::NONBLOCK).map_err(|errno| BackendError::Host(errno.into()))?;
            #[expect(
                deprecated,
                reason = "its successor is unsafe for types that may change their descriptor; this one cannot"
            )]
            let master = Arc::new(AsyncFd::new(master).map_err(BackendError::Host)?);
            let (input, pieces) = mpsc::channel(QUEUE);
            tokio::spawn(copy_terminal_out(Arc::clone(&master), tell));
            tokio::spawn(copy_terminal_in(pieces, Arc::clone(&master)));
            Ok((Some(input), output, Some(master)))
        }
        (Streams::Terminal, None) => Err(BackendError::Lacks { what: "a terminal" }),
    }
}

async fn copy_out(mut from: pipe::Receiver, stream: Stream, tell: mpsc::Sender<(Stream, Vec<u8>)>) {
    let mut buffer = vec![0; PIECE];
    while let Ok(n) = from.read(&mut buffer).await {
        // Where nobody reads any more the program is told by a broken pipe.
        if n == 0 || tell.send((stream, buffer[..n].to_vec())).await.is_err() {
            return;
        }
    }
}

async fn copy_in(mut pieces: mpsc::Receiver<Vec<u8>>, mut into: pipe::Sender) {
    while let Some(piece) = pieces.recv().await {
        // The program may have closed its input; that is its right.
        if into.write_all(&piece).await.is_err() {
            return;
        }
    }
}

async fn copy_terminal_out(master: Arc<AsyncFd<OwnedFd>>, tell: mpsc::Sender<(Stream, Vec<u8>)>) {
    let mut buffer = vec![0; PIECE];
    while let Ok(mut ready) = master.readable().await {
        match ready.try_io(|fd| rustix::io::read(fd.get_ref(), &mut buffer[..]).map_err(io::Error::from)) {
            Err(_) => {}
            // The last who had it open is gone: that is an error here, not an end.
            Ok(Ok(0) | Err(_)) => return,
            Ok(Ok(n)) => {
                if tell.send((Stream::Out, buffer[..n].to_vec())).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn copy_terminal_in(mut pieces: mpsc::Receiver<Vec<u8>>, master: Arc<AsyncFd<OwnedFd>>) {
    while let Some(piece) = pieces.recv().await {
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let Ok(mut ready) = master.writable().await else { return };
            match ready.try_io(|fd| rustix::io::write(fd.get_ref(), rest).map_err(io::Error::from)) {
                Err(_) => {}
                Ok(Ok(n)) => rest = &rest[n..],
                Ok(Err(_)) => return,
            }
        }
    }
}

/// What can be done to a program.
struct Handle {
    link: Arc<Link>,
    board: Arc<Board>,
    id: SandboxId,
    process: ProcessId,
    master: Master,
}

impl Handle {
    fn order(&self, order: SessionOrder) -> Result<(), BackendError> {
        if !self.board.is_running(self.process) {
            return Err(BackendError::ProcessGone);
        }
        self.link.order(self.id, order, &[])
    }
}

impl Control for Handle {
    fn signal(&self, signal: i32) -> Result<(), BackendError> {
        self.order(SessionOrder::Signal { process: self.process, signal })
    }

    fn kill(&self) -> Result<(), BackendError> {
        self.order(SessionOrder::Kill(self.process))
    }

    fn resize(&self, size: TerminalSize) -> Result<(), BackendError> {
        let Some(master) = &self.master else { return Err(BackendError::Lacks { what: "a terminal's size" }) };
        let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(master.get_ref(), size).map_err(|errno| BackendError::Host(errno.into()))
    }
}
