//! What is said between the engine and process 1 of a container that stays: many programs at once over one stream.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bollard::query_parameters::InspectContainerOptions;
use jail::contained::{FrameKind, MOST_CONTENT, Order, Report, address};
use jail::measure::Fallen;
use jail::{MAX_MESSAGE, ProcessId};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use types::LimitKind;

use super::super::daemon::Daemon;
use super::super::error::DockerError;
use super::super::held::Held;
use crate::backend::board::{Answer, Board};
use crate::backend::contained::Link;
use crate::backend::{BoxFuture, Gone, Stream};
use crate::error::BackendError;

/// How long the daemon may take to remove a container, and how often it is asked whether it has.
const REMOVAL: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// One end of a program's streams.
pub(super) struct Ends {
    /// What it writes; process 1 sends no more than was passed on.
    pub(super) output: mpsc::UnboundedSender<(Stream, Vec<u8>)>,
    /// Bytes of input that process 1 takes.
    pub(super) room: Arc<Semaphore>,
}

/// The conversation with one container.
pub(super) struct Lane {
    orders: mpsc::UnboundedSender<Vec<u8>>,
    pub(super) board: Board,
    state: Mutex<State>,
    gone: watch::Sender<Option<Gone>>,
}

#[derive(Default)]
struct State {
    ends: HashMap<ProcessId, Ends>,
    counts: VecDeque<oneshot::Sender<u32>>,
    /// Whether we let go of it.
    closed: bool,
    frozen: bool,
    spent: Option<LimitKind>,
    fallen: Fallen,
}

impl Lane {
    /// Takes over what a link says and hears.
    pub(super) fn open(link: Link, held: &Held) -> Arc<Self> {
        let (to, mut from) = link.split();
        let (orders, mut queue) = mpsc::unbounded_channel::<Vec<u8>>();
        tokio::spawn(async move {
            while let Some(frame) = queue.recv().await {
                // Whoever is gone is heard of below.
                if to.send(frame).await.is_err() {
                    return;
                }
            }
        });
        let (board, _) = Board::new();
        let lane = Arc::new(Self { orders, board, state: Mutex::default(), gone: watch::Sender::new(None) });
        let hearing = Arc::clone(&lane);
        let body = Body { daemon: Arc::downgrade(&held.daemon), client: held.client(), id: held.id.clone() };
        tokio::spawn(async move {
            while let Some((kind, payload)) = from.recv().await {
                if hearing.hear(kind, &payload).is_none() {
                    break;
                }
            }
            hearing.bury(&body).await;
        });
        lane
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says something to process 1.
    pub(super) fn order(&self, order: &Order) -> Result<(), BackendError> {
        let frame = order.frame();
        if frame.len() > MAX_MESSAGE {
            return Err(BackendError::TooLarge);
        }
        self.send(frame)
    }

    pub(super) fn send(&self, frame: Vec<u8>) -> Result<(), BackendError> {
        let state = self.lock();
        if state.closed {
            return Err(BackendError::PlaceGone);
        }
        self.orders.send(frame).map_err(|_| BackendError::PlaceGone)
    }

    /// Asks something that is answered in turn.
    pub(super) fn ask(&self, order: &Order) -> Result<oneshot::Receiver<Answer>, BackendError> {
        // Answers come in the order of questions, so nobody may come in between.
        let state = self.lock();
        if state.closed {
            return Err(BackendError::PlaceGone);
        }
        let answer = self.board.answer();
        self.orders.send(order.frame()).map_err(|_| BackendError::PlaceGone)?;
        Ok(answer)
    }

    /// How many processes there are but the first.
    pub(super) async fn count(&self) -> Option<usize> {
        let counted = {
            let mut state = self.lock();
            let (tell, counted) = oneshot::channel();
            state.counts.push_back(tell);
            self.orders.send(Order::Count.frame()).ok()?;
            counted
        };
        counted.await.ok().map(|count| count as usize)
    }

    /// Its processes stand still, or go on.
    pub(super) fn freeze(&self, frozen: bool) {
        self.lock().frozen = frozen;
    }

    /// Whether nobody inside can answer.
    pub(super) fn is_frozen(&self) -> bool {
        self.lock().frozen
    }

    /// How far free space has fallen where its disk is.
    pub(super) fn fallen(&self) -> Fallen {
        self.lock().fallen
    }

    /// Expects the streams of a program that is about to be ordered.
    pub(super) fn expect(&self, process: ProcessId) -> (mpsc::UnboundedReceiver<(Stream, Vec<u8>)>, Arc<Semaphore>) {
        let (output, pieces) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(MOST_CONTENT));
        self.lock().ends.insert(process, Ends { output, room: Arc::clone(&room) });
        (pieces, room)
    }

