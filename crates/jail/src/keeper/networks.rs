//! Network namespaces: made for runs, and used again where a run has left nothing in them.
//!
//! They belong to a user namespace in which no run ever is: nobody inside a sandbox has a right over its network, its own
//! process 1 included. Making one costs more than all other namespaces together, and the kernel takes them down one after
//! the other, with everybody who wants a new one waiting.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, pread};
use rustix::process::{DumpableBehavior, Signal, pidfd_send_signal, set_dumpable_behavior};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::channel::Channel;
use crate::ids::{self, Ids};
use crate::init::Init;
use crate::stage::{self, HOST_TEXT};
use crate::sys::{self, Clone3, Side, Stack, Steps};

/// Namespaces that are kept for further runs: as many as a batch has sandboxes made while its interpreter starts.
const MOST_SPARE: usize = 16;

/// Where a network namespace tells of what has happened in it: sockets of any kind that are left, packets on its one
/// device, every packet that was asked for and refused, flow labels that outlive their sockets. What else is counted
/// (`netstat`) happens to packets and connections, and so is counted here too. Kernels without IPv6 lack some of it.
const TELLS: [&str; 5] = ["sockstat", "dev", "snmp", "snmp6", "ip6_flowlabel"];

/// More than any of them has to say where there is one device.
const MOST_TOLD: usize = 16 << 10;

/// Lends network namespaces, and keeps some.
pub(super) struct Networks {
    ids: Ids,
    /// The user namespace that they belong to; made when the first is wanted.
    home: Option<Rc<OwnedFd>>,
    /// The keeper's mounts without most of the host's, where they can be taken away: made with it.
    mounts: Option<OwnedFd>,
    spare: Vec<Network>,
    stack: Stack,
    /// Whether this host refuses the way in; then sandboxes are born with networks of their own.
    refused: bool,
}

/// A network namespace whose loopback is up.
pub(super) struct Network {
    home: Rc<OwnedFd>,
    namespace: OwnedFd,
    /// What it told of itself before anybody was in it.
    told: Vec<(OwnedFd, String)>,
}

impl Networks {
    pub(super) fn new(ids: Ids) -> Self {
        Self { ids, home: None, mounts: None, spare: Vec::new(), stack: Stack::new(), refused: false }
    }

    /// Forks `init` into a network on loan, and maps its user where that is done from outside. `None` where it cannot be
    /// done so: then `init` is still there.
    pub(super) fn fork(&mut self, fork: &Clone3<'_>, init: &mut Option<Init>) -> Option<(OwnedFd, i32, Network)> {
        if self.refused {
            return None;
        }
        let lent = self.try_fork(fork, init);
        self.refused = lent.is_err();
        lent.ok()
    }

    fn try_fork(&mut self, fork: &Clone3<'_>, init: &mut Option<Init>) -> Result<(OwnedFd, i32, Network), Errno> {
        let home = if let Some(home) = &self.home {
            Rc::clone(home)
        } else {
            self.mounts = few_mounts().ok();
            Rc::clone(self.home.insert(Rc::new(make_home(self.ids)?)))
        };
        let mounts = self.mounts.as_ref();
        let mut joining = Joining { home, mounts, network: self.spare.pop(), init, ids: self.ids, mapped: Ok(()) };
        let made = fork.fork_by_way(&mut self.stack, &mut joining);
        let Joining { network, mapped, .. } = joining;
        let ((pidfd, pid), network) = (made?, network.ok_or(Errno::NOENT)?);
        if let Err(errno) = mapped {
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
            drop(sys::wait_for(pid));
            return Err(errno);
        }
        Ok((pidfd, pid, network))
    }

    /// Keeps the network of a run that is over, if nothing in it tells of that run.
    pub(super) fn keep(&mut self, network: Network) {
        if self.spare.len() < MOST_SPARE && network.is_as_new() {
            self.spare.push(network);
        }
    }

    /// Lets go of all that nobody uses.
    pub(super) fn empty(&mut self) {
        self.spare.clear();
    }
}

