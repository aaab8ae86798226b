//! Process 1 of a sandbox: builds its root, seals itself, starts the program, reaps.
//!
//! It is a fork of the keeper that never executes anything else. From the moment it is sealed it has no capability, no
//! way to a host file and no descriptor but its channel to the keeper; the program inherits the same.

mod desk;
mod root;
mod seal;
mod session;
mod zygote;

use std::convert::Infallible;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, WaitStatus, chdir, set_dumpable_behavior,
    set_parent_process_death_signal, setsid, wait,
};
use types::Layer;

use crate::cgroup;
use crate::channel::Channel;
use crate::ids;
use crate::stage::Overlay;
use crate::sys::{self, CStrings};
use crate::way_out;
use crate::wire::{FromInit, Rlimits, ToInit, Trouble};

pub(crate) use seal::{FILES_ABI, Kind, SCOPE_ABI, drop_capabilities, restrict_files};
pub(crate) use session::{Parent, below, everybody, kill_below, signal_group};
pub(crate) use zygote::Birth;

/// The step that fails where a program's folder is not there.
pub const CWD_STEP: &str = "enter its folder";

/// What a fork of the keeper has in hand when it becomes init.
pub(crate) struct Init {
    /// To the keeper.
    pub(crate) channel: Channel,
    /// The run's writable tree, a detached mount.
    pub(crate) writable: OwnedFd,
    /// Into the run's cgroups, where it was not born in them.
    pub(crate) doors: Vec<OwnedFd>,
    /// Host trees that lie where the run's own folders are.
    pub(crate) overlays: Vec<Overlay>,
    /// Where the other end of its network device goes, if it has one.
    pub(crate) way_out: Option<OwnedFd>,
    /// The disk of a sandbox that stays, a detached mount.
    pub(crate) disk: Option<OwnedFd>,
}

/// A step that failed, before it is told to the keeper.
pub(crate) trait Step<T> {
    /// Names the step.
    fn step(self, what: &str) -> Result<T, Trouble>;
    /// Names the step and the layer that cannot be had without it.
    fn wall(self, layer: Layer, what: &str) -> Result<T, Trouble>;
}

impl<T> Step<T> for Result<T, Errno> {
    fn step(self, what: &str) -> Result<T, Trouble> {
        self.map_err(|e| Trouble { layer: None, step: what.to_owned(), errno: e.raw_os_error() })
    }

    fn wall(self, layer: Layer, what: &str) -> Result<T, Trouble> {
        self.map_err(|e| Trouble { layer: Some(layer), step: what.to_owned(), errno: e.raw_os_error() })
    }
}

impl Init {
    /// The highest of its descriptors.
    pub(crate) fn highest(&self) -> i32 {
        let others = self.doors.iter().chain(&self.disk).chain(&self.way_out).map(AsFd::as_fd);
        let all = [self.channel.as_fd(), self.writable.as_fd()].into_iter().chain(others);
        all.map(|fd| fd.as_raw_fd()).max().unwrap_or(-1)
    }

    /// Lives as process 1; returns only through the end of the process.
    pub(crate) fn live(self) -> ! {
        let Self { channel, writable, doors, overlays, way_out, disk } = self;
        // The keeper's descriptors came along: other sandboxes' channels, and the engine's as standard input.
        let mut keep = vec![channel.as_fd(), writable.as_fd()];
        keep.extend(doors.iter().chain(&disk).chain(&way_out).map(AsFd::as_fd));
        let closed = sys::close_all_but(&keep).and_then(|()| rustix::stdio::dup2_stdin(rustix::stdio::stdout()));
        if closed.is_err() {
            sys::exit_now(1)
        }
        // While this process still is who may open the device.
        if let Some(Err(trouble)) = way_out.map(|channel| way_out::offer(channel).step(way_out::STEP)) {
            let _ = channel.send(&FromInit::Failed(trouble), &[]);
            sys::exit_now(1)
        }
        let Err(trouble) = serve(&channel, writable, disk, doors, &overlays);
        if let Some(trouble) = trouble {
            // The keeper may be gone, and then nobody is left to tell.
            let _ = channel.send(&FromInit::Failed(trouble), &[]);
        }
        sys::exit_now(1)
    }
}

