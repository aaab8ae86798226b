//! Programs of a session: who waits for them, what they said, how they ended.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use types::{LimitKind, Outcome, Timestamp};

use super::command::AFTERMATH;
use super::error::SessionError;
use super::spec::ProcessInfo;
use crate::backend::{Control, Ended, Process, Stream};
use crate::error::BackendError;

/// Bytes of output that are kept for whoever comes later.
const REPLAY: usize = 256 << 10;
/// How long a program waits for a listener who wants every piece, and takes none.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program of a session that was started.
pub struct Running {
    /// All but how it ended.
    info: ProcessInfo,
    terminal: bool,
    control: Arc<dyn Control>,
    input: Mutex<Option<mpsc::Sender<Vec<u8>>>>,
    log: Mutex<Log>,
    /// Changes with every piece of output and with the end.
    changed: watch::Sender<u64>,
    /// Changes when somebody who wants every piece has taken one, or is gone.
    taken: watch::Sender<u64>,
    /// Why we killed it, if we did.
    cause: Mutex<Option<LimitKind>>,
}

/// What a program said, as far as it is kept.
#[derive(Default)]
struct Log {
    /// Number of the first piece that is kept.
    first: u64,
    pieces: VecDeque<(Stream, Arc<[u8]>)>,
    bytes: usize,
    /// No more output comes.
    closed: bool,
    end: Option<Outcome>,
    /// Whether it ended because its sandbox did.
    lost: bool,
    /// Who wants every piece, and the next piece of each.
    held: BTreeMap<u64, u64>,
}

impl Log {
    /// Whether the oldest piece should go, and somebody still wants it.
    fn is_wanted(&self) -> bool {
        self.bytes > REPLAY && self.pieces.len() > 1 && self.held.values().any(|next| *next <= self.first)
    }
}

/// One thing that a program said or did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Some output.
    Output(Stream, Arc<[u8]>),
    /// Whoever listens was too slow, or came too late: so many pieces are lost.
    Lost(u64),
    /// How it ended; the last.
    Ended(Outcome),
}

