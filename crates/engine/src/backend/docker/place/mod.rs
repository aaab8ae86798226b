//! A container that stays: a session's sandbox at the daemon. Its disk is the container's own layer, which the daemon can
//! keep as an image.

mod files;
mod lane;
mod process;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bollard::models::ContainerConfig;
use bollard::query_parameters::{CommitContainerOptions, InspectContainerOptions};
use jail::contained::{Order, Report};
use jail::measure::Fallen;
use jail::{SessionNews, SessionOrder, Swapped};
use types::{Isolation, Layer, Usage};

use self::files::ContainerFiles;
use self::lane::Lane;
use super::archive::archive_of;
use super::close::no_way_out;
use super::daemon::{Known, LABEL};
use super::error::DockerError;
use super::held::Held;
use super::{Docker, layers, sockets, volume};
use crate::backend::contained::{Link, check_walls};
use crate::backend::{
    BoxFuture, DiskArchive, Gone, LayerId, Origin, Place, PlaceFiles, PlaceSpec, PlaceUsage, Process, ProcessSpec,
    Snapshotted, Writers, explain, milliseconds, named, wire,
};
use crate::error::BackendError;

/// How long process 1 may take to close everything, or to answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// Under which name the daemon keeps snapshots. Images without a name are removed by whoever tidies up there.
const REPOSITORY: &str = "saggar-snapshot";

/// A container that stays until this is dropped.
pub(super) struct DockerPlace {
    /// Its end removes the container.
    held: Arc<Held>,
    lane: Arc<Lane>,
    layers: Vec<Layer>,
    /// Whose snapshots are made of it.
    owner: String,
    frozen: AtomicBool,
    state: Mutex<Counted>,
}

/// What was counted last.
#[derive(Default)]
struct Counted {
    /// What the disk held when it was last the same as what it stands on.
    base: Found,
    usage: PlaceUsage,
    processes: usize,
}

/// What is on a disk.
#[derive(Default, Clone, Copy)]
struct Found {
    /// Bytes that the container has written, by the daemon's word: also in folders that are closed to us.
    written: u64,
    /// Bytes that are seen inside: also those of files that have no name any more.
    bytes: u64,
    entries: u64,
}

impl Found {
    /// Bytes and entries that it has grown by.
    fn since(self, base: Self) -> (u64, u64) {
        let bytes = self.written.saturating_sub(base.written).max(self.bytes.saturating_sub(base.bytes));
        (bytes, self.entries.saturating_sub(base.entries))
    }
}

impl Docker {
    pub(super) async fn stay(&self, spec: &PlaceSpec) -> Result<Arc<DockerPlace>, BackendError> {
        let image = match &spec.origin {
            Origin::Nothing => spec.digest.clone().ok_or_else(|| DockerError::NoImage(String::new()))?,
            Origin::Snapshot(layer) => {
                let (_, digest) = kept(layer).ok_or_else(|| BackendError::NoLayer(layer.0.clone()))?;
                digest.to_owned()
            }
        };
        let stock = self.stock(&image).await?;
        let folders = (spec.origin == Origin::Nothing).then(volume::folders);
        let plan = stock.plan(&spec.limits, Some(&spec.id), spec.network.as_ref());
        let (link, held) = self.start_whole(&stock.known, &plan, folders).await?;
        DockerPlace::open(link, held, &stock.known, spec).await
    }
}

