//! The last steps before user code: Landlock, no capabilities, no new privileges, the filter.

use std::os::fd::OwnedFd;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    Scope,
};
use rustix::io::Errno;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits, set_no_new_privs,
};
use types::Layer;

use super::Step;
use crate::seccomp::{self, Profile, Room};
use crate::sys;
use crate::wire::Trouble;

/// What is sealed.
pub(crate) enum Kind {
    /// A sandbox for one program.
    Run,
    /// One whose program a zygote brings, closed by itself: its init starts nothing.
    Worker,
    /// One that stays.
    Session {
        /// Whether it has more than one user, so that its init must be able to become each.
        users: bool,
    },
    /// One that stays in a container: its disk is never swapped below its processes.
    Contained {
        /// Folders that are its own.
        folders: Vec<String>,
    },
}

impl Kind {
    /// Where its files are.
    pub(crate) fn room(&self) -> Room {
        match self {
            Self::Run | Self::Worker => Room::Bounded,
            Self::Session { .. } | Self::Contained { .. } => Room::Watched,
        }
    }
}

/// What root keeps inside a sandbox that stays, over the ids and files of its own user namespace alone.
const ROOT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// What its init needs on top, to take rights from those it starts.
const INIT: CapabilitySet = ROOT.union(CapabilitySet::SETPCAP);

/// Closes everything that the run does not need. Nothing after this can be undone, by us or by the program. What comes
/// back are the rules for files, for a worker that closes itself by the same.
pub(super) fn close(
    unmetered: bool,
    accept: &[Layer],
    kind: &Kind,
    layers: &mut Vec<Layer>,
) -> Result<Option<OwnedFd>, Trouble> {
    match kind {
        Kind::Session { users: true } => keep_capabilities(INIT).wall(Layer::CapsDropped, "drop capabilities")?,
        Kind::Run | Kind::Worker | Kind::Session { .. } | Kind::Contained { .. } => {
            drop_capabilities().wall(Layer::CapsDropped, "drop every capability")?;
        }
    }
    layers.push(Layer::CapsDropped);
    set_no_new_privs(true).wall(Layer::NoNewPrivs, "set no_new_privs")?;
    layers.push(Layer::NoNewPrivs);
    let rules = restrict_files(kind, layers)?;
    let profile = if unmetered { Profile::Unmetered } else { Profile::Metered };
    let filter = match kind {
        Kind::Worker => seccomp::waiting(),
        Kind::Run | Kind::Session { .. } | Kind::Contained { .. } => seccomp::program(profile, kind.room()),
    };
    match sys::install_filter(filter) {
        Ok(()) => layers.push(Layer::Seccomp),
        Err(_) if accept.contains(&Layer::Seccomp) => {}
        Err(errno) => return Err(errno).wall(Layer::Seccomp, "load the system call filter"),
    }
    Ok(rules)
}

/// Puts this process under Landlock's rules for files, where the kernel has them. Needs `no_new_privs`.
pub(crate) fn restrict_files(kind: &Kind, layers: &mut Vec<Layer>) -> Result<Option<OwnedFd>, Trouble> {
    if sys::landlock_abi() < FILES_ABI {
        return Ok(None);
    }
    let rules = rules_for_files(kind).wall(Layer::LandlockFs, "make Landlock rules")?;
    sys::landlock_restrict(&rules).wall(Layer::LandlockFs, "restrict files with Landlock")?;
    layers.push(Layer::LandlockFs);
    if sys::landlock_abi() >= SCOPE_ABI {
        layers.push(Layer::LandlockScope);
    }
    Ok(Some(rules))
}

/// Gives the program of a sandbox that stays what root may have there, and no more.
pub(super) fn become_root() -> Result<(), Errno> {
    bound(ROOT)?;
    // As everywhere: who changes from root to another user loses all.
    set_capabilities_secure_bits(
        CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED,
    )?;
    clear_ambient_capability_set()?;
    limit_to(ROOT)
}

