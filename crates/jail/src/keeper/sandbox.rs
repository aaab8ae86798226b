//! One sandbox from the keeper's side: born, watched, killed, counted.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};
use types::{Layer, LimitKind};

use super::namespaces;
use super::watch::Watch;
use crate::cgroup::Group;
use crate::channel::Channel;
use crate::ids::{self, GUEST, Ids};
use crate::init::{Init, Step};
use crate::stage::{self, Overlay};
use crate::sys::{self, Clone3, Side};
use crate::wire::{Cost, Create, End, FromInit, SandboxId, Start, ToInit, Trouble};

/// How often the weaker meters look, where no cgroup counts.
const WATCH: Duration = Duration::from_millis(10);

/// A live sandbox.
pub(super) struct Sandbox {
    pub(super) id: SandboxId,
    pub(super) init: Channel,
    pub(super) pidfd: OwnedFd,
    pub(super) writable: OwnedFd,
    pub(super) owner: (u32, u32),
    pub(super) group: Option<Group>,
    pid: i32,
    limits: Create,
    pub(super) layers: Vec<Layer>,
    /// Decided once: the first cause wins, whatever the exit status says later.
    end: Option<End>,
    /// Sealed, and since when the program runs.
    watch: Option<Watch>,
    waiting: Option<(Start, Vec<OwnedFd>)>,
    started: Option<Instant>,
    ended: Option<Instant>,
    cpu_before: u64,
    next_look: Instant,
}

impl Sandbox {
    /// Forks init into its namespaces and cgroup and lets it build its root. On failure the group comes back.
    pub(super) fn make(
        create: &Create,
        ids: Ids,
        overlays: &[Overlay],
        group: Option<Group>,
    ) -> Result<Self, Box<(Trouble, Option<Group>)>> {
        match Self::birth(create, ids, overlays, group.as_ref()) {
            Ok(mut sandbox) => {
                sandbox.group = group;
                Ok(sandbox)
            }
            Err(trouble) => Err(Box::new((trouble, group))),
        }
    }

