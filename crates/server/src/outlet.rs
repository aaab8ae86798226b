//! From the engine, which hands over output in passing, to a connection that may be slow.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::block_in_place;

use crate::activity::turned;

/// The connection is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

/// How many messages wait for a slow reader before the run is made to wait.
const QUEUE: usize = 8;

/// Takes messages for one connection; its queue is bounded, so a slow reader slows the run and nothing else.
pub(crate) struct Outlet {
    queue: mpsc::Sender<Vec<u8>>,
    cancelled: watch::Receiver<bool>,
    /// How long a reader may take nothing before he counts as gone; a person may pause as long as he likes.
    patience: Option<Duration>,
    /// What came after a run was taken back while its reader was slow: no more than its pipes held.
    late: Vec<Vec<u8>>,
}

impl Outlet {
    pub(crate) fn new(cancelled: watch::Receiver<bool>, patience: Option<Duration>) -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (queue, receiver) = mpsc::channel(QUEUE);
        (Self { queue, cancelled, patience, late: Vec::new() }, receiver)
    }

    /// Another sender into the same queue.
    pub(crate) fn queue(&self) -> mpsc::Sender<Vec<u8>> {
        self.queue.clone()
    }

    /// Takes output of a run. `Err` if the run should be taken back: the reader is gone, or has said so.
    pub(crate) fn put(&mut self, message: Vec<u8>) -> Result<(), Gone> {
        if !self.late.is_empty() {
            self.late.push(message);
            return Err(Gone);
        }
        match self.queue.try_send(message) {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Gone),
            Err(mpsc::error::TrySendError::Full(message)) => self.wait(message),
        }
    }

    /// Blocks this thread, which the runtime replaces meanwhile, until there is room or the run is taken back.
    fn wait(&mut self, message: Vec<u8>) -> Result<(), Gone> {
        let (queue, cancelled) = (&self.queue, &mut self.cancelled);
        let patience = self.patience.unwrap_or(Duration::MAX);
        let room = block_in_place(|| {
            Handle::current().block_on(async {
                tokio::select! {
                    room = tokio::time::timeout(patience, queue.reserve()) => room.ok(),
                    () = turned(cancelled) => None,
                }
            })
        });
        match room {
            Some(Ok(room)) => {
                room.send(message);
                Ok(())
            }
            Some(Err(_)) => Err(Gone),
            None => {
                self.late.push(message);
                Err(Gone)
            }
        }
    }

    /// What came late, and then the last word.
    pub(crate) async fn finish(self, last: Vec<u8>) {
        for message in self.late.into_iter().chain([last]) {
            if self.queue.send(message).await.is_err() {
                return;
            }
        }
    }
}

/// Sends from a thread that may wait.
pub(crate) fn send_now(queue: &mpsc::Sender<Vec<u8>>, message: Vec<u8>) -> Result<(), Gone> {
    match queue.try_send(message) {
        Ok(()) => Ok(()),
        Err(mpsc::error::TrySendError::Closed(_)) => Err(Gone),
        Err(mpsc::error::TrySendError::Full(message)) => {
            block_in_place(|| Handle::current().block_on(queue.send(message))).map_err(|_| Gone)
        }
    }
}
