//! One keeper and the runs that wait for its word.

use std::collections::HashMap;
use std::future::Future;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jail::{
    Cost, Create, End, FromKeeper, KeeperHandle, Limits, SandboxId, SessionOrder, Setup, SpawnError, Start, ToKeeper,
    Trouble, ZygoteId,
};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::sync::{oneshot, watch};
use types::Layer;

use super::failure;
use super::zygotes::Zygotes;
use crate::backend::board::Board;
use crate::backend::{Capabilities, WorkerSpec};
use crate::error::BackendError;

/// The keeper program, built by this crate's build script.
pub(in crate::backend) static KEEPER: &[u8] = include_bytes!(env!("SAGGAR_KEEPER"));

/// How a sandbox ended, or why nobody knows.
#[derive(Debug, Clone)]
pub(super) enum Finished {
    Ended {
        end: End,
        cost: Cost,
        layers: Vec<Layer>,
    },
    /// The keeper cannot work on this host.
    Unusable(Trouble),
    /// The keeper is gone, and with it every sandbox.
    Gone,
}

/// A new sandbox's writable tree and its owner.
type Created = Result<(OwnedFd, (u32, u32)), Finished>;

/// What the keeper said of the host.
#[derive(Debug, Clone)]
enum Greeting {
    Pending,
    Ready(Capabilities),
    Failed(Finished),
}

/// One keeper and the runs that wait for its word.
pub(super) struct Link {
    keeper: Arc<AsyncFd<KeeperHandle>>,
    shared: Arc<Mutex<Shared>>,
    zygotes: Mutex<Zygotes>,
    greeting: watch::Receiver<Greeting>,
    listener: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    next: SandboxId,
    waiting: HashMap<SandboxId, Waiting>,
    gone: Option<Finished>,
    /// Zygotes that the keeper has lost.
    lost: Vec<ZygoteId>,
}

/// What a sandbox's owner waits for.
struct Waiting {
    created: Option<oneshot::Sender<Created>>,
    /// That its worker is there, then that its limits are changed.
    answered: Option<oneshot::Sender<()>>,
    finished: watch::Sender<Option<Finished>>,
    /// Who hears of a sandbox that stays.
    board: Option<Arc<Board>>,
}

/// A sandbox that was asked for.
pub(super) struct Ordered {
    pub(super) id: SandboxId,
    tree: oneshot::Receiver<Created>,
    prepared: oneshot::Receiver<()>,
    pub(super) ending: Ending,
}

impl Ordered {
    /// Its writable tree.
    pub(super) async fn tree(&mut self) -> Created {
        (&mut self.tree).await.unwrap_or(Err(Finished::Gone))
    }

    /// Comes true when its worker is there; `None` if it has ended before.
    pub(super) async fn prepared(&mut self) -> Option<()> {
        (&mut self.prepared).await.ok()
    }
}

/// Starts a keeper, which then waits to be told what its sandboxes look like.
pub(super) fn start_keeper() -> Result<KeeperHandle, SpawnError> {
    KeeperHandle::spawn(KEEPER)
}

