//! The seam between sessions and what isolates them: a sandbox that stays, its processes and its files.
//!
//! A backend keeps a [`Place`] alive and does what it is told. Time to live, who may ask, replay of output and the audit
//! trail are the session's, once for every backend.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jail::measure::Fallen;
use jail::{CWD_STEP, ProcessId, ProcessOrder, Trouble};
use tokio::sync::{mpsc, oneshot};
use types::{GuestPath, Isolation, Layer, Limits, Usage};

use super::board::Started;
use super::place_files::PlaceFiles;
use super::{BoxFuture, Ended, Stream, explain};
use crate::error::BackendError;
use crate::image::HeldImage;
use crate::network::Rules;

/// A sandbox to open that stays until it is dropped.
#[derive(Debug, Clone)]
pub struct PlaceSpec {
    /// The session's id: names and labels are made from it, so that what a crash left behind can be found.
    pub id: String,
    /// What its disk begins with.
    pub origin: Origin,
    /// Limits of everything in it together; the wall limit is not its own but that of each process.
    pub limits: Limits,
    /// Walls that the caller gives up by name.
    pub accept: Vec<Layer>,
    /// Host trees beyond the system's own that must be visible, where there is no image.
    pub extra_roots: Vec<String>,
    /// What its root is made from in place of the system's own.
    pub image: Option<Arc<HeldImage>>,
    /// The same where the backend keeps images itself: its digest there.
    pub digest: Option<String>,
    /// Folders of its disk, and folders of the image in whose place they show as well, where the backend keeps images
    /// itself.
    pub shown: Vec<(String, String)>,
    /// Its way out, if it has one.
    pub network: Option<Arc<Rules>>,
    /// The state folder, where a backend on this host keeps disks and layers.
    pub state: PathBuf,
}

/// What the disk of a place begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The system's own programs, read-only, and empty folders of its own.
    Nothing,
    /// What [`Place::snapshot`] returned, of this place or of another.
    Snapshot(LayerId),
}

/// Names the state of a disk, in the backend that made it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LayerId(pub String);

/// The files of a disk as tar archives, one after another, by their paths inside. To be read where waiting is allowed.
pub type DiskArchive = Box<dyn Read + Send>;

/// A sandbox that stays. Dropping the last reference kills every process inside; snapshots stay.
pub trait Place: Send + Sync {
    /// Starts a program and returns as soon as it runs, or why it cannot.
    fn start(&self, spec: ProcessSpec) -> BoxFuture<'_, Result<Process, BackendError>>;
    /// Its files, by the paths that its processes see.
    fn files(&self) -> Arc<dyn PlaceFiles>;
    /// How many processes run in it, also those whom programs left running.
    fn count(&self) -> BoxFuture<'_, usize>;
    /// Kills every process, also those.
    fn kill_all(&self) -> Result<(), BackendError>;
    /// Stops every process where it is; memory stays.
    fn freeze(&self) -> BoxFuture<'_, Result<(), BackendError>>;
    /// Lets frozen processes go on.
    fn thaw(&self) -> BoxFuture<'_, Result<(), BackendError>>;
    /// What it has cost so far.
    fn usage(&self) -> BoxFuture<'_, Result<PlaceUsage, BackendError>>;
    /// Bytes and entries that its disk has grown by since its origin.
    fn grown(&self) -> BoxFuture<'_, Result<(u64, u64), BackendError>>;
    /// How far free space has fallen where its disk is, if that is not below the state folder of this host.
    fn fallen(&self) -> Option<Fallen> {
        None
    }
    /// Keeps the disk as it is now. Processes that would go on writing to what is kept are an error that names them, or are
    /// killed.
    fn snapshot(&self, writers: Writers) -> BoxFuture<'_, Result<Snapshotted, BackendError>>;
    /// Folders of this host that its disk is made of, topmost first, if it is made of such.
    fn folders(&self) -> Option<Vec<PathBuf>> {
        None
    }
    /// Its whole disk, where that is not on this host.
    fn archive(&self) -> BoxFuture<'_, Result<DiskArchive, BackendError>> {
        Box::pin(async { Err(BackendError::Lacks { what: "an archive of the disk" }) })
    }
    /// What stands between it and the host.
    fn isolation(&self) -> Isolation;
    /// Comes true when it is gone, and says why. Many may wait.
    fn gone(&self) -> BoxFuture<'static, Gone>;
}

/// Why a place is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gone {
    /// Somebody let go of it.
    Closed,
    /// It reached a limit of the whole, and was killed.
    Limit(types::LimitKind),
    /// What kept it failed.
    Failed(String),
}

