//! Programs in a container that stays.

use std::sync::Arc;

use jail::contained::{FrameKind, Order, addressed};
use jail::{ProcessId, SessionOrder};
use tokio::sync::{Semaphore, mpsc};
use types::Layer;

use super::lane::Lane;
use crate::backend::board::Expected;
use crate::backend::{Connection, Control, Ended, GuestUser, Process, ProcessSpec, Stream, TerminalSize, explain};
use crate::error::BackendError;

/// Pieces of output or input that wait for a reader.
const QUEUE: usize = 4;
/// Input that goes in one piece.
const PIECE: usize = 16 << 10;

impl Lane {
    /// Starts a program and connects it.
    pub(super) async fn start(self: &Arc<Self>, spec: ProcessSpec, layers: &[Layer]) -> Result<Process, BackendError> {
        if spec.user == GuestUser::Root {
            return Err(BackendError::Lacks { what: "user `root`" });
        }
        let (process, Expected { started, over }) = self.board.expect();
        let connection = spec.connection;
        let (order, called) = spec.ordered(process);
        let terminal = order.terminal.is_some();
        let (pieces, room) = self.expect(process);
        let ordered = self.order(&Order::Session(SessionOrder::Start(order)));
        if ordered.is_err() {
            self.forget(process);
        }
        ordered?;
        if connection == Connection::NoInput {
            self.send(addressed(FrameKind::End, process, &[]))?;
        }
        let (pid, _) = called.started(started).await?;
        let (tell, output) = mpsc::channel(QUEUE);
        tokio::spawn(pass_on(Arc::clone(self), process, pieces, tell));
        let input = (connection != Connection::NoInput).then(|| {
            let (input, pieces) = mpsc::channel(QUEUE);
            tokio::spawn(feed(Arc::clone(self), process, pieces, room));
            input
        });
        let layers = layers.to_vec();
        Ok(Process {
            pid: pid.unsigned_abs(),
            input,
            output,
            ended: Box::pin(async move {
                let (end, cost) = over.await.map_err(|_| BackendError::PlaceGone)?;
                Ended::new(end, cost, layers).map_err(|trouble| explain(trouble, &called.name))
            }),
            control: Arc::new(Handle { lane: Arc::clone(self), process, terminal }),
        })
    }
}

/// Passes output on as it is taken; process 1 hears how much that was.
async fn pass_on(
    lane: Arc<Lane>,
    process: ProcessId,
    mut pieces: mpsc::UnboundedReceiver<(Stream, Vec<u8>)>,
    tell: mpsc::Sender<(Stream, Vec<u8>)>,
) {
    while let Some((stream, bytes)) = pieces.recv().await {
        let passed = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let order = match tell.send((stream, bytes)).await {
            Ok(()) => Order::Passed { process, bytes: passed },
            Err(_) => Order::Deaf(process),
        };
        if lane.order(&order).is_err() || matches!(order, Order::Deaf(_)) {
            return;
        }
    }
}

/// Sends input as there is room for it.
async fn feed(lane: Arc<Lane>, process: ProcessId, mut pieces: mpsc::Receiver<Vec<u8>>, room: Arc<Semaphore>) {
    while let Some(piece) = pieces.recv().await {
        for part in piece.chunks(PIECE) {
            // Closed when nobody is left to read it.
            let Ok(taken) = room.acquire_many(u32::try_from(part.len()).unwrap_or(u32::MAX)).await else { return };
            taken.forget();
            if lane.send(addressed(FrameKind::Content, process, part)).is_err() {
                return;
            }
        }
    }
    // A container that is gone needs no end of input.
    drop(lane.send(addressed(FrameKind::End, process, &[])));
}

/// What can be done to a program.
struct Handle {
    lane: Arc<Lane>,
    process: ProcessId,
    terminal: bool,
}

impl Handle {
    fn order(&self, order: &Order) -> Result<(), BackendError> {
        if !self.lane.board.is_running(self.process) {
            return Err(BackendError::ProcessGone);
        }
        self.lane.order(order)
    }
}

impl Control for Handle {
    fn signal(&self, signal: i32) -> Result<(), BackendError> {
        self.order(&Order::Session(SessionOrder::Signal { process: self.process, signal }))
    }

    fn kill(&self) -> Result<(), BackendError> {
        self.order(&Order::Session(SessionOrder::Kill(self.process)))
    }

    fn resize(&self, size: TerminalSize) -> Result<(), BackendError> {
        if !self.terminal {
            return Err(BackendError::Lacks { what: "a terminal's size" });
        }
        self.lane.order(&Order::Resize { process: self.process, size: (size.columns, size.rows) })
    }
}
