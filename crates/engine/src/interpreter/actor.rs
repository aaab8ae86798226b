//! The one who speaks with a driver: cells in line, one after another, and an ear open between them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use types::Outcome;

use super::driver::Interrupt;
use super::event::Event;
use super::heard::{Along, CellEnd, Ending, Heard, Stopped};
use super::lines::Lines;
use super::{About, Cell, InterpreterError};
use crate::backend::{BoxFuture, Control, Ended, Process, Stream};
use crate::capture::Kept;
use crate::error::BackendError;

/// The interrupt of a terminal.
const SIGINT: i32 = 2;
/// A cell that does not heed an interrupt gets another after so long.
const AGAIN: Duration = Duration::from_millis(500);
/// What is kept of each output between two cells.
const IDLE_KEPT: u64 = 64 << 10;
/// What is read between two cells; then whoever writes has to wait for the next.
const IDLE_READ: usize = 4 << 20;
/// How long the rest of an ended interpreter's output may take.
const REST: Duration = Duration::from_millis(200);
/// What is kept of what an interpreter says outside the protocol: why it could not go on.
const MOST_WORDS: usize = 2000;

/// What an interpreter is asked for.
pub(super) enum Order {
    Run { cell: Cell, output: Along, reply: oneshot::Sender<CellEnd> },
    Settle,
    Adopt(BTreeMap<String, String>),
}

pub(super) struct Actor {
    input: mpsc::Sender<Vec<u8>>,
    output: mpsc::Receiver<(Stream, Vec<u8>)>,
    ended: BoxFuture<'static, Result<Ended, BackendError>>,
    control: Arc<dyn Control>,
    interrupted: watch::Receiver<u64>,
    interrupt: Interrupt,
    lines: Lines,
    idle: Idle,
    words: Vec<u8>,
    last_words: Arc<Mutex<Option<String>>>,
    next: u64,
}

/// Output between two cells; it is the next one's.
struct Idle {
    stdout: Kept,
    stderr: Kept,
    read: usize,
}

impl Idle {
    fn new() -> Self {
        Self { stdout: Kept::new(IDLE_KEPT), stderr: Kept::new(IDLE_KEPT), read: 0 }
    }
}

impl Actor {
    pub(super) fn new(
        process: Process,
        interrupted: watch::Receiver<u64>,
        interrupt: Interrupt,
        last_words: Arc<Mutex<Option<String>>>,
    ) -> Result<Self, InterpreterError> {
        let input = process.input.ok_or_else(|| InterpreterError::NotStarted("it has no input".to_owned()))?;
        Ok(Self {
            input,
            output: process.output,
            ended: process.ended,
            control: process.control,
            interrupted,
            interrupt,
            lines: Lines::default(),
            idle: Idle::new(),
            words: Vec::new(),
            last_words,
            next: 1,
        })
    }

    /// Sends the driver, and waits for its word.
    pub(super) async fn begin(&mut self, source: &str) -> Result<About, String> {
        let sent = self.input.send(source.as_bytes().to_vec()).await;
        sent.map_err(|_| "its input is closed".to_owned())?;
        let mut about = None;
        while about.is_none() {
            match self.output.recv().await {
                None => return Err(self.words()),
                Some((Stream::Err, bytes)) => self.hear(&bytes),
                Some((Stream::Out, bytes)) => {
                    let idle = &mut self.idle;
                    self.lines.push(&bytes, |line| match line.ok().and_then(Event::parse) {
                        Some(Event::Ready { version, flavour }) => about = Some(About { version, flavour }),
                        Some(event) => idle.take(event),
                        None => {}
                    });
                }
            }
        }
        about.ok_or_else(|| "it did not say that it is ready".to_owned())
    }

    /// Carries out orders until the interpreter or the last of its handles is gone.
    pub(super) async fn serve(mut self, mut orders: mpsc::Receiver<Order>) {
        loop {
            let may_read = self.idle.read < IDLE_READ;
            tokio::select! {
                order = orders.recv() => match order {
                    None => break,
                    Some(Order::Settle) => {
                        let _ = self.input.send(b"{\"op\": \"chdir\"}\n".to_vec()).await;
                    }
                    Some(Order::Adopt(env)) => {
                        let order = serde_json::json!({"op": "adopt", "env": env});
                        let _ = self.input.send(format!("{order}\n").into_bytes()).await;
                    }
                    Some(Order::Run { reply, .. }) if reply.is_closed() => {}
                    Some(Order::Run { cell, output, reply }) => {
                        if self.run(cell, output, reply).await {
                            break;
                        }
                    }
                },
                chunk = self.output.recv(), if may_read => match chunk {
                    None => break,
                    Some((Stream::Err, bytes)) => self.hear(&bytes),
                    Some((Stream::Out, bytes)) => self.overhear(&bytes),
                },
                ended = &mut self.ended => {
                    if let Ok(ended) = ended {
                        self.hear(describe(&ended.outcome).as_bytes());
                    }
                    break;
                }
            }
        }
        let words = self.words();
        if let Ok(mut last) = self.last_words.lock() {
            *last = Some(words);
        }
        let _ = self.control.kill();
    }

