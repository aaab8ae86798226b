//! What the keeper says about one sandbox that stays, handed to whoever waits for it.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jail::{Cost, End, GuestIds, ProcessId, SessionNews, Trouble};
use tokio::sync::oneshot;
use types::Layer;

/// A sandbox that is ready.
pub(super) struct Opened {
    pub(super) root: OwnedFd,
    pub(super) ids: GuestIds,
    pub(super) layers: Vec<Layer>,
}

/// A program that runs: its number inside, and our end of its terminal, if it has one.
pub(super) type Started = (i32, Option<OwnedFd>);

/// What was asked, and what came beside it.
pub(super) type Answer = (SessionNews, Option<OwnedFd>);

/// How a program ended.
pub(super) type Over = (End, Cost);

/// What is heard, once each.
pub(super) struct Expected {
    pub(super) started: oneshot::Receiver<Result<Started, Trouble>>,
    pub(super) over: oneshot::Receiver<Over>,
}

/// Who waits for what. Whoever waits for something that will not come is told by a closed channel.
pub(super) struct Board(Mutex<Waiting>);

struct Waiting {
    next: ProcessId,
    opened: Option<oneshot::Sender<Opened>>,
    starting: HashMap<ProcessId, oneshot::Sender<Result<Started, Trouble>>>,
    running: HashMap<ProcessId, oneshot::Sender<Over>>,
    /// The keeper answers in the order in which it was asked.
    asked: VecDeque<oneshot::Sender<Answer>>,
    closed: bool,
}

impl Board {
    /// A board, and the news that the sandbox is ready.
    pub(super) fn new() -> (Self, oneshot::Receiver<Opened>) {
        let (opened, promise) = oneshot::channel();
        let waiting = Waiting {
            next: 0,
            opened: Some(opened),
            starting: HashMap::new(),
            running: HashMap::new(),
            asked: VecDeque::new(),
            closed: false,
        };
        (Self(Mutex::new(waiting)), promise)
    }

    /// A number for a program that is about to be ordered, and what will be heard of it.
    pub(super) fn expect(&self) -> (ProcessId, Expected) {
        let mut waiting = self.lock();
        let ((started, start), (over, end)) = (oneshot::channel(), oneshot::channel());
        waiting.next += 1;
        let process = waiting.next;
        if !waiting.closed {
            waiting.starting.insert(process, started);
            waiting.running.insert(process, over);
        }
        (process, Expected { started: start, over: end })
    }

    /// The answer to the next question. To be called in the order in which questions are sent.
    pub(super) fn answer(&self) -> oneshot::Receiver<Answer> {
        let (answered, promise) = oneshot::channel();
        let mut waiting = self.lock();
        if !waiting.closed {
            waiting.asked.push_back(answered);
        }
        promise
    }

    /// Hands on what the keeper said. Somebody may have given up waiting.
    pub(super) fn hear(&self, news: SessionNews, fd: Option<OwnedFd>) {
        let mut waiting = self.lock();
        match news {
            SessionNews::Opened { ids, layers } => {
                if let (Some(opened), Some(root)) = (waiting.opened.take(), fd) {
                    drop(opened.send(Opened { root, ids, layers }));
                }
            }
            SessionNews::Started { process, pid } => {
                waiting.starting.remove(&process).map(|started| started.send(Ok((pid, fd))));
            }
            SessionNews::Refused { process, trouble } => {
                waiting.running.remove(&process);
                waiting.starting.remove(&process).map(|started| started.send(Err(trouble)));
            }
            SessionNews::Ended { process, end, cost } => {
                // Killed before it could say that it runs: it had no number that anybody knows.
                waiting.starting.remove(&process).map(|started| started.send(Ok((0, None))));
                waiting.running.remove(&process).map(|over| over.send((end, cost)));
            }
            news @ (SessionNews::Done | SessionNews::Swapped(_) | SessionNews::Measured { .. }) => {
                waiting.asked.pop_front().map(|asked| asked.send((news, fd)));
            }
        }
    }

    /// Whether a program has been ordered and has not ended.
    pub(super) fn is_running(&self, process: ProcessId) -> bool {
        self.lock().running.contains_key(&process)
    }

    /// Nothing more will be heard.
    pub(super) fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        waiting.opened = None;
        waiting.starting.clear();
        waiting.running.clear();
        waiting.asked.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
