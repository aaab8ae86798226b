//! One sandbox from the keeper's side: born, watched, killed, counted.

mod worker;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};
use types::{Layer, LimitKind};

use super::namespaces;
use super::networks::{Network, Networks};
use super::session::Session;
use super::sweeper::Remains;
use super::watch::Watch;
use crate::cgroup::Group;
use crate::channel::Channel;
use crate::disk;
use crate::ids::{self, GUEST, Ids};
use crate::init::{Init, Step};
use crate::stage::{self, Overlay};
use crate::sys::{self, Clone3, Side};
use crate::way_out;
use crate::wire::{
    Cost, Create, End, Extent, FromInit, GuestIds, Limits, Rlimits, SandboxId, Start, ToInit, Trouble, ZygoteId,
};
use worker::{Worker, WorkerKind, order};

/// The step that fails where the host's file system cannot carry a session's disk.
pub const DISK_STEP: &str = "mount the session's disk";

/// A live sandbox.
pub(super) struct Sandbox {
    pub(super) id: SandboxId,
    pub(super) init: Channel,
    pub(super) pidfd: OwnedFd,
    pub(super) writable: OwnedFd,
    pub(super) owner: (u32, u32),
    pub(super) group: Option<Group>,
    pid: i32,
    accept: Vec<Layer>,
    pub(super) limits: Limits,
    pub(super) layers: Vec<Layer>,
    /// Decided once: the first cause wins, whatever the exit status says later.
    pub(super) end: Option<End>,
    /// The zygote whose fork is to wait here.
    pub(super) zygote: Option<ZygoteId>,
    rehearse: bool,
    /// Held until everybody has been told of the end: the last to let go waits for the kernel to take mounts down.
    mounts: Option<OwnedFd>,
    /// How a worker gets in: from init's report until the zygote has its order.
    entry: Vec<OwnedFd>,
    doors: Vec<OwnedFd>,
    /// Its network, if it is on loan.
    network: Option<Network>,
    pub(super) worker: Option<Worker>,
    /// What there is to know of one that stays.
    pub(super) session: Option<Session>,
    /// Sealed, and since when the program runs.
    pub(super) watch: Option<Watch>,
    waiting: Option<(Start, Vec<OwnedFd>)>,
    pub(super) started: Option<Instant>,
    ended: Option<Instant>,
    pub(super) cpu_before: u64,
    pub(super) next_look: Instant,
}

impl Sandbox {
    /// Forks init into its namespaces and cgroup and lets it build its root. On failure the group comes back.
    pub(super) fn make(
        create: &Create,
        ids: Ids,
        overlays: &[Overlay],
        networks: Option<&mut Networks>,
        group: Option<Group>,
        way_out: Option<OwnedFd>,
    ) -> Result<Self, Box<(Trouble, Option<Group>)>> {
        match Self::birth(create, ids, overlays, networks, group.as_ref(), way_out) {
            Ok(mut sandbox) => {
                sandbox.group = group;
                Ok(sandbox)
            }
            Err(trouble) => Err(Box::new((trouble, group))),
        }
    }