    /// Runs one cell. Whether the interpreter ended with it.
    async fn run(&mut self, cell: Cell, mut along: Along, mut reply: oneshot::Sender<CellEnd>) -> bool {
        let id = self.next;
        self.next += 1;
        let mut heard = Heard::new(id, cell.output).resume(std::mem::take(&mut self.lines));
        let idle = std::mem::replace(&mut self.idle, Idle::new());
        heard.write(Stream::Out, idle.stdout.text().as_bytes(), &mut along);
        heard.write(Stream::Err, idle.stderr.text().as_bytes(), &mut along);
        self.interrupted.mark_unchanged();

        let order = serde_json::json!({"op": "execute", "id": id, "code": cell.code, "env": cell.env, "cwd": cell.cwd});
        let input = self.input.clone();
        let mut sending = Box::pin(async move { input.send(format!("{order}\n").into_bytes()).await });
        let start = Instant::now();
        let deadline = start + cell.wall;
        let mut is_sent = false;
        let mut ending = Ending::default();
        // When to act next: at the deadline, or to interrupt once more.
        let mut act = deadline;
        while !heard.is_done() {
            if heard.is_deserted() && ending.stopped.is_none() {
                (ending.stopped, act) = (Some(Stopped::Caller), Instant::now());
            }
            tokio::select! {
                _ = &mut sending, if !is_sent => is_sent = true,
                chunk = self.output.recv() => match chunk {
                    Some((Stream::Out, bytes)) => heard.read(&bytes, &mut along),
                    Some((Stream::Err, bytes)) => self.hear(&bytes),
                    None => {
                        ending.lost = Some(self.end().await);
                        break;
                    }
                },
                ended = &mut self.ended => {
                    let outcome = ended.map_or(Outcome::Signaled { signal: 9 }, |ended| ended.outcome);
                    self.hear(describe(&outcome).as_bytes());
                    ending.lost = Some(outcome);
                    while let Ok(Some((stream, bytes))) = timeout(REST, self.output.recv()).await {
                        match stream {
                            Stream::Out => heard.read(&bytes, &mut along),
                            Stream::Err => self.hear(&bytes),
                        }
                    }
                    break;
                },
                () = sleep_until(act) => {
                    let now = Instant::now();
                    if now >= deadline {
                        ending.stopped.get_or_insert(Stopped::Wall);
                    }
                    if now >= deadline + cell.grace {
                        self.hear(b"it did not heed an interrupt and was killed");
                        let _ = self.control.kill();
                        ending.lost = Some(Outcome::Signaled { signal: 9 });
                        break;
                    }
                    self.interrupt(id);
                    act = next_act(now, deadline, cell.grace);
                },
                // An error is the end of all handles, and so of who waits.
                _ = self.interrupted.changed(), if ending.stopped.is_none() => {
                    (ending.stopped, act) = (Some(Stopped::Caller), Instant::now());
                },
                () = reply.closed(), if ending.stopped.is_none() => {
                    (ending.stopped, act) = (Some(Stopped::Caller), Instant::now());
                },
            }
        }
        let is_lost = ending.lost.is_some();
        let (end, lines) = heard.end(ending, start.elapsed(), &mut along);
        self.lines = lines;
        if is_lost {
            let words = self.words();
            if let Ok(mut last) = self.last_words.lock() {
                *last = Some(words);
            }
        }
        let _ = reply.send(end);
        is_lost
    }

    fn interrupt(&self, id: u64) {
        match self.interrupt {
            Interrupt::Signal => drop(self.control.signal(SIGINT)),
            // A driver that takes no orders gets another in a while, and is killed in the end.
            Interrupt::Order => {
                drop(self.input.try_send(format!("{{\"op\": \"interrupt\", \"id\": {id}}}\n").into_bytes()));
            }
        }
    }

    /// How the process ended, after its output has.
    async fn end(&mut self) -> Outcome {
        let ended = timeout(REST, &mut self.ended).await;
        let outcome = ended.ok().and_then(Result::ok).map_or(Outcome::Signaled { signal: 9 }, |ended| ended.outcome);
        self.hear(describe(&outcome).as_bytes());
        outcome
    }

    fn overhear(&mut self, bytes: &[u8]) {
        let idle = &mut self.idle;
        idle.read += bytes.len();
        self.lines.push(bytes, |line| {
            if let Some(event) = line.ok().and_then(Event::parse) {
                idle.take(event);
            }
        });
    }

    /// Keeps the end of what the interpreter says outside the protocol.
    fn hear(&mut self, bytes: &[u8]) {
        self.words.extend_from_slice(bytes);
        let cut = self.words.len().saturating_sub(MOST_WORDS);
        self.words.drain(..cut);
    }

    fn words(&self) -> String {
        let words = String::from_utf8_lossy(&self.words).trim().to_owned();
        if words.is_empty() { "it said nothing".to_owned() } else { words }
    }
}

impl Idle {
    fn take(&mut self, event: Event) {
        match event {
            Event::Output { stream: Stream::Out, text } => self.stdout.push(text.as_bytes()),
            Event::Output { stream: Stream::Err, text } => self.stderr.push(text.as_bytes()),
            Event::Ready { .. } | Event::Shown { .. } | Event::Raised { .. } | Event::Done { .. } => 0,
        };
    }
}

/// Another interrupt, but the deadline and the end of the grace are kept to.
fn next_act(now: Instant, deadline: Instant, grace: Duration) -> Instant {
    let end = if now < deadline { deadline } else { deadline + grace };
    (now + AGAIN).min(end)
}

fn describe(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Exited { code } => format!("it exited with {code}"),
        Outcome::Signaled { signal } => format!("it was ended by signal {signal}"),
        Outcome::LimitExceeded { limit } => format!("it reached its {} limit", limit.name()),
        Outcome::Refused { .. } | Outcome::Cancelled => "it was taken back".to_owned(),
    }
}