impl Link {
    /// Tells a keeper what its sandboxes look like, and listens to it from now on.
    pub(super) fn open(keeper: KeeperHandle, setup: Setup) -> Result<Arc<Self>, BackendError> {
        keeper.send(&ToKeeper::Setup(setup), &[]).map_err(|_| BackendError::KeeperGone)?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe for types that may change their descriptor; this one cannot"
        )]
        let keeper = Arc::new(AsyncFd::new(keeper).map_err(BackendError::Host)?);
        let shared = Arc::new(Mutex::new(Shared::default()));
        let (greet, greeting) = watch::channel(Greeting::Pending);
        let listener = tokio::spawn(listen(Arc::clone(&keeper), Arc::clone(&shared), greet));
        Ok(Arc::new(Self { keeper, shared, zygotes: Mutex::default(), greeting, listener }))
    }

    /// Whether its keeper is there. One that was killed just now has not been heard of, but has hung up.
    pub(super) fn is_alive(&self) -> bool {
        lock(&self.shared).gone.is_none() && !self.keeper.get_ref().has_hung_up()
    }

    pub(super) async fn capabilities(&self) -> Result<Capabilities, BackendError> {
        let mut greeting = self.greeting.clone();
        let known =
            greeting.wait_for(|g| !matches!(g, Greeting::Pending)).await.map_err(|_| BackendError::KeeperGone)?;
        match &*known {
            Greeting::Ready(capabilities) => Ok(capabilities.clone()),
            Greeting::Failed(finished) => Err(failure(finished.clone(), "")),
            Greeting::Pending => Err(BackendError::KeeperGone),
        }
    }

    /// Asks for a sandbox.
    pub(super) fn create(
        &self,
        mut create: Create,
        way_out: Option<&jail::Channel>,
        board: Option<Arc<Board>>,
    ) -> Result<Ordered, BackendError> {
        let (created, tree) = oneshot::channel();
        // Whoever asked later for the word about its worker might have missed it.
        let (answered, prepared) = oneshot::channel();
        let (finished, ending) = watch::channel(None);
        let id = {
            let mut shared = lock(&self.shared);
            if let Some(finished) = &shared.gone {
                return Err(failure(finished.clone(), ""));
            }
            shared.next += 1;
            let id = shared.next;
            shared.waiting.insert(id, Waiting { created: Some(created), answered: Some(answered), finished, board });
            id
        };
        create.id = id;
        let beside: Vec<_> = way_out.iter().map(|channel| channel.as_fd()).collect();
        self.send(&ToKeeper::Create(create), &beside)?;
        Ok(Ordered { id, tree, prepared, ending: Ending(ending) })
    }

    /// Comes true with the keeper's next word about a living sandbox; `None` if that is its end.
    pub(super) fn answer(&self, id: SandboxId) -> impl Future<Output = Option<()>> + use<> {
        let (answered, promise) = oneshot::channel();
        if let Some(waiting) = lock(&self.shared).waiting.get_mut(&id) {
            waiting.answered = Some(answered);
        }
        async { promise.await.ok() }
    }

    pub(super) fn lease(&self, id: SandboxId, limits: Limits) -> Result<(), BackendError> {
        self.send(&ToKeeper::Lease { id, limits }, &[])
    }

    /// The zygote for `spec`, started if there is none that is young and alive.
    pub(super) fn zygote(&self, spec: &WorkerSpec, ahead: bool) -> Result<ZygoteId, BackendError> {
        let lost = std::mem::take(&mut lock(&self.shared).lost);
        let plan = self.zygotes.lock().unwrap_or_else(PoisonError::into_inner).take(spec, &lost, ahead)?;
        for old in plan.retire {
            self.send(&ToKeeper::Retire(old), &[])?;
        }
        if plan.start {
            let WorkerSpec { program, argv, env, .. } = spec.clone();
            self.send(&ToKeeper::Zygote(jail::Zygote { id: plan.id, program, argv, env }), &[])?;
        }
        Ok(plan.id)
    }

    /// A zygote made a worker.
    pub(super) fn proved(&self, id: Option<ZygoteId>) {
        if let Some(id) = id {
            self.zygotes.lock().unwrap_or_else(PoisonError::into_inner).proved(id);
        }
    }

    /// Gives up on a zygote that does not start; those who wait for it hear of it.
    pub(super) fn discard(&self, id: ZygoteId) {
        drop(self.send(&ToKeeper::Discard(id), &[]));
    }

    /// Lets go of zygotes that nobody has asked for in a while.
    pub(super) fn drain(&self) {
        let idle = self.zygotes.lock().unwrap_or_else(PoisonError::into_inner).idle();
        for id in idle {
            drop(self.send(&ToKeeper::Retire(id), &[]));
        }
    }

    pub(super) fn prestart(&self, start: Start, streams: &[BorrowedFd<'_>]) -> Result<(), BackendError> {
        self.send(&ToKeeper::Prestart(start), streams)
    }

    pub(super) fn start(&self, start: Start, streams: &[BorrowedFd<'_>]) -> Result<(), BackendError> {
        self.send(&ToKeeper::Start(start), streams)
    }

    /// Tells a sandbox that stays what to do.
    pub(super) fn order(&self, id: SandboxId, order: SessionOrder, fds: &[BorrowedFd<'_>]) -> Result<(), BackendError> {
        self.send(&ToKeeper::Session(id, order), fds)
    }

    /// Takes a run back; does nothing if it is over.
    pub(super) fn cancel(&self, id: SandboxId) {
        // A keeper that cannot be told is gone, and its sandboxes with it.
        drop(self.send(&ToKeeper::Cancel(id), &[]));
    }

    fn send(&self, message: &ToKeeper, fds: &[BorrowedFd<'_>]) -> Result<(), BackendError> {
        self.keeper.get_ref().send(message, fds).map_err(|errno| match errno {
            Errno::MSGSIZE => BackendError::TooLarge,
            _ => BackendError::KeeperGone,
        })
    }
}

/// A sandbox's end, which may come before anybody waits for it.
#[derive(Clone)]
pub(super) struct Ending(watch::Receiver<Option<Finished>>);

impl Ending {
    pub(super) fn is_over(&self) -> bool {
        self.0.borrow().is_some()
    }

    pub(super) async fn wait(&mut self) -> Finished {
        let end = self.0.wait_for(Option::is_some).await;
        end.ok().and_then(|end| end.clone()).unwrap_or(Finished::Gone)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

/// Passes the keeper's words on until it is gone.
async fn listen(keeper: Arc<AsyncFd<KeeperHandle>>, shared: Arc<Mutex<Shared>>, greet: watch::Sender<Greeting>) {
    let gone = loop {
        let Ok(mut ready) = keeper.readable().await else { break Finished::Gone };
        match ready.try_io(|keeper| keeper.get_ref().try_recv().map_err(std::io::Error::from)) {
            Err(_) => {}
            Ok(Ok(Some((FromKeeper::Unusable(trouble), _)))) => break Finished::Unusable(trouble),
            Ok(Ok(Some((message, fd)))) => pass_on(&shared, &greet, message, fd),
            Ok(Ok(None) | Err(_)) => break Finished::Gone,
        }
    };
    greet.send_if_modified(|greeting| {
        let pending = matches!(greeting, Greeting::Pending);
        if pending {
            *greeting = Greeting::Failed(gone.clone());
        }
        pending
    });
    let mut shared = lock(&shared);
    for (_, waiting) in shared.waiting.drain() {
        if let Some(created) = waiting.created {
            drop(created.send(Err(gone.clone())));
        }
        waiting.board.iter().for_each(|board| board.close());
        waiting.finished.send_replace(Some(gone.clone()));
    }
    shared.gone = Some(gone);
}

fn pass_on(shared: &Mutex<Shared>, greet: &watch::Sender<Greeting>, message: FromKeeper, fd: Option<OwnedFd>) {
    match message {
        FromKeeper::Ready { available, missing } => {
            greet.send_replace(Greeting::Ready(Capabilities { available, missing }));
        }
        FromKeeper::Created { id, owner } => {
            if let (Some(waiting), Some(fd)) = (lock(shared).waiting.get_mut(&id), fd)
                && let Some(created) = waiting.created.take()
            {
                drop(created.send(Ok((fd, owner))));
            }
        }
        FromKeeper::Prepared { id } | FromKeeper::Leased { id } => {
            let answered = lock(shared).waiting.get_mut(&id).and_then(|waiting| waiting.answered.take());
            answered.map(|answered| answered.send(()));
        }
        FromKeeper::ZygoteGone { id } => lock(shared).lost.push(id),
        FromKeeper::Ended { id, end, cost, layers } => {
            let Some(waiting) = lock(shared).waiting.remove(&id) else { return };
            let finished = Finished::Ended { end, cost, layers };
            if let Some(created) = waiting.created {
                drop(created.send(Err(finished.clone())));
            }
            waiting.board.iter().for_each(|board| board.close());
            waiting.finished.send_replace(Some(finished));
        }
        FromKeeper::Session(id, news) => {
            let board = lock(shared).waiting.get(&id).and_then(|waiting| waiting.board.clone());
            if let Some(board) = board {
                board.hear(news, fd);
            }
        }
        FromKeeper::Unusable(_) => {}
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
