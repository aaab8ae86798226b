//! A session in a container: many programs at once, their streams side by side over the one that process 1 has.
//!
//! Programs are started, signalled and killed as in a sandbox of a keeper; what a keeper would do outside, the clock and
//! the causes of ends, is done here. Nobody can hold up anybody else: input and output of each program have bounds of
//! their own, within which the engine always reads and process 1 always takes.

mod level;
mod streams;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use types::LimitKind;

use super::run::rlimits;
use super::{Engine, FrameKind, Order, Report, Role, address};
use crate::cgroup::Inside;
use crate::channel::Channel;
use crate::init::{Parent, everybody, kill_below, signal_group};
use crate::program::Program;
use crate::swap::writers_among;
use crate::sys::{self, Children};
use crate::wire::{
    Cost, End, FromInit, FromSession, Limits, ProcessId, ProcessOrder, Rlimits, SessionNews, SessionOrder, Swapped,
    Trouble,
};
use level::Level;
use streams::{Source, Streams};

/// How often the time on processors is looked at, where that is limited.
const LOOK: Duration = Duration::from_millis(50);
/// How long the kernel may take to end what was killed.
const PATIENCE: Duration = Duration::from_secs(5);
/// Rounds of ending those who write.
const ROUNDS: usize = 50;

/// What process 1 of a session knows.
struct Session<'a> {
    limits: &'a Limits,
    rlimits: Rlimits,
    meters: Inside,
    opened: Instant,
    /// Where parents of programs tell of them: our end, and theirs.
    news: Channel,
    tell: Channel,
    /// Parents of programs that have not ended.
    parents: BTreeMap<i32, ProcessId>,
    programs: BTreeMap<ProcessId, Program>,
    /// Streams outlive their programs, in whoever inherited them.
    streams: BTreeMap<ProcessId, Streams>,
    level: Level,
}

/// Serves until the engine is gone.
pub(super) fn serve(engine: &mut Engine, limits: &Limits) -> Result<Infallible, Errno> {
    let children = Children::watch();
    let meters = Inside::open();
    let (news, tell) = Channel::pair()?;
    let rlimits = rlimits(limits, Role::Init, meters.counts_memory());
    let mut session = Session {
        limits,
        rlimits,
        meters,
        opened: Instant::now(),
        news,
        tell,
        parents: BTreeMap::new(),
        programs: BTreeMap::new(),
        streams: BTreeMap::new(),
        level: Level::of(limits),
    };
    loop {
        session.reap()?;
        session.hear()?;
        session.look()?;
        // What came together with the last order that was read.
        while let Some((kind, payload)) = engine.taken()? {
            session.take(kind, &payload)?;
        }
        session.turn(engine, &children)?;
    }
}

