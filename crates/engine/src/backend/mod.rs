//! Where code can run. A backend isolates and nothing else.

mod native;
mod place;
mod place_files;

use std::future::Future;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc;
use types::{BackendKind, Layer, LimitKind, Limits, Outcome, Usage};

use crate::error::BackendError;
use crate::files::Tree;
use crate::image::HeldImage;
use crate::network::Rules;
pub(crate) use native::Native;
pub use place::{
    Connection, Control, Gone, GuestUser, LayerId, Origin, Place, PlaceSpec, PlaceUsage, Process, ProcessSpec,
    Snapshotted, TerminalSize, Writers,
};
pub use place_files::{FileContentStream, FileEntry, FileError, FileKind, PlaceFiles};

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
    /// A run will come: what takes time and needs to know nothing of it may begin.
    fn expect(&self) {}
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
    /// Its way out, if it has one.
    pub network: Option<Arc<Rules>>,
    /// The interpreter that waits in it, if one should.
    pub worker: Option<WorkerSpec>,
    /// Whether nobody waits for it yet.
    pub ahead: bool,
    /// Whether the processors have nothing better to do than to let its worker rehearse.
    pub rehearse: bool,
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
