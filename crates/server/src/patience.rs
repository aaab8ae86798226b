//! A connection whose client must take what is sent to him: who takes nothing for too long is gone.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::http::READER_PATIENCE;
use crate::places::Place;

/// A stream that fails where its reader takes nothing for [`READER_PATIENCE`].
pub(crate) struct Patient<S> {
    stream: S,
    place: Arc<Place>,
    patience: Duration,
    /// Runs while something waits to be taken.
    late: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S, place: Arc<Place>) -> Self {
        Self { stream, place, patience: READER_PATIENCE, late: None }
    }

    /// Passes on what came of writing, or gives up.
    fn within_time<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() || self.place.is_unhurried() {
            self.late = None;
            return polled;
        }
        let patience = self.patience;
        let late = self.late.get_or_insert_with(|| Box::pin(sleep(patience)));
        late.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.within_time(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.within_time(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.within_time(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.within_time(cx, polled)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::places::Places;

    #[tokio::test(flavor = "current_thread")]
    async fn who_takes_nothing_is_gone_unless_he_may_take_his_time() {
        let place = Places::new(1).take(None).unwrap();
        let short =
            |stream| Patient { patience: Duration::from_millis(10), ..Patient::new(stream, Arc::clone(&place)) };
        let (ours, _theirs) = tokio::io::duplex(8);
        let told = short(ours).write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(told.kind(), io::ErrorKind::TimedOut);
        place.unhurried();
        let (ours, _theirs) = tokio::io::duplex(8);
        let told = tokio::time::timeout(Duration::from_millis(100), short(ours).write_all(&[0; 100])).await;
        assert!(told.is_err(), "it still waits");
    }
}