/// A program to start in a place.
#[derive(Debug, Clone)]
pub struct ProcessSpec {
    /// Paths to try, in order.
    pub programs: Vec<String>,
    /// Arguments, the name included.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// Where it begins. One that is not there is [`BackendError::Cwd`].
    pub cwd: GuestPath,
    /// Who it is inside.
    pub user: GuestUser,
    /// How it is connected.
    pub connection: Connection,
    /// After so long it is killed with all that it started.
    pub wall: Option<Duration>,
}

impl ProcessSpec {
    /// In the words of a keeper or of process 1, and what is said of it where it cannot be started.
    pub(super) fn ordered(self, process: ProcessId) -> (ProcessOrder, Called) {
        let called = Called { name: self.argv.first().cloned().unwrap_or_default(), cwd: self.cwd.clone() };
        let order = ProcessOrder {
            process,
            programs: self.programs,
            argv: self.argv,
            env: self.env.into_iter().map(|(name, value)| format!("{name}={value}")).collect(),
            cwd: self.cwd.as_str().to_owned(),
            user: self.user.number(),
            terminal: match self.connection {
                Connection::Terminal(size) => Some((size.columns, size.rows)),
                Connection::Pipes | Connection::NoInput => None,
            },
            wall: self.wall.map(|wall| u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX)),
        };
        (order, called)
    }
}

/// A program that was ordered, as its caller knows it.
pub(super) struct Called {
    pub(super) name: String,
    cwd: GuestPath,
}

impl Called {
    /// Waits until it runs, or for why it does not.
    pub(super) async fn started(
        &self,
        promise: oneshot::Receiver<Result<Started, Trouble>>,
    ) -> Result<Started, BackendError> {
        match promise.await {
            Ok(Ok(started)) => Ok(started),
            Ok(Err(trouble)) if trouble.step == CWD_STEP => Err(BackendError::Cwd(self.cwd.clone())),
            Ok(Err(trouble)) => Err(explain(trouble, &self.name)),
            Err(_) => Err(BackendError::PlaceGone),
        }
    }
}

/// Who a process is inside. Neither is anybody outside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuestUser {
    /// `user`, 1000, whose home is `/home/user`.
    #[default]
    User,
    /// `root`, 0: may install and own what `user` may not change.
    Root,
}

impl GuestUser {
    /// Its number inside.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::User => 1000,
            Self::Root => 0,
        }
    }
}

/// How a process is connected to whoever asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// Three pipes.
    Pipes,
    /// Two pipes; its input is empty.
    NoInput,
    /// A terminal of this size. All output comes as [`Stream::Out`].
    Terminal(TerminalSize),
}

/// Of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TerminalSize {
    /// Characters in a line.
    pub columns: u16,
    /// Lines.
    pub rows: u16,
}

/// A program that runs. Dropping it leaves it running: only [`Control::kill`], a limit or the place's end kills it.
pub struct Process {
    /// Its number, as it is seen inside.
    pub pid: u32,
    /// What it reads; its input ends with the last sender. None without input. Sending waits while it does not read.
    pub input: Option<mpsc::Sender<Vec<u8>>>,
    /// What it writes, as it comes. It waits while nobody receives. The end comes when everybody who holds its outputs
    /// has gone, which may be later than its own end.
    pub output: mpsc::Receiver<(Stream, Vec<u8>)>,
    /// How it ended.
    pub ended: BoxFuture<'static, Result<Ended, BackendError>>,
    /// What can be done to it, also by somebody else than who reads.
    pub control: Arc<dyn Control>,
}

/// What can be done to a process that runs. On one that has ended all of it is refused or without effect.
pub trait Control: Send + Sync {
    /// Sends a signal to its process group.
    fn signal(&self, signal: i32) -> Result<(), BackendError>;
    /// Kills it with all that it started, whatever groups these made.
    fn kill(&self) -> Result<(), BackendError>;
    /// Changes the size of its terminal.
    fn resize(&self, size: TerminalSize) -> Result<(), BackendError>;
}

/// What a place has cost so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct PlaceUsage {
    /// Time since it was opened, processor time and the most memory of all its processes together.
    #[serde(flatten)]
    pub usage: Usage,
    /// Bytes of memory now, where they are counted.
    pub memory_bytes: Option<u64>,
    /// Bytes that its disk has grown by since its origin.
    pub disk_bytes: u64,
    /// Files and folders by which its disk has grown.
    pub disk_inodes: u64,
}

/// What happens to processes while a snapshot is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writers {
    /// The snapshot is refused with [`BackendError::Writers`].
    Refuse,
    /// They are killed.
    Kill,
}

/// A snapshot that is made and safe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshotted {
    /// Under which it is found again.
    pub layer: LayerId,
    /// What must be kept for it, by the names under which the backend keeps it.
    pub layers: Vec<String>,
    /// Bytes that it adds to what it stands on, where they are counted yet.
    pub bytes: Option<u64>,
    /// Whether the place goes on with its processes. One that does not is gone, and another is opened on what was kept.
    pub goes_on: bool,
}
