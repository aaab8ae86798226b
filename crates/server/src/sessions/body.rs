//! Content on its way: a request's body as something to read, a file as an answer's body.

use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use engine::FileContentStream;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::sync::mpsc;

/// The most bytes of one piece.
const PIECE: usize = 64 << 10;

/// A request's body, as far as there is room for it.
pub(crate) struct Incoming {
    body: Body,
    rest: Bytes,
    room: u64,
}

impl Incoming {
    pub(crate) fn new(body: Body, room: u64) -> Self {
        Self { body, rest: Bytes::new(), room }
    }
}

impl AsyncRead for Incoming {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                None => return Poll::Ready(Ok(())),
                Some(Ok(frame)) => self.rest = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
            }
        }
        let n = self.rest.len().min(into.remaining());
        let Some(room) = self.room.checked_sub(n as u64) else {
            return Poll::Ready(Err(io::ErrorKind::StorageFull.into()));
        };
        self.room = room;
        into.put_slice(&self.rest.split_to(n));
        Poll::Ready(Ok(()))
    }
}

/// Content whose length nobody knows yet.
pub(super) struct Unmeasured(Box<dyn AsyncRead + Send + Unpin>);

impl Unmeasured {
    pub(super) fn new(content: Box<dyn AsyncRead + Send + Unpin>) -> Self {
        Self(content)
    }
}

impl HttpBody for Unmeasured {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let mut piece = vec![0; PIECE];
        let mut buffer = ReadBuf::new(&mut piece);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut buffer))?;
        let n = buffer.filled().len();
        piece.truncate(n);
        Poll::Ready((n > 0).then(|| Ok(Frame::data(piece.into()))))
    }
}

/// A file's content. One that became shorter meanwhile breaks the connection, so that nobody takes a part for the whole.
pub(crate) struct Outgoing {
    left: u64,
    content: Box<dyn AsyncRead + Send + Unpin>,
}

impl Outgoing {
    pub(crate) fn new(content: FileContentStream) -> Self {
        Self { left: content.bytes, content: content.content }
    }
}

impl HttpBody for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let mut piece = vec![0; PIECE.min(usize::try_from(self.left).unwrap_or(PIECE))];
        let mut buffer = ReadBuf::new(&mut piece);
        ready!(Pin::new(&mut self.content).poll_read(cx, &mut buffer))?;
        let n = buffer.filled().len();
        if n == 0 {
            return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
        }
        piece.truncate(n);
        self.left -= n as u64;
        Poll::Ready(Some(Ok(Frame::data(piece.into()))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Pieces that wait between who writes and who reads.
const QUEUE: usize = 4;

/// A request's body for somebody who waits for disks.
pub(crate) struct Slow {
    pieces: mpsc::Receiver<io::Result<Vec<u8>>>,
    rest: io::Cursor<Vec<u8>>,
}

impl Slow {
    pub(crate) fn new(mut body: Incoming) -> Self {
        let (sender, pieces) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            loop {
                let mut piece = vec![0; PIECE];
                let read = body.read(&mut piece).await;
                let is_last = !matches!(read, Ok(n) if n > 0);
                piece.truncate(*read.as_ref().unwrap_or(&0));
                if sender.send(read.map(|_| piece)).await.is_err() || is_last {
                    return;
                }
            }
        });
        Self { pieces, rest: io::Cursor::default() }
    }
}

impl Read for Slow {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = Read::read(&mut self.rest, into)?;
        if n > 0 || into.is_empty() {
            return Ok(n);
        }
        match self.pieces.blocking_recv() {
            None => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(piece) => {
                self.rest = io::Cursor::new(piece?);
                Read::read(&mut self.rest, into)
            }
        }
    }
}