    fn birth(
        create: &Create,
        ids: Ids,
        overlays: &[Overlay],
        networks: Option<&mut Networks>,
        group: Option<&Group>,
        way_out: Option<OwnedFd>,
    ) -> Result<Self, Trouble> {
        let writable = stage::writable(&create.limits).wall(Layer::DiskQuota, "make the writable tree")?;
        let disk = create.disk.as_ref().map(disk::mount).transpose().step(DISK_STEP)?;
        let (init, inner) = Channel::pair().step("make a channel")?;
        let doors = group.map_or(Ok(Vec::new()), Group::doors).wall(Layer::CgroupMemory, "open the cgroup")?;
        let without = Self::fork_without(create)?;
        // Without a network of its own the device would be the host's.
        if create.network && (without.contains(&Layer::NetNs) || way_out.is_none()) {
            return Err(Errno::PERM).wall(Layer::NetNs, way_out::STEP);
        }
        // One that is open to others, or stays, or does without a wall, has a network of its own.
        let networks = networks.filter(|_| !create.network && create.disk.is_none() && without.is_empty());
        let mut born = Some(Init { channel: inner, writable, doors, overlays: overlays.to_vec(), way_out, disk });
        let (pidfd, pid, network) = fork_init(&without, networks, group.and_then(Group::birthplace), &mut born)?;
        let Some(Init { writable, doors, .. }) = born else { return Err(Errno::CHILD).step("fork init") };
        // A worker will need them too.
        let doors = if create.zygote.is_some() { doors } else { Vec::new() };
        let mut sandbox = Self {
            id: create.id,
            init,
            pidfd,
            writable,
            owner: ids.owner(pid),
            group: None,
            pid,
            accept: create.accept.clone(),
            limits: create.limits,
            zygote: create.zygote,
            rehearse: create.rehearse,
            mounts: None,
            entry: Vec::new(),
            doors,
            network,
            worker: None,
            session: create.disk.is_some().then(|| Session::new(ids.of_sessions())),
            layers: namespaces::complete(&without),
            end: None,
            watch: None,
            waiting: None,
            started: None,
            ended: None,
            cpu_before: 0,
            next_look: Instant::now(),
        };
        let stays = create.disk.as_ref().map(|disk| disk.extent);
        if let Err(trouble) = sandbox.admit(ids, group, &without, stays) {
            sandbox.kill();
            drop(sys::wait_for(pid));
            return Err(trouble);
        }
        Ok(sandbox)
    }

    /// Namespaces to go without: refused by the host and accepted as missing by the caller.
    fn fork_without(create: &Create) -> Result<Vec<Layer>, Trouble> {
        if !create.accept.iter().any(|layer| layer.is_wall()) {
            return Ok(Vec::new());
        }
        let refused = namespaces::refused();
        // Without its own mounts and processes there is no sandbox to speak of, accepted or not.
        let needed = |layer: &Layer| matches!(layer, Layer::MountNs | Layer::PidNs) || !create.accept.contains(layer);
        match refused.iter().copied().find(needed).as_ref() {
            Some(layer) => Err(Errno::PERM).wall(*layer, "make the namespaces"),
            None => Ok(refused),
        }
    }

    /// Gives the new process its identity and its meters, then lets it go on.
    fn admit(
        &mut self,
        ids: Ids,
        group: Option<&Group>,
        without: &[Layer],
        stays: Option<Extent>,
    ) -> Result<(), Trouble> {
        let range = self.session.as_ref().map(|session| session.ids);
        let map_own = match (ids, range) {
            (Ids::PerRun, Some(GuestIds::Range { first })) => {
                stage::give(&self.writable, (first + GUEST, first + GUEST)).step("give the session its folders")?;
                ids::write_range_of(self.pid, first).wall(Layer::UserNs, "map the users of the sandbox")?;
                None
            }
            (Ids::PerRun, _) => {
                stage::give(&self.writable, self.owner).step("give the run its folders")?;
                // On the way into a network on loan that was done already.
                if !without.contains(&Layer::UserNs) && self.network.is_none() {
                    ids::write_maps_of(self.pid, self.owner).wall(Layer::UserNs, "map the user of the sandbox")?;
                }
                None
            }
            (Ids::Own { uid, gid }, _) => Some((uid, gid)),
        };
        let users = matches!(range, Some(GuestIds::Range { .. }));
        let go = ToInit::Go {
            map_own: map_own.filter(|_| !without.contains(&Layer::UserNs)),
            // Without a user namespace the guest is the host user that owns its files, never root.
            guest: match () {
                () if users => (0, 0),
                () if without.contains(&Layer::UserNs) => self.owner,
                () => (GUEST, GUEST),
            },
            without: without.to_vec(),
            accept: self.accept.clone(),
            unmetered: !group.is_some_and(Group::counts_memory),
            open: self.zygote.is_some(),
            stays,
            lent: self.network.is_some(),
        };
        self.init.send(&go, &[]).step("let init go on")?;
        if stays.is_none() {
            self.layers.push(Layer::DiskQuota);
        }
        Ok(())
    }

