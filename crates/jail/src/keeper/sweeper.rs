//! Taking down what ended runs leave: mounts, groups. The kernel lets whoever does it wait, some milliseconds at times.
//!
//! Where many runs follow each other a process of its own does it, so that the keeper never waits.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::cgroup::Group;
use crate::channel::Channel;
use crate::init::Step;
use crate::sys::{self, Clone3, Side};
use crate::wire::Trouble;

/// What is left of a sandbox whose last process is gone.
pub(super) struct Remains {
    /// Its mounts and its writable tree.
    pub(super) fds: Vec<OwnedFd>,
    pub(super) group: Option<Group>,
}

/// Whoever takes remains down.
pub(super) struct Sweeper {
    /// The process that does it, and its number; without one it is done here.
    process: Option<(Channel, i32)>,
    /// Groups whose last process is gone but which the kernel still calls busy.
    busy: Vec<Group>,
}

/// A group's folders, as the other process needs them.
#[derive(Serialize, Deserialize)]
struct Folders(Vec<String>);

impl Sweeper {
    /// One that does everything itself.
    pub(super) fn here() -> Self {
        Self { process: None, busy: Vec::new() }
    }

    /// One that lets another process do it.
    pub(super) fn apart() -> Result<Self, Trouble> {
        let (ours, theirs) = Channel::pair().step("make a channel")?;
        match (Clone3 { namespaces: 0, cgroup: None }).fork().step("fork the sweeper")? {
            Side::Child => {
                drop(ours);
                sweep(&theirs)
            }
            Side::Parent { pid, .. } => Ok(Self { process: Some((ours, pid)), busy: Vec::new() }),
        }
    }

    /// Takes remains down, or has it done.
    pub(super) fn take(&mut self, remains: Remains) {
        let Remains { fds, group } = remains;
        if let Some((process, _)) = &self.process {
            let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            let folders = Folders(group.as_ref().map(Group::folders).unwrap_or_default());
            if process.send(&folders, &borrowed).is_ok() {
                return;
            }
            // It is gone, and we are on our own.
            self.process = None;
        }
        drop(fds);
        self.busy.extend(group.filter(|group| group.remove().is_err()));
    }

    /// Tries busy groups again; whether some are left.
    pub(super) fn is_busy(&mut self) -> bool {
        self.busy.retain(|group| group.remove().is_err());
        !self.busy.is_empty()
    }

    /// Waits until everything is down, a second at most: a group that stays busy is swept by the next keeper.
    pub(super) fn finish(&mut self) {
        if let Some((channel, pid)) = self.process.take() {
            drop(channel);
            drop(sys::wait_for(pid));
        }
        for _ in 0..500 {
            if !self.is_busy() {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether something must be tried again soon.
    pub(super) fn waits(&self) -> bool {
        !self.busy.is_empty()
    }
}

/// Lives as long as the keeper, and a little longer for what is left.
fn sweep(keeper: &Channel) -> ! {
    let closed =
        sys::close_all_but(&[keeper.as_fd()]).and_then(|()| rustix::stdio::dup2_stdin(rustix::stdio::stdout()));
    let _ = rustix::thread::set_name(c"saggar-sweeper");
    let mut busy: Vec<String> = Vec::new();
    while closed.is_ok() {
        // Nothing to try again: wait. Else look at what has come, and try again in a moment.
        let received = if busy.is_empty() { keeper.recv() } else { keeper.try_recv(&mut Vec::new()) };
        match received {
            Ok(Some((Folders(folders), fds))) => {
                drop(fds);
                busy.extend(folders);
            }
            Err(Errno::AGAIN) => std::thread::sleep(Duration::from_millis(1)),
            Ok(None) | Err(_) => break,
        }
        busy.retain(|folder| is_busy(folder));
    }
    for _ in 0..500 {
        busy.retain(|folder| is_busy(folder));
        if busy.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    sys::exit_now(0)
}

fn is_busy(folder: &str) -> bool {
    crate::cgroup::remove_folder(folder) == Err(Errno::BUSY)
}
