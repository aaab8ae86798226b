//! What a container is made of: harder settings than its users would choose.

use std::collections::HashMap;
use std::sync::Arc;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount,
    MountTmpfsOptions, MountType, MountVolumeOptions, ResourcesUlimits,
};
use types::Limits;

use super::daemon::{Known, LABEL, labels};
use super::settings::DockerSettings;
use crate::network::Rules;

/// Where our own program and the drivers of interpreters lie, as in any other sandbox.
pub(super) const OWN_FOLDER: &str = "/opt/saggar";

/// What tells of the host or its kernel and no program needs. Longer than the daemon's own list, which this replaces.
const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/buddyinfo",
    "/proc/bus",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/diskstats",
    "/proc/driver",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/irq",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/latency_stats",
    "/proc/modules",
    "/proc/pagetypeinfo",
    "/proc/partitions",
    "/proc/sched_debug",
    "/proc/schedstat",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/softirqs",
    "/proc/sys/kernel/random/boot_id",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/tty",
    "/proc/version_signature",
    "/proc/vmallocinfo",
    "/proc/zoneinfo",
    "/sys/block",
    "/sys/bus",
    "/sys/class",
    "/sys/dev",
    "/sys/devices/LNXSYSTM:00",
    "/sys/devices/pci0000:00",
    "/sys/devices/platform",
    "/sys/devices/virtual",
    "/sys/firmware",
    "/sys/fs/bpf",
    "/sys/fs/btrfs",
    "/sys/fs/ext4",
    "/sys/fs/pstore",
    "/sys/fs/selinux",
    "/sys/fs/xfs",
    "/sys/hypervisor",
    "/sys/kernel",
    "/sys/module",
    "/sys/power",
];

/// What must not be written, should anybody inside ever have the right to.
const READ_ONLY: &[&str] = &["/proc/sys"];

/// What every container of an image is made from.
pub(super) struct Stock<'a> {
    pub(super) settings: &'a DockerSettings,
    pub(super) known: Known,
    pub(super) image: String,
    pub(super) volumes: Vec<String>,
    pub(super) own: &'a str,
}

impl Stock<'_> {
    /// One of them.
    pub(super) fn plan<'b>(
        &'b self,
        limits: &'b Limits,
        session: Option<&'b str>,
        network: Option<&'b Arc<Rules>>,
    ) -> Plan<'b> {
        let Self { settings, known, image, volumes, own } = self;
        Plan { settings, known, image, volumes, own, limits, session, network }
    }
}

/// What a container is made from.
pub(super) struct Plan<'a> {
    pub(super) settings: &'a DockerSettings,
    pub(super) known: &'a Known,
    /// The image, by digest.
    pub(super) image: &'a str,
    /// Folders that the image declares to be volumes.
    pub(super) volumes: &'a [String],
    /// The volume with our own program in it.
    pub(super) own: &'a str,
    pub(super) limits: &'a Limits,
    /// The session that it is for: then its disk is its own layer, and the daemon keeps it when it is told to.
    pub(super) session: Option<&'a str>,
    /// What it may reach, if it is to have a way out.
    pub(super) network: Option<&'a Arc<Rules>>,
}