    /// Limits that each process carries itself.
    pub(super) fn rlimits(&self) -> Rlimits {
        let counts_pids = self.group.as_ref().is_some_and(Group::counts_pids);
        // Stacks of threads are reserved, not used; the watch over the tree is the meter.
        let data = self.limits.memory.saturating_add(self.limits.pids.saturating_mul(8 << 20));
        Rlimits {
            // Where the cgroup refuses, it is the cgroup that must be asked first: it counts its refusals.
            pids: self.limits.pids + if counts_pids { 16 } else { 0 },
            data: (!self.is_metered()).then_some(data),
            cpu: self.limits.cpu.map(|ns| ns.div_ceil(1_000_000_000) + 1),
        }
    }

    /// Takes other limits than those it was made with; nothing was started yet.
    pub(super) fn lease(&mut self, limits: Limits) -> Result<(), Trouble> {
        let changed = |what: fn(&Limits) -> [u64; 3]| what(&limits) != what(&self.limits);
        if changed(|l| [l.disk, l.inodes, l.millicpus]) {
            stage::resize(&self.writable, &limits).wall(Layer::DiskQuota, "resize the writable tree")?;
        }
        if changed(|l| [l.memory, l.pids, l.millicpus])
            && let Some(group) = &mut self.group
        {
            group.limit(&limits).wall(Layer::CgroupMemory, "limit the cgroup")?;
        }
        self.limits = limits;
        Ok(())
    }

    /// Starts the program as soon as the sandbox is ready.
    pub(super) fn start(&mut self, start: Start, fds: Vec<OwnedFd>) {
        self.waiting = Some((start, fds));
        self.start_if_ready();
    }

    fn is_ready(&self) -> bool {
        let has_worker = self.zygote.is_none() && self.worker.is_none() || self.is_prepared();
        self.watch.is_some() && self.end.is_none() && has_worker
    }

    fn start_if_ready(&mut self) {
        if !self.is_ready() {
            return;
        }
        let Some((start, fds)) = self.waiting.take() else { return };
        self.cpu_before = self.group.as_ref().and_then(Group::cpu).unwrap_or(0);
        self.started = Some(Instant::now());
        let limits = self.rlimits();
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let sent = match &self.worker {
            Some(Worker { line, kind: WorkerKind::Forked, .. }) => line.send_lease(limits, &fds, &order(&start)),
            Some(Worker { line, kind: WorkerKind::Started, pid, .. }) => {
                limits.apply_to(*pid).and_then(|()| line.send_order(&order(&start)))
            }
            None => {
                let message = ToInit::Start { programs: start.programs, argv: start.argv, env: start.env, limits };
                self.init.send(&message, &fds)
            }
        };
        if let Err(errno) = sent {
            self.end_by(End::Failed(trouble("start the program", errno)));
        }
    }