/// Ends with `Err(None)` when the keeper is gone, which is the normal end too.
fn serve(
    channel: &Channel,
    writable: OwnedFd,
    disk: Option<OwnedFd>,
    doors: Vec<OwnedFd>,
    overlays: &[Overlay],
) -> Result<Infallible, Option<Trouble>> {
    doors.iter().try_for_each(cgroup::enter).wall(Layer::CgroupMemory, "enter the cgroup")?;
    drop(doors);
    let Some((ToInit::Go { map_own, guest, without, accept, unmetered, open, stays, lent }, _)) =
        channel.recv().step("wait for the keeper")?
    else {
        return Err(None);
    };
    if let Some((uid, gid)) = map_own {
        // The maps of a process that hides its memory belong to root.
        set_dumpable_behavior(DumpableBehavior::Dumpable).step("open init's own maps")?;
        ids::write_own_maps(uid, gid).wall(Layer::UserNs, "map the user of the sandbox")?;
    }
    let mut layers = Vec::new();
    let own_network = !without.contains(&Layer::NetNs);
    let identity = root::Identity { guest, without, accept: &accept, lent, disk: disk.as_ref().zip(stays) };
    let proc = root::enter(&writable, overlays, &identity, &mut layers)?;
    drop((writable, disk));
    // Changing ids cleared it: only now does it hold. The keeper's end of the channel is the second way to notice.
    set_parent_process_death_signal(Some(Signal::KILL)).step("tie init to the keeper")?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).step("hide init's memory")?;
    let mut beside = vec![proc];
    beside.extend(root::namespaces(open).step("open the namespaces")?);
    let users = guest.0 == 0;
    let kind = match stays {
        Some(_) => Kind::Session { users },
        // Without its filter an init has to be closed as every program is.
        None if open && !accept.contains(&Layer::Seccomp) => Kind::Worker,
        None => Kind::Run,
    };
    if stays.is_some() {
        beside.extend(root::own_root().step("open the root")?);
    }
    let rules = seal::close(unmetered, &accept, &kind, &mut layers)?;
    beside.extend(rules.filter(|_| open));
    let fds: Vec<_> = beside.iter().map(AsFd::as_fd).collect();
    channel.send(&FromInit::Sealed { layers }, &fds).step("report to the keeper")?;
    drop(fds);
    drop(beside);
    if open {
        // The worker is nobody's child here: orphans are all there is to do. Reaped by us they are in our account.
        let Err(_) = sys::reap_beside(channel.as_fd());
        return Err(None);
    }

    if stays.is_some() {
        let Err(_) = session::serve(channel, session::Users { several: users, may_ask: users && own_network });
        return Err(None);
    }

    let Some((ToInit::Start { programs, argv, env, limits }, streams)) = channel.recv().step("wait for the program")?
    else {
        return Err(None);
    };
    let main = start(&Order { programs: &programs, argv: &argv, env: &env }, streams, &limits)?;
    let report = reap_until(main).step("wait for the program's end")?;
    channel.send(&report, &[]).step("report to the keeper")?;
    // The keeper kills the whole namespace now; until then orphans still need a reaper. Where there are none we go by
    // ourselves.
    while wait(WaitOptions::empty()).is_ok() {}
    Err(None)
}

/// A program to become.
pub(crate) struct Order<'a> {
    pub(crate) programs: &'a [String],
    pub(crate) argv: &'a [String],
    pub(crate) env: &'a [String],
}