impl Network {
    /// The one that this process is in, new and up.
    fn open(home: Rc<OwnedFd>) -> Result<Self, Errno> {
        let open = |name: &str| {
            let path = format!("{HOST_TEXT}/proc/self/{name}");
            open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        };
        let mut told = Vec::with_capacity(TELLS.len());
        for name in TELLS {
            match open(&format!("net/{name}")) {
                Ok(file) => {
                    let text = read(&file)?;
                    told.push((file, text));
                }
                Err(Errno::NOENT) if name.ends_with('6') || name == "ip6_flowlabel" => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(Self { home, namespace: open("ns/net")?, told })
    }

    /// What a worker joins, in this order, before the namespaces of its sandbox.
    pub(super) fn entry(&self) -> [BorrowedFd<'_>; 2] {
        [self.home.as_fd(), self.namespace.as_fd()]
    }

    /// Whether everything reads as it did before anybody was in it: no socket is left, and none was ever used.
    fn is_as_new(&self) -> bool {
        self.told.iter().all(|(file, text)| read(file).is_ok_and(|now| now == *text))
    }
}

/// The whole of a file that says little, without what it says of the whole host.
fn read(file: &OwnedFd) -> Result<String, Errno> {
    let mut text = vec![0; MOST_TOLD];
    let mut length = 0;
    loop {
        match pread(file, &mut text[length..], length as u64)? {
            0 => break,
            count => length += count,
        }
    }
    match std::str::from_utf8(&text[..length]) {
        Ok(text) if length < MOST_TOLD => Ok(of_its_own(text)),
        _ => Err(Errno::FBIG),
    }
}

/// `sockstat` has numbers of all networks together among its own.
fn of_its_own(text: &str) -> String {
    const OF_ALL: [&str; 3] = ["orphan", "alloc", "mem"];
    if !text.starts_with("sockets:") {
        return text.to_owned();
    }
    let mut words = text.split_whitespace();
    let mut own = String::with_capacity(text.len());
    while let Some(word) = words.next() {
        if OF_ALL.contains(&word) {
            words.next();
        } else {
            own.push_str(word);
            own.push(' ');
        }
    }
    own
}

/// The way of an init into a network on loan.
struct Joining<'a> {
    home: Rc<OwnedFd>,
    mounts: Option<&'a OwnedFd>,
    /// One that was used before; without it a new one is made on the way.
    network: Option<Network>,
    init: &'a mut Option<Init>,
    ids: Ids,
    mapped: Result<(), Errno>,
}

impl Steps for Joining<'_> {
    fn before(&mut self) -> Result<(), Errno> {
        if let Some(mounts) = self.mounts {
            move_into_link_name_space(mounts.as_fd(), Some(LinkNameSpaceType::Mount))?;
        }
        move_into_link_name_space(self.home.as_fd(), Some(LinkNameSpaceType::User))?;
        if let Some(network) = &self.network {
            return move_into_link_name_space(network.namespace.as_fd(), Some(LinkNameSpaceType::Network));
        }
        sys::unshare(UnshareFlags::NEWNET)?;
        sys::loopback_up()?;
        self.network = Some(Network::open(Rc::clone(&self.home))?);
        Ok(())
    }

    fn highest(&self) -> i32 {
        self.init.as_ref().map_or(-1, Init::highest)
    }

    fn inside(&mut self) -> ! {
        match self.init.take() {
            Some(init) => init.live(),
            None => sys::exit_now(1),
        }
    }

    fn after(&mut self, pid: i32) {
        // Only who is in the user namespace above it may, and that is not the keeper.
        if self.ids == Ids::PerRun {
            self.mapped = ids::write_maps_of(pid, self.ids.owner(pid));
        }
    }
}

/// A copy of the keeper's mounts that has of the host only its root and `/proc`: an init copies them all, and lets go of
/// them again. Refused where somebody else's mounts are locked together, as an ordinary user's are.
fn few_mounts() -> Result<OwnedFd, Errno> {
    let (ours, theirs) = Channel::pair()?;
    let namespaces = u64::from(libc::CLONE_NEWNS.cast_unsigned());
    match (Clone3 { namespaces, cgroup: None }).fork()? {
        Side::Child => {
            drop(ours);
            let _ = stage::forget_host().and_then(|()| offer(&theirs, "mnt"));
            sys::exit_now(0)
        }
        Side::Parent { pid, .. } => {
            drop(theirs);
            let mounts = ours.recv::<bool>();
            drop(sys::wait_for(pid));
            mounts?.and_then(|(_, fds)| fds.into_iter().next()).ok_or(Errno::PERM)
        }
    }
}

/// Sends the keeper one of this process's namespaces.
fn offer(keeper: &Channel, name: &str) -> Result<(), Errno> {
    let path = format!("{HOST_TEXT}/proc/self/ns/{name}");
    keeper.send(&true, &[open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?.as_fd()])
}

/// A user namespace with the keeper's own ids, in which nobody stays.
fn make_home(ids: Ids) -> Result<OwnedFd, Errno> {
    let (ours, theirs) = Channel::pair()?;
    let namespaces = u64::from(libc::CLONE_NEWUSER.cast_unsigned());
    match (Clone3 { namespaces, cgroup: None }).fork()? {
        Side::Child => {
            drop(ours);
            let _ = offer_home(&theirs, ids);
            sys::exit_now(0)
        }
        Side::Parent { pid, .. } => {
            drop(theirs);
            let home = ours.recv::<bool>().and_then(|offered| {
                if ids == Ids::PerRun {
                    ids::copy_maps_to(pid)?;
                }
                offered.and_then(|(_, fds)| fds.into_iter().next()).ok_or(Errno::CHILD)
            });
            drop(ours);
            drop(sys::wait_for(pid));
            home
        }
    }
}

/// The first process of it, until the keeper has what it needs.
fn offer_home(keeper: &Channel, ids: Ids) -> Result<(), Errno> {
    if let Ids::Own { uid, gid } = ids {
        // The maps of a process that hides its memory belong to root.
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        ids::write_same_maps(uid, gid)?;
    }
    offer(keeper, "user")?;
    keeper.recv::<bool>().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_the_whole_host_is_left_out() {
        let quiet =
            "sockets: used 0\nTCP: inuse 0 orphan 3 tw 0 alloc 9 mem 1\nUDP: inuse 0 mem 768\nFRAG: inuse 0 memory 0\n";
        let elsewhere =
            "sockets: used 0\nTCP: inuse 0 orphan 0 tw 0 alloc 4 mem 7\nUDP: inuse 0 mem 2\nFRAG: inuse 0 memory 0\n";
        assert_eq!(of_its_own(quiet), of_its_own(elsewhere));
        for changed in ["used 1", "inuse 1", "tw 2"] {
            let (name, _) = changed.split_once(' ').unwrap_or_default();
            let other = quiet.replacen(&format!("{name} 0"), changed, 1);
            assert_ne!(of_its_own(quiet), of_its_own(&other), "{changed}");
        }
        assert_ne!(of_its_own("lo: 0"), of_its_own("lo: 1"));
    }
}
