//! Where code can run. A backend isolates and nothing else.

mod board;
mod contained;
mod docker;
mod e2b;
mod native;
mod place;
mod place_files;

use std::future::Future;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use types::{BackendKind, Layer, LimitKind, Limits, Outcome, Usage};

use crate::error::BackendError;
use crate::files::Tree;
use crate::image::HeldImage;
use crate::network::Rules;
pub(crate) use docker::{Docker, examine as examine_docker};
pub use docker::{DockerError, DockerReport, DockerSettings};
pub(crate) use e2b::E2b;
pub use e2b::{E2bBackendSettings, E2bError};
pub(crate) use native::Native;
pub use place::{
    Connection, Control, DiskArchive, Gone, GuestUser, LayerId, Origin, Place, PlaceSpec, PlaceUsage, Process,
    ProcessSpec, Snapshotted, TerminalSize, Writers,
};
pub use place_files::{
    FileChange, FileContentStream, FileEntry, FileError, FileEvent, FileKind, Marks, PlaceFiles, Reach, Unpacked,
};

/// A boxed future, as trait objects need.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Comes true when the caller takes a run back.
pub type Cancel<'a> = BoxFuture<'a, ()>;

/// A place where code can run. Admission, retries, metering and audit happen once, in the engine, for every backend.
pub trait Backend: Send + Sync {
    /// The name in results.
    fn kind(&self) -> BackendKind;
    /// What this host lets the backend enforce for such a sandbox.
    fn capabilities<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Capabilities, BackendError>>;
    /// Makes an empty sandbox. Dropping it kills every process inside.
    fn create<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Box<dyn Sandbox>, BackendError>>;
    /// Opens a sandbox that stays. A backend that keeps none refuses.
    fn open<'a>(&'a self, _spec: &'a PlaceSpec) -> BoxFuture<'a, Result<Arc<dyn Place>, BackendError>> {
        Box::pin(async { Err(BackendError::NoSessions { backend: self.kind() }) })
    }
    /// Removes what it keeps for a snapshot, if nothing else stands on it.
    fn forget<'a>(&'a self, _layer: &'a LayerId) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async { Ok(()) })
    }
    /// Removes what it keeps for snapshots of a state folder that nobody knows any more; says how many these were.
    fn keep_only<'a>(&'a self, _state: &'a Path, _known: &'a [LayerId]) -> BoxFuture<'a, Result<usize, BackendError>> {
        Box::pin(async { Ok(0) })
    }
    /// The whole disk of a snapshot, where that is not on this host.
    fn archive<'a>(&'a self, _layer: &'a LayerId) -> BoxFuture<'a, Result<DiskArchive, BackendError>> {
        Box::pin(async { Err(BackendError::Lacks { what: "an archive of the disk" }) })
    }
    /// A run will come: what takes time and needs to know nothing of it may begin.
    fn expect(&self) {}
    /// What there is to know of an image before a sandbox is made from it. A backend that knows none refuses.
    fn image<'a>(&'a self, _reference: &'a str) -> BoxFuture<'a, Result<ImageFacts, BackendError>> {
        Box::pin(async { Err(BackendError::NoImages { backend: self.kind() }) })
    }
    /// Lets go of what it keeps for runs that have not come in a while.
    fn drain(&self) {}
}

/// An isolated place. It could serve more than one program; a run uses it for one.
pub trait Sandbox: Send {
    /// Its `/work` and `/tmp`, from outside.
    fn tree(&self) -> &dyn Tree;
    /// Whether it can still be used: one that was made ahead of need may have been killed since.
    fn is_alive(&self) -> bool;
    /// Gives it other limits than it was made with, before anything is placed or started in it.
    fn lease<'a>(&'a mut self, limits: &'a Limits) -> BoxFuture<'a, Result<(), BackendError>>;
    /// Runs one program to its end, whatever that is. All processes are gone when this returns.
    fn run<'a>(
        &'a mut self,
        command: Command,
        stdin: Stdin,
        output: &'a mut dyn Output,
        cancel: Cancel<'a>,
    ) -> BoxFuture<'a, Result<Ended, BackendError>>;
}

/// What a host can enforce beyond the walls, which are always required.
#[derive(Debug, Clone, Default)]
pub struct Capabilities {
    /// Second walls and meters that every sandbox has.
    pub available: Vec<Layer>,
    /// Those it lacks, and why.
    pub missing: Vec<(Layer, String)>,
}

/// What there is to know of an image before a sandbox is made from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFacts {
    /// Names its content, whatever its name will stand for tomorrow.
    pub digest: String,
    /// Folders in which its programs are looked for, first to last.
    pub path: Vec<String>,
}

