//! Who watches requests on their way through the corridor. What he is told has nothing in it that a caller sent and nothing
//! that a program said: no code, arguments, environment, input or output.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use types::{ErrorCode, ExecResult, Outcome, Start};

use crate::engine::Caller;
use crate::error::RunError;

/// A step of the corridor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The static check reads the program.
    Review,
    /// The request becomes a plan.
    Admit,
    /// A model says what it thinks.
    Opinion,
    /// In line.
    Wait,
    /// A sandbox is taken or made, with the files in it.
    Acquire,
    /// The compiler works, in a sandbox of its own.
    Compile,
    /// The program runs.
    Run,
    /// Its files are collected.
    Collect,
    /// The entry in the audit trail is committed.
    Record,
}

impl Step {
    /// In lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Review => "review",
            Self::Admit => "admit",
            Self::Opinion => "opinion",
            Self::Wait => "wait",
            Self::Acquire => "acquire",
            Self::Compile => "compile",
            Self::Run => "run",
            Self::Collect => "collect",
            Self::Record => "record",
        }
    }
}

/// What a request is a part of, as whoever watches numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    /// The whole.
    pub id: u128,
    /// The part that asked.
    pub span: u64,
}

/// A request that is over.
#[derive(Debug)]
pub struct Watched<'a> {
    /// Who asked.
    pub caller: &'a Caller,
    /// When.
    pub begun: SystemTime,
    /// What was begun, in order, and when, from the beginning.
    pub steps: Vec<(Step, Duration)>,
    /// How long all of it took.
    pub took: Duration,
    /// How it ended; nothing where the caller went away.
    pub end: Option<Result<Facts, ErrorCode>>,
}

/// What is told of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its name.
    pub id: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The recipe's name.
    pub language: Option<String>,
    /// What isolated it.
    pub backend: &'static str,
    /// Whether a warm worker served it.
    pub start: Start,
}

/// Is told of every request when it is over, in the thread that answers it: it must not wait for anything.
pub trait Watcher: Send + Sync {
    /// A request is over.
    fn over(&self, watched: Watched<'_>);
}

/// The steps of one request so far; of none, if nobody watches.
pub(crate) struct Steps(Option<Mutex<Vec<(Step, Instant)>>>);

impl Steps {
    /// One begins, and the one before it is over.
    pub(crate) fn begin(&self, step: Step) {
        if let Some(steps) = &self.0 {
            steps.lock().unwrap_or_else(PoisonError::into_inner).push((step, Instant::now()));
        }
    }
}

/// A request that is watched until it is over, or until its caller goes away.
pub(crate) struct Watching<'e> {
    watcher: Option<&'e dyn Watcher>,
    caller: &'e Caller,
    begun: (SystemTime, Instant),
    pub(crate) steps: Steps,
    end: Option<Result<Facts, ErrorCode>>,
}

impl<'e> Watching<'e> {
    pub(crate) fn begin(watcher: Option<&'e dyn Watcher>, caller: &'e Caller) -> Self {
        let steps = Steps(watcher.map(|_| Mutex::default()));
        Self { watcher, caller, begun: (SystemTime::now(), Instant::now()), steps, end: None }
    }

    /// How it ended.
    pub(crate) fn end(mut self, result: &Result<ExecResult, RunError>) {
        if self.watcher.is_some() {
            self.end = Some(match result {
                Ok(result) => Ok(Facts {
                    id: result.id.clone(),
                    outcome: result.outcome.clone(),
                    language: result.language.clone(),
                    backend: result.backend.name(),
                    start: result.start,
                }),
                Err(error) => Err(error.code()),
            });
        }
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        let Some(watcher) = self.watcher else { return };
        let (begun, first) = self.begun;
        let steps = self.steps.0.take().map(|steps| steps.into_inner().unwrap_or_else(PoisonError::into_inner));
        let steps = steps.unwrap_or_default().into_iter().map(|(step, at)| (step, at - first)).collect();
        watcher.over(Watched { caller: self.caller, begun, steps, took: first.elapsed(), end: self.end.take() });
    }
}
