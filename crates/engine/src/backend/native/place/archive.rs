//! Trees of a sandbox that stays as one stream, between a thread that may wait and a connection that may not.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use jail::inside::Files;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::sync::mpsc;
use types::GuestPath;

use crate::backend::{GuestUser, Unpacked};

/// Pieces under way between a disk and a connection.
const QUEUE: usize = 4;
const PIECE: usize = 256 << 10;

/// Packs a folder, or one file. The bytes come as they are read.
pub(super) fn pack(files: &Files, path: &GuestPath) -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
    let packing = files.packing(path)?;
    let (tell, told) = mpsc::channel(QUEUE);
    tokio::task::spawn_blocking(move || {
        let mut pieces = Pieces { tell, piece: Vec::new() };
        let done = packing.write(&mut pieces).and_then(|()| pieces.flush());
        if let Err(error) = done {
            // Whoever reads must not take a part for the whole; or is gone.
            drop(pieces.tell.blocking_send(Err(error)));
        }
    });
    Ok(Box::new(Outgoing { told, rest: Vec::new(), at: 0 }))
}

/// Unpacks what comes below a folder, which is made. At most so many entries.
pub(super) async fn unpack(
    files: Files,
    path: GuestPath,
    user: GuestUser,
    most: u64,
    content: &mut (dyn AsyncRead + Send + Unpin),
) -> io::Result<Unpacked> {
    let (tell, told) = mpsc::channel::<Vec<u8>>(QUEUE);
    let working = tokio::task::spawn_blocking(move || {
        files.unpack(&path, user.number(), most, Incoming { told, rest: Vec::new(), at: 0 })
    });
    let mut source = Ok(());
    loop {
        let mut piece = vec![0; PIECE];
        match content.read(&mut piece).await {
            Ok(0) => break,
            Ok(n) => {
                piece.truncate(n);
                // Where nobody listens any more, it has failed or had its end.
                if tell.send(piece).await.is_err() {
                    break;
                }
            }
            Err(error) => {
                source = Err(error);
                break;
            }
        }
    }
    drop(tell);
    let done = working.await.map_err(io::Error::other)?;
    source?;
    Ok(done?.into())
}

/// Bytes on their way out.
struct Pieces {
    tell: mpsc::Sender<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let sent = self.tell.blocking_send(Ok(std::mem::take(&mut self.piece)));
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// The same, for whoever reads them.
struct Outgoing {
    told: mpsc::Receiver<io::Result<Vec<u8>>>,
    rest: Vec<u8>,
    at: usize,
}

impl AsyncRead for Outgoing {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.at == self.rest.len() {
            match ready!(self.told.poll_recv(cx)) {
                None => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(error)),
                Some(Ok(piece)) => (self.rest, self.at) = (piece, 0),
            }
        }
        let n = into.remaining().min(self.rest.len() - self.at);
        into.put_slice(&self.rest[self.at..self.at + n]);
        self.at += n;
        Poll::Ready(Ok(()))
    }
}

/// Bytes on their way in, for a thread that may wait.
struct Incoming {
    told: mpsc::Receiver<Vec<u8>>,
    rest: Vec<u8>,
    at: usize,
}

impl Read for Incoming {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.rest.len() {
            match self.told.blocking_recv() {
                None => return Ok(0),
                Some(piece) => (self.rest, self.at) = (piece, 0),
            }
        }
        let n = into.len().min(self.rest.len() - self.at);
        into[..n].copy_from_slice(&self.rest[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}