impl Plan<'_> {
    pub(super) fn body(&self) -> ContainerCreateBody {
        ContainerCreateBody {
            image: Some(self.image.to_owned()),
            hostname: Some("sandbox".to_owned()),
            user: Some("1000:1000".to_owned()),
            entrypoint: Some(vec![jail::contained::NAME.to_owned()]),
            cmd: Some(Vec::new()),
            working_dir: Some("/".to_owned()),
            // Its one attached reader is us: when we go, its input ends, and it ends with that.
            open_stdin: Some(true),
            stdin_once: Some(true),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            network_disabled: Some(true),
            // An image's own health check would be a program beside the run.
            healthcheck: Some(HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() }),
            labels: Some(self.labels()),
            host_config: Some(self.host()),
            ..ContainerCreateBody::default()
        }
    }

    fn labels(&self) -> HashMap<String, String> {
        let session = self.session.map(|id| (format!("{LABEL}.session"), id.to_owned()));
        labels().into_iter().chain(session).collect()
    }

    /// Folders in memory.
    fn in_memory(&self) -> &'static [&'static str] {
        if self.session.is_some() { &["/dev/shm"] } else { &["/work", "/tmp", "/dev/shm"] }
    }

    fn host(&self) -> HostConfig {
        let limits = self.limits;
        let memory = signed(limits.memory);
        HostConfig {
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(vec!["no-new-privileges".to_owned(), format!("seccomp={}", filter())]),
            // Of a session process 1 closes all but its folders.
            readonly_rootfs: Some(self.session.is_none()),
            // Process 1 makes that of a container with a way out.
            network_mode: Some("none".to_owned()),
            // None at all: /dev/shm is a tmpfs of our own, with a limit on its inodes too.
            ipc_mode: Some("none".to_owned()),
            cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
            memory: Some(memory),
            memory_swap: Some(memory),
            nano_cpus: Some(nano_cpus(limits, self.known)),
            pids_limit: Some(pids(limits)),
            ulimits: Some(vec![
                ResourcesUlimits { name: Some("core".to_owned()), soft: Some(0), hard: Some(0) },
                ResourcesUlimits { name: Some("nofile".to_owned()), soft: Some(1024), hard: Some(4096) },
            ]),
            tmpfs: Some(self.in_memory().iter().map(|path| ((*path).to_owned(), tmpfs(path, limits))).collect()),
            mounts: Some(self.mounts()),
            masked_paths: Some(MASKED.iter().map(|path| (*path).to_owned()).collect()),
            readonly_paths: Some(READ_ONLY.iter().map(|path| (*path).to_owned()).collect()),
            // Otherwise the container's resolv.conf would be the host's.
            dns: Some(vec!["127.0.0.1".to_owned()]),
            dns_search: Some(vec![".".to_owned()]),
            log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
            runtime: self.settings.runtime.clone(),
            init: Some(false),
            ..HostConfig::default()
        }
    }

    fn mounts(&self) -> Vec<Mount> {
        let own = Mount {
            typ: Some(MountType::VOLUME),
            source: Some(self.own.to_owned()),
            target: Some(OWN_FOLDER.to_owned()),
            read_only: Some(true),
            volume_options: Some(MountVolumeOptions { no_copy: Some(true), ..MountVolumeOptions::default() }),
            ..Mount::default()
        };
        // What an image calls a volume would be a folder of the host's disk without any limit.
        let masks = self.volumes.iter().map(|path| Mount {
            typ: Some(MountType::TMPFS),
            target: Some(path.clone()),
            read_only: Some(true),
            tmpfs_options: Some(MountTmpfsOptions { size_bytes: Some(4096), ..MountTmpfsOptions::default() }),
            ..Mount::default()
        });
        let taken = ["/work", "/tmp", "/home", "/dev/shm", OWN_FOLDER];
        [own]
            .into_iter()
            .chain(masks.filter(|mask| !taken.contains(&mask.target.as_deref().unwrap_or("/work"))))
            .collect()
    }
}

/// Process 1 is ours, and counted.
pub(super) fn pids(limits: &Limits) -> i64 {
    signed(limits.pids.saturating_add(1))
}

/// The daemon refuses more processors than it has.
pub(super) fn nano_cpus(limits: &Limits, known: &Known) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "checked: 0.01 to 1024")]
    let nano = (limits.cpus * 1e9) as i64;
    nano.min(known.info.ncpu.unwrap_or(i64::MAX).saturating_mul(1_000_000_000))
}

pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// In memory, because no quota works on every host's disk; counted toward the container's memory too.
fn tmpfs(path: &str, limits: &Limits) -> String {
    let (reserved, files) = if path == "/tmp" { (jail::contained::RESERVED, 1) } else { (0, 0) };
    // The root of a tmpfs is an inode too.
    let (size, inodes) = (limits.disk.saturating_add(reserved), limits.inodes.saturating_add(1 + files));
    format!("rw,exec,nosuid,nodev,size={size},nr_inodes={inodes},uid=1000,gid=1000,mode=0755")
}

/// Our table of system calls as the daemon takes it: by name alone, with what furnishing takes. Process 1 loads the
/// exact filter within it, for itself and every program.
fn filter() -> String {
    let names: Vec<&str> = jail::allowed_calls().chain(jail::contained::FURNISHING_CALLS).collect();
    let machine = if cfg!(target_arch = "aarch64") { "SCMP_ARCH_AARCH64" } else { "SCMP_ARCH_X86_64" };
    serde_json::json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "architectures": [machine],
        "syscalls": [{"names": names, "action": "SCMP_ACT_ALLOW"}],
    })
    .to_string()
}

/// A container that is never started, through which our volume is filled.
pub(super) fn filler(image: &str, volume: &str) -> ContainerCreateBody {
    let mount = Mount {
        typ: Some(MountType::VOLUME),
        source: Some(volume.to_owned()),
        target: Some(OWN_FOLDER.to_owned()),
        volume_options: Some(MountVolumeOptions { no_copy: Some(true), ..MountVolumeOptions::default() }),
        ..Mount::default()
    };
    let host = HostConfig { network_mode: Some("none".to_owned()), mounts: Some(vec![mount]), ..HostConfig::default() };
    ContainerCreateBody {
        image: Some(image.to_owned()),
        entrypoint: Some(vec![jail::contained::NAME.to_owned()]),
        labels: Some(labels()),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
}

/// Labels of a volume, which belongs to no single process.
pub(super) fn volume_labels() -> HashMap<String, String> {
    HashMap::from([(LABEL.to_owned(), env!("CARGO_PKG_VERSION").to_owned())])
}
