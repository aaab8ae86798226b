//! What the keeper, a zygote and its workers say to each other: packets of little-endian numbers.
//!
//! The keeper includes this file too.

/// The descriptor of a zygote's channel to the keeper, and then of a worker's own.
pub(crate) const CHANNEL: i32 = 3;

/// Numbers in every packet but the filter.
pub(crate) const NUMBERS: usize = 8;

/// A packet.
pub(crate) type Packet = [u64; NUMBERS];

/// The most descriptors beside a packet.
pub(crate) const MAX_FDS: usize = 16;

/// Bytes of the largest filter of system calls.
pub(crate) const MAX_FILTER: usize = 8192;

/// To a zygote: `[FORK, user, group, namespaces, flags, ...]`; beside it, in this order, the worker's channel, that many
/// namespaces, the Landlock rules if there are any, a v2 group or the doors into v1 groups.
pub(crate) const FORK: u64 = 1;
/// A flag of [`FORK`]: there are Landlock rules.
pub(crate) const WITH_RULES: u64 = 1;
/// A flag of [`FORK`]: what follows is a folder of cgroup v2 to be born in.
pub(crate) const BORN_IN_GROUP: u64 = 2;

/// From a zygote: everything is imported.
pub(crate) const READY: u64 = 2;
/// From a zygote: `[FORKED, pid]`, in the order of the [`FORK`]s.
pub(crate) const FORKED: u64 = 3;
/// From a zygote, in place of [`FORKED`], or from a worker: `[FAILED, step, errno]`.
pub(crate) const FAILED: u64 = 4;
/// From a zygote: `[ENDED, pid, status, nanoseconds on the processors, bytes of the largest process]`.
pub(crate) const ENDED: u64 = 5;
/// From a worker: it is closed, and waits.
pub(crate) const SEALED: u64 = 6;
/// To a worker: `[LEASE, processes, bytes of data, seconds on the processors]`, standard streams beside it. The next
/// packet is for the interpreter.
pub(crate) const LEASE: u64 = 7;

/// No limit.
pub(crate) const UNLIMITED: u64 = u64::MAX;
