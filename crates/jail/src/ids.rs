//! Who a run is: user and group 1000 inside, and which host user that is.

use std::fs;

use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitiesSecureBits, UnshareFlags, set_capabilities_secure_bits, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

use crate::stage;
use crate::sys;
use crate::wire::GuestIds;

/// User and group inside every sandbox.
pub(crate) const GUEST: u32 = 1000;

/// First host user of the runs of a keeper that is root. The run's own process number is added, so that no two runs
/// alive at once share a user; the range above systemd's containers is nobody's.
const FIRST: u32 = 0x7000_0000;

/// One past the largest process number that Linux gives.
const MOST_PIDS: u32 = 1 << 22;

/// Host user of id 0 in the files of images and of sandboxes that stay; all share this range, which begins where that of
/// runs ends. Walls between them are namespaces.
pub const SHARED_FIRST: u32 = FIRST + MOST_PIDS;

/// How many ids those files may have.
pub const SHARED_COUNT: u32 = 1 << 16;

/// Whether files of images lie on disk with ids of the shared range; an ordinary user's are all his own.
#[must_use]
pub fn shifts_ids() -> bool {
    Ids::choose() == Ids::PerRun
}

/// How runs get their host user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    /// Each run its own; needs root.
    PerRun,
    /// All runs the keeper's own: what an ordinary user can give.
    Own { uid: u32, gid: u32 },
}

impl Ids {
    /// Looks at who the keeper is, before it makes any namespace.
    pub(crate) fn choose() -> Self {
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        let mapped = fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| covers_range(&map));
        if uid == 0 && mapped { Self::PerRun } else { Self::Own { uid, gid } }
    }

    /// The host user and group of the run whose init is `pid`.
    pub(crate) fn owner(self, pid: i32) -> (u32, u32) {
        match self {
            Self::PerRun => (FIRST + pid.unsigned_abs(), FIRST + pid.unsigned_abs()),
            Self::Own { uid, gid } => (uid, gid),
        }
    }

    /// How the users of sandboxes that stay are written on disk.
    pub(crate) fn of_sessions(self) -> GuestIds {
        match self {
            Self::PerRun => GuestIds::Range { first: SHARED_FIRST },
            Self::Own { uid, gid } => GuestIds::One { uid, gid },
        }
    }
}

/// Whether the user namespace we live in has the range at all; a container's often has not.
fn covers_range(map: &str) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|n| n.parse::<u64>().unwrap_or(0));
        let (inside, _, count) = (numbers.next(), numbers.next(), numbers.next());
        match (inside, count) {
            (Some(inside), Some(count)) => {
                inside <= u64::from(FIRST) && u64::from(SHARED_FIRST + SHARED_COUNT) <= inside + count
            }
            _ => false,
        }
    })
}

/// Gives an ordinary user's keeper a user namespace with rights over its own mounts, or a root's keeper mounts only.
pub(crate) fn enter_keeper_namespaces(ids: Ids) -> Result<(), Errno> {
    // Root's groups would go along into every sandbox; an ordinary user cannot give his up.
    if geteuid().is_root() {
        let _ = set_thread_groups(&[]);
    }
    match ids {
        Ids::PerRun => sys::unshare(UnshareFlags::NEWNS),
        Ids::Own { uid, gid } => {
            sys::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
            write_maps("/proc/self", (uid, uid), (gid, gid))
        }
    }
}

/// Maps the guest's ids to `owner` for process `pid`, from outside.
pub(crate) fn write_maps_of(pid: i32, owner: (u32, u32)) -> Result<(), Errno> {
    write_maps(&format!("{}/proc/{pid}", stage::HOST_TEXT), (GUEST, owner.0), (GUEST, owner.1))
}

/// Maps all users of a sandbox that stays, for process `pid`, from outside. It may choose its groups: all are nobody's.
pub(crate) fn write_range_of(pid: i32, first: u32) -> Result<(), Errno> {
    for name in ["uid_map", "gid_map"] {
        let path = format!("{}/proc/{pid}/{name}", stage::HOST_TEXT);
        fs::write(path, format!("0 {first} {SHARED_COUNT}")).map_err(|e| errno(&e))?;
    }
    Ok(())
}

/// Gives process `pid`, whose user namespace is below ours, the ids that we have ourselves.
pub(crate) fn copy_maps_to(pid: i32) -> Result<(), Errno> {
    for name in ["uid_map", "gid_map"] {
        let own = fs::read_to_string(format!("{}/proc/self/{name}", stage::HOST_TEXT)).map_err(|e| errno(&e))?;
        let same: String = own.lines().filter_map(same_ids).collect();
        fs::write(format!("{}/proc/{pid}/{name}", stage::HOST_TEXT), same).map_err(|e| errno(&e))?;
    }
    Ok(())
}

/// A line of a map, with what it maps from mapped to itself.
fn same_ids(line: &str) -> Option<String> {
    let mut numbers = line.split_whitespace();
    let (inside, _, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
    Some(format!("{inside} {inside} {count}\n"))
}

/// Gives this process, in a user namespace below an ordinary user's own, the one user and group that there are.
pub(crate) fn write_same_maps(uid: u32, gid: u32) -> Result<(), Errno> {
    write_maps(&format!("{}/proc/self", stage::HOST_TEXT), (uid, uid), (gid, gid))
}

/// Maps the guest's ids to the one host user that an ordinary user may give, from inside.
pub(crate) fn write_own_maps(uid: u32, gid: u32) -> Result<(), Errno> {
    write_maps(&format!("{}/proc/self", stage::HOST_TEXT), (GUEST, uid), (GUEST, gid))
}

fn write_maps(process: &str, uid: (u32, u32), gid: (u32, u32)) -> Result<(), Errno> {
    let write = |name: &str, text: String| fs::write(format!("{process}/{name}"), text).map_err(|e| errno(&e));
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{} {} 1", uid.0, uid.1))?;
    write("gid_map", format!("{} {} 1", gid.0, gid.1))
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO))
}

/// Takes `uid` and `gid` and keeps the capabilities of the new user namespace, which the mounts still need.
pub(crate) fn become_guest(uid: u32, gid: u32) -> Result<(), Errno> {
    let keep = CapabilitiesSecureBits::NO_SETUID_FIXUP | CapabilitiesSecureBits::KEEP_CAPS;
    set_capabilities_secure_bits(keep)?;
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    // `setgroups` is denied where the map was written by its own process; then there is nothing to drop either.
    match set_thread_groups(&[]) {
        Ok(()) | Err(Errno::PERM) => {}
        Err(errno) => return Err(errno),
    }
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)
}

/// Makes the group that this process is in look like the root of all groups.
pub(crate) fn unshare_cgroup_view() -> Result<(), Errno> {
    sys::unshare(UnshareFlags::NEWCGROUP)
}
