//! What a container's engine has closed, seen from inside, and what can still be closed here.

use std::fs;

use rustix::thread::no_new_privs;
use types::Layer;

use super::furnish::has_one_disk;
use crate::cgroup::{Inside, sockets_are_limited};
use crate::init::{Kind, drop_capabilities, restrict_files};
use crate::seccomp::{self, Profile};
use crate::sys;

/// Closes what is left open; what comes back was seen to be on.
pub(super) fn close() -> Vec<Layer> {
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
    if has_no_capabilities(&status) {
        layers.push(Layer::CapsDropped);
    }
    let meters = Inside::open();
    if meters.counts_memory() && sockets_are_limited() {
        layers.push(Layer::CgroupMemory);
    }
    if has_one_disk() {
        layers.push(Layer::DiskQuota);
    }
    // A kernel without Landlock, or with an older one: not named, so reported as missing.
    let _ = restrict_files(&Kind::Run, &mut layers);
    // The exact filter, within the coarse one that the container's engine has loaded from names alone.
    let profile = if meters.counts_memory() { Profile::Metered } else { Profile::Unmetered };
    if sys::install_filter(&seccomp::program(profile)).is_ok() {
        layers.push(Layer::Seccomp);
    }
    layers
}

fn has_no_capabilities(status: &str) -> bool {
    let sets: Vec<&str> = status.lines().filter_map(|line| line.strip_prefix("Cap")?.split(':').nth(1)).collect();
    sets.len() >= 5 && sets.iter().all(|set| set.trim().bytes().all(|digit| digit == b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_capability_in_any_set_is_seen() {
        let none = "Name:\tx\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n\
                    CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nSeccomp:\t2\n";
        assert!(has_no_capabilities(none));
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            let one = none.replace(&format!("{set}:\t00"), &format!("{set}:\t01"));
            assert!(!has_no_capabilities(&one), "{set}");
        }
        assert!(!has_no_capabilities(""));
    }
}