impl DockerPlace {
    async fn open(mut link: Link, held: Arc<Held>, known: &Known, spec: &PlaceSpec) -> Result<Arc<Self>, BackendError> {
        if known.is_first_version() {
            let pid = held.inspect().await?.state.and_then(|state| state.pid).unwrap_or_default();
            sockets::limit(pid, &held.id, spec.limits.memory);
        }
        let way_out = spec.network.is_some();
        link.order(&Order::Open { limits: wire(&spec.limits), shown: spec.shown.clone(), way_out }).await?;
        let greeting = tokio::time::timeout(PATIENCE, link.report()).await;
        if let Ok(Ok(Report::Failed { errno })) = greeting {
            if way_out && spec.shown.is_empty() {
                return Err(no_way_out(errno));
            }
            let source = std::io::Error::from_raw_os_error(errno);
            let step = "showing a folder of the session in another's place".to_owned();
            return Err(BackendError::Layer { layer: Layer::UserNs, step, source });
        }
        let Ok(Ok(Report::Ready { layers: seen })) = greeting else {
            let said = held.inspect().await.ok().and_then(|found| found.state?.error).filter(|said| !said.is_empty());
            return Err(DockerError::Gone { said }.into());
        };
        let layers = layers::all(known, seen);
        check_walls(&layers, &[Layer::UserNs], &spec.accept, "closing the container")?;
        let lane = Lane::open(link, &held);
        let (owner, frozen, state) = (owner(&spec.state), AtomicBool::new(false), Mutex::default());
        let place = Arc::new(Self { held, lane, layers, owner, frozen, state });
        // What it begins with is not its own.
        let base = place.disk().await?;
        place.lock().base = base;
        Ok(place)
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Acquire)
    }

    async fn ask(&self, order: &Order) -> Result<SessionNews, BackendError> {
        let answer = self.lane.ask(order)?;
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        answer.map_err(|_| BackendError::PlaceGone)?.map(|(news, _)| news).map_err(|_| BackendError::PlaceGone)
    }

    /// What is on its disk now.
    async fn disk(&self) -> Result<Found, BackendError> {
        let options = InspectContainerOptions { size: true };
        let (client, id) = (self.held.client(), self.held.id.clone());
        let asked = async move {
            client.inspect_container(&id, Some(options)).await.map_err(DockerError::refused("tell of a container"))
        };
        let files = self.container_files();
        let (seen, told) = tokio::join!(files.measure(), self.held.daemon.on_thread(asked));
        let (bytes, entries) = seen.map_err(|_| BackendError::PlaceGone)?;
        let written = told?.size_rw.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
        Ok(Found { written, bytes, entries })
    }

    fn container_files(&self) -> ContainerFiles {
        ContainerFiles { lane: Arc::clone(&self.lane) }
    }

    async fn freeze_or_thaw(&self, freeze: bool) -> Result<(), BackendError> {
        let (client, id) = (self.held.client(), self.held.id.clone());
        let asked = async move {
            if freeze {
                client.pause_container(&id).await.map_err(DockerError::refused("pause a container"))
            } else {
                client.unpause_container(&id).await.map_err(DockerError::refused("resume a container"))
            }
        };
        self.held.daemon.on_thread(asked).await?;
        self.frozen.store(freeze, Ordering::Release);
        self.lane.freeze(freeze);
        Ok(())
    }

    /// Has the daemon keep the container's layer as an image.
    async fn commit(&self) -> Result<LayerId, DockerError> {
        let name = crate::id::random_hex();
        let options = CommitContainerOptions {
            container: Some(self.held.id.clone()),
            repo: Some(REPOSITORY.to_owned()),
            tag: Some(name.clone()),
            ..CommitContainerOptions::default()
        };
        let config = ContainerConfig { labels: Some(snapshot_labels(&self.owner)), ..ContainerConfig::default() };
        let (client, under_way) = (self.held.client(), self.held.daemon.under_way());
        let asked = async move {
            let _under_way = under_way;
            client.commit_container(options, config).await.map_err(DockerError::refused("keep a container's files"))
        };
        let made = self.held.daemon.on_thread(asked).await?;
        Ok(LayerId(format!("{REPOSITORY}:{name}@{}", made.id)))
    }
}

/// The name and the digest of an image that the daemon keeps for a snapshot.
pub(super) fn kept(layer: &LayerId) -> Option<(&str, &str)> {
    let (name, digest) = layer.0.split_once('@')?;
    (name.starts_with(REPOSITORY) && digest.starts_with("sha256:")).then_some((name, digest))
}

/// Labels of an image that is a snapshot of somebody's.
fn snapshot_labels(owner: &str) -> std::collections::HashMap<String, String> {
    std::collections::HashMap::from([(snapshot_label(), owner.to_owned())])
}

/// The label that says so.
pub(super) fn snapshot_label() -> String {
    format!("{LABEL}.snapshot")
}

