//! What whoever made the place has closed, seen from inside, and what can still be closed here.

use std::fs;

use rustix::thread::{no_new_privs, set_no_new_privs};
use types::Layer;

use super::Role;
use super::furnish::has_one_disk;
use crate::cgroup::{Inside, sockets_are_limited};
use crate::init::{Kind, drop_capabilities, restrict_files};
use crate::seccomp::{self, Profile, Room};
use crate::sys;

/// Closes what is left open; what comes back was seen to be on.
pub(super) fn close(role: Role, kind: &Kind) -> Vec<Layer> {
    match role {
        Role::Init => close_container(kind),
        Role::Guest => close_guest(),
    }
}

/// Namespaces of the place are seen by what the kernel says of them; all else is closed here.
fn close_guest() -> Vec<Layer> {
    let mut layers = seen_namespaces();
    if set_no_new_privs(true).is_ok() {
        layers.push(Layer::NoNewPrivs);
    }
    // What cannot be taken from the bounding set cannot be gained from it either, by a program without new privileges.
    let _ = drop_capabilities();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if has_no_capabilities(&status, &["CapInh", "CapPrm", "CapEff", "CapAmb"]) && layers.contains(&Layer::NoNewPrivs) {
        layers.push(Layer::CapsDropped);
    }
    let _ = restrict_files(&Kind::Run, &mut layers);
    // Its memory is counted by looking, whatever the place counts: the limit there is not the run's.
    if sys::install_filter(seccomp::program(Profile::Unmetered, Room::Bounded)).is_ok() {
        layers.push(Layer::Seccomp);
    }
    layers
}

/// Numbers that the kernel gives to its first namespaces, and to no others (`include/linux/proc_ns.h`). That of mounts was
/// the first of all numbers before it became a fixed one.
const FIRST: [(Layer, &str, &[u32]); 5] = [
    (Layer::UserNs, "user", &[0xEFFF_FFFD]),
    (Layer::PidNs, "pid", &[0xEFFF_FFFC]),
    (Layer::IpcNs, "ipc", &[0xEFFF_FFFF]),
    (Layer::UtsNs, "uts", &[0xEFFF_FFFE]),
    (Layer::MountNs, "mnt", &[0xEFFF_FFF8, 0xF000_0000, 0xF000_0001]),
];

fn seen_namespaces() -> Vec<Layer> {
    let number = |name: &str| {
        let link = fs::read_link(format!("/proc/self/ns/{name}")).ok()?;
        link.to_str()?.strip_prefix(name)?.strip_prefix(":[")?.strip_suffix(']')?.parse::<u32>().ok()
    };
    let own = |(_, name, first): &(Layer, &str, &[u32])| number(name).is_some_and(|found| !first.contains(&found));
    let mut layers: Vec<Layer> = FIRST.into_iter().filter(own).map(|(layer, ..)| layer).collect();
    if number("cgroup").is_some_and(|found| found != 0xEFFF_FFFB) {
        layers.push(Layer::CgroupNs);
    }
    // No number says whether a network is the first; one that leads nowhere is nobody else's.
    let devices = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let names: Vec<&str> = devices.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    if names == ["lo"] {
        layers.push(Layer::NetNs);
    }
    layers
}

fn close_container(kind: &Kind) -> Vec<Layer> {
    let mut layers = vec![Layer::PidNs];
    // Those of a namespace of its own; without one there are none, and none to be dropped.
    let _ = drop_capabilities();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    // The first line of a map of everything to itself: there is no other namespace.
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if !map.split_whitespace().eq(["0", "0", "4294967295"]) && !map.is_empty() {
        layers.push(Layer::UserNs);
    }
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    if !groups.is_empty() && groups.lines().all(|line| line.ends_with(":/")) {
        layers.push(Layer::CgroupNs);
    }
    if no_new_privs().unwrap_or(false) {
        layers.push(Layer::NoNewPrivs);
    }
    if has_no_capabilities(&status, &ALL_SETS) {
        layers.push(Layer::CapsDropped);
    }
    let meters = Inside::open();
    if meters.counts_memory() && sockets_are_limited() {
        layers.push(Layer::CgroupMemory);
    }
    // The disk of a session is counted, not bounded.
    if matches!(kind, Kind::Run) && has_one_disk() {
        layers.push(Layer::DiskQuota);
    }
    // A kernel without Landlock, or with an older one: not named, so reported as missing.
    let _ = restrict_files(kind, &mut layers);
    // The exact filter, within the coarse one that the container's engine has loaded from names alone.
    let profile = if meters.counts_memory() { Profile::Metered } else { Profile::Unmetered };
    if sys::install_filter(seccomp::program(profile, kind.room())).is_ok() {
        layers.push(Layer::Seccomp);
    }
    layers
}

const ALL_SETS: [&str; 5] = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];

fn has_no_capabilities(status: &str, sets: &[&str]) -> bool {
    let of = |set: &&str| status.lines().find_map(|line| line.strip_prefix(*set)?.strip_prefix(':'));
    sets.iter().all(|set| of(set).is_some_and(|value| value.trim().bytes().all(|digit| digit == b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_capability_in_any_set_is_seen() {
        let none = "Name:\tx\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n\
                    CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nSeccomp:\t2\n";
        assert!(has_no_capabilities(none, &ALL_SETS));
        for set in ALL_SETS {
            let one = none.replace(&format!("{set}:\t00"), &format!("{set}:\t01"));
            assert!(!has_no_capabilities(&one, &ALL_SETS), "{set}");
        }
        assert!(!has_no_capabilities("", &ALL_SETS));
    }
}
