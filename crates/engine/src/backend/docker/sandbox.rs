//! One container as a sandbox: a program in it, from its order to its end.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::PoisonError;
use std::time::Duration;

use bollard::query_parameters::KillContainerOptions;
use jail::contained::{FrameKind, MOST_CONTENT, Order, Report, frame};
use jail::{Cost, End, MAX_MESSAGE};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use types::{Layer, LimitKind, Limits};

use super::daemon::Known;
use super::error::DockerError;
use super::link::{Link, garbled, read};
use super::tree::ContainerTree;
use crate::backend::{BoxFuture, Cancel, Command, Ended, Output, Sandbox, Stdin, Stream, wire};
use crate::error::BackendError;
use crate::files::Tree;

/// How much longer than its limit process 1 may take to end a program, before the daemon ends the container.
const GRACE: Duration = Duration::from_secs(5);

/// How long the daemon may take to notice why a container ended.
const POST_MORTEM: Duration = Duration::from_secs(2);

/// A container of ours.
pub(super) struct Container {
    pub(super) tree: ContainerTree,
    pub(super) known: Known,
    pub(super) limits: Limits,
    /// Walls that may be missing.
    pub(super) accept: Vec<Layer>,
    /// Those that are on, once it is closed.
    pub(super) layers: Vec<Layer>,
}

impl Container {
    pub(super) fn link(&mut self) -> &mut Link {
        self.tree.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sandbox for Container {
    fn tree(&self) -> &dyn Tree {
        &self.tree
    }

    fn is_alive(&self) -> bool {
        self.tree.0.lock().unwrap_or_else(PoisonError::into_inner).is_alive()
    }

    fn lease<'a>(&'a mut self, limits: &'a Limits) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(self.close_for(limits))
    }

    fn run<'a>(
        &'a mut self,
        command: Command,
        stdin: Stdin,
        output: &'a mut dyn Output,
        cancel: Cancel<'a>,
    ) -> BoxFuture<'a, Result<Ended, BackendError>> {
        Box::pin(async move {
            let name = command.argv.first().cloned().unwrap_or_default();
            let Command { programs, argv, env } = command;
            let order = Order::Start { programs, argv, env, limits: wire(&self.limits) }.frame();
            if order.len() > MAX_MESSAGE {
                return Err(BackendError::TooLarge);
            }
            let deadline = Instant::now() + self.limits.wall + GRACE;
            let layers = self.layers.clone();
            let link = self.link();
            link.send(order).await?;
            let mut conversation =
                Conversation { link, input: Input::new(stdin), output, cancelled: false, overdue: false, deadline };
            match conversation.hold(cancel).await? {
                Said::Ended(end, cost) => Ended::new(end, cost, layers).map_err(|_| BackendError::Docker(garbled())),
                Said::Refused(errno) => {
                    let source = std::io::Error::from_raw_os_error(errno);
                    Err(BackendError::Program { program: name, source })
                }
            }
        })
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
    async fn hold(&mut self, mut cancel: Cancel<'_>) -> Result<Said, DockerError> {
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
                    self.kill_container().await;
                }
                frame = self.input.next(), if self.input.may_send() => {
                    // Whoever is gone is heard of by the first branch.
                    drop(self.link.send(frame).await);
                }
            }
        }
    }

    async fn take(&mut self, kind: FrameKind, payload: &[u8]) -> Result<Option<Said>, DockerError> {
        let stream = match kind {
            FrameKind::Out => Stream::Out,
            FrameKind::Err => Stream::Err,
            FrameKind::Content | FrameKind::End => return Err(garbled()),
            FrameKind::Message => {
                return match read(payload)? {
                    Report::Started => Ok(None),
                    Report::Took(bytes) => {
                        self.input.took(bytes as usize);
                        Ok(None)
                    }
                    Report::Ended { end, cost } => Ok(Some(Said::Ended(end, cost))),
                    Report::Failed { errno } => Ok(Some(Said::Refused(errno))),
                    _ => Err(garbled()),
                };
            }
        };
        if self.output.write(stream, payload) == ControlFlow::Break(()) && !self.cancelled {
            self.kill().await;
        }
        Ok(None)
    }

    /// Process 1 ends the program and tells what is left of it; if it does not, the daemon ends the container.
    async fn kill(&mut self) {
        self.cancelled = true;
        self.deadline = self.deadline.min(Instant::now() + GRACE);
        drop(self.link.order(&Order::Kill).await);
    }

    async fn kill_container(&mut self) {
        let (client, id) = (self.link.client.clone(), self.link.id.clone());
        let asked = async move {
            let options = KillContainerOptions { signal: "SIGKILL".to_owned() };
            client.kill_container(&id, Some(options)).await.map_err(DockerError::refused("kill a container"))
        };
        drop(self.link.daemon.on_thread(asked).await);
    }

    /// Process 1 is gone with all the rest: only the daemon can tell why.
    async fn post_mortem(&mut self, started: Instant) -> Result<Said, DockerError> {
        let end = if self.cancelled {
            End::Cancelled
        } else if self.overdue {
            End::Limit(LimitKind::Wall)
        } else {
            self.cause().await?
        };
        let wall = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let hits = if let End::Limit(limit) = &end { vec![*limit] } else { Vec::new() };
        Ok(Said::Ended(end, Cost { wall, hits, ..Cost::default() }))
    }

    async fn cause(&mut self) -> Result<End, DockerError> {
        let patience = Instant::now() + POST_MORTEM;
        loop {
            let state = self.link.inspect().await?.state.unwrap_or_default();
            if state.oom_killed == Some(true) {
                return Ok(End::Limit(LimitKind::Memory));
            }
            if Instant::now() > patience {
                let said = state.error.filter(|error| !error.is_empty());
                return Err(DockerError::Gone { said });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// A program's input on its way: no more than process 1 can hold.
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
