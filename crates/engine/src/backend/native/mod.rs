//! Linux namespaces on this host, made by the keeper.

mod link;
mod place;
mod roots;
mod zygotes;

pub(super) use link::KEEPER;

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use jail::{Create, End, KeeperHandle, SpawnError};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use types::{BackendKind, Limits};

use super::{
    Backend, BoxFuture, Cancel, Capabilities, Command, Ended, Output, Place, PlaceSpec, Sandbox, SandboxSpec, Stdin,
    Stream, WorkerKind, WorkerSpec, explain, wire,
};
use crate::error::BackendError;
use crate::files::{Tree, WorkTree};
use crate::image::HeldImage;
use crate::network::{Router, Rules};
use link::{Ending, Finished, Link};
use place::NativePlace;
use roots::Root;

/// The native backend: one keeper for each set of visible host trees.
pub(crate) struct Native {
    cgroup: Option<String>,
    /// Whether its keepers have zygotes.
    zygotes: bool,
    links: Mutex<BTreeMap<Root, Kept>>,
    /// A keeper that was started before it was known what its sandboxes look like.
    early: Mutex<Option<JoinHandle<Result<KeeperHandle, SpawnError>>>>,
}

/// A keeper, and the image that its root is made from: as long as it lives, so do the layers.
struct Kept {
    link: Arc<Link>,
    _image: Option<Arc<HeldImage>>,
}

impl Native {
    /// `cgroup` is a group that was handed over, if any.
    pub(crate) fn new(cgroup: Option<String>, zygotes: bool) -> Self {
        Self { cgroup, zygotes, links: Mutex::default(), early: Mutex::default() }
    }

    fn link(&self, spec: &SandboxSpec) -> Result<Arc<Link>, BackendError> {
        self.link_of(Root::of(spec)?, spec.image.clone())
    }

    fn link_of(&self, root: Root, image: Option<Arc<HeldImage>>) -> Result<Arc<Link>, BackendError> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = links.get(&root).filter(|kept| kept.link.is_alive()) {
            return Ok(Arc::clone(&kept.link));
        }
        let early = self.early.lock().unwrap_or_else(PoisonError::into_inner).take();
        let keeper = match early.and_then(|starting| starting.join().ok()) {
            Some(keeper) => keeper?,
            None => link::start_keeper()?,
        };
        let link = Link::open(keeper, root.setup(self.cgroup.clone(), self.zygotes && root.has_zygotes()))?;
        links.insert(root, Kept { link: Arc::clone(&link), _image: image });
        Ok(link)
    }
}

impl Backend for Native {
    fn kind(&self) -> BackendKind {
        BackendKind::Native
    }

    fn expect(&self) {
        // Without a thread for it, it is started when it is needed.
        let starting = std::thread::Builder::new().name("keeper".to_owned()).spawn(link::start_keeper);
        *self.early.lock().unwrap_or_else(PoisonError::into_inner) = starting.ok();
    }

    fn drain(&self) {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        // Its image may be wanted away, and another keeper is soon there.
        links.retain(|root, kept| !root.is_of_image() || Arc::strong_count(&kept.link) > 1);
        links.values().for_each(|kept| kept.link.drain());
    }

    fn capabilities<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        Box::pin(async { self.link(spec)?.capabilities().await })
    }

    fn open<'a>(&'a self, spec: &'a PlaceSpec) -> BoxFuture<'a, Result<Arc<dyn Place>, BackendError>> {
        Box::pin(async {
            let link = self.link_of(Root::of_sessions(spec)?, spec.image.clone())?;
            Ok(NativePlace::open(link, spec).await? as Arc<dyn Place>)
        })
    }

    fn create<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Box<dyn Sandbox>, BackendError>> {
        Box::pin(async {
            let link = self.link(spec)?;
            let forked = spec.worker.as_ref().filter(|worker| worker.kind == WorkerKind::Forked);
            let zygote = forked.map(|worker| link.zygote(&preloaded(worker), spec.ahead)).transpose()?;
            let (accept, limits) = (spec.accept.clone(), wire(&spec.limits));
            let (router, channel) = router(spec.network.as_ref())?.unzip();
            let network = channel.is_some();
            let order = Create { id: 0, accept, limits, network, zygote, rehearse: spec.rehearse, disk: None };
            let asked = link.create(order, channel.as_ref(), None);
            drop(channel);
            let mut ordered = match asked {
                // A keeper that cannot work here says why before it goes.
                Err(BackendError::KeeperGone) => {
                    return Err(link.capabilities().await.err().unwrap_or(BackendError::KeeperGone));
                }
                other => other?,
            };
            let id = ordered.id;
            let asked = Asked { link: &link, id };
            let (writable, owner) = ordered.tree().await.map_err(|finished| failure(finished, ""))?;
            std::mem::forget(asked);
            let tree = WorkTree::new(writable, owner);
            let (ending, limits) = (ordered.ending.clone(), spec.limits.clone());
            let mut sandbox = NativeSandbox { link, id, tree, ending, limits, streams: None, _router: router };
            if let (Some(worker), None) = (&spec.worker, zygote) {
                sandbox.prestart(worker)?;
            }
            if spec.worker.is_some() {
                let patience = if spec.ahead { zygotes::START_TAKES } else { zygotes::RUN_WAITS };
                match tokio::time::timeout(patience, ordered.prepared()).await {
                    Ok(Some(())) => sandbox.link.proved(zygote),
                    Ok(None) => return Err(failure(sandbox.ending.wait().await, "")),
                    // Whoever makes some ahead decides when it has taken too long.
                    Err(_) => {
                        zygote.filter(|_| spec.ahead).inspect(|zygote| sandbox.link.discard(*zygote));
                        return Err(BackendError::NoWorker);
                    }
                }
            }
            Ok(Box::new(sandbox) as Box<dyn Sandbox>)
        })
    }
}

