//! Which layers are on in a container: what process 1 has seen, and what only the daemon knows.

use types::Layer;

use super::daemon::Known;

/// Namespaces that every container of ours has by its configuration.
const BY_CONFIGURATION: [Layer; 4] = [Layer::MountNs, Layer::NetNs, Layer::IpcNs, Layer::UtsNs];

/// All that are on.
pub(super) fn all(known: &Known, seen: Vec<Layer>) -> Vec<Layer> {
    let info = &known.info;
    // A counter that process 1 can read is no limit yet.
    let seen = seen.into_iter().filter(|layer| *layer != Layer::CgroupMemory || info.memory_limit == Some(true));
    let told = [(Layer::CgroupPids, info.pids_limit), (Layer::CgroupCpu, info.cpu_cfs_quota)];
    let told = told.into_iter().filter(|(_, has)| *has == Some(true)).map(|(layer, _)| layer);
    let mut layers: Vec<Layer> = BY_CONFIGURATION.into_iter().chain(seen).chain(told).collect();
    layers.sort_unstable();
    layers
}

/// Those that are not on, and why.
pub(super) fn missing(on: &[Layer]) -> Vec<(Layer, String)> {
    let off = Layer::ALL.into_iter().filter(|layer| !on.contains(layer));
    off.map(|layer| (layer, why(layer).to_owned())).collect()
}

fn why(layer: Layer) -> &'static str {
    match layer {
        Layer::UserNs => "the Docker daemon runs without userns-remap",
        Layer::LandlockFs | Layer::LandlockScope => "the kernel of the Docker daemon's host lacks it",
        Layer::CgroupMemory => "the Docker daemon's host does not limit all memory: on cgroup v1, not that of sockets",
        Layer::CgroupPids | Layer::CgroupCpu => "the Docker daemon says that its host lacks it",
        Layer::DiskQuota => "the Docker daemon did not let one disk be laid under all writable folders",
        Layer::MountNs
        | Layer::PidNs
        | Layer::NetNs
        | Layer::IpcNs
        | Layer::UtsNs
        | Layer::CgroupNs
        | Layer::NoNewPrivs
        | Layer::Seccomp
        | Layer::CapsDropped => "it was not on in the container",
    }
}
