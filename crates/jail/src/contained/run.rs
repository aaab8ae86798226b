//! One program, from its start until the last of its processes is gone.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};
use rustix::time::Timespec;
use types::LimitKind;

use super::input::Input;
use super::meters::Meters;
use super::{Engine, FrameKind, Order, Report, Role, frame};
use crate::init;
use crate::sys;
use crate::wire::{Cost, End, Limits, Rlimits};

/// How often meters are looked at, as the keeper does.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// How long the kernel may take to end what was killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// What to start.
pub(super) struct Program {
    pub(super) programs: Vec<String>,
    pub(super) argv: Vec<String>,
    pub(super) env: Vec<String>,
    pub(super) limits: Limits,
}

/// A program that runs.
struct Running {
    role: Role,
    pid: Pid,
    handle: OwnedFd,
    input: Input<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    started: Instant,
    /// What ended it, if that was us; the first cause wins.
    cause: Option<End>,
}

/// Runs one program to its end, whatever that is.
pub(super) fn run(engine: &mut Engine, program: &Program, role: Role) -> Result<(), Errno> {
    let mut meters = Meters::open(role, program.limits.memory)?;
    let mut running = match start(program, role, meters.count_memory()) {
        Ok(running) => running,
        Err(errno) => return Engine::report(&Report::Failed { errno: errno.raw_os_error() }),
    };
    Engine::report(&Report::Started)?;
    // Input may have come together with the order.
    running.take(engine)?;
    let limits = &program.limits;
    let deadline = running.started + Duration::from_nanos(limits.wall);
    let status = loop {
        running.turn(engine)?;
        let look = meters.look();
        if Instant::now() >= deadline {
            running.stop(End::Limit(LimitKind::Wall));
        } else if look.out_of_memory {
            running.stop(End::Limit(LimitKind::Memory));
        } else if limits.cpu.is_some_and(|most| look.cpu >= Some(most)) {
            running.stop(End::Limit(LimitKind::Cpu));
        }
        if let Some(status) = running.reap(&mut meters) {
            break status;
        }
    };
    let wall = running.started.elapsed();
    for cost in end_all(role) {
        meters.reaped(&cost);
    }
    running.drain()?;
    let costs = meters.sum();
    let end = running.cause.take().unwrap_or_else(|| ended(status, costs.out_of_memory));
    let mut hits = Vec::new();
    if let End::Limit(limit) = &end {
        hits.push(*limit);
    }
    if costs.out_of_memory && !hits.contains(&LimitKind::Memory) {
        hits.push(LimitKind::Memory);
    }
    if costs.refused_pids {
        hits.push(LimitKind::Pids);
    }
    let wall = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
    Engine::report(&Report::Ended { end, cost: Cost { wall, cpu: costs.cpu, memory: costs.peak, hits } })
}

fn start(program: &Program, role: Role, metered: bool) -> Result<Running, Errno> {
    let (stdin_read, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stdout, stdout_write) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stderr, stderr_write) = pipe_with(PipeFlags::CLOEXEC)?;
    let input = Input::new(Some(stdin))?;
    let limits = &program.limits;
    let cpu = limits.cpu.map(|ns| ns.div_ceil(1_000_000_000) + 1);
    let rlimits = Rlimits { cpu, ..rlimits(limits, role, metered) };
    let streams = vec![stdin_read, stdout_write, stderr_write];
    let Program { programs, argv, env, .. } = program;
    let order = init::Order { programs, argv, env };
    let pid = match role {
        Role::Init => init::start(&order, streams, &rlimits),
        Role::Guest => init::start_fenced(&order, streams, &rlimits),
    };
    let pid = pid.map_err(|trouble| Errno::from_raw_os_error(trouble.errno))?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    Ok(Running {
        role,
        pid,
        handle,
        input,
        stdout: Some(stdout),
        stderr: Some(stderr),
        started: Instant::now(),
        cause: None,
    })
}

/// What each program carries itself.
pub(super) fn rlimits(limits: &Limits, role: Role, metered: bool) -> Rlimits {
    let pids = match role {
        // Users are counted over the whole host where there is no namespace of users: the container's group counts.
        Role::Init => u64::from(u32::MAX),
        // Nobody else counts; whoever is there already is counted too.
        Role::Guest => limits.pids.saturating_add(init::everybody().len() as u64),
    };
    let data = (!metered).then_some(limits.memory.saturating_add(limits.pids.saturating_mul(8 << 20)));
    Rlimits { pids, data, cpu: None }
}