fn keep_capabilities(kept: CapabilitySet) -> Result<(), Errno> {
    bound(kept)?;
    clear_ambient_capability_set()?;
    limit_to(kept)
}

/// Takes all but `kept` from the bounding set.
fn bound(kept: CapabilitySet) -> Result<(), Errno> {
    for number in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if kept.contains(capability) {
            continue;
        }
        match remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // Past the last capability that this kernel has.
            Err(Errno::INVAL) => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn limit_to(kept: CapabilitySet) -> Result<(), Errno> {
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets)?;
    // Read back: a set that stayed would be worth more than all the rest.
    if capabilities(None)? == sets { Ok(()) } else { Err(Errno::PERM) }
}

/// Bounding set first: emptying it needs a capability.
pub(crate) fn drop_capabilities() -> Result<(), Errno> {
    bound(CapabilitySet::empty())?;
    let locked = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    set_capabilities_secure_bits(locked)?;
    clear_ambient_capability_set()?;
    limit_to(CapabilitySet::empty())
}

/// Before this ABI Landlock refuses every move between folders, which breaks honest programs.
pub(crate) const FILES_ABI: i32 = 2;

/// From this ABI on Landlock also fences signals and abstract sockets.
pub(crate) const SCOPE_ABI: i32 = 6;

/// The newest rights we know how to name; older kernels get what they have.
const NEWEST: ABI = ABI::V6;

/// Keeps signals to ourselves, where this kernel can. Needs `no_new_privs`.
pub(super) fn fence_signals() -> Result<(), Errno> {
    if sys::landlock_abi() < SCOPE_ABI {
        return Ok(());
    }
    let refused = |_| Errno::PERM;
    let rules = Ruleset::default().scope(Scope::Signal).and_then(Ruleset::create).map_err(refused)?;
    Option::<OwnedFd>::from(rules).map_or(Err(Errno::OPNOTSUPP), |rules| sys::landlock_restrict(&rules))
}

/// Read and execute everywhere under the root's known trees, write in the run's own folders, nothing else.
///
/// Rules are tied to folders as they are, and a sandbox that stays gets new ones with each snapshot. What does not change
/// there is the root above them, so that its rule is for the whole: what is not its own it cannot write to because the
/// mounts are read-only. A root that is on the disk itself is never swapped below its processes.
fn rules_for_files(kind: &Kind) -> Result<OwnedFd, Errno> {
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    let handled = AccessFs::from_all(NEWEST);
    let read = AccessFs::from_read(NEWEST);
    let own = AccessFs::from_all(NEWEST) & !devices;
    let refused = |_| Errno::PERM;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(handled)
        .map_err(refused)?
        .scope(Scope::from_all(NEWEST))
        .map_err(refused)?
        .create()
        .map_err(refused)?;
    let mut add = |path: &str, access| -> Result<(), Errno> {
        let path = PathFd::new(path).map_err(|_| Errno::NOENT)?;
        (&mut rules).add_rule(PathBeneath::new(path, access & handled)).map_err(refused).map(drop)
    };
    let device = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::WriteFile;
    add("/", read)?;
    match kind {
        Kind::Run | Kind::Worker => ["/work", "/tmp", "/dev/shm"].iter().try_for_each(|folder| add(folder, own))?,
        Kind::Session { .. } => add("/", own)?,
        Kind::Contained { folders } => {
            add("/dev/shm", own)?;
            folders.iter().try_for_each(|folder| add(folder, own))?;
        }
    }
    add("/dev", device)?;
    if !matches!(kind, Kind::Run | Kind::Worker) {
        add("/dev/pts", device | AccessFs::IoctlDev)?;
        // Some hosts have no such device to show.
        match add("/dev/tty", AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Option::<OwnedFd>::from(rules).ok_or(Errno::OPNOTSUPP)
}
