//! A conversation with the judge's harness in a sandbox: orders go in, frames come out, all bounded.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use engine::{Caller, Delivery, Engine, Harness, Output, RunError, Stdin, Stream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, timeout};
use types::{ExecRequest, ExecResult, Outcome};

use super::error::JudgeError;
use super::value::Value;

/// The longest frame: an answer of the largest size and the words around it.
const MOST_FRAME: usize = (8 << 20) + 4096;
/// What may wait to be read. An honest harness says little that was not asked.
const MOST_WAITING: usize = 4 * MOST_FRAME;
/// How long one that has answered may take to end by itself.
const LEAVING_TAKES: Duration = Duration::from_millis(20);
/// How long the end of a sandbox that was told to end may take.
const END_TAKES: Duration = Duration::from_secs(10);

/// One sandbox with the harness in it. Dropping it kills everything inside.
pub(crate) struct Link {
    orders: Option<mpsc::Sender<Vec<u8>>>,
    frames: mpsc::UnboundedReceiver<Vec<u8>>,
    /// Rings when nothing was heard in time. Kept: a conversation of many words has one time limit.
    alarm: Pin<Box<Sleep>>,
    waiting: Arc<AtomicUsize>,
    /// Whether something was said that is no frame; the sandbox may have ended by itself before it was ended for that.
    nonsense: Arc<AtomicBool>,
    cancel: watch::Sender<bool>,
    run: JoinHandle<Result<ExecResult, RunError>>,
}

/// What came of listening.
pub(crate) enum Heard {
    /// A frame, as it was sent.
    Frame(Vec<u8>),
    /// The sandbox has ended; nothing more will come.
    Over,
    /// Nothing in time.
    Late,
}

impl Link {
    /// Starts a sandbox; nothing is waited for.
    pub(crate) fn open(engine: &Arc<Engine>, caller: &Caller, request: ExecRequest) -> Self {
        let (orders, stdin) = mpsc::channel(4);
        let (sender, frames) = mpsc::unbounded_channel();
        let (cancel, cancelled) = watch::channel(false);
        let waiting = Arc::new(AtomicUsize::new(0));
        let nonsense = Arc::new(AtomicBool::new(false));
        let mut ear =
            Ear { buffer: Vec::new(), sender, waiting: Arc::clone(&waiting), nonsense: Arc::clone(&nonsense) };
        let (engine, caller) = (Arc::clone(engine), caller.clone());
        let run = tokio::spawn(async move {
            let delivery = Delivery {
                stdin: Some(Stdin::Stream(stdin)),
                live: Some(&mut ear),
                cancel: Some(cancelled),
                harness: Harness::Judge,
                ..Delivery::default()
            };
            engine.execute(&caller, request, delivery).await
        });
        let alarm = Box::pin(tokio::time::sleep(END_TAKES));
        Self { orders: Some(orders), frames, alarm, waiting, nonsense, cancel, run }
    }

    /// Sends an order. Where nobody listens any more, what is heard next says so.
    pub(crate) async fn send(&self, words: Vec<Value>) {
        self.send_all(vec![words]).await;
    }

    /// Sends orders in one go: whoever reads them is woken once.
    pub(crate) async fn send_all(&self, orders: Vec<Vec<Value>>) {
        let frames = orders.into_iter().map(|words| framed(&Value::Tuple(words).to_wire()));
        let Some(sender) = &self.orders else { return };
        // A sandbox that has ended says so in its own way.
        drop(sender.send(frames.collect::<Vec<_>>().concat()).await);
    }

    /// Sends bytes as they are and says that nothing follows.
    pub(crate) async fn say_all(&mut self, bytes: Vec<u8>) {
        if let Some(orders) = self.orders.take() {
            drop(orders.send(bytes).await);
        }
    }

    /// The next frame, or why there is none.
    pub(crate) async fn next(&mut self, deadline: Instant) -> Heard {
        if self.alarm.deadline() != deadline {
            self.alarm.as_mut().reset(deadline);
        }
        tokio::select! {
            biased;
            frame = self.frames.recv() => frame.map_or(Heard::Over, |frame| {
                self.waiting.fetch_sub(frame.len(), Ordering::Relaxed);
                Heard::Frame(frame)
            }),
            () = &mut self.alarm => Heard::Late,
        }
    }

    /// Lets the harness end by itself, and says how the sandbox ended.
    pub(crate) async fn finish(mut self) -> Result<ExecResult, JudgeError> {
        self.orders = None;
        self.ended(Duration::from_secs(1)).await
    }

    /// The same where nothing depends on how: whoever would stay is ended at once, while others are at work already.
    pub(crate) async fn leave(mut self) -> Result<ExecResult, JudgeError> {
        self.orders = None;
        self.ended(LEAVING_TAKES).await
    }

    /// Ends the sandbox now, and says how it ended.
    pub(crate) async fn kill(mut self) -> Result<ExecResult, JudgeError> {
        self.cancel.send_replace(true);
        self.ended(END_TAKES).await
    }

    async fn ended(&mut self, patience: Duration) -> Result<ExecResult, JudgeError> {
        let ended = if let Ok(ended) = timeout(patience, &mut self.run).await {
            ended
        } else {
            self.cancel.send_replace(true);
            timeout(END_TAKES, &mut self.run).await.map_err(|_| JudgeError::Interrupted)?
        };
        let result = ended.map_err(|_| JudgeError::Interrupted)??;
        if self.nonsense.load(Ordering::Relaxed) {
            return Ok(ExecResult { outcome: Outcome::Cancelled, ..result });
        }
        Ok(result)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.run.abort();
    }
}

/// A body with its length before it.
fn framed(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes();
    [&length[..], body].concat()
}

/// Cuts what the harness says into frames.
struct Ear {
    buffer: Vec<u8>,
    sender: mpsc::UnboundedSender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    nonsense: Arc<AtomicBool>,
}

impl Output for Ear {
    fn write(&mut self, _: Stream, bytes: &[u8]) -> ControlFlow<()> {
        self.buffer.extend_from_slice(bytes);
        while let Some((head, rest)) = self.buffer.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*head) as usize;
            if length > MOST_FRAME {
                self.nonsense.store(true, Ordering::Relaxed);
                return ControlFlow::Break(());
            }
            if rest.len() < length {
                break;
            }
            let frame = rest[..length].to_vec();
            self.buffer.drain(..4 + length);
            if self.waiting.fetch_add(length, Ordering::Relaxed) > MOST_WAITING || self.sender.send(frame).is_err() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}