    /// Lets go of the streams of a program.
    pub(super) fn forget(&self, process: ProcessId) {
        if let Some(ends) = self.lock().ends.remove(&process) {
            ends.room.close();
        }
    }

    /// Takes what process 1 says; nothing if it says what it should not say.
    fn hear(&self, kind: FrameKind, payload: &[u8]) -> Option<()> {
        match kind {
            FrameKind::Out | FrameKind::Err => {
                let (process, bytes) = address(payload)?;
                let stream = if kind == FrameKind::Out { Stream::Out } else { Stream::Err };
                if let Some(ends) = self.lock().ends.get(&process) {
                    // Whoever reads may be gone.
                    drop(ends.output.send((stream, bytes.to_vec())));
                }
                Some(())
            }
            FrameKind::Content | FrameKind::End | FrameKind::Packet => None,
            FrameKind::Message => self.take(Report::read(payload)?),
        }
    }

    fn take(&self, report: Report) -> Option<()> {
        match report {
            Report::Session(news) => {
                if let jail::SessionNews::Refused { process, .. } = &news {
                    self.forget(*process);
                }
                self.board.hear(news, None);
            }
            Report::Fed { process, bytes } => {
                if let Some(ends) = self.lock().ends.get(&process) {
                    ends.room.add_permits((bytes as usize).min(MOST_CONTENT));
                }
            }
            Report::Over(process) => self.forget(process),
            Report::Counted(count) => {
                self.lock().counts.pop_front().map(|tell| tell.send(count));
            }
            Report::Spent(limit) => self.lock().spent = Some(limit),
            Report::Fallen(fallen) => self.lock().fallen = fallen,
            Report::Ready { .. }
            | Report::Done
            | Report::Failed { .. }
            | Report::Started
            | Report::Took(_)
            | Report::Ended { .. }
            | Report::Entries(_)
            | Report::File { .. }
            | Report::Full(_) => return None,
        }
        Some(())
    }

    /// We let go of it.
    pub(super) fn close(&self) {
        self.lock().closed = true;
    }

    /// Nothing more will be heard: says why, and tells everybody who waits.
    async fn bury(&self, body: &Body) {
        let (closed, spent) = {
            let state = self.lock();
            (state.closed, state.spent)
        };
        let gone = match (closed, spent) {
            (true, _) => {
                body.removed().await;
                Gone::Closed
            }
            (false, Some(limit)) => Gone::Limit(limit),
            (false, None) => body.cause().await,
        };
        self.board.close();
        {
            let mut state = self.lock();
            state.closed = true;
            state.counts.clear();
            state.ends.drain().for_each(|(_, ends)| ends.room.close());
        }
        self.gone.send_replace(Some(gone));
    }

    /// Comes true when it is gone, and says why.
    pub(super) fn gone(&self) -> BoxFuture<'static, Gone> {
        let mut gone = self.gone.subscribe();
        Box::pin(async move {
            match gone.wait_for(Option::is_some).await {
                Ok(gone) => gone.clone().unwrap_or(Gone::Closed),
                Err(_) => Gone::Closed,
            }
        })
    }
}

/// What is left of a container.
struct Body {
    daemon: Weak<Daemon>,
    client: bollard::Docker,
    id: String,
}

impl Body {
    /// Comes true when the daemon knows it no longer, or takes too long for that.
    async fn removed(&self) {
        let Some(daemon) = self.daemon.upgrade() else { return };
        let (client, id) = (self.client.clone(), self.id.clone());
        let asked = async move {
            while client.inspect_container(&id, None::<InspectContainerOptions>).await.is_ok() {
                tokio::time::sleep(LOOK).await;
            }
        };
        let (done, waited) = oneshot::channel::<()>();
        daemon.beside(async move {
            drop(tokio::time::timeout(REMOVAL, asked).await);
            drop(done);
        });
        drop(daemon);
        let _ = waited.await;
    }

    /// Why it ended, by the daemon's word.
    async fn cause(&self) -> Gone {
        let failed = |error: DockerError| Gone::Failed(error.to_string());
        let Some(daemon) = self.daemon.upgrade() else { return Gone::Closed };
        let (client, id) = (self.client.clone(), self.id.clone());
        let asked = async move {
            let found = client.inspect_container(&id, None::<InspectContainerOptions>).await;
            found.map_err(DockerError::refused("tell of a container"))
        };
        match daemon.on_thread(asked).await.map(|found| found.state.unwrap_or_default()) {
            Ok(state) if state.oom_killed == Some(true) => Gone::Limit(LimitKind::Memory),
            Ok(state) => failed(DockerError::Gone { said: state.error.filter(|said| !said.is_empty()) }),
            Err(error) => failed(error),
        }
    }
}
