//! The engine's side: starting a keeper and talking to it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::channel::Channel;
use crate::wire::{FromKeeper, ToKeeper};

/// Why a keeper could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// No memory file, or it cannot be sealed.
    #[error("cannot hold the keeper program in memory")]
    Memory(#[source] std::io::Error),
    /// The program could not be executed.
    #[error("cannot start the keeper program")]
    Exec(#[source] std::io::Error),
}

/// A message from the keeper, and a sandbox's writable tree if it is about a new one.
pub type Message = (FromKeeper, Option<OwnedFd>);

/// A running keeper. Dropping it closes the channel, and the keeper kills every sandbox and ends.
#[derive(Debug)]
pub struct KeeperHandle {
    channel: Channel,
    child: Option<Child>,
}

impl KeeperHandle {
    /// Starts `program`, a static executable, from sealed memory: nothing in a sandbox can overwrite it, and the file it
    /// came from can be replaced meanwhile. It gets no environment and no descriptor but the channel.
    pub fn spawn(program: &[u8]) -> Result<Self, SpawnError> {
        leaving().retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        let memory = sealed(program).map_err(|e| SpawnError::Memory(e.into()))?;
        let (ours, theirs) = Channel::pair().map_err(|e| SpawnError::Memory(e.into()))?;
        #[expect(clippy::disallowed_methods, reason = "the one place where a process is started on the host")]
        let mut command = Command::new(format!("/proc/self/fd/{}", memory.as_raw_fd()));
        std::os::unix::process::CommandExt::arg0(&mut command, "saggar-keeper");
        command.env_clear().current_dir("/").stdin(Stdio::from(theirs.into_fd()));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(SpawnError::Exec)?;
        Ok(Self { channel: ours, child: Some(child) })
    }

    /// Sends one message with descriptors beside it.
    pub fn send(&self, message: &ToKeeper, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        self.channel.send(message, fds)
    }

    /// Whether the keeper is gone, though there may be words of it still to be heard.
    #[must_use]
    pub fn has_hung_up(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut polled = [PollFd::new(&self.channel, PollFlags::empty())];
        poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    /// Receives one message; `Ok(None)` when the keeper is gone, `Err(AGAIN)` when it has said nothing.
    pub fn try_recv(&self) -> Result<Option<Message>, Errno> {
        let mut buffer = Vec::new();
        Ok(self.channel.try_recv(&mut buffer)?.map(|(message, fds)| (message, fds.into_iter().next())))
    }
}

impl Drop for KeeperHandle {
    /// The channel closes after this, and the keeper ends by itself; whoever starts the next one reaps it.
    fn drop(&mut self) {
        leaving().extend(self.child.take());
    }
}

/// Keepers that were let go and may not have ended yet.
static LEAVING: Mutex<Vec<Child>> = Mutex::new(Vec::new());

fn leaving() -> MutexGuard<'static, Vec<Child>> {
    LEAVING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AsFd for KeeperHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

fn sealed(program: &[u8]) -> Result<OwnedFd, Errno> {
    let memory = memfd_create(c"saggar-keeper", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut rest = program;
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&memory, rest)?..];
    }
    fcntl_add_seals(&memory, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(memory)
}

impl AsRawFd for KeeperHandle {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.channel.as_fd().as_raw_fd()
    }
}
