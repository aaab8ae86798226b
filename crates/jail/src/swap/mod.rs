//! Gives a sandbox that stays a new disk under the feet of its processes.
//!
//! A process of the keeper's enters the sandbox for it. It holds every process still, makes the old disk read-only, which
//! the kernel refuses as long as a file on it is open for writing, mounts the new one with the old on the bottom, and puts
//! it where the old one was. Processes go on where they were; what they still hold of the old disk they can only read.

mod folders;
mod hold;
mod writers;

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, kill_process, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::channel::Channel;
use crate::init::Step;
use crate::stage;
use crate::sys::{self, Clone3, Side};
use crate::wire::{Disk, Extent, Swapped, Trouble, Writer};

use folders::Folders;
use hold::Hold;

/// How long a file may be open for writing that no process of the sandbox has: the engine puts small ones.
const ROUNDS: u32 = 40;

/// Those among some processes who have a file open for writing on the disk of the sandbox that this process is in; and
/// those of whom nobody can tell.
pub(crate) fn writers_among(processes: BTreeSet<i32>) -> Result<Vec<Writer>, Errno> {
    let folders = Folders::open(Extent::Folders)?;
    let hidden: Vec<Writer> = processes.iter().filter_map(|pid| writers::hidden(*pid)).collect();
    Ok(writers::find(&folders, processes).into_iter().chain(hidden).collect())
}

/// A disk to put in the place of another.
pub(crate) struct Swap<'a> {
    /// The sandbox's mounts.
    pub(crate) mounts: BorrowedFd<'a>,
    /// Its processes.
    pub(crate) pids: BorrowedFd<'a>,
    /// The new disk; the old one is among its lower layers.
    pub(crate) disk: &'a Disk,
    /// Whether processes that write are killed.
    pub(crate) kill: bool,
}

/// Why it did not come to it.
enum Obstacle {
    Writers(Vec<Writer>),
    Trouble(Trouble),
    /// Some of it is done and the rest cannot be: the sandbox cannot go on.
    Broken(Trouble),
}

impl From<Trouble> for Obstacle {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl Swap<'_> {
    /// Has it done, and waits for that. The root as it is then comes back beside it.
    pub(crate) fn carry_out(&self) -> (Swapped, Option<OwnedFd>) {
        let lost = |errno: Errno| (Swapped::Broken(trouble("swap the disk", errno)), None);
        let (ours, theirs) = match Channel::pair() {
            Ok(pair) => pair,
            Err(errno) => return (Swapped::Failed(trouble("make a channel", errno)), None),
        };
        match (Clone3 { namespaces: 0, cgroup: None }).fork() {
            Err(errno) => (Swapped::Failed(trouble("fork who swaps the disk", errno)), None),
            Ok(Side::Child) => {
                drop(ours);
                self.enter(&theirs)
            }
            Ok(Side::Parent { pid, .. }) => {
                drop(theirs);
                drop(sys::wait_for(pid));
                // If it was interrupted with the new disk in our own table, that must go.
                let _ = rustix::mount::unmount(stage::DISK, rustix::mount::UnmountFlags::DETACH);
                match ours.recv() {
                    Ok(Some((swapped, fds))) => (swapped, fds.into_iter().next()),
                    Ok(None) => lost(Errno::CHILD),
                    Err(errno) => lost(errno),
                }
            }
        }
    }

    /// Forks into the sandbox's processes, so that their numbers are ours.
    fn enter(&self, tell: &Channel) -> ! {
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        let forked =
            move_into_link_name_space(self.pids, Some(LinkNameSpaceType::ProcessID)).and_then(|()| sys::fork());
        match forked {
            Ok(Some(pid)) => drop(sys::wait_for(pid)),
            Ok(None) => {
                let _ = set_parent_process_death_signal(Some(Signal::KILL));
                sys::end_after(5);
                let (swapped, root) = match self.live() {
                    Ok(root) => (Swapped::Done, Some(root)),
                    Err(Obstacle::Writers(writers)) => (Swapped::Writers(writers), None),
                    Err(Obstacle::Trouble(trouble)) => (Swapped::Failed(trouble), None),
                    Err(Obstacle::Broken(trouble)) => (Swapped::Broken(trouble), None),
                };
                let beside: Vec<_> = root.iter().map(AsFd::as_fd).collect();
                let _ = tell.send(&swapped, &beside);
            }
            Err(errno) => drop(tell.send(&Swapped::Failed(trouble("enter the sandbox's processes", errno)), &[])),
        }
        sys::exit_now(0)
    }

    fn live(&self) -> Result<OwnedFd, Obstacle> {
        let own_mounts = format!("{}/proc/self/ns/mnt", stage::HOST_TEXT);
        let own_mounts =
            open(own_mounts, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).step("open the keeper's mounts")?;
        join(self.mounts).step("enter the sandbox's mounts")?;
        let folders = Folders::open(self.disk.extent).step("open the disk's folders")?;
        // From here on everybody stands still; they go on when it is dropped, or with the end of this process.
        let mut hold = Hold::all(own());
        self.close(&folders, &mut hold)?;
        let moved = hold.standing_on(&folders);
        let swapped = self.swap(&folders, &own_mounts);
        match swapped {
            Ok(()) => {
                hold.enter(&moved);
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                open(c"/", flags, Mode::empty()).map_err(|errno| Obstacle::Broken(trouble("open the root", errno)))
            }
            Err(obstacle) => {
                if matches!(obstacle, Obstacle::Trouble(_)) {
                    folders.reopen();
                }
                Err(obstacle)
            }
        }
    }

    /// Makes the old disk read-only, for which nobody may write to it.
    fn close(&self, folders: &Folders, hold: &mut Hold) -> Result<(), Obstacle> {
        for round in 0.. {
            let writers = writers::find(folders, hold.processes());
            if !writers.is_empty() && !self.kill {
                return Err(Obstacle::Writers(writers));
            }
            for writer in &writers {
                if let Some(pid) = Pid::from_raw(writer.pid) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            hold.bury(&writers.iter().map(|writer| writer.pid).collect());
            match folders.close() {
                Ok(()) => break,
                Err(Errno::BUSY) if round < ROUNDS => std::thread::sleep(std::time::Duration::from_millis(1)),
                Err(Errno::BUSY) => return Err(Obstacle::Writers(writers)),
                Err(errno) => return Err(Obstacle::Trouble(trouble("make the old disk read-only", errno))),
            }
        }
        Ok(())
    }

    fn swap(&self, folders: &Folders, own_mounts: &OwnedFd) -> Result<(), Obstacle> {
        let shown = folders.shown(own()).step("hold what lies on the disk")?;
        join(own_mounts.as_fd()).step("go back to the keeper's mounts")?;
        let new = folders::mount(self.disk).step(crate::keeper::DISK_STEP)?;
        join(self.mounts).step("enter the sandbox's mounts")?;
        let broken = |errno| Obstacle::Broken(trouble("put the new disk in place", errno));
        folders.replace(&new).map_err(broken)?;
        shown.show().map_err(broken)
    }
}

fn own() -> i32 {
    getpid().as_raw_nonzero().get()
}

fn join(mounts: BorrowedFd<'_>) -> Result<(), Errno> {
    move_into_link_name_space(mounts, Some(LinkNameSpaceType::Mount))
}

fn trouble(step: &str, errno: Errno) -> Trouble {
    Trouble { layer: None, step: step.to_owned(), errno: errno.raw_os_error() }
}