impl Running {
    /// A program that was just started.
    pub(super) fn new(
        info: ProcessInfo,
        terminal: bool,
        control: Arc<dyn Control>,
        input: Option<mpsc::Sender<Vec<u8>>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            info,
            terminal,
            control,
            input: Mutex::new(input),
            log: Mutex::default(),
            changed: watch::Sender::new(0),
            taken: watch::Sender::new(0),
            cause: Mutex::default(),
        })
    }

    /// Takes its output and its end, in place of somebody who waits.
    pub(super) async fn keep_log(self: Arc<Self>, mut process: Process) {
        let mut ended = process.ended;
        let (mut end, mut told) = (None, false);
        let mut aftermath = std::pin::pin!(tokio::time::sleep(AFTERMATH));
        loop {
            tokio::select! {
                biased;
                piece = process.output.recv() => match piece {
                    Some((stream, bytes)) => {
                        let begun = tokio::time::Instant::now();
                        self.wait_for_listeners().await;
                        // What it said in time is not late because of who listens.
                        let until = aftermath.deadline() + begun.elapsed();
                        aftermath.as_mut().reset(until);
                        self.push(stream, &bytes);
                    }
                    None => break,
                },
                // What it wrote last may still be on its way, and is heard before its end.
                over = &mut ended, if end.is_none() => {
                    end = Some(over);
                    aftermath.as_mut().reset(tokio::time::Instant::now() + AFTERMATH);
                }
                () = &mut aftermath, if end.is_some() && !told => {
                    told = true;
                    if let Some(over) = &end {
                        self.finish(over);
                    }
                }
            }
        }
        if !told {
            let over = match end {
                Some(over) => over,
                None => ended.await,
            };
            self.finish(&over);
        }
        self.lock().closed = true;
        self.wake();
    }

    /// Waits until nobody who wants every piece would lose one. Who takes none for long is not waited for any more.
    async fn wait_for_listeners(&self) {
        let mut taken = self.taken.subscribe();
        while self.lock().is_wanted() {
            if tokio::time::timeout(PATIENCE, taken.changed()).await.is_err() {
                let mut log = self.lock();
                let first = log.first;
                log.held.retain(|_, next| *next > first);
            }
        }
    }

    fn push(&self, stream: Stream, bytes: &[u8]) {
        let mut log = self.lock();
        log.bytes += bytes.len();
        log.pieces.push_back((stream, bytes.into()));
        while log.bytes > REPLAY && log.pieces.len() > 1 && !log.is_wanted() {
            let lost = log.pieces.pop_front().map_or(0, |(_, bytes)| bytes.len());
            log.bytes -= lost;
            log.first += 1;
        }
        drop(log);
        self.wake();
    }

    /// Writes down how it ended.
    pub(super) fn finish(&self, over: &Result<Ended, BackendError>) -> Outcome {
        let outcome = match over {
            Ok(ended) => self.outcome(&ended.outcome),
            // The sandbox went, and the program with it.
            Err(_) => Outcome::Cancelled,
        };
        let mut log = self.lock();
        log.end = Some(outcome.clone());
        log.lost = over.is_err();
        drop(log);
        *self.input.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.wake();
        outcome
    }

    /// What is told of its end: a kill of ours has a cause.
    fn outcome(&self, outcome: &Outcome) -> Outcome {
        match (outcome, *self.cause.lock().unwrap_or_else(PoisonError::into_inner)) {
            (Outcome::Cancelled, Some(limit)) => Outcome::LimitExceeded { limit },
            (outcome, _) => outcome.clone(),
        }
    }

    fn wake(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// What there is to know of it.
    #[must_use]
    pub fn info(&self) -> ProcessInfo {
        ProcessInfo { outcome: self.lock().end.clone(), ..self.info.clone() }
    }

    /// Its number inside.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.info.pid
    }

    pub(super) fn is_called(&self, name: &str) -> bool {
        self.info.tag.as_deref() == Some(name) || name.parse() == Ok(self.info.pid)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.lock().end.is_some()
    }

    /// Whether it has a terminal in place of pipes.
    #[must_use]
    pub fn has_terminal(&self) -> bool {
        self.terminal
    }

    /// Whether it ended because its sandbox did.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lock().lost
    }

    pub(super) fn started(&self) -> Timestamp {
        self.info.started
    }

    /// What can be done to it.
    #[must_use]
    pub fn control(&self) -> &dyn Control {
        &*self.control
    }

    /// Kills it because a limit of the whole was reached.
    pub(super) fn kill_at(&self, limit: LimitKind) {
        self.cause.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(limit);
        // It may have ended meanwhile.
        let _ = self.control.kill();
    }

    /// Gives it some input; waits while it does not read.
    pub async fn write(&self, bytes: Vec<u8>) -> Result<(), SessionError> {
        let input = self.input.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let input = input.ok_or(SessionError::NoInput)?;
        input.send(bytes).await.map_err(|_| SessionError::NoInput)
    }

    /// Ends its input.
    pub fn close_input(&self) {
        *self.input.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What it said, from the first piece that is kept, and what it will say.
    #[must_use]
    pub fn listen(self: &Arc<Self>) -> Listener {
        self.listener(self.lock().first)
    }

    /// What it will say from now on.
    #[must_use]
    pub fn listen_from_now(self: &Arc<Self>) -> Listener {
        let log = self.lock();
        let next = log.first + log.pieces.len() as u64;
        drop(log);
        self.listener(next)
    }

    fn listener(self: &Arc<Self>, next: u64) -> Listener {
        Listener { running: Arc::clone(self), next, changed: self.changed.subscribe(), done: false, held: None }
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who hears what a program says. Many may, each at their own pace; who is slow loses the oldest.
pub struct Listener {
    running: Arc<Running>,
    next: u64,
    changed: watch::Receiver<u64>,
    done: bool,
    /// Its number among those who want every piece.
    held: Option<u64>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(number) = self.held {
            self.running.lock().held.remove(&number);
            self.running.taken.send_modify(|count| *count += 1);
        }
    }
}

impl Listener {
    /// From here on the program waits for this listener, for a while at least, where it would lose something.
    #[must_use]
    pub fn hold(mut self) -> Self {
        let mut log = self.running.lock();
        let number = log.held.keys().next_back().map_or(0, |last| last + 1);
        log.held.insert(number, self.next);
        drop(log);
        self.held = Some(number);
        self
    }

    /// The next thing heard; `None` after its end.
    pub async fn next(&mut self) -> Option<Heard> {
        loop {
            if self.done {
                return None;
            }
            if let Some(heard) = self.take() {
                self.done = matches!(heard, Heard::Ended(_));
                return Some(heard);
            }
            if self.changed.changed().await.is_err() {
                return None;
            }
        }
    }

    fn take(&mut self) -> Option<Heard> {
        self.changed.mark_unchanged();
        let mut log = self.running.lock();
        if self.next < log.first {
            let lost = log.first - self.next;
            self.next = log.first;
            return Some(Heard::Lost(lost));
        }
        let index = usize::try_from(self.next - log.first).unwrap_or(usize::MAX);
        if let Some((stream, bytes)) = log.pieces.get(index) {
            let heard = Heard::Output(*stream, Arc::clone(bytes));
            self.next += 1;
            if let Some(next) = self.held.and_then(|number| log.held.get_mut(&number)) {
                *next = self.next;
                drop(log);
                self.running.taken.send_modify(|count| *count += 1);
            }
            return Some(heard);
        }
        // What it left running may hold its output open: its own end is what counts.
        log.end.clone().map(Heard::Ended)
    }
}
