//! A sandbox of this host that stays.

mod archive;
mod disk;
mod files;
mod process;
mod users;
mod watch;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use jail::measure::Sum;
use jail::{Create, GuestIds, SandboxId, SessionNews, SessionOrder, Swapped};
use types::{Isolation, Layer, Usage};

use disk::SessionDisk;
use files::NativeFiles;

use super::link::{Ending, Finished, Link};
use super::{Asked, failure, router};
use crate::backend::board::{self, Answer, Board};
use crate::backend::{
    BoxFuture, Gone, GuestUser, Place, PlaceFiles, PlaceSpec, PlaceUsage, Process, ProcessSpec, Snapshotted, Writers,
    explain, milliseconds, named, wire,
};
use crate::error::BackendError;
use crate::network::Router;

/// A sandbox that stays until this is dropped.
pub(super) struct NativePlace {
    link: Arc<Link>,
    id: SandboxId,
    board: Arc<Board>,
    /// As its processes see it; another one after a snapshot, if it is on the disk.
    root: Mutex<Arc<OwnedFd>>,
    ids: GuestIds,
    layers: Vec<Layer>,
    ending: Ending,
    /// Another one after each snapshot.
    disk: Mutex<Arc<SessionDisk>>,
    /// Its way out, if it has one.
    _router: Option<Router>,
}

impl NativePlace {
    /// Makes the disk and the sandbox on it; returns when programs can be started.
    pub(super) async fn open(link: Arc<Link>, spec: &PlaceSpec) -> Result<Arc<Self>, BackendError> {
        let wanted = spec.clone();
        let made = tokio::task::spawn_blocking(move || SessionDisk::make(&wanted));
        let disk = Arc::new(made.await.map_err(|_| BackendError::KeeperGone)??);
        let removal = RemoveUnused(Some(Arc::clone(&disk)));
        let (board, opened) = Board::new();
        let board = Arc::new(board);
        let (router, channel) = router(spec.network.as_ref())?.unzip();
        let create = Create {
            id: 0,
            accept: spec.accept.clone(),
            limits: wire(&spec.limits),
            zygote: None,
            rehearse: false,
            network: channel.is_some(),
            disk: Some(disk.wire()),
        };
        let asked = link.create(create, channel.as_ref(), Some(Arc::clone(&board)));
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
        ordered.tree().await.map_err(|finished| refusal(finished, &spec.state))?;
        let mut ending = ordered.ending;
        let Ok(opened) = opened.await else { return Err(failure(ending.wait().await, "")) };
        std::mem::forget(asked);
        removal.keep();
        let board::Opened { root, ids, layers } = opened;
        let (root, disk) = (Mutex::new(Arc::new(root)), Mutex::new(disk));
        Ok(Arc::new(Self { link, id, board, root, ids, layers, ending, disk, _router: router }))
    }

    /// The host's user and group that a guest user is; none where there is only one.
    fn owner(&self, user: GuestUser) -> Option<(u32, u32)> {
        match self.ids {
            GuestIds::Range { first } => Some((first + user.number(), first + user.number())),
            GuestIds::One { uid, gid } => (user == GuestUser::User).then_some((uid, gid)),
        }
    }

    fn native_files(&self) -> NativeFiles {
        let root = Arc::clone(&self.root.lock().unwrap_or_else(PoisonError::into_inner));
        NativeFiles::new(root, self.ids)
    }

    fn disk(&self) -> Arc<SessionDisk> {
        Arc::clone(&self.disk.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A disk that is the whole root cannot be swapped below those who stand on it: what was written is copied while they
    /// stand still, or kept as it is when they have ended.
    async fn keep_root(&self, old: Arc<SessionDisk>, writers: Writers) -> Result<Snapshotted, BackendError> {
        let files = self.native_files();
        let busy = away(move || Ok(files.processes())).await?;
        if writers == Writers::Refuse && !busy.is_empty() {
            self.freeze().await?;
            let copied = away(move || old.copy()).await;
            self.thaw().await?;
            return copied;
        }
        self.link.cancel(self.id);
        self.ending.clone().wait().await;
        away(move || {
            let (top, kept) = old.prepare_next()?.keep(&old)?;
            top.remove();
            Ok(Snapshotted { goes_on: false, ..kept })
        })
        .await
    }

    async fn ask(&self, order: SessionOrder) -> Result<Answer, BackendError> {
        let answer = self.board.answer();
        self.link.order(self.id, order, &[])?;
        answer.await.map_err(|_| BackendError::PlaceGone)
    }
}

/// Does something that may wait for a disk where nobody else waits for it.
async fn away<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, BackendError> + Send + 'static,
) -> Result<T, BackendError> {
    tokio::task::spawn_blocking(act).await.map_err(|_| BackendError::PlaceGone)?
}

/// Why there is no sandbox; a file system that carries no disk is told by name.
fn refusal(finished: Finished, state: &std::path::Path) -> BackendError {
    match failure(finished, "") {
        BackendError::Step { step, source } if step == jail::DISK_STEP => {
            BackendError::NoDisk { state: state.to_path_buf(), source }
        }
        other => other,
    }
}

/// Removes a disk on which no sandbox came to stand.
struct RemoveUnused(Option<Arc<SessionDisk>>);

impl RemoveUnused {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for RemoveUnused {
    fn drop(&mut self) {
        if let Some(disk) = self.0.take() {
            disk.remove();
        }
    }
}

impl Drop for NativePlace {
    fn drop(&mut self) {
        self.link.cancel(self.id);
        let (mut ending, disk) = (self.ending.clone(), self.disk());
        // Not while somebody writes to it. Where no time is left for that, the next session's server does it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                ending.wait().await;
                tokio::task::spawn_blocking(move || disk.remove());
            });
        }
    }
}