/// A router for a sandbox with a way out, and the channel over which its init tells it of its device.
fn router(rules: Option<&Arc<Rules>>) -> Result<Option<(Router, jail::Channel)>, BackendError> {
    let Some(rules) = rules else { return Ok(None) };
    let (ours, theirs) = jail::Channel::pair().map_err(|errno| BackendError::Host(errno.into()))?;
    let router = Router::start(ours, Arc::clone(rules)).map_err(BackendError::Host)?;
    Ok(Some((router, theirs)))
}

/// A sandbox that was asked for; one that nobody waits for any more is taken back.
struct Asked<'a> {
    link: &'a Link,
    id: jail::SandboxId,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.link.cancel(self.id);
    }
}

/// Loads our library into the interpreter, which makes it a zygote.
fn preloaded(worker: &WorkerSpec) -> WorkerSpec {
    let mut worker = worker.clone();
    worker.env.push(format!("LD_PRELOAD={}", roots::LIBRARY));
    worker
}

struct NativeSandbox {
    link: Arc<Link>,
    id: jail::SandboxId,
    tree: WorkTree,
    ending: Ending,
    limits: Limits,
    /// Our ends of the streams of a program that was started ahead.
    streams: Option<Streams>,
    /// Its way out, if it has one.
    _router: Option<Router>,
}

/// Our ends of a program's standard streams.
struct Streams {
    stdin: OwnedFd,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
}

impl NativeSandbox {
    /// Pipes for a program: our ends, and its own.
    fn pipes(&self) -> Result<(Streams, [OwnedFd; 3]), BackendError> {
        let (stdin_read, stdin) = new_pipe()?;
        let (stdout, stdout_write) = reader()?;
        let (stderr, stderr_write) = reader()?;
        let theirs = [stdin_read, stdout_write, stderr_write];
        // `/dev/stdin` and its like open the pipe anew, as whoever the run is.
        theirs.iter().try_for_each(|pipe| self.tree.give(pipe)).map_err(BackendError::Host)?;
        Ok((Streams { stdin, stdout, stderr }, theirs))
    }

    /// Starts an interpreter that will wait for its program.
    fn prestart(&mut self, worker: &WorkerSpec) -> Result<(), BackendError> {
        let (ours, theirs) = self.pipes()?;
        let WorkerSpec { program, argv, env, .. } = worker.clone();
        let start = jail::Start { id: self.id, programs: vec![program], argv, env };
        self.link.prestart(start, &theirs.each_ref().map(AsFd::as_fd))?;
        self.streams = Some(ours);
        Ok(())
    }
}

impl Drop for NativeSandbox {
    fn drop(&mut self) {
        self.link.cancel(self.id);
    }
}

impl Sandbox for NativeSandbox {
    fn tree(&self) -> &dyn Tree {
        &self.tree
    }

    fn is_alive(&self) -> bool {
        !self.ending.is_over() && self.link.is_alive()
    }

    fn lease<'a>(&'a mut self, limits: &'a Limits) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async move {
            let (old, new) = (wire(&self.limits), wire(limits));
            if old == new {
                return Ok(());
            }
            self.limits = limits.clone();
            if (jail::Limits { wall: old.wall, cpu: old.cpu, ..new }) == old {
                // Time does not count before the start, which the keeper hears of later: nothing to wait for.
                return self.link.lease(self.id, new);
            }
            let answer = self.link.answer(self.id);
            self.link.lease(self.id, new)?;
            match answer.await {
                Some(()) => Ok(()),
                None => Err(failure(self.ending.wait().await, "")),
            }
        })
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
            let start = jail::Start { id: self.id, programs: command.programs, argv: command.argv, env: command.env };
            let Streams { stdin: into, stdout, stderr } = if let Some(streams) = self.streams.take() {
                self.link.start(start, &[])?;
                streams
            } else {
                let (ours, theirs) = self.pipes()?;
                self.link.start(start, &theirs.each_ref().map(AsFd::as_fd))?;
                ours
            };
            let feeding = feed(stdin, into);
            let finished = watch(&self.link, self.id, &mut self.ending, (stdout, stderr), output, cancel).await;
            drop(feeding);
            ended(finished, &name)
        })
    }
}