impl Running {
    /// Waits for something to happen, and does what is to be done about it.
    fn turn(&mut self, engine: &mut Engine) -> Result<(), Errno> {
        let watched: Vec<(Source, BorrowedFd<'_>, PollFlags)> = [
            Some((Source::Engine, Engine::input(), PollFlags::IN)),
            Some((Source::End, self.handle.as_fd(), PollFlags::IN)),
            self.stdout.as_ref().map(|fd| (Source::Out, fd.as_fd(), PollFlags::IN)),
            self.stderr.as_ref().map(|fd| (Source::Err, fd.as_fd(), PollFlags::IN)),
            self.input.wanting().map(|fd| (Source::Input, fd, PollFlags::OUT)),
            engine.way().map(|fd| (Source::Way, fd, PollFlags::IN)),
        ]
        .into_iter()
        .flatten()
        .collect();
        let mut polled: Vec<PollFd<'_>> = watched.iter().map(|(_, fd, flags)| PollFd::new(fd, *flags)).collect();
        match poll(&mut polled, Some(&LOOK)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let ready: Vec<Source> = watched
            .iter()
            .zip(&polled)
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|((source, ..), _)| *source)
            .collect();
        for source in ready {
            match source {
                Source::Engine => {
                    engine.fill()?;
                    self.take(engine)?;
                }
                Source::Out => pass_on(&mut self.stdout, FrameKind::Out)?,
                Source::Err => pass_on(&mut self.stderr, FrameKind::Err)?,
                Source::Input => self.feed()?,
                Source::Way => engine.pass_packets()?,
                Source::End => {}
            }
        }
        Ok(())
    }

    /// Does what the engine has said so far.
    fn take(&mut self, engine: &mut Engine) -> Result<(), Errno> {
        while let Some((kind, payload)) = engine.taken()? {
            match kind {
                FrameKind::Content => self.input.push(&payload),
                FrameKind::End => self.input.end(),
                FrameKind::Message => match postcard::from_bytes(&payload).map_err(|_| Errno::PROTO)? {
                    Order::Kill => self.stop(End::Cancelled),
                    _ => return Err(Errno::PROTO),
                },
                FrameKind::Out | FrameKind::Err | FrameKind::Packet => return Err(Errno::PROTO),
            }
        }
        self.feed()
    }

    /// Gives the program what it takes, and tells the engine how much that was.
    fn feed(&mut self) -> Result<(), Errno> {
        match self.input.feed() {
            0 => Ok(()),
            took => Engine::report(&Report::Took(took)),
        }
    }

    fn stop(&mut self, cause: End) {
        self.cause.get_or_insert(cause);
        kill(self.role);
    }

    /// Reaps whatever has ended; the program's own status if it is among them.
    fn reap(&self, meters: &mut Meters) -> Option<i32> {
        while let Some((pid, status, cost)) = sys::reap_orphan() {
            meters.reaped(&cost);
            if pid == self.pid.as_raw_nonzero().get() {
                return Some(status);
            }
        }
        None
    }

    /// Passes on what is left in the pipes; nobody can write to them any more.
    fn drain(&mut self) -> Result<(), Errno> {
        while self.stdout.is_some() {
            pass_on(&mut self.stdout, FrameKind::Out)?;
        }
        while self.stderr.is_some() {
            pass_on(&mut self.stderr, FrameKind::Err)?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Source {
    Engine,
    End,
    Out,
    Err,
    Input,
    Way,
}

/// Passes on one piece of output; the pipe is let go of at its end.
fn pass_on(pipe: &mut Option<OwnedFd>, kind: FrameKind) -> Result<(), Errno> {
    let Some(fd) = pipe else { return Ok(()) };
    let mut buffer = [0; 16 << 10];
    match rustix::io::read(fd, &mut buffer) {
        Ok(0) => *pipe = None,
        Ok(n) => Engine::say(&frame(kind, &buffer[..n]))?,
        Err(Errno::INTR) => {}
        Err(errno) => return Err(errno),
    }
    Ok(())
}

/// Kills everything that was started here.
fn kill(role: Role) {
    match role {
        Role::Init => sys::kill_all(),
        Role::Guest => init::kill_below(getpid().as_raw_nonzero().get(), &BTreeSet::new()),
    }
}

/// Kills and reaps until nothing is left; says what each of them cost.
pub(super) fn end_all(role: Role) -> Vec<sys::Reaped> {
    let start = Instant::now();
    let mut costs = Vec::new();
    while start.elapsed() < PATIENCE {
        kill(role);
        while let Some((_, _, cost)) = sys::reap_orphan() {
            costs.push(cost);
        }
        if !sys::has_children() {
            break;
        }
        let _ = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 500_000 }));
    }
    costs
}

fn ended(status: i32, out_of_memory: bool) -> End {
    if libc::WIFEXITED(status) {
        return End::Exited(libc::WEXITSTATUS(status));
    }
    match libc::WTERMSIG(status) {
        // A signal that we did not send, while the kernel was killing for want of memory.
        libc::SIGKILL if out_of_memory => End::Limit(LimitKind::Memory),
        signal => End::Signaled(signal),
    }
}