    /// Takes what init says; `Err` when init's end is closed.
    pub(super) fn hear_init(&mut self, engine: &Channel, buffer: &mut Vec<u8>) -> Result<(), Errno> {
        loop {
            match self.init.try_recv(buffer) {
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno),
                Ok(None) => return Err(Errno::PIPE),
                Ok(Some((message, fds))) => match message {
                    FromInit::Sealed { layers } => {
                        self.layers.extend(layers);
                        let mut fds = fds.into_iter();
                        self.watch = fds.next().map(Watch::new);
                        self.mounts = fds.next();
                        if self.session.is_some() {
                            let root = fds.next().ok_or(Errno::PROTO)?;
                            let pids = fds.next();
                            if let Some(session) = &mut self.session {
                                session.pids = pids;
                            }
                            self.announce(engine, &root)?;
                        }
                        self.entry = fds.collect();
                        self.start_if_ready();
                    }
                    FromInit::Failed(trouble) => self.end_by(End::Failed(trouble)),
                    FromInit::Exited(code) => self.end_by(self.ended(End::Exited(code))),
                    FromInit::Signaled(signal) => self.end_by(self.ended(self.signaled(signal))),
                    FromInit::Session(news) => self.hear_process(engine, news, &fds)?,
                },
            }
        }
    }

    /// A `SIGKILL` that we did not send is the kernel's if memory ran out, else somebody else's.
    fn signaled(&self, signal: i32) -> End {
        let out_of_memory = self.group.as_ref().is_some_and(|group| group.counts().out_of_memory > 0);
        if signal == libc::SIGKILL && out_of_memory { End::Limit(LimitKind::Memory) } else { End::Signaled(signal) }
    }

    /// The kernel says that this run's memory ran out.
    pub(super) fn out_of_memory(&mut self) {
        // In one that stays the kernel takes the largest process alone, and its end tells the cause.
        if let (Some(_), Some(group)) = (&self.session, &self.group) {
            group.calm();
            return;
        }
        self.end_by(End::Limit(LimitKind::Memory));
    }

    /// Records the cause, if it is the first, and kills everything.
    pub(super) fn end_by(&mut self, end: End) {
        if self.end.is_none() {
            self.ended = Some(Instant::now());
            self.end = Some(end);
            self.kill();
        }
    }

    /// Killing init kills its pid namespace.
    fn kill(&self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// Its mounts, once it is sealed.
    pub(super) fn mounts(&self) -> Option<&OwnedFd> {
        self.mounts.as_ref()
    }

    /// Whether it is being killed.
    pub(super) fn is_ending(&self) -> bool {
        self.end.is_some()
    }

    /// Whether its init, and so every process in it, is gone.
    pub(super) fn is_gone(&self) -> bool {
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
    }

    /// Reaps and counts. What comes back beside the result is slow to let go of.
    pub(super) fn finish(self) -> (End, Cost, Vec<Layer>, Remains, Option<Network>) {
        let reaped = sys::wait_for(self.pid).ok();
        let counts = self.group.as_ref().map(Group::counts).unwrap_or_default();
        let wall = self.started.map_or(Duration::ZERO, |at| self.ended.unwrap_or_else(Instant::now) - at);
        let mut hits = Vec::new();
        // Init is gone and said nothing: with v2 the kernel kills the whole group at once.
        let silent =
            if counts.out_of_memory > 0 { End::Limit(LimitKind::Memory) } else { End::Signaled(libc::SIGKILL) };
        let end = self.end.unwrap_or(silent);
        if let End::Limit(limit) = end {
            hits.push(limit);
        }
        if counts.out_of_memory > 0 && !hits.contains(&LimitKind::Memory) {
            hits.push(LimitKind::Memory);
        }
        if counts.refused_pids > 0 {
            hits.push(LimitKind::Pids);
        }
        let cpu = counts.cpu.map(|total| total.saturating_sub(self.cpu_before));
        // A worker is not init's child: what it cost was told by its zygote.
        let (worker_cpu, worker_largest) = self.worker.and_then(|worker| worker.cost).unwrap_or_default();
        let (init_cpu, init_largest) = reaped.map_or((0, 0), |reaped| (nanos(reaped.cpu), reaped.largest));
        let cost = Cost {
            wall: nanos(wall),
            cpu: cpu.unwrap_or(init_cpu + worker_cpu),
            memory: counts.peak.unwrap_or(init_largest.max(worker_largest)),
            hits,
        };
        let mut layers = self.layers;
        layers.sort_unstable();
        let remains =
            Remains { fds: [Some(self.writable), self.mounts].into_iter().flatten().collect(), group: self.group };
        (end, cost, layers, remains, self.network)
    }
}

/// Forks a sandbox's process 1, with a network on loan where there are some to lend.
fn fork_init(
    without: &[Layer],
    networks: Option<&mut Networks>,
    cgroup: Option<BorrowedFd<'_>>,
    init: &mut Option<Init>,
) -> Result<(OwnedFd, i32, Option<Network>), Trouble> {
    if let Some(networks) = networks {
        let fork = Clone3 { namespaces: namespaces::flags(&[Layer::NetNs]), cgroup };
        if let Some((pidfd, pid, network)) = networks.fork(&fork, init) {
            return Ok((pidfd, pid, Some(network)));
        }
    }
    match (Clone3 { namespaces: namespaces::flags(without), cgroup }).fork() {
        Ok(Side::Child) => match init.take() {
            Some(init) => init.live(),
            None => sys::exit_now(1),
        },
        Ok(Side::Parent { pidfd, pid }) => Ok((pidfd, pid, None)),
        Err(errno) => {
            let layer = namespaces::refused().first().copied().unwrap_or(Layer::UserNs);
            Err(errno).wall(layer, "make the namespaces")
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn trouble(step: &str, errno: Errno) -> Trouble {
    Trouble { layer: None, step: step.to_owned(), errno: errno.raw_os_error() }
}
