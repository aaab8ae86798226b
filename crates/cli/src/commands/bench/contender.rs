//! Who is measured: everybody is asked for one run at a time, and every answer is checked.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Caller, Delivery, Engine, OwnFiles, RunError};
use serde::Serialize;
use types::{ExecRequest, ExecResult, Start};

use super::http::{Address, Connection};
use super::process::Invocation;
use super::work::Work;

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Contender {
    /// The bare program.
    Plain,
    /// The bare interpreter without what its installation loads at every start.
    Nosite,
    /// `saggar run --cold`, the whole command.
    Cold,
    /// `Engine::execute` in this process.
    Library,
    /// `saggar run`, the whole command, with a daemon to ask.
    Command,
    /// `POST /v1/runs` on the daemon's socket, over a connection that stays open.
    Socket,
    Bubblewrap,
    Nsjail,
    Firejail,
    Isolate,
    Docker,
}

impl Contender {
    pub(super) const ALL: [Self; 11] = [
        Self::Plain,
        Self::Nosite,
        Self::Cold,
        Self::Library,
        Self::Command,
        Self::Socket,
        Self::Bubblewrap,
        Self::Nsjail,
        Self::Firejail,
        Self::Isolate,
        Self::Docker,
    ];

    /// The name on the wire.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Nosite => "nosite",
            Self::Cold => "cold",
            Self::Library => "library",
            Self::Command => "command",
            Self::Socket => "socket",
            Self::Bubblewrap => "bubblewrap",
            Self::Nsjail => "nsjail",
            Self::Firejail => "firejail",
            Self::Isolate => "isolate",
            Self::Docker => "docker",
        }
    }

    /// Whether it is somebody else's sandbox.
    pub(super) const fn is_peer(self) -> bool {
        match self {
            Self::Plain | Self::Nosite | Self::Cold | Self::Library | Self::Command | Self::Socket => false,
            Self::Bubblewrap | Self::Nsjail | Self::Firejail | Self::Isolate | Self::Docker => true,
        }
    }

    /// What is measured, for people.
    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::Plain => "the bare program, no isolation",
            Self::Nosite => "`python3 -I -S FILE`: without `site` and what packages hook into it",
            Self::Cold => "`saggar run --cold FILE` (C: `saggar exec`), the whole command",
            Self::Library => "`Engine::execute` in this process",
            Self::Command => "`saggar run FILE`, the whole command, with `saggar serve` to ask",
            Self::Socket => "`POST /v1/runs` on the socket of `saggar serve`, connection kept",
            Self::Bubblewrap => "all namespaces, read-only system, tmpfs; no filter, no cgroup",
            Self::Nsjail => "all namespaces, read-only system, tmpfs, rlimits; no filter, no cgroup",
            Self::Firejail => "own network namespace, filter, no capabilities; most of the host's files visible",
            Self::Isolate => "namespaces, own user, rlimits; init, run and clean-up; no cgroup",
            Self::Docker => "`docker run --rm`, read-only, no network, limits, no capabilities",
        }
    }
}

/// Why an answer is no sample.
#[derive(Debug, thiserror::Error)]
pub(super) enum Wrong {
    #[error("cannot start `{program}`: {source}")]
    Start { program: String, source: io::Error },
    #[error("no answer within {seconds} s")]
    Hangs { seconds: u64 },
    #[error("wrong answer ({end}): {stdout:?}, {stderr}")]
    Output { end: String, stdout: String, stderr: String },
    #[error("{}", .0.body().message)]
    Engine(#[from] RunError),
    #[error("the socket failed: {0}")]
    Socket(#[from] io::Error),
    #[error("the server answered {status}: {body}")]
    Status { status: u16, body: String },
    #[error("the server's result cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the measuring thread is gone")]
    Thread,
}

/// One right answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Once {
    pub(super) took: Duration,
    /// Whether a warm worker served it, where the answer says so.
    pub(super) start: Option<Start>,
}

/// How a contender is asked.
#[derive(Clone)]
pub(super) enum Way {
    Process(Invocation),
    Library(Arc<Engine>, Box<ExecRequest>),
    Socket(Address, Box<ExecRequest>),
}

/// One contender with one piece of work.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) contender: Contender,
    pub(super) work: Work,
    pub(super) way: Way,
}

/// Asks once; may block.
type Turn = Box<dyn FnMut() -> Result<Once, Wrong> + Send>;