    fn birth(create: &Create, ids: Ids, overlays: &[Overlay], group: Option<&Group>) -> Result<Self, Trouble> {
        let writable = stage::writable(create.disk, create.inodes, create.millicpus)
            .wall(Layer::DiskQuota, "make the writable tree")?;
        let (init, inner) = Channel::pair().step("make a channel")?;
        let doors = group.map_or(Ok(Vec::new()), Group::doors).wall(Layer::CgroupMemory, "open the cgroup")?;
        let without = Self::fork_without(create)?;
        let fork = Clone3 { namespaces: namespaces::flags(&without), cgroup: group.and_then(Group::birthplace) };
        let (pidfd, pid) = match fork.fork() {
            Ok(Side::Child) => {
                drop(init);
                Init { channel: inner, writable, doors, overlays: overlays.to_vec() }.live()
            }
            Ok(Side::Parent { pidfd, pid }) => (pidfd, pid),
            Err(errno) => {
                let layer = namespaces::refused().first().copied().unwrap_or(Layer::UserNs);
                return Err(errno).wall(layer, "make the namespaces");
            }
        };
        drop(inner);
        let mut sandbox = Self {
            id: create.id,
            init,
            pidfd,
            writable,
            owner: ids.owner(pid),
            group: None,
            pid,
            limits: create.clone(),
            layers: namespaces::complete(&without),
            end: None,
            watch: None,
            waiting: None,
            started: None,
            ended: None,
            cpu_before: 0,
            next_look: Instant::now(),
        };
        if let Err(trouble) = sandbox.admit(ids, group, &without) {
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
    fn admit(&mut self, ids: Ids, group: Option<&Group>, without: &[Layer]) -> Result<(), Trouble> {
        let map_own = match ids {
            Ids::PerRun => {
                stage::give(&self.writable, self.owner).step("give the run its folders")?;
                if !without.contains(&Layer::UserNs) {
                    ids::write_maps_of(self.pid, self.owner).wall(Layer::UserNs, "map the user of the sandbox")?;
                }
                None
            }
            Ids::Own { uid, gid } => Some((uid, gid)),
        };
        let unmetered = !group.is_some_and(Group::counts_memory);
        let go = ToInit::Go {
            map_own: map_own.filter(|_| !without.contains(&Layer::UserNs)),
            // Without a user namespace the guest is the host user that owns its files, never root.
            guest: if without.contains(&Layer::UserNs) { self.owner } else { (GUEST, GUEST) },
            without: without.to_vec(),
            accept: self.limits.accept.clone(),
            unmetered,
            // Stacks of threads are reserved, not used; the watch over the tree is the meter.
            data: unmetered.then(|| self.limits.memory.saturating_add(self.limits.pids.saturating_mul(8 << 20))),
            // Where the cgroup refuses, it is the cgroup that must be asked first: it counts its refusals.
            pids: self.limits.pids + if group.is_some_and(Group::counts_pids) { 16 } else { 0 },
            cpu: self.limits.cpu.map(|ns| ns.div_ceil(1_000_000_000) + 1),
        };
        self.init.send(&go, &[]).step("let init go on")?;
        self.layers.push(Layer::DiskQuota);
        Ok(())
    }

    /// Starts the program as soon as the sandbox is sealed.
    pub(super) fn start(&mut self, start: &Start, fds: &[OwnedFd]) {
        let copies: Result<Vec<_>, _> = fds.iter().map(OwnedFd::try_clone).collect();
        match copies {
            Ok(fds) => self.waiting = Some((start.clone(), fds)),
            Err(_) => self.end_by(End::Failed(trouble("take the standard streams", Errno::MFILE))),
        }
        self.start_if_sealed();
    }

    fn start_if_sealed(&mut self) {
        if self.watch.is_none() || self.end.is_some() {
            return;
        }
        let Some((start, fds)) = self.waiting.take() else { return };
        self.cpu_before = self.group.as_ref().and_then(|group| group.counts().cpu).unwrap_or(0);
        self.started = Some(Instant::now());
        let message = ToInit::Start { programs: start.programs, argv: start.argv, env: start.env };
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        if let Err(errno) = self.init.send(&message, &fds) {
            self.end_by(End::Failed(trouble("start the program", errno)));
        }
    }

    /// Takes what init says; `Err` when init's end is closed.
    pub(super) fn hear_init(&mut self, buffer: &mut Vec<u8>) -> Result<(), Errno> {
        loop {
            match self.init.try_recv(buffer) {
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno),
                Ok(None) => return Err(Errno::PIPE),
                Ok(Some((message, fds))) => match message {
                    FromInit::Sealed { layers } => {
                        self.layers.extend(layers);
                        self.watch = fds.into_iter().next().map(Watch::new);
                        self.start_if_sealed();
                    }
                    FromInit::Failed(trouble) => self.end_by(End::Failed(trouble)),
                    FromInit::Exited(code) => self.end_by(End::Exited(code)),
                    FromInit::Signaled(signal) => self.end_by(self.signaled(signal)),
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

    /// When the limits must be looked at next.
    pub(super) fn next_check(&self) -> Option<Instant> {
        let started = self.started.filter(|_| self.end.is_none())?;
        let wall = started + Duration::from_nanos(self.limits.wall);
        let looks = self.limits.cpu.is_some() || !self.is_metered();
        Some(if looks { wall.min(self.next_look) } else { wall })
    }

    fn is_metered(&self) -> bool {
        self.group.as_ref().is_some_and(Group::counts_memory)
    }

    /// Enforces what the kernel does not enforce by itself.
    pub(super) fn tick(&mut self, now: Instant) {
        let Some(started) = self.started.filter(|_| self.end.is_none()) else { return };
        if now >= started + Duration::from_nanos(self.limits.wall) {
            return self.end_by(End::Limit(LimitKind::Wall));
        }
        if now < self.next_look {
            return;
        }
        self.next_look = now + WATCH;
        let counted_cpu = self.group.as_ref().and_then(|group| group.counts().cpu);
        if let Some(limit) = self.limits.cpu {
            let used = match counted_cpu {
                Some(total) => total.saturating_sub(self.cpu_before),
                None => self.watch.as_mut().map_or(0, Watch::cpu),
            };
            if used >= limit {
                return self.end_by(End::Limit(LimitKind::Cpu));
            }
        }
        let over = |watch: &Watch| watch.exceeds(self.limits.memory, &self.writable);
        if !self.is_metered() && self.watch.as_ref().is_some_and(over) {
            self.end_by(End::Limit(LimitKind::Memory));
        }
    }

    /// Reaps, counts and lets go of everything but the group, which may still be busy.
    pub(super) fn finish(self) -> (End, Cost, Vec<Layer>, Option<Group>) {
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
        let cost = Cost {
            wall: nanos(wall),
            cpu: cpu.unwrap_or(reaped.as_ref().map_or(0, |reaped| nanos(reaped.cpu))),
            memory: counts.peak.unwrap_or(reaped.as_ref().map_or(0, |reaped| reaped.largest)),
            hits,
        };
        let mut layers = self.layers;
        layers.sort_unstable();
        (end, cost, layers, self.group)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn trouble(step: &str, errno: Errno) -> Trouble {
    Trouble { layer: None, step: step.to_owned(), errno: errno.raw_os_error() }
}