impl Place for NativePlace {
    fn start(&self, spec: ProcessSpec) -> BoxFuture<'_, Result<Process, BackendError>> {
        Box::pin(self.start_process(spec))
    }

    fn files(&self) -> Arc<dyn PlaceFiles> {
        Arc::new(self.native_files())
    }

    fn count(&self) -> BoxFuture<'_, usize> {
        let files = self.native_files();
        Box::pin(async move { tokio::task::spawn_blocking(move || files.processes().len()).await.unwrap_or(0) })
    }

    fn kill_all(&self) -> Result<(), BackendError> {
        self.link.order(self.id, SessionOrder::KillAll, &[])
    }

    fn freeze(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async { self.ask(SessionOrder::Freeze).await.map(drop) })
    }

    fn thaw(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async { self.ask(SessionOrder::Thaw).await.map(drop) })
    }

    fn usage(&self) -> BoxFuture<'_, Result<PlaceUsage, BackendError>> {
        Box::pin(async {
            let (SessionNews::Measured { cost, memory }, _) = self.ask(SessionOrder::Measure).await? else {
                return Err(BackendError::KeeperGone);
            };
            let (disk_bytes, disk_inodes) = self.grown().await?;
            let usage = Usage {
                wall_ms: milliseconds(cost.wall),
                cpu_ms: milliseconds(cost.cpu),
                peak_memory_bytes: cost.memory,
            };
            Ok(PlaceUsage { usage, memory_bytes: memory, disk_bytes, disk_inodes })
        })
    }

    fn grown(&self) -> BoxFuture<'_, Result<(u64, u64), BackendError>> {
        let (disk, files) = (self.disk(), self.native_files());
        Box::pin(away(move || {
            let mut sum = Sum::default();
            disk.add_grown(&mut sum);
            files.add_unlinked(&mut sum);
            Ok((sum.bytes, sum.entries))
        }))
    }

    fn snapshot(&self, writers: Writers) -> BoxFuture<'_, Result<Snapshotted, BackendError>> {
        Box::pin(async move {
            let old = self.disk();
            if old.is_root() {
                return self.keep_root(old, writers).await;
            }
            let disk = Arc::clone(&old);
            let next = away(move || disk.prepare_next()).await?;
            let order = SessionOrder::Swap { disk: next.wire(), kill: writers == Writers::Kill };
            let (SessionNews::Swapped(swapped), root) = self.ask(order).await? else {
                return Err(BackendError::KeeperGone);
            };
            match swapped {
                Swapped::Done => {}
                Swapped::Writers(writers) => return Err(BackendError::Writers(writers.iter().map(named).collect())),
                Swapped::Failed(trouble) | Swapped::Broken(trouble) => return Err(explain(trouble, "")),
            }
            let below = Arc::clone(&old);
            match away(move || next.keep(&below)).await {
                Ok((disk, kept)) => {
                    if let Some(root) = root {
                        *self.root.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(root);
                    }
                    *self.disk.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(disk);
                    tokio::task::spawn_blocking(move || old.remove());
                    Ok(kept)
                }
                Err(error) => {
                    // It stands on what nobody keeps.
                    self.link.cancel(self.id);
                    Err(error)
                }
            }
        })
    }

    fn folders(&self) -> Option<Vec<PathBuf>> {
        Some(self.disk().folders())
    }

    fn isolation(&self) -> Isolation {
        let missing = Layer::ALL.into_iter().filter(|layer| !self.layers.contains(layer)).collect();
        Isolation { layers: self.layers.clone(), missing }
    }

    fn gone(&self) -> BoxFuture<'static, Gone> {
        let mut ending = self.ending.clone();
        Box::pin(async move {
            match ending.wait().await {
                Finished::Ended { end: jail::End::Limit(limit), .. } => Gone::Limit(limit),
                Finished::Ended { end: jail::End::Cancelled, .. } => Gone::Closed,
                other => Gone::Failed(failure(other, "").to_string()),
            }
        })
    }
}
