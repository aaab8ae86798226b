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
use crate::seccomp::{self, Profile};
use crate::sys;
use crate::wire::Trouble;

/// Closes everything that the run does not need. Nothing after this can be undone, by us or by the program. What comes
/// back are the rules for files, for a worker that closes itself by the same.
pub(super) fn close(unmetered: bool, accept: &[Layer], layers: &mut Vec<Layer>) -> Result<Option<OwnedFd>, Trouble> {
    drop_capabilities().wall(Layer::CapsDropped, "drop every capability")?;
    layers.push(Layer::CapsDropped);
    set_no_new_privs(true).wall(Layer::NoNewPrivs, "set no_new_privs")?;
    layers.push(Layer::NoNewPrivs);
    let mut rules = None;
    if sys::landlock_abi() >= FILES_ABI {
        let made = rules_for_files().wall(Layer::LandlockFs, "make Landlock rules")?;
        sys::landlock_restrict(&made).wall(Layer::LandlockFs, "restrict files with Landlock")?;
        rules = Some(made);
        layers.push(Layer::LandlockFs);
        if sys::landlock_abi() >= SCOPE_ABI {
            layers.push(Layer::LandlockScope);
        }
    }
    let profile = if unmetered { Profile::Unmetered } else { Profile::Metered };
    match sys::install_filter(&seccomp::program(profile)) {
        Ok(()) => layers.push(Layer::Seccomp),
        Err(_) if accept.contains(&Layer::Seccomp) => {}
        Err(errno) => return Err(errno).wall(Layer::Seccomp, "load the system call filter"),
    }
    Ok(rules)
}

/// Bounding set first: emptying it needs a capability.
pub(super) fn drop_capabilities() -> Result<(), Errno> {
    for number in 0..64 {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            Ok(()) => {}
            // Past the last capability that this kernel has.
            Err(Errno::INVAL) => break,
            Err(errno) => return Err(errno),
        }
    }
    let locked = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    set_capabilities_secure_bits(locked)?;
    clear_ambient_capability_set()?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none)?;
    // Read back: a set that stayed would be worth more than all the rest.
    if capabilities(None)? == none { Ok(()) } else { Err(Errno::PERM) }
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
fn rules_for_files() -> Result<OwnedFd, Errno> {
    let read = AccessFs::from_read(NEWEST);
    let own = AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    let refused = |_| Errno::PERM;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))
        .map_err(refused)?
        .scope(Scope::from_all(NEWEST))
        .map_err(refused)?
        .create()
        .map_err(refused)?;
    let mut add = |path: &str, access| -> Result<(), Errno> {
        let path = PathFd::new(path).map_err(|_| Errno::NOENT)?;
        (&mut rules).add_rule(PathBeneath::new(path, access)).map_err(refused).map(drop)
    };
    add("/", read)?;
    add("/work", own)?;
    add("/tmp", own)?;
    add("/dev/shm", own)?;
    add("/dev", AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::WriteFile)?;
    Option::<OwnedFd>::from(rules).ok_or(Errno::OPNOTSUPP)
}
