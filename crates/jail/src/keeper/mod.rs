//! The keeper: one thread that makes sandboxes, watches their limits and kills them.
//!
//! It ends when the engine's end of the channel closes, and takes every sandbox with it.

mod limits;
mod namespaces;
mod networks;
mod sandbox;
mod session;
mod sweeper;
pub(crate) mod watch;
mod workers;
mod zygote;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, getpid, set_child_subreaper, set_dumpable_behavior};
use rustix::time::Timespec;
use types::Layer;

use crate::cgroup::{Group, Groups, Placement};
use crate::channel::Channel;
use crate::ids::{self, Ids};
use crate::init::{self, Step};
use crate::stage::{self, Overlay};
use crate::sys;
use crate::wire::{Cost, Create, End, FromKeeper, Limits, SandboxId, Setup, ToKeeper, Trouble, ZygoteId};
use networks::Networks;
pub use sandbox::DISK_STEP;
use sandbox::Sandbox;
use sweeper::{Remains, Sweeper};
use zygote::Zygote;

/// Epoll's name for the engine's channel; sandboxes are `id * 4 + kind`, zygotes are their id with this bit.
const ENGINE: u64 = u64::MAX;
const ZYGOTE: u64 = 1 << 62;

/// The step that fails where a zygote was lost.
pub const NO_WORKER: &str = "fork a worker";

/// Which descriptor of a sandbox became readable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Its init said something.
    Init = 0,
    /// Its init is gone.
    Gone = 1,
    /// Its memory ran out.
    Memory = 2,
    /// Its worker said something.
    Worker = 3,
}

/// Lives until the engine is gone. Called once, by the helper program's `main`.
pub fn run(engine: Channel) -> Result<(), Errno> {
    // Ctrl-C on the terminal is for the engine, which then tells us.
    let _ = rustix::process::setsid();
    let Some((ToKeeper::Setup(setup), _)) = engine.recv()? else { return Ok(()) };
    match Keeper::set_up(engine, &setup) {
        Ok(mut keeper) => {
            // Whatever ends the loop, nothing stays behind.
            let served = keeper.serve();
            keeper.shut_down();
            served
        }
        Err((engine, trouble)) => engine.send(&FromKeeper::Unusable(trouble), &[]),
    }
}

struct Keeper {
    engine: Channel,
    epoll: OwnedFd,
    ids: Ids,
    /// Host trees that lie where a run's own folders are.
    overlays: Vec<Overlay>,
    groups: Groups,
    /// Where many runs follow each other.
    networks: Option<Networks>,
    sandboxes: BTreeMap<SandboxId, Sandbox>,
    /// Sandboxes to make, one at a time between other things: runs that go on do not wait for those that are to come.
    ordered: VecDeque<Create>,
    /// Where the devices of those with a way out go.
    ways_out: BTreeMap<SandboxId, OwnedFd>,
    zygotes: BTreeMap<ZygoteId, Zygote>,
    /// Whether processes without a parent become ours.
    adopts: bool,
    sweeper: Sweeper,
    buffer: Vec<u8>,
}

