//! The talk with our one program in somebody's sandbox, as frames, and who else can tell of that sandbox.

use std::sync::Arc;

use jail::contained::{FrameKind, Frames, Garbled, Order, Report};
use tokio::sync::mpsc;
use types::LimitKind;

use crate::backend::BoxFuture;
use crate::error::BackendError;

/// Frames that wait for a reader; whoever carries them waits behind.
pub(in crate::backend) const WAITING: usize = 8;

/// Who made the sandbox that our program is in.
pub(in crate::backend) trait Host: Send + Sync {
    /// Ends the sandbox and all in it.
    fn kill(&self) -> BoxFuture<'_, ()>;
    /// Why it has ended, if that was a limit.
    fn cause(&self) -> BoxFuture<'_, Result<LimitKind, BackendError>>;
    /// The failure to be told where our program is gone, or has said what it should not say.
    fn gone(&self, said: Option<&str>) -> BackendError;
}

/// One sandbox of somebody's, and the talk with our program in it. The sandbox is removed when its host is dropped.
pub(in crate::backend) struct Link {
    pub(in crate::backend) host: Arc<dyn Host>,
    to: mpsc::Sender<Vec<u8>>,
    from: Heard,
}

/// What our program says, frame by frame.
pub(in crate::backend) type Heard = mpsc::Receiver<(FrameKind, Vec<u8>)>;

impl Link {
    pub(in crate::backend) fn new(host: Arc<dyn Host>, to: mpsc::Sender<Vec<u8>>, from: Heard) -> Self {
        Self { host, to, from }
    }

    /// The two directions alone, for whoever speaks and hears in its place.
    pub(in crate::backend) fn split(self) -> (mpsc::Sender<Vec<u8>>, Heard) {
        (self.to, self.from)
    }

    /// Whether our program is there, as far as anybody has heard.
    pub(in crate::backend) fn is_alive(&self) -> bool {
        !self.to.is_closed() && !self.from.is_closed()
    }

    pub(in crate::backend) async fn order(&self, order: &Order) -> Result<(), BackendError> {
        self.send(order.frame()).await
    }

    pub(in crate::backend) async fn send(&self, frame: Vec<u8>) -> Result<(), BackendError> {
        self.to.send(frame).await.map_err(|_| self.host.gone(None))
    }

    /// The next frame; an error when our program is gone.
    pub(in crate::backend) async fn next(&mut self) -> Result<(FrameKind, Vec<u8>), BackendError> {
        self.from.recv().await.ok_or_else(|| self.host.gone(None))
    }

    /// The next report, where nothing else can come.
    pub(in crate::backend) async fn report(&mut self) -> Result<Report, BackendError> {
        match self.next().await? {
            (FrameKind::Message, payload) => self.read(&payload),
            _ => Err(self.garbled()),
        }
    }

    pub(in crate::backend) fn read(&self, payload: &[u8]) -> Result<Report, BackendError> {
        Report::read(payload).ok_or_else(|| self.garbled())
    }

    pub(in crate::backend) fn garbled(&self) -> BackendError {
        self.host.gone(Some("it said what it should not say"))
    }
}

/// Cuts what has come into frames and passes them on; `Err` when nobody takes them or they are none.
pub(in crate::backend) async fn cut(
    frames: &mut Frames,
    piece: &[u8],
    into: &mpsc::Sender<(FrameKind, Vec<u8>)>,
) -> Result<(), Garbled> {
    frames.push(piece);
    while let Some(frame) = frames.next_frame()? {
        into.send(frame).await.map_err(|_| Garbled)?;
    }
    Ok(())
}