/// One caller who asks one thing after another.
pub(super) enum Line {
    /// Blocks, so it gets a thread; it is away while it is asked.
    Blocking(Option<Turn>),
    /// Lives in our own runtime, as in any program that uses the library.
    Library(Arc<Engine>, Box<ExecRequest>, &'static str),
}

/// A caller who only gets errors gives up after so many.
const MOST_ERRORS: usize = 3;

impl Entry {
    /// A new caller; nothing is asked yet.
    pub(super) fn line(&self) -> Line {
        let expected = self.work.expected();
        match self.way.clone() {
            Way::Process(invocation) => {
                Line::Blocking(Some(Box::new(move || invocation.run(expected).map(|took| Once { took, start: None }))))
            }
            Way::Library(engine, request) => Line::Library(engine, request, expected),
            Way::Socket(address, request) => {
                let mut connection = None;
                Line::Blocking(Some(Box::new(move || over_socket(&address, &mut connection, &request, expected))))
            }
        }
    }
}

impl Line {
    /// Asks once. Time is taken where the asking is done, so that hops between threads do not count.
    pub(super) async fn once(&mut self) -> Result<Once, Wrong> {
        match self {
            Self::Library(engine, request, expected) => through_library(engine, request, expected).await,
            Self::Blocking(turn) => {
                let mut asking = turn.take().ok_or(Wrong::Thread)?;
                let asked = tokio::task::spawn_blocking(move || (asking(), asking)).await;
                let (answer, asking) = asked.map_err(|_| Wrong::Thread)?;
                *turn = Some(asking);
                answer
            }
        }
    }

    /// Asks back to back until `deadline`.
    pub(super) async fn until(self, deadline: Instant) -> Vec<Result<Once, Wrong>> {
        let mut answers = Vec::new();
        match self {
            Self::Library(engine, request, expected) => {
                while go_on(&answers, deadline) {
                    answers.push(through_library(&engine, &request, expected).await);
                }
            }
            Self::Blocking(turn) => {
                let Some(mut asking) = turn else { return answers };
                let asked = tokio::task::spawn_blocking(move || {
                    while go_on(&answers, deadline) {
                        answers.push(asking());
                    }
                    answers
                });
                return asked.await.unwrap_or_default();
            }
        }
        answers
    }
}

/// Everybody asks at least once, however late his turn comes.
fn go_on(answers: &[Result<Once, Wrong>], deadline: Instant) -> bool {
    let errors = answers.iter().rev().take(MOST_ERRORS).filter(|answer| answer.is_err()).count();
    answers.is_empty() || (Instant::now() < deadline && errors < MOST_ERRORS)
}

async fn through_library(engine: &Engine, request: &ExecRequest, expected: &str) -> Result<Once, Wrong> {
    let request = request.clone();
    let start = Instant::now();
    let delivery = Delivery { inputs: Some(&mut OwnFiles), ..Delivery::default() };
    let result = engine.execute(&Caller::default(), request, delivery).await?;
    let took = start.elapsed();
    check(&result, expected)?;
    Ok(Once { took, start: Some(result.start) })
}

fn over_socket(
    address: &Address,
    connection: &mut Option<Connection>,
    request: &ExecRequest,
    expected: &str,
) -> Result<Once, Wrong> {
    let body = serde_json::to_vec(request)?;
    // A connection that failed once is not used again.
    let mut kept = match connection.take() {
        Some(kept) => kept,
        None => address.connect()?,
    };
    let start = Instant::now();
    let (status, answer) = kept.exchange("POST", "/v1/runs", &body)?;
    let took = start.elapsed();
    if status != 200 {
        let body = String::from_utf8_lossy(&answer).chars().take(200).collect();
        return Err(Wrong::Status { status, body });
    }
    let result: ExecResult = serde_json::from_slice(&answer)?;
    check(&result, expected)?;
    *connection = Some(kept);
    Ok(Once { took, start: Some(result.start) })
}

/// A result that is not what the program prints is no sample.
pub(super) fn check(result: &ExecResult, expected: &str) -> Result<(), Wrong> {
    if result.ok && result.stdout == expected && result.stderr.is_empty() {
        return Ok(());
    }
    let brief = |text: &str| text.chars().take(200).collect();
    Err(Wrong::Output {
        end: format!("{:?}", result.outcome),
        stdout: brief(&result.stdout),
        stderr: brief(&result.stderr),
    })
}