/// What a pipe holds.
const MOST_READ: usize = 64 << 10;

/// Reads both outputs until the run is over and nothing is left in the pipes.
async fn watch(
    link: &Link,
    id: jail::SandboxId,
    ending: &mut Ending,
    (mut stdout, mut stderr): (pipe::Receiver, pipe::Receiver),
    output: &mut dyn Output,
    mut cancel: Cancel<'_>,
) -> Finished {
    let mut cancelled = false;
    let mut finished = std::pin::pin!(ending.wait());
    let mut end = None;
    let (mut out_buffer, mut err_buffer) = (Vec::with_capacity(MOST_READ), Vec::with_capacity(MOST_READ));
    let (mut out_open, mut err_open) = (true, true);
    // Every process that held a pipe is gone when the keeper reports, so this is only for a kernel that is stuck.
    let mut patience = std::pin::pin!(tokio::time::sleep(Duration::from_hours(24 * 365)));
    while end.is_none() || out_open || err_open {
        let (stream, read) = tokio::select! {
            biased;
            read = stdout.read_buf(&mut out_buffer), if out_open => (Stream::Out, read),
            read = stderr.read_buf(&mut err_buffer), if err_open => (Stream::Err, read),
            ended = &mut finished, if end.is_none() => {
                end = Some(ended);
                patience.as_mut().reset(tokio::time::Instant::now() + Duration::from_secs(2));
                continue;
            }
            () = &mut cancel, if !cancelled => {
                cancelled = true;
                link.cancel(id);
                continue;
            }
            () = &mut patience => break,
        };
        let (open, buffer) = match stream {
            Stream::Out => (&mut out_open, &mut out_buffer),
            Stream::Err => (&mut err_open, &mut err_buffer),
        };
        match read {
            Ok(0) | Err(_) => *open = false,
            Ok(_) => {
                if output.write(stream, buffer) == ControlFlow::Break(()) {
                    link.cancel(id);
                }
                buffer.clear();
            }
        }
    }
    match end {
        Some(end) => end,
        None => finished.await,
    }
}

/// Sends input to the program for as long as the guard lives.
fn feed(stdin: Stdin, into: OwnedFd) -> Option<Feeding> {
    match stdin {
        Stdin::Bytes(bytes) if bytes.is_empty() => None,
        Stdin::Bytes(bytes) => {
            let mut sender = pipe::Sender::from_owned_fd(into).ok()?;
            Some(Feeding(tokio::spawn(async move {
                // The program may end without reading its input; that is its right.
                drop(sender.write_all(&bytes).await);
            })))
        }
        Stdin::Stream(mut chunks) => {
            let mut sender = pipe::Sender::from_owned_fd(into).ok()?;
            Some(Feeding(tokio::spawn(async move {
                while let Some(chunk) = chunks.recv().await {
                    if sender.write_all(&chunk).await.is_err() {
                        break;
                    }
                }
            })))
        }
        Stdin::Descriptor(from) => {
            // A thread, because terminals and files do not all take part in readiness; it ends with the pipe or the
            // program.
            std::thread::spawn(move || {
                drop(io::copy(&mut std::fs::File::from(from), &mut std::fs::File::from(into)));
            });
            None
        }
    }
}

struct Feeding(tokio::task::JoinHandle<()>);

impl Drop for Feeding {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn new_pipe() -> Result<(OwnedFd, OwnedFd), BackendError> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|e| BackendError::Host(e.into()))
}

/// A pipe whose reading end does not block us; the program's end stays an ordinary one.
fn reader() -> Result<(pipe::Receiver, OwnedFd), BackendError> {
    let (read, write) = new_pipe()?;
    Ok((pipe::Receiver::from_owned_fd(read).map_err(BackendError::Host)?, write))
}

fn ended(finished: Finished, program: &str) -> Result<Ended, BackendError> {
    let Finished::Ended { end, cost, layers } = finished else { return Err(BackendError::KeeperGone) };
    Ended::new(end, cost, layers).map_err(|trouble| explain(trouble, program))
}

fn failure(finished: Finished, program: &str) -> BackendError {
    match finished {
        Finished::Ended { end: End::Failed(trouble), .. } | Finished::Unusable(trouble) => explain(trouble, program),
        Finished::Ended { .. } | Finished::Gone => BackendError::KeeperGone,
    }
}
