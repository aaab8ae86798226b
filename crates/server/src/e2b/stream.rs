//! An answer that goes on: pieces as they come, and a connection that breaks where the sandbox died.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as HttpBody, Frame};
use tokio::sync::{mpsc, watch};

/// Marks an answer as one that did not come to its end: its connection is closed without the last chunk, by which clients
/// know that the sandbox is gone.
#[derive(Clone, Default)]
pub(super) struct Cut(Arc<AtomicBool>);

impl Cut {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The body of such an answer. Whoever drops it, as a connection that closes does, has `gone` turned true.
pub(super) struct Pieces {
    pub(super) queue: mpsc::Receiver<Vec<u8>>,
    pub(super) cut: Cut,
    pub(super) gone: watch::Sender<bool>,
}

impl Pieces {
    pub(super) fn answer(self, kind: &'static str) -> Response {
        let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-store")];
        (headers, Body::new(self)).into_response()
    }
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(match ready!(self.queue.poll_recv(cx)) {
            Some(piece) => Some(Ok(Frame::data(piece.into()))),
            None if self.cut.0.load(Ordering::Acquire) => Some(Err(io::ErrorKind::ConnectionAborted.into())),
            None => None,
        })
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.gone.send_replace(true);
    }
}