impl Keeper {
    fn set_up(engine: Channel, setup: &Setup) -> Result<Self, (Channel, Trouble)> {
        let ids = Ids::choose();
        let made = ids::enter_keeper_namespaces(ids)
            .map_err(namespaces::user_trouble)
            .and_then(|()| stage::build(setup))
            .and_then(|overlays| {
                // From here on nobody of the same user can look into the keeper.
                set_dumpable_behavior(DumpableBehavior::NotDumpable).step("hide the keeper's memory")?;
                if setup.zygotes {
                    // Workers that lose their zygote become ours: until they are reaped, the inits beside them cannot end.
                    set_child_subreaper(Some(getpid())).step("adopt workers")?;
                }
                Ok(overlays)
            })
            .and_then(|overlays| {
                let sweeper = if setup.zygotes || setup.sessions { Sweeper::apart()? } else { Sweeper::here() };
                Ok((overlays, epoll::create(epoll::CreateFlags::CLOEXEC).step("make an epoll descriptor")?, sweeper))
            });
        let (overlays, epoll, sweeper) = match made {
            Ok(made) => made,
            Err(trouble) => return Err((engine, trouble)),
        };
        let Placement { tree, mut missing } = Placement::find(setup.cgroup.as_deref());
        let mut available = tree.layers();
        if setup.sessions {
            missing.push((Layer::DiskQuota, "the disk of a session is watched, not bounded by the kernel".to_owned()));
        } else {
            available.push(Layer::DiskQuota);
        }
        let abi = sys::landlock_abi();
        for (layer, least) in [(Layer::LandlockFs, init::FILES_ABI), (Layer::LandlockScope, init::SCOPE_ABI)] {
            if abi >= least {
                available.push(layer);
            } else {
                missing.push((layer, format!("this kernel's Landlock has ABI {abi}, ABI {least} is needed")));
            }
        }
        let keeper = Self {
            engine,
            epoll,
            ids,
            overlays,
            groups: Groups::new(tree),
            networks: setup.zygotes.then(|| Networks::new(ids)),
            sandboxes: BTreeMap::new(),
            ordered: VecDeque::new(),
            ways_out: BTreeMap::new(),
            zygotes: BTreeMap::new(),
            adopts: setup.zygotes,
            sweeper,
            buffer: Vec::new(),
        };
        let greeting = keeper
            .listen(keeper.engine.as_fd(), ENGINE)
            .and_then(|()| keeper.engine.send(&FromKeeper::Ready { available, missing }, &[]));
        match greeting.step("greet the engine") {
            Ok(()) => Ok(keeper),
            Err(trouble) => Err((keeper.engine, trouble)),
        }
    }