/// A sandbox to make.
#[derive(Debug, Clone)]
pub struct SandboxSpec {
    /// Limits of everything in it.
    pub limits: Limits,
    /// Walls that the caller gives up by name.
    pub accept: Vec<Layer>,
    /// Host trees beyond the system's own that must be visible, by their own paths.
    pub extra_roots: Vec<String>,
    /// What its root is made from in place of the system's own.
    pub image: Option<Arc<HeldImage>>,
    /// The same where the backend keeps images itself: its digest there.
    pub digest: Option<String>,
    /// Its way out, if it has one.
    pub network: Option<Arc<Rules>>,
    /// The interpreter that waits in it, if one should.
    pub worker: Option<WorkerSpec>,
    /// What its Python finds beside its own packages, where the backend keeps no images of ours.
    pub packages: Option<Packages>,
    /// Whether nobody waits for it yet.
    pub ahead: bool,
    /// Whether the processors have nothing better to do than to let its worker rehearse.
    pub rehearse: bool,
}

/// Python packages for one run, as `/opt/packages/python` in a packed archive. It is never unpacked on this host.
#[derive(Clone, PartialEq, Eq)]
pub struct Packages(pub(crate) Arc<Vec<u8>>);

impl std::fmt::Debug for Packages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packages({} bytes)", self.0.len())
    }
}

/// How an interpreter comes to wait in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkerKind {
    /// Started once, as trusted code, and forked into each sandbox.
    Forked,
    /// Started in the sandbox itself.
    Started,
}

/// An interpreter that waits in a sandbox for its program.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerSpec {
    /// How it comes there.
    pub kind: WorkerKind,
    /// The interpreter.
    pub program: String,
    /// How it is started, its own name included.
    pub argv: Vec<String>,
    /// `NAME=value`.
    pub env: Vec<String>,
}

/// A program to run, or what a worker is told.
#[derive(Debug, Clone)]
pub struct Command {
    /// Paths to try, in order; none for a worker.
    pub programs: Vec<String>,
    /// Arguments, the name included.
    pub argv: Vec<String>,
    /// `NAME=value`.
    pub env: Vec<String>,
}

/// What a program reads.
#[derive(Debug)]
pub enum Stdin {
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// Whatever comes from this descriptor. It is copied through a pipe: the program never holds it.
    Descriptor(OwnedFd),
    /// These bytes as they come, then the end; the sender waits for as long as the program does not read.
    Stream(mpsc::Receiver<Vec<u8>>),
}

/// One of a program's two outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Takes a program's output as it comes.
pub trait Output: Send {
    /// Takes some bytes; `Break` when the reader behind it is gone and the run should be taken back.
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> ControlFlow<()>;
}

/// How a program ended, and at what cost.
#[derive(Debug, Clone)]
pub struct Ended {
    /// How.
    pub outcome: Outcome,
    /// At what cost.
    pub usage: Usage,
    /// Limits that it touched.
    pub hits: Vec<LimitKind>,
    /// Layers that were on.
    pub layers: Vec<Layer>,
}

impl Ended {
    /// From what process 1 or its keeper counted; an end that was none comes back.
    fn new(end: jail::End, cost: jail::Cost, layers: Vec<Layer>) -> Result<Self, jail::Trouble> {
        let outcome = match end {
            jail::End::Exited(code) => Outcome::Exited { code },
            jail::End::Signaled(signal) => Outcome::Signaled { signal },
            jail::End::Limit(limit) => Outcome::LimitExceeded { limit },
            jail::End::Cancelled => Outcome::Cancelled,
            jail::End::Failed(trouble) => return Err(trouble),
        };
        let usage =
            Usage { wall_ms: milliseconds(cost.wall), cpu_ms: milliseconds(cost.cpu), peak_memory_bytes: cost.memory };
        Ok(Self { outcome, usage, hits: cost.hits, layers })
    }
}

/// Microseconds are as fine as the clock's noise.
fn milliseconds(nanos: u64) -> f64 {
    (nanos / 1000) as f64 / 1000.0
}

fn wire(limits: &Limits) -> jail::Limits {
    let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked: 0.01 to 1024")]
    let millicpus = (limits.cpus * 1000.0) as u64;
    jail::Limits {
        memory: limits.memory,
        millicpus,
        pids: limits.pids,
        disk: limits.disk,
        inodes: limits.inodes,
        wall: nanos(limits.wall),
        cpu: limits.cpu.map(nanos),
    }
}

/// Why a step failed, in the words of whoever took it.
fn explain(trouble: jail::Trouble, program: &str) -> BackendError {
    let source = io::Error::from_raw_os_error(trouble.errno);
    match trouble.layer {
        Some(layer) => BackendError::Layer { layer, step: trouble.step, source },
        None if trouble.step == jail::NO_WORKER => BackendError::NoWorker,
        None if trouble.step == "start the program" => BackendError::Program { program: program.to_owned(), source },
        None => BackendError::Step { step: trouble.step, source },
    }
}

/// A process that writes, by its own name.
fn named(writer: &jail::Writer) -> String {
    format!("{} {} {}", writer.pid, writer.name, writer.file)
}