/// Forks the program's process and waits until it has become the program, or failed to.
pub(crate) fn start(order: &Order<'_>, streams: Vec<OwnedFd>, limits: &Rlimits) -> Result<Pid, Trouble> {
    start_behind(|| Ok(()), order, streams, limits)
}

/// The same, for a starter that is not process 1: where the kernel can, the program is kept from signalling it.
pub(crate) fn start_fenced(order: &Order<'_>, streams: Vec<OwnedFd>, limits: &Rlimits) -> Result<Pid, Trouble> {
    start_behind(|| seal::fence_signals().step("fence signals with Landlock"), order, streams, limits)
}

fn start_behind(
    fence: impl FnOnce() -> Result<(), Trouble>,
    order: &Order<'_>,
    streams: Vec<OwnedFd>,
    limits: &Rlimits,
) -> Result<Pid, Trouble> {
    fork_into(|| {
        fence()?;
        sys::reset_signals();
        setsid().step("leave the session")?;
        chdir("/work").step("enter /work")?;
        limits.apply_to(None).step("set resource limits")?;
        let mut streams = streams;
        let channel = if streams.len() == 4 { streams.pop() } else { None };
        place_streams(streams)?;
        if let Some(channel) = channel {
            sys::place_channel(&channel).step("place the channel")?;
        }
        order.execute()
    })
}

/// Forks; the child does `become_program`, which does not come back. Says when that is done, or why it could not be.
fn fork_into(become_program: impl FnOnce() -> Result<Infallible, Trouble>) -> Result<Pid, Trouble> {
    let (failed, tell) = Channel::pair().step("make a channel")?;
    match sys::fork().step("fork the program")? {
        None => {
            drop(failed);
            let Err(trouble) = become_program();
            let _ = tell.send(&FromInit::Failed(trouble), &[]);
            sys::exit_now(1)
        }
        Some(pid) => {
            drop(tell);
            drop(become_program);
            // The channel closes on exec, so silence means that the program runs.
            match failed.recv().step("wait for exec")? {
                Some((FromInit::Failed(trouble), _)) => Err(trouble),
                _ => Pid::from_raw(pid).ok_or(Errno::SRCH).step("fork the program"),
            }
        }
    }
}

/// Makes three descriptors the standard streams.
fn place_streams(streams: Vec<OwnedFd>) -> Result<(), Trouble> {
    let [stdin, stdout, stderr] =
        <[OwnedFd; 3]>::try_from(streams).map_err(|_| Errno::BADF).step("take the standard streams")?;
    rustix::stdio::dup2_stdin(stdin).step("place standard input")?;
    rustix::stdio::dup2_stdout(stdout).step("place standard output")?;
    rustix::stdio::dup2_stderr(stderr).step("place standard error")
}

impl Order<'_> {
    /// Replaces this process. Everything but the standard streams is closed on exec; what is not would be a leak, so that
    /// it is checked by the hostile programs.
    fn execute(&self) -> Result<Infallible, Trouble> {
        let argv = CStrings::new(self.argv).step("read the arguments")?;
        let env = CStrings::new(self.env).step("read the environment")?;
        let programs: Result<Vec<_>, _> = self.programs.iter().map(|path| CString::new(path.as_str())).collect();
        let programs = programs.map_err(|_| Errno::INVAL).step("read the program's path")?;
        let mut errno = Errno::NOENT;
        for program in &programs {
            errno = sys::execve(program, &argv, &env);
            if !matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) {
                break;
            }
        }
        Err(errno).step("start the program")
    }
}

/// Reaps everything until `main` itself is gone. Siblings made by `CLONE_PARENT` have other numbers and forge nothing.
fn reap_until(main: Pid) -> Result<FromInit, Errno> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == main => return Ok(report(status)),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

fn report(status: WaitStatus) -> FromInit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => FromInit::Exited(code),
        (None, Some(signal)) => FromInit::Signaled(signal),
        (None, None) => FromInit::Exited(1),
    }
}