    fn serve(&mut self) -> Result<(), Errno> {
        let mut events = Vec::with_capacity(64);
        loop {
            events.clear();
            let timeout = self.sleep().map(|d| Timespec {
                tv_sec: i64::try_from(d.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: d.subsec_nanos().into(),
            });
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
            let ready: Vec<u64> = events.iter().map(|event: &epoll::Event| event.data.u64()).collect();
            for data in ready {
                if data == ENGINE {
                    if !self.hear_engine()? {
                        return Ok(());
                    }
                } else if data & ZYGOTE != 0 {
                    self.hear_zygote(ZygoteId::try_from(data & !ZYGOTE).unwrap_or(0))?;
                } else {
                    self.hear_sandbox(data)?;
                }
            }
            if let Some(create) = self.ordered.pop_front() {
                self.create(&create)?;
            }
            let now = Instant::now();
            self.sandboxes.values_mut().for_each(|sandbox| sandbox.tick(now));
            self.sweeper.is_busy();
            self.reap_orphans();
        }
    }

    /// Workers whose zygote was lost are ours now, and so is whatever else is left without a parent.
    fn reap_orphans(&mut self) {
        if !self.adopts || !self.sandboxes.values().any(|sandbox| self.is_ours_to_reap(sandbox)) {
            return;
        }
        while let Some((pid, status, reaped)) = sys::reap_orphan() {
            let is_its = |sandbox: &&mut Sandbox| sandbox.worker_pid().is_some_and(|worker| worker.as_raw_pid() == pid);
            if let Some(sandbox) = self.sandboxes.values_mut().find(is_its) {
                sandbox.worker_ended(status, reaped.cpu, reaped.largest);
            }
        }
    }

    /// Whether something in a sandbox may be waiting to be reaped by us: it is ending, or its zygote is gone.
    fn is_ours_to_reap(&self, sandbox: &Sandbox) -> bool {
        sandbox.is_ending() || sandbox.zygote.is_some_and(|zygote| !self.zygotes.contains_key(&zygote))
    }

    /// Until the next limit can be reached, or a busy group tried again.
    fn sleep(&self) -> Option<Duration> {
        if !self.ordered.is_empty() {
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        let limits = self.sandboxes.values().filter_map(Sandbox::next_check);
        let retry = (self.sweeper.waits()
            || self.adopts && self.sandboxes.values().any(|sandbox| self.is_ours_to_reap(sandbox)))
        .then(|| now + Duration::from_millis(2));
        limits.chain(retry).min().map(|at| at.saturating_duration_since(now))
    }

    /// Handles what the engine said; `false` when it is gone.
    fn hear_engine(&mut self) -> Result<bool, Errno> {
        loop {
            match self.engine.try_recv(&mut self.buffer) {
                Err(Errno::AGAIN) => return Ok(true),
                Err(errno) => return Err(errno),
                Ok(None) => return Ok(false),
                Ok(Some((message, fds))) => match message {
                    ToKeeper::Setup(_) => return Err(Errno::PROTO),
                    ToKeeper::Zygote(spec) => self.start_zygote(&spec)?,
                    ToKeeper::Retire(id) => self.retire(id),
                    ToKeeper::Discard(id) => self.lose_zygote(id)?,
                    ToKeeper::Create(create) => {
                        self.ways_out.extend(fds.into_iter().next().map(|channel| (create.id, channel)));
                        self.ordered.push_back(create);
                    }
                    ToKeeper::Prestart(start) => self.prestart(start, fds),
                    ToKeeper::Lease { id, limits } => self.lease(id, limits)?,
                    ToKeeper::Start(start) => {
                        if let Some(sandbox) = self.sandboxes.get_mut(&start.id) {
                            sandbox.start(start, fds);
                        }
                    }
                    ToKeeper::Session(id, order) => {
                        if let Some(sandbox) = self.sandboxes.get_mut(&id) {
                            sandbox.order(&self.engine, order, &fds)?;
                        }
                    }
                    ToKeeper::Cancel(id) => {
                        self.take_back(id)?;
                        if let Some(sandbox) = self.sandboxes.get_mut(&id) {
                            sandbox.end_by(End::Cancelled);
                        }
                    }
                },
            }
        }
    }

    /// Forgets a sandbox that was ordered and not made yet.
    fn take_back(&mut self, id: SandboxId) -> Result<(), Errno> {
        let ordered = self.ordered.len();
        self.ordered.retain(|create| create.id != id);
        self.ways_out.remove(&id);
        if self.ordered.len() == ordered {
            return Ok(());
        }
        let (cost, layers) = (Cost::default(), Vec::new());
        self.engine.send(&FromKeeper::Ended { id, end: End::Cancelled, cost, layers }, &[])
    }

    fn create(&mut self, create: &Create) -> Result<(), Errno> {
        let id = create.id;
        match self.make(create) {
            Ok(mut sandbox) => {
                let created = FromKeeper::Created { id, owner: sandbox.owner };
                // A descriptor that cannot be sent is the trouble of this sandbox, not of all.
                if let Err(errno) = self.engine.send(&created, &[sandbox.writable.as_fd()]) {
                    sandbox.end_by(End::Failed(Trouble {
                        layer: None,
                        step: "hand over the writable tree".to_owned(),
                        errno: errno.raw_os_error(),
                    }));
                }
                self.sandboxes.insert(id, sandbox);
                Ok(())
            }
            Err(trouble) => {
                let end = End::Failed(trouble);
                self.engine.send(&FromKeeper::Ended { id, end, cost: Cost::default(), layers: Vec::new() }, &[])
            }
        }
    }

    fn make(&mut self, create: &Create) -> Result<Sandbox, Trouble> {
        let way_out = self.ways_out.remove(&create.id);
        let group = self.groups.take(create.id, &create.limits).step("make a cgroup")?;
        if let (Some(_), Some(group)) = (&create.disk, &group) {
            group.spare_the_rest().step("let memory run out for one process alone")?;
        }
        let networks = self.networks.as_mut();
        let made = Sandbox::make(create, self.ids, &self.overlays, networks, group, way_out);
        let mut sandbox = made.map_err(|failed| {
            let (trouble, group) = *failed;
            self.sweeper.take(Remains { fds: Vec::new(), group });
            trouble
        })?;
        sandbox.layers.extend(self.groups.layers());
        self.listen_to(&sandbox).step("watch the sandbox")?;
        Ok(sandbox)
    }

    fn listen_to(&self, sandbox: &Sandbox) -> Result<(), Errno> {
        let name = |source| u64::from(sandbox.id) * 4 + source as u64;
        self.listen(sandbox.init.as_fd(), name(Source::Init))?;
        self.listen(sandbox.pidfd.as_fd(), name(Source::Gone))?;
        match sandbox.group.as_ref().and_then(Group::out_of_memory_event) {
            Some(event) => self.listen(event.as_fd(), name(Source::Memory)),
            None => Ok(()),
        }
    }

    /// Closing its descriptors is not enough: a process that was forked meanwhile may have them still, and as long as it has,
    /// each wait would end at once with the news that the sandbox is gone.
    fn turn_from(&self, sandbox: &Sandbox) {
        let line = sandbox.worker.as_ref().map(|worker| worker.line.as_fd());
        for fd in [sandbox.pidfd.as_fd(), sandbox.init.as_fd()].into_iter().chain(line) {
            // Whoever has hung up is not listened to any more.
            let _ = epoll::delete(&self.epoll, fd);
        }
    }

    fn listen(&self, fd: BorrowedFd<'_>, name: u64) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(name), epoll::EventFlags::IN)
    }

    fn lease(&mut self, id: SandboxId, limits: Limits) -> Result<(), Errno> {
        let Some(sandbox) = self.sandboxes.get_mut(&id) else { return Ok(()) };
        match sandbox.lease(limits) {
            Ok(()) => self.engine.send(&FromKeeper::Leased { id }, &[]),
            Err(trouble) => {
                sandbox.end_by(End::Failed(trouble));
                Ok(())
            }
        }
    }

    fn hear_sandbox(&mut self, data: u64) -> Result<(), Errno> {
        let Ok(id) = SandboxId::try_from(data / 4) else { return Ok(()) };
        let Some(sandbox) = self.sandboxes.get_mut(&id) else { return Ok(()) };
        if data % 4 == Source::Init as u64 {
            if sandbox.hear_init(&self.engine, &mut self.buffer).is_err() {
                // Init's end is closed: it is going. Its pidfd tells when.
                let _ = epoll::delete(&self.epoll, sandbox.init.as_fd());
            }
            if sandbox.wants_worker() {
                self.order_worker(id);
            }
        } else if data % 4 == Source::Worker as u64 {
            let heard = sandbox.hear_worker();
            if heard.is_ok() && sandbox.is_prepared() {
                self.engine.send(&FromKeeper::Prepared { id }, &[])?;
            }
            if heard.is_err()
                && let Some(worker) = &sandbox.worker
            {
                let _ = epoll::delete(&self.epoll, worker.line.as_fd());
            }
        } else if data % 4 == Source::Memory as u64 {
            sandbox.out_of_memory();
        } else {
            // The worker's own end is known by now, and was told before that of init.
            if let Some(zygote) = sandbox.zygote {
                self.hear_zygote(zygote)?;
            }
            if let Some(sandbox) = self.sandboxes.remove(&id) {
                self.bury(sandbox)?;
            }
        }
        Ok(())
    }

    /// Tells the engine how a sandbox ended; nothing of it runs any more.
    fn bury(&mut self, sandbox: Sandbox) -> Result<(), Errno> {
        let id = sandbox.id;
        self.turn_from(&sandbox);
        let (end, cost, layers, remains, network) = sandbox.finish();
        let told = self.engine.send(&FromKeeper::Ended { id, end, cost, layers }, &[]);
        if let (Some(networks), Some(network)) = (&mut self.networks, network) {
            networks.keep(network);
        }
        self.let_go_of(remains);
        match told {
            // The engine is gone: the loop notices by itself and cleans up.
            Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
            other => other,
        }
    }

    /// Keeps the group for a run to come, while there are any; the rest is taken down.
    fn let_go_of(&mut self, remains: Remains) {
        let group = remains.group.and_then(|group| {
            if let Some(event) = group.out_of_memory_event() {
                // Its next sandbox listens to it under another name.
                let _ = epoll::delete(&self.epoll, event);
            }
            self.groups.keep(group)
        });
        self.sweeper.take(Remains { group, ..remains });
        if self.sandboxes.is_empty() {
            self.empty_groups();
        }
    }

    fn empty_groups(&mut self) {
        self.networks.iter_mut().for_each(Networks::empty);
        self.groups.sweep();
        for group in self.groups.empty() {
            self.sweeper.take(Remains { fds: Vec::new(), group: Some(group) });
        }
    }

    fn shut_down(&mut self) {
        self.sandboxes.values_mut().for_each(|sandbox| sandbox.end_by(End::Cancelled));
        for zygote in std::mem::take(&mut self.zygotes).into_values() {
            zygote.end();
        }
        // Every worker is ours now. Bounded: what is still there then is killed all the same, and reaped by whoever
        // inherits it.
        for _ in 0..500 {
            self.reap_orphans();
            if self.sandboxes.values().all(Sandbox::is_gone) {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        for (_, sandbox) in std::mem::take(&mut self.sandboxes) {
            if sandbox.is_gone() {
                self.sweeper.take(sandbox.finish().3);
            }
        }
        self.empty_groups();
        self.sweeper.finish();
    }
}
