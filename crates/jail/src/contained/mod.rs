//! The one program of ours in a place that somebody else made: places files, runs programs, watches them, tells of what is
//! left.
//!
//! Whoever made the place has built its walls; this closes what is left open, and takes the program's end, cost and files
//! where they can be told exactly. Its only channel is its own standard input and output, which no program inherits.

mod files;
mod furnish;
mod input;
mod layers;
mod meters;
mod run;
mod session;
mod wire;

use std::convert::Infallible;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, getpid, set_child_subreaper, set_dumpable_behavior};

use crate::init::Kind;
use crate::sys;

pub use furnish::FURNISHING_CALLS;
pub use wire::{
    EntryKind, Folder, FrameKind, Frames, Garbled, MOST_CONTENT, MOST_OUTPUT, Order, Report, address, addressed, frame,
};

/// Where the program lies in a container, and by which name it knows that it is process 1 there.
pub const NAME: &str = "/opt/saggar/init";

/// By which name it knows that it is one process among others, in a place that it was sent to.
pub const GUEST_NAME: &str = "/opt/saggar/guest";

/// What the program is where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Process 1 of a container: all others in it are programs'.
    Init,
    /// One process among others. What it starts it can find, because whatever is left without a parent comes to it; what
    /// the place allows and what others in it do it cannot change.
    Guest,
}

/// Bytes that process 1 takes of `/tmp` for itself, and the one file that holds them.
pub const RESERVED: u64 = crate::stage::RECORD_BYTES;

/// Packets that are passed on at once before anybody else's turn.
const PACKETS: usize = 32;

/// Why it ended, other than that nobody is left to serve.
pub type Ending = Errno;

/// The engine's end, as this process sees it.
pub(crate) struct Engine {
    frames: Frames,
    /// The network's way out, if it has one.
    way: Option<sys::Wire>,
}

impl Engine {
    fn input() -> BorrowedFd<'static> {
        rustix::stdio::stdin()
    }

    /// Reads what has come, waiting for it; `Err(PIPE)` when the engine is gone.
    fn fill(&mut self) -> Result<(), Errno> {
        let mut buffer = [0; 16 << 10];
        loop {
            match rustix::io::read(Self::input(), &mut buffer) {
                Ok(0) => return Err(Errno::PIPE),
                Ok(n) => {
                    self.frames.push(&buffer[..n]);
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// The next frame that has come. Packets may come at any time, and are passed on.
    fn taken(&mut self) -> Result<Option<(FrameKind, Vec<u8>)>, Errno> {
        loop {
            match (self.frames.next_frame().map_err(|Garbled| Errno::PROTO)?, &self.way) {
                (Some((FrameKind::Packet, packet)), Some(way)) => way.write(&packet),
                (Some((FrameKind::Packet, _)), None) => return Err(Errno::PROTO),
                (other, _) => return Ok(other),
            }
        }
    }

    /// Where packets of programs come from.
    fn way(&self) -> Option<BorrowedFd<'_>> {
        self.way.as_ref().map(AsFd::as_fd)
    }

    /// Passes on packets of programs, a few of them.
    fn pass_packets(&self) -> Result<(), Errno> {
        let Some(way) = &self.way else { return Ok(()) };
        let mut buffer = vec![0; MOST_CONTENT];
        for _ in 0..PACKETS {
            match way.read(&mut buffer) {
                Ok(read) => Self::say(&frame(FrameKind::Packet, &buffer[..read]))?,
                Err(Errno::AGAIN) => break,
                // The device says once what went wrong with it.
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<(FrameKind, Vec<u8>), Errno> {
        loop {
            match self.taken()? {
                Some(frame) => return Ok(frame),
                None => self.fill()?,
            }
        }
    }

    fn say(bytes: &[u8]) -> Result<(), Errno> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match rustix::io::write(rustix::stdio::stdout(), rest) {
                Ok(n) => rest = &rest[n..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn report(report: &Report) -> Result<(), Errno> {
        Self::say(&report.frame())
    }
}

/// Serves the engine until it is gone. Everything else in a container ends with its process 1.
pub fn run(role: Role) -> Result<Infallible, Ending> {
    match role {
        // Only process 1 cannot be killed by what it starts.
        Role::Init if !getpid().is_init() => return Err(Errno::PERM),
        Role::Init => {}
        Role::Guest => set_child_subreaper(Some(getpid()))?,
    }
    let served = serve(role);
    if role == Role::Guest {
        // The engine is gone, and nobody else ends what is left.
        run::end_all(role);
    }
    served
}

fn serve(role: Role) -> Result<Infallible, Ending> {
    sys::close_all_but(&[])?;
    sys::reset_signals();
    rustix::process::umask(rustix::fs::Mode::from(0o022));
    let mut engine = Engine { frames: Frames::default(), way: None };
    loop {
        let (kind, payload) = engine.next()?;
        if kind != FrameKind::Message {
            // Input for a program that is over.
            continue;
        }
        match postcard::from_bytes(&payload).map_err(|_| Errno::PROTO)? {
            Order::Close { limits, way_out } => {
                match (role, way_out) {
                    (Role::Init, true) => {
                        engine.way =
                            Some(or_tell(furnish::with_way_out(|network| furnish::furnish(&limits, network)))?);
                    }
                    // Told by the layers that are on afterwards.
                    (Role::Init, false) => drop(furnish::alone(|network| furnish::furnish(&limits, network))),
                    (Role::Guest, true) => return Err(Errno::PROTO),
                    (Role::Guest, false) => {}
                }
                set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
                files::reserve()?;
                Engine::report(&Report::Ready { layers: layers::close(role, &Kind::Run) })?;
            }
            Order::Open { limits, shown, way_out } => {
                if role == Role::Guest {
                    return Err(Errno::PROTO);
                }
                let furnish = |network| furnish::furnish_session(&limits, network, &shown);
                match (way_out, shown.is_empty()) {
                    (true, _) => engine.way = Some(or_tell(furnish::with_way_out(furnish))?),
                    (false, false) => or_tell(furnish::alone(furnish))?,
                    // Told by the layers that are on afterwards, but for what no layer tells.
                    (false, true) => drop(furnish::alone(furnish)),
                }
                set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
                let folders = furnish::own_folders(&shown);
                let kind = Kind::Contained { folders };
                Engine::report(&Report::Ready { layers: layers::close(role, &kind) })?;
                return session::serve(&mut engine, &limits);
            }
            Order::Place { path, executable } => files::place(&mut engine, &path, executable)?,
            Order::Start { programs, argv, env, limits } => {
                run::run(&mut engine, &run::Program { programs, argv, env, limits }, role)?;
            }
            // It came too late: the program is over.
            Order::Kill => {}
            Order::List { folder } => files::list(&folder)?,
            Order::Stat { path } => files::stat(&path)?,
            Order::Read { folder, path, most } => files::read(folder, &path, most)?,
            Order::Room => files::room()?,
            Order::Session(_)
            | Order::Passed { .. }
            | Order::Deaf(_)
            | Order::Resize { .. }
            | Order::Count
            | Order::Settle { .. } => return Err(Errno::PROTO),
        }
    }
}

/// What came of something without which there is nothing to serve.
fn or_tell<T>(done: Result<T, Errno>) -> Result<T, Errno> {
    if let Err(errno) = &done {
        Engine::report(&Report::Failed { errno: errno.raw_os_error() })?;
    }
    done
}
