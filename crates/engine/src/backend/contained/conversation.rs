//! A program in somebody's sandbox, from its order to its end.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::time::Duration;

use jail::contained::{FrameKind, MOST_CONTENT, Order, Report, frame};
use jail::{Cost, End, MAX_MESSAGE};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use types::{Layer, LimitKind, Limits};

use super::link::Link;
use crate::backend::{Cancel, Command, Ended, Output, Stdin, Stream, wire};
use crate::error::BackendError;

/// How much longer than its limit our program may take to end another, before its host ends the sandbox.
const GRACE: Duration = Duration::from_secs(5);

/// Where a program runs, and by which limits.
pub(in crate::backend) struct Watched<'a> {
    pub(in crate::backend) link: &'a mut Link,
    pub(in crate::backend) limits: &'a Limits,
    /// Those that are on.
    pub(in crate::backend) layers: &'a [Layer],
}

/// Runs one program to its end, whatever that is.
pub(in crate::backend) async fn run(
    Watched { link, limits, layers }: Watched<'_>,
    command: Command,
    stdin: Stdin,
    output: &mut dyn Output,
    cancel: Cancel<'_>,
) -> Result<Ended, BackendError> {
    let name = command.argv.first().cloned().unwrap_or_default();
    let Command { programs, argv, env } = command;
    let order = Order::Start { programs, argv, env, limits: wire(limits) }.frame();
    if order.len() > MAX_MESSAGE {
        return Err(BackendError::TooLarge);
    }
    let deadline = Instant::now() + limits.wall + GRACE;
    link.send(order).await?;
    let mut conversation =
        Conversation { link, input: Input::new(stdin), output, cancelled: false, overdue: false, deadline };
    match conversation.hold(cancel).await? {
        Said::Ended(end, cost) => Ended::new(end, cost, layers.to_vec()).map_err(|_| link.garbled()),
        Said::Refused(errno) => {
            let source = std::io::Error::from_raw_os_error(errno);
            Err(BackendError::Program { program: name, source })
        }
    }
}

/// How a program's conversation ended.
enum Said {
    Ended(End, Cost),
    /// It could not be started.
    Refused(i32),
}

/// Everything that passes while a program runs.
struct Conversation<'a> {
    link: &'a mut Link,
    input: Input,
    output: &'a mut dyn Output,
    cancelled: bool,
    overdue: bool,
    deadline: Instant,
}

impl Conversation<'_> {
    async fn hold(&mut self, mut cancel: Cancel<'_>) -> Result<Said, BackendError> {
        let started = Instant::now();
        loop {
            tokio::select! {
                biased;
                frame = self.link.next() => match frame {
                    Ok((kind, payload)) => if let Some(said) = self.take(kind, &payload).await? {
                        return Ok(said);
                    },
                    Err(_) => return self.post_mortem(started).await,
                },
                () = &mut cancel, if !self.cancelled => self.kill().await,
                () = sleep_until(self.deadline), if !self.overdue => {
                    self.overdue = true;
                    self.link.host.kill().await;
                }
                frame = self.input.next(), if self.input.may_send() => {
                    // Whoever is gone is heard of by the first branch.
                    drop(self.link.send(frame).await);
                }
            }
        }
    }

    async fn take(&mut self, kind: FrameKind, payload: &[u8]) -> Result<Option<Said>, BackendError> {
        let stream = match kind {
            FrameKind::Out => Stream::Out,
            FrameKind::Err => Stream::Err,
            FrameKind::Content | FrameKind::End | FrameKind::Packet => return Err(self.link.garbled()),
            FrameKind::Message => {
                return match self.link.read(payload)? {
                    Report::Started => Ok(None),
                    Report::Took(bytes) => {
                        self.input.took(bytes as usize);
                        Ok(None)
                    }
                    Report::Ended { end, cost } => Ok(Some(Said::Ended(end, cost))),
                    Report::Failed { errno } => Ok(Some(Said::Refused(errno))),
                    _ => Err(self.link.garbled()),
                };
            }
        };
        if self.output.write(stream, payload) == ControlFlow::Break(()) && !self.cancelled {
            self.kill().await;
        }
        Ok(None)
    }

    /// Our program ends the other and tells what is left of it; if it does not, the host ends the sandbox.
    async fn kill(&mut self) {
        self.cancelled = true;
        self.deadline = self.deadline.min(Instant::now() + GRACE);
        drop(self.link.order(&Order::Kill).await);
    }

    /// Our program is gone with all the rest: only the sandbox's host can tell why.
    async fn post_mortem(&mut self, started: Instant) -> Result<Said, BackendError> {
        let end = if self.cancelled {
            End::Cancelled
        } else if self.overdue {
            End::Limit(LimitKind::Wall)
        } else {
            End::Limit(self.link.host.cause().await?)
        };
        let wall = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let hits = if let End::Limit(limit) = &end { vec![*limit] } else { Vec::new() };
        Ok(Said::Ended(end, Cost { wall, hits, ..Cost::default() }))
    }
}

/// A program's input on its way: no more than our own program can hold.
struct Input {
    source: Source,
    /// What has come and was not sent yet.
    pending: Vec<u8>,
    room: usize,
    over: bool,
}

enum Source {
    Bytes(Option<Vec<u8>>),
    Stream(mpsc::Receiver<Vec<u8>>),
}

impl Input {
    fn new(stdin: Stdin) -> Self {
        let source = match stdin {
            Stdin::Bytes(bytes) => Source::Bytes(Some(bytes)),
            Stdin::Stream(stream) => Source::Stream(stream),
            Stdin::Descriptor(from) => Source::Stream(read_along(from)),
        };
        Self { source, pending: Vec::new(), room: MOST_CONTENT, over: false }
    }

    fn may_send(&self) -> bool {
        !self.over && self.room > 0
    }

    fn took(&mut self, bytes: usize) {
        self.room = self.room.saturating_add(bytes).min(MOST_CONTENT);
    }

    /// The next frame. Nothing is lost when it is not waited for.
    async fn next(&mut self) -> Vec<u8> {
        while self.pending.is_empty() {
            let chunk = match &mut self.source {
                Source::Bytes(bytes) => bytes.take(),
                Source::Stream(stream) => stream.recv().await,
            };
            let Some(chunk) = chunk else {
                self.over = true;
                return frame(FrameKind::End, &[]);
            };
            self.pending = chunk;
        }
        let rest = self.pending.split_off(self.pending.len().min(self.room));
        let content = std::mem::replace(&mut self.pending, rest);
        self.room -= content.len();
        frame(FrameKind::Content, &content)
    }
}

/// Reads a descriptor on a thread, because terminals and files do not all take part in readiness.
fn read_along(from: OwnedFd) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut from = std::fs::File::from(from);
        let mut buffer = vec![0; MOST_CONTENT];
        while let Ok(n) = std::io::Read::read(&mut from, &mut buffer) {
            if n == 0 || sender.blocking_send(buffer[..n].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}
