//! The layers of isolation, by the names that results and options use.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One thing that stands between a run and the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Layer {
    /// Own user ids; the run is never the host's root.
    #[serde(rename = "user_ns")]
    UserNs,
    /// Own mount table, pivoted into a fresh root.
    #[serde(rename = "mount_ns")]
    MountNs,
    /// Own process ids; killing its init kills the run.
    #[serde(rename = "pid_ns")]
    PidNs,
    /// Own, empty network.
    #[serde(rename = "net_ns")]
    NetNs,
    /// Own System V and POSIX queues.
    #[serde(rename = "ipc_ns")]
    IpcNs,
    /// Own host name.
    #[serde(rename = "uts_ns")]
    UtsNs,
    /// Own view of the cgroup tree.
    #[serde(rename = "cgroup_ns")]
    CgroupNs,
    /// Set-id bits and file capabilities give nothing.
    #[serde(rename = "no_new_privs")]
    NoNewPrivs,
    /// The filter of system calls.
    #[serde(rename = "seccomp")]
    Seccomp,
    /// No capability in any set.
    #[serde(rename = "caps_dropped")]
    CapsDropped,
    /// Landlock's list of readable and writable trees.
    #[serde(rename = "landlock.fs")]
    LandlockFs,
    /// Landlock's wall around signals and abstract sockets.
    #[serde(rename = "landlock.scope")]
    LandlockScope,
    /// Memory counted by the kernel for the whole tree.
    #[serde(rename = "cgroup.memory")]
    CgroupMemory,
    /// Processes and threads counted by the kernel.
    #[serde(rename = "cgroup.pids")]
    CgroupPids,
    /// Share of the processors and CPU time of the whole tree.
    #[serde(rename = "cgroup.cpu")]
    CgroupCpu,
    /// Bytes and inodes of everything the run can write.
    #[serde(rename = "disk_quota")]
    DiskQuota,
}

impl Layer {
    /// Every layer, walls first.
    pub const ALL: [Self; 16] = [
        Self::UserNs,
        Self::MountNs,
        Self::PidNs,
        Self::NetNs,
        Self::IpcNs,
        Self::UtsNs,
        Self::CgroupNs,
        Self::NoNewPrivs,
        Self::Seccomp,
        Self::CapsDropped,
        Self::LandlockFs,
        Self::LandlockScope,
        Self::CgroupMemory,
        Self::CgroupPids,
        Self::CgroupCpu,
        Self::DiskQuota,
    ];

    /// A wall is always required; without one a run is refused unless the caller accepts it by name.
    #[must_use]
    pub const fn is_wall(self) -> bool {
        match self {
            Self::UserNs
            | Self::MountNs
            | Self::PidNs
            | Self::NetNs
            | Self::IpcNs
            | Self::UtsNs
            | Self::CgroupNs
            | Self::NoNewPrivs
            | Self::Seccomp
            | Self::CapsDropped => true,
            Self::LandlockFs
            | Self::LandlockScope
            | Self::CgroupMemory
            | Self::CgroupPids
            | Self::CgroupCpu
            | Self::DiskQuota => false,
        }
    }

    /// The name on the wire and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UserNs => "user_ns",
            Self::MountNs => "mount_ns",
            Self::PidNs => "pid_ns",
            Self::NetNs => "net_ns",
            Self::IpcNs => "ipc_ns",
            Self::UtsNs => "uts_ns",
            Self::CgroupNs => "cgroup_ns",
            Self::NoNewPrivs => "no_new_privs",
            Self::Seccomp => "seccomp",
            Self::CapsDropped => "caps_dropped",
            Self::LandlockFs => "landlock.fs",
            Self::LandlockScope => "landlock.scope",
            Self::CgroupMemory => "cgroup.memory",
            Self::CgroupPids => "cgroup.pids",
            Self::CgroupCpu => "cgroup.cpu",
            Self::DiskQuota => "disk_quota",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no layer.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a layer; `saggar doctor` lists them")]
pub struct UnknownLayer(String);

impl FromStr for Layer {
    type Err = UnknownLayer;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|layer| layer.name() == name).ok_or_else(|| UnknownLayer(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_name_and_option_name_are_the_same() {
        for layer in Layer::ALL {
            assert_eq!(serde_json::to_value(layer).unwrap(), layer.name());
            assert_eq!(layer.name().parse::<Layer>().unwrap(), layer);
        }
    }
}