impl Session<'_> {
    /// Waits for something to happen; does what is to be done about streams.
    fn turn(&mut self, engine: &mut Engine, children: &Children) -> Result<(), Errno> {
        let watched: Vec<(ProcessId, Source, BorrowedFd<'_>, i16)> =
            self.streams.iter().flat_map(|(process, streams)| streams.watched(*process)).collect();
        let fixed = [(Engine::input(), libc::POLLIN), (self.news.as_fd(), libc::POLLIN)];
        let way = engine.way().map(|fd| (fd, libc::POLLIN));
        let before = fixed.len() + usize::from(way.is_some());
        let fds: Vec<_> =
            fixed.into_iter().chain(way).chain(watched.iter().map(|(_, _, fd, events)| (*fd, *events))).collect();
        let ready = children.poll(&fds, self.patience())?;
        let streams = watched.iter().zip(&ready[before..]).filter(|(_, ready)| **ready);
        let streams: Vec<(ProcessId, Source)> = streams.map(|((process, source, ..), _)| (*process, *source)).collect();
        if ready[0] {
            engine.fill()?;
        }
        if ready[fixed.len()..before].contains(&true) {
            engine.pass_packets()?;
        }
        for (process, source) in streams {
            if let Some(streams) = self.streams.get_mut(&process) {
                streams.serve(process, source)?;
            }
        }
        self.streams.retain(|_, streams| !streams.are_over());
        Ok(())
    }

    /// How long nothing needs to be looked at.
    fn patience(&self) -> Option<Duration> {
        let now = Instant::now();
        let wall =
            self.programs.values().filter_map(Program::deadline).min().map(|at| at.saturating_duration_since(now));
        let cpu = self.limits.cpu.map(|_| LOOK);
        wall.into_iter().chain(cpu).chain(self.level.patience(now)).min()
    }

    /// Ends programs that have had their time, and everything when that of the whole is over.
    fn look(&mut self) -> Result<(), Errno> {
        let now = Instant::now();
        let late: Vec<ProcessId> = self
            .programs
            .iter()
            .filter(|(_, program)| program.deadline().is_some_and(|at| at <= now))
            .map(|(process, _)| *process)
            .collect();
        for process in late {
            self.kill(process, End::Limit(LimitKind::Wall));
        }
        if self.limits.cpu.is_some_and(|most| self.meters.cpu() >= Some(most)) {
            return self.end_by(LimitKind::Cpu);
        }
        self.level.look(!self.programs.is_empty())
    }

    /// Ends every program by a limit of the whole, and then the session: whoever waits for a program hears of that first.
    fn end_by(&mut self, limit: LimitKind) -> Result<(), Errno> {
        let patience = Instant::now() + PATIENCE;
        while !self.programs.is_empty() && Instant::now() < patience {
            // Again and again: one that was being started has nobody below its parent yet.
            for process in self.programs.keys().copied().collect::<Vec<_>>() {
                self.kill(process, End::Limit(limit));
            }
            std::thread::sleep(Duration::from_millis(1));
            self.reap()?;
            self.hear()?;
        }
        Engine::report(&Report::Spent(limit))?;
        Err(Errno::DQUOT)
    }

    fn take(&mut self, kind: FrameKind, payload: &[u8]) -> Result<(), Errno> {
        match kind {
            FrameKind::Message => {
                let order = postcard::from_bytes(payload).map_err(|_| Errno::PROTO)?;
                self.obey(order)
            }
            FrameKind::Content | FrameKind::End => {
                let (process, content) = address(payload).ok_or(Errno::PROTO)?;
                match self.streams.get_mut(&process) {
                    Some(streams) => streams.input(process, (kind == FrameKind::Content).then_some(content)),
                    // It came too late.
                    None => Ok(()),
                }
            }
            FrameKind::Out | FrameKind::Err | FrameKind::Packet => Err(Errno::PROTO),
        }
    }

    fn obey(&mut self, order: Order) -> Result<(), Errno> {
        match order {
            Order::Session(order) => self.order(order),
            Order::Passed { process, bytes } => {
                if let Some(streams) = self.streams.get_mut(&process) {
                    streams.passed(bytes as usize);
                }
                Ok(())
            }
            Order::Deaf(process) => self.streams.get_mut(&process).map_or(Ok(()), |streams| streams.deafen(process)),
            Order::Resize { process, size } => {
                if let Some(streams) = self.streams.get(&process) {
                    streams.resize(size);
                }
                Ok(())
            }
            Order::Count => {
                let others = everybody().len().saturating_sub(1);
                Engine::report(&Report::Counted(u32::try_from(others).unwrap_or(u32::MAX)))
            }
            Order::Settle { kill } => tell(SessionNews::Swapped(self.settle(kill))),
            Order::Close { .. }
            | Order::Place { .. }
            | Order::Start { .. }
            | Order::Kill
            | Order::List { .. }
            | Order::Stat { .. }
            | Order::Read { .. }
            | Order::Room
            | Order::Open { .. } => Err(Errno::PROTO),
        }
    }

    fn order(&mut self, order: SessionOrder) -> Result<(), Errno> {
        match order {
            SessionOrder::Start(order) => self.start(order),
            SessionOrder::Signal { process, signal } => {
                // Whoever is gone needs no signal.
                if let Some(pid) = self.programs.get(&process).and_then(|program| program.pid) {
                    let _ = signal_group(pid, signal);
                }
                Ok(())
            }
            SessionOrder::Kill(process) => {
                self.kill(process, End::Cancelled);
                Ok(())
            }
            SessionOrder::KillAll => {
                for program in self.programs.values_mut() {
                    program.end.get_or_insert(End::Cancelled);
                }
                sys::kill_all();
                Ok(())
            }
            SessionOrder::Measure => {
                let counts = self.meters.counts();
                let wall = u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX);
                let (cpu, memory) = (counts.cpu.unwrap_or(0), counts.peak.unwrap_or(0));
                let cost = Cost { wall, cpu, memory, hits: Vec::new() };
                tell(SessionNews::Measured { cost, memory: self.meters.memory() })
            }
            // The container's engine does these.
            SessionOrder::Freeze | SessionOrder::Thaw | SessionOrder::Swap { .. } => Err(Errno::PROTO),
        }
    }

    fn start(&mut self, order: ProcessOrder) -> Result<(), Errno> {
        self.level.stir();
        let (process, wall, has_terminal) = (order.process, order.wall, order.terminal.is_some());
        let (streams, theirs) = match Streams::new(has_terminal) {
            Ok(made) => made,
            Err(errno) => return refuse(process, "make pipes", errno),
        };
        let parent = Parent { channel: &self.tell, order, limits: self.rlimits, users: false };
        match parent.fork(theirs) {
            Ok(pid) => {
                self.parents.insert(pid, process);
                self.programs.insert(process, Program::ordered(wall, self.meters.counts().out_of_memory));
                self.streams.insert(process, streams);
                Ok(())
            }
            Err(trouble) => tell(SessionNews::Refused { process, trouble }),
        }
    }

    fn kill(&mut self, process: ProcessId, end: End) {
        let Some(program) = self.programs.get_mut(&process) else { return };
        program.end.get_or_insert(end);
        if let Some((parent, _)) = self.parents.iter().find(|(_, id)| **id == process) {
            kill_below(*parent, &BTreeSet::new());
        }
    }

    fn reap(&mut self) -> Result<(), Errno> {
        while let Some((pid, status, _)) = sys::reap_orphan() {
            // What it has said before comes first.
            self.hear()?;
            if let Some(process) = self.parents.remove(&pid)
                && status != 0
            {
                // Killed before it could tell; so its program's end is known to nobody.
                self.heard(FromSession::Ended { process, status: libc::SIGKILL, cpu: 0, largest: 0 }, Vec::new())?;
            }
        }
        Ok(())
    }

    /// Takes what parents have said of their programs.
    fn hear(&mut self) -> Result<(), Errno> {
        let mut buffer = Vec::new();
        loop {
            match self.news.try_recv(&mut buffer) {
                Err(Errno::AGAIN) => return Ok(()),
                Ok(Some((FromInit::Session(said), fds))) => self.heard(said, fds)?,
                Ok(_) => return Err(Errno::PROTO),
                Err(errno) => return Err(errno),
            }
        }
    }

    fn heard(&mut self, said: FromSession, fds: Vec<OwnedFd>) -> Result<(), Errno> {
        match said {
            FromSession::Started { process, pid } => {
                if let (Some(streams), Some(terminal)) = (self.streams.get_mut(&process), fds.into_iter().next()) {
                    streams.connect(terminal)?;
                }
                tell(SessionNews::Started { process, pid })?;
                if self.programs.get_mut(&process).is_some_and(|program| program.begin(pid)) {
                    self.kill(process, End::Cancelled);
                }
                Ok(())
            }
            FromSession::Refused { process, trouble } => {
                self.programs.remove(&process);
                self.streams.remove(&process);
                tell(SessionNews::Refused { process, trouble })
            }
            FromSession::Ended { process, status, cpu, largest } => {
                let Some(program) = self.programs.remove(&process) else { return Ok(()) };
                if program.pid.is_none()
                    && let Some(streams) = self.streams.get_mut(&process)
                {
                    // Killed before it ran: no terminal will come.
                    streams.deafen(process)?;
                }
                let (end, cost) = program.over(status, cpu, largest, self.meters.counts().out_of_memory);
                tell(SessionNews::Ended { process, end, cost })
            }
        }
    }

    /// Finds or ends those who have a file of the disk open for writing.
    fn settle(&self, kill: bool) -> Swapped {
        for _ in 0..ROUNDS {
            let others = everybody().into_keys().filter(|pid| *pid != 1 && !self.parents.contains_key(pid)).collect();
            let writers = match writers_among(others) {
                Ok(writers) if writers.is_empty() => return Swapped::Done,
                Ok(writers) if !kill => return Swapped::Writers(writers),
                Ok(writers) => writers,
                Err(errno) => return Swapped::Failed(trouble("open the disk's folders", errno)),
            };
            for pid in writers.iter().filter_map(|writer| Pid::from_raw(writer.pid)) {
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Swapped::Writers(Vec::new())
    }
}

fn tell(news: SessionNews) -> Result<(), Errno> {
    Engine::report(&Report::Session(news))
}

fn trouble(step: &str, errno: Errno) -> Trouble {
    Trouble { layer: None, step: step.to_owned(), errno: errno.raw_os_error() }
}

fn refuse(process: ProcessId, step: &str, errno: Errno) -> Result<(), Errno> {
    tell(SessionNews::Refused { process, trouble: trouble(step, errno) })
}