/// Names a state folder to a daemon that may serve several.
pub(super) fn owner(state: &Path) -> String {
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let state = state.canonicalize().unwrap_or_else(|_| state.to_path_buf());
    let mut hash = blake3::Hasher::new();
    hash.update(machine.trim().as_bytes()).update(&[0]).update(state.as_os_str().as_encoded_bytes());
    hash.finalize().to_hex()[..32].to_owned()
}

impl Drop for DockerPlace {
    fn drop(&mut self) {
        self.lane.close();
    }
}

impl Place for DockerPlace {
    fn start(&self, spec: ProcessSpec) -> BoxFuture<'_, Result<Process, BackendError>> {
        Box::pin(self.lane.start(spec, &self.layers))
    }

    fn files(&self) -> Arc<dyn PlaceFiles> {
        Arc::new(self.container_files())
    }

    fn count(&self) -> BoxFuture<'_, usize> {
        Box::pin(async {
            if self.is_frozen() {
                return self.lock().processes;
            }
            let counted = self.lane.count().await.unwrap_or(0);
            self.lock().processes = counted;
            counted
        })
    }

    fn kill_all(&self) -> Result<(), BackendError> {
        self.lane.order(&Order::Session(SessionOrder::KillAll))
    }

    fn freeze(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(self.freeze_or_thaw(true))
    }

    fn thaw(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async { if self.is_frozen() { self.freeze_or_thaw(false).await } else { Ok(()) } })
    }

    fn usage(&self) -> BoxFuture<'_, Result<PlaceUsage, BackendError>> {
        Box::pin(async {
            if self.is_frozen() {
                return Ok(self.lock().usage);
            }
            let SessionNews::Measured { cost, memory } = self.ask(&Order::Session(SessionOrder::Measure)).await? else {
                return Err(BackendError::PlaceGone);
            };
            let (disk_bytes, disk_inodes) = self.grown().await?;
            let usage = Usage {
                wall_ms: milliseconds(cost.wall),
                cpu_ms: milliseconds(cost.cpu),
                peak_memory_bytes: cost.memory,
            };
            let usage = PlaceUsage { usage, memory_bytes: memory, disk_bytes, disk_inodes };
            self.lock().usage = usage;
            Ok(usage)
        })
    }

    fn grown(&self) -> BoxFuture<'_, Result<(u64, u64), BackendError>> {
        Box::pin(async {
            if self.is_frozen() {
                let usage = self.lock().usage;
                return Ok((usage.disk_bytes, usage.disk_inodes));
            }
            let found = self.disk().await?;
            Ok(found.since(self.lock().base))
        })
    }

    fn fallen(&self) -> Option<Fallen> {
        Some(self.lane.fallen())
    }

    fn snapshot(&self, writers: Writers) -> BoxFuture<'_, Result<Snapshotted, BackendError>> {
        Box::pin(async move {
            let settled = self.ask(&Order::Settle { kill: writers == Writers::Kill }).await?;
            match settled {
                SessionNews::Swapped(Swapped::Done) => {}
                SessionNews::Swapped(Swapped::Writers(writers)) => {
                    return Err(BackendError::Writers(writers.iter().map(named).collect()));
                }
                SessionNews::Swapped(Swapped::Failed(trouble) | Swapped::Broken(trouble)) => {
                    return Err(explain(trouble, ""));
                }
                _ => return Err(BackendError::PlaceGone),
            }
            let before = self.disk().await?;
            let layer = self.commit().await?;
            let grown = {
                let mut state = self.lock();
                let (grown, _) = before.since(state.base);
                state.base = before;
                grown
            };
            Ok(Snapshotted { layer, layers: Vec::new(), bytes: Some(grown), goes_on: true })
        })
    }

    fn archive(&self) -> BoxFuture<'_, Result<DiskArchive, BackendError>> {
        Box::pin(async { Ok(archive_of(Arc::clone(&self.held))) })
    }

    fn isolation(&self) -> Isolation {
        let missing = Layer::ALL.into_iter().filter(|layer| !self.layers.contains(layer)).collect();
        Isolation { layers: self.layers.clone(), missing }
    }

    fn gone(&self) -> BoxFuture<'static, Gone> {
        self.lane.gone()
    }
}
