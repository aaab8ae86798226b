//! The client's files and streams, as the engine wants to have them.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use engine::{Executable, Input, Inputs, Made, Output, Receive, Received, RunError, Stream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::block_in_place;
use types::RelPath;

use super::MadeFile;
use crate::frame::{CHUNK, Kind, encode};
use crate::outlet::{Outlet, send_now};

type Queue = mpsc::Sender<Vec<u8>>;

/// Output as it comes, to the client.
pub(super) struct Live(pub(super) Outlet);

impl Output for Live {
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> ControlFlow<()> {
        let kind = match stream {
            Stream::Out => Kind::Stdout,
            Stream::Err => Kind::Stderr,
        };
        let mut told = ControlFlow::Continue(());
        for chunk in bytes.chunks(CHUNK) {
            if frame(kind, chunk).is_ok_and(|frame| self.0.put(frame).is_err()) {
                told = ControlFlow::Break(());
            }
        }
        told
    }
}

/// A part of an input file.
#[derive(Debug)]
pub(super) enum Piece {
    /// It is open; whether it may be executed.
    Start(bool),
    Data(Vec<u8>),
    End,
}

/// The client's own files, fetched when the engine places them.
pub(super) struct Remote {
    queue: Queue,
    pieces: mpsc::Receiver<Piece>,
}

impl Remote {
    pub(super) fn new(queue: Queue, pieces: mpsc::Receiver<Piece>) -> Self {
        Self { queue, pieces }
    }
}

impl Inputs for Remote {
    fn open(&mut self, index: usize, _path: &Path) -> io::Result<Input<'_>> {
        let number = u32::try_from(index).map_err(io::Error::other)?;
        send(&self.queue, Kind::Want, &number.to_le_bytes())?;
        let Piece::Start(executable) = wait(&mut self.pieces)? else { return Err(io::ErrorKind::InvalidData.into()) };
        let executable = if executable { Executable::Yes } else { Executable::No };
        Ok(Input { content: Box::new(Content { pieces: &mut self.pieces, rest: Vec::new(), end: false }), executable })
    }
}

/// What is left of one input file.
struct Content<'a> {
    pieces: &'a mut mpsc::Receiver<Piece>,
    rest: Vec<u8>,
    end: bool,
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() && !self.end {
            match wait(self.pieces)? {
                Piece::Data(data) => self.rest = data,
                Piece::End => self.end = true,
                Piece::Start(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        let n = buffer.len().min(self.rest.len());
        buffer[..n].copy_from_slice(&self.rest[..n]);
        self.rest.drain(..n);
        Ok(n)
    }
}

/// Offers the files that the run made to the client, one by one.
pub(super) struct Offers {
    queue: Queue,
    answers: mpsc::Receiver<Kind>,
}

impl Offers {
    pub(super) fn new(queue: Queue, answers: mpsc::Receiver<Kind>) -> Self {
        Self { queue, answers }
    }

    fn offer(&mut self, made: &mut Made<'_>) -> io::Result<Received> {
        let path = RelPath::new(made.path).map_err(io::Error::other)?;
        let head = MadeFile { path, executable: made.executable == Executable::Yes };
        send(&self.queue, Kind::Made, &serde_json::to_vec(&head)?)?;
        let mut buffer = vec![0; CHUNK];
        loop {
            match made.content.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => send(&self.queue, Kind::Data, &buffer[..n])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        send(&self.queue, Kind::DataEnd, &[])?;
        match wait(&mut self.answers)? {
            Kind::Taken => Ok(Received::Taken),
            _ => Ok(Received::Refused),
        }
    }
}

impl Receive for Offers {
    fn receive(&mut self, mut made: Made<'_>) -> Result<Received, RunError> {
        let path = made.path.into();
        self.offer(&mut made).map_err(|source| RunError::Output { path, source })
    }
}

fn frame(kind: Kind, payload: &[u8]) -> io::Result<Vec<u8>> {
    let mut frame = Vec::new();
    encode(kind, payload, &mut frame).map_err(io::Error::other)?;
    Ok(frame)
}

fn send(queue: &Queue, kind: Kind, payload: &[u8]) -> io::Result<()> {
    send_now(queue, frame(kind, payload)?).map_err(|_| io::ErrorKind::BrokenPipe.into())
}

/// Waits for the client. The engine asks in passing, so this thread waits; the runtime has others.
fn wait<T>(from: &mut mpsc::Receiver<T>) -> io::Result<T> {
    if let Ok(there) = from.try_recv() {
        return Ok(there);
    }
    block_in_place(|| Handle::current().block_on(from.recv())).ok_or_else(|| io::ErrorKind::BrokenPipe.into())
}
