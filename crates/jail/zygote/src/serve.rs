//! The zygote: forks a worker for each of the keeper's orders, and reports how workers end.
//!
//! It runs trusted code only and has no rights of its own: no capability, a root that shows what a run sees. What lets
//! its forks into a sandbox is that it is the same user as the keeper, who made the sandbox's user namespace.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::seal;
use crate::sys::{self, CloneArguments, number, word};
use crate::wire::{
    BORN_IN_GROUP, CHANNEL, ENDED, FAILED, FORK, FORKED, MAX_FDS, MAX_FILTER, NUMBERS, Packet, READY, WITH_RULES,
};

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Memory of a process with one thread.
pub(crate) struct Single<T>(UnsafeCell<T>);

// SAFETY: a zygote and a worker that has not been leased have one thread.
unsafe impl<T> Sync for Single<T> {}

impl<T> Single<T> {
    const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub(crate) fn get(&self) -> *mut T {
        self.0.get()
    }
}

/// The order at hand. It lies here and not on the stack, which the intermediate process shares.
static ORDER: Single<Order> = Single::new(Order {
    clone: CloneArguments {
        flags: 0,
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: 0,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: 0,
    },
    user: 0,
    group: 0,
    fds: [-1; MAX_FDS],
    count: 0,
    namespaces: 0,
    with_rules: false,
    born_in_group: false,
});

/// The filter of system calls to be loaded next: the first two packets.
pub(crate) static FILTER: Single<[u8; MAX_FILTER]> = Single::new([0; MAX_FILTER]);
pub(crate) static FILTER_BYTES: AtomicU64 = AtomicU64::new(0);

/// The worker's number, or 0 and the step that failed.
static WORKER: AtomicI32 = AtomicI32::new(0);
static STEP: AtomicU64 = AtomicU64::new(0);
static ERRNO: AtomicI32 = AtomicI32::new(0);

/// One worker to make.
pub(crate) struct Order {
    clone: CloneArguments,
    pub(crate) user: u64,
    pub(crate) group: u64,
    fds: [i32; MAX_FDS],
    count: usize,
    namespaces: usize,
    with_rules: bool,
    born_in_group: bool,
}

impl Order {
    pub(crate) fn channel(&self) -> i32 {
        self.fds[0]
    }

    fn namespaces(&self) -> &[i32] {
        self.fds.get(1..=self.namespaces).unwrap_or_default()
    }

    pub(crate) fn rules(&self) -> Option<i32> {
        if self.with_rules { self.fds.get(1 + self.namespaces).copied() } else { None }
    }

    /// A v2 group or the doors into v1 groups.
    fn groups(&self) -> &[i32] {
        self.fds.get(1 + self.namespaces + usize::from(self.with_rules)..self.count).unwrap_or_default()
    }
}

/// Serves until this process is a worker. The zygote itself ends here.
pub(crate) fn until_worker() {
    // Its own, which every worker inherits; then the one that each of them loads.
    if take_filter().and_then(|()| seal::load_filter()).and_then(|()| take_filter()).is_err() {
        sys::exit(1);
    }
    let Some(children) = watch_children() else { sys::exit(1) };
    tell([READY, 0, 0, 0, 0, 0, 0, 0]);
    loop {
        match wait(children) {
            Ok(true) => {
                if !take_order() {
                    sys::exit(0);
                }
                if make_worker() {
                    sys::close(children);
                    // SAFETY: a worker has one thread, and the order is its own copy.
                    seal::close(unsafe { &*ORDER.get() });
                    return;
                }
                let_go();
            }
            Ok(false) => {}
            Err(_) => sys::exit(1),
        }
        reap(children);
    }
}

/// Takes the packet that is a filter.
fn take_filter() -> Result<(), i32> {
    let filter = FILTER.get();
    // SAFETY: one thread, and nothing else holds the buffer.
    let received = sys::receive(CHANNEL, unsafe { &mut *filter })?;
    FILTER_BYTES.store(received.bytes as u64, Ordering::Relaxed);
    Ok(())
}

/// Becomes readable when a worker ends; workers that lose their parent come to us.
fn watch_children() -> Option<i32> {
    let set_child_subreaper = 36;
    sys::plain(number::PRCTL, [set_child_subreaper, 1, 0, 0, 0]).ok()?;
    let child: u64 = 1 << 16;
    let block = 0;
    // SAFETY: both calls read one 8-byte set that outlives them.
    unsafe {
        sys::call(number::RT_SIGPROCMASK, [block, &raw const child as u64, 0, 8, 0]).ok()?;
        let non_blocking_and_cloexec = 0o2_004_000;
        let fd = sys::call(number::SIGNALFD4, [u64::MAX, &raw const child as u64, 8, non_blocking_and_cloexec, 0]);
        fd.ok().and_then(|fd| i32::try_from(fd).ok())
    }
}

/// Waits until something happens; whether it is an order.
fn wait(children: i32) -> Result<bool, i32> {
    #[repr(C)]
    struct Poll {
        fd: i32,
        wanted: i16,
        got: i16,
    }
    let mut polls = [Poll { fd: CHANNEL, wanted: 1, got: 0 }, Poll { fd: children, wanted: 1, got: 0 }];
    // SAFETY: two entries that outlive the call; no timeout and no mask.
    match unsafe { sys::call(number::PPOLL, [polls.as_mut_ptr() as u64, 2, 0, 0, 8]) } {
        Ok(_) => Ok(polls[0].got != 0),
        Err(sys::EINTR) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Takes an order; `false` when the keeper is gone.
fn take_order() -> bool {
    let mut packet: Packet = [0; NUMBERS];
    // SAFETY: eight numbers seen as their bytes; every pattern of bytes is a number.
    let bytes = unsafe { core::slice::from_raw_parts_mut(packet.as_mut_ptr().cast::<u8>(), 64) };
    let Ok(received) = sys::receive(CHANNEL, bytes) else { return false };
    let [kind, user, group, namespaces, flags, ..] = packet;
    if received.bytes != 64 || kind != FORK || received.count == 0 {
        return false;
    }
    // SAFETY: one thread, and no reference into the order is alive here.
    let order = unsafe { &mut *ORDER.get() };
    order.user = user;
    order.group = group;
    order.fds = received.fds;
    order.count = received.count;
    order.namespaces = usize::try_from(namespaces).unwrap_or(0);
    order.with_rules = flags & WITH_RULES != 0;
    order.born_in_group = flags & BORN_IN_GROUP != 0;
    order.clone.flags = CLONE_VM | CLONE_VFORK;
    order.clone.cgroup = 0;
    if let (true, Some(group)) = (order.born_in_group, order.groups().first().copied()) {
        order.clone.flags |= CLONE_INTO_CGROUP;
        order.clone.cgroup = word(group);
    }
    true
}

/// Makes a worker; whether this process is it.
///
/// A process joins namespaces only for itself, and a process namespace only for its children. So an intermediate process
/// joins, forks the worker and ends. It shares our memory while we wait, which spares a copy of it; nothing that the
/// zygote needs later lies on the stack that both use.
#[inline(never)]
fn make_worker() -> bool {
    // SAFETY: the arguments are static. The intermediate process returns from no function that the zygote is in: it ends
    // in `intermediate`, and only the worker, which has a copy of the stack, goes on from there.
    let answer = unsafe { sys::saggar_split(&raw const (*ORDER.get()).clone, size_of::<CloneArguments>()) };
    if answer == 0 {
        intermediate();
        return true;
    }
    if answer < 0 {
        fail(0, i32::try_from(-answer).unwrap_or(5));
        return false;
    }
    let any_clone = 0x4000_0000;
    let _ = sys::plain(number::WAIT4, [answer.cast_unsigned(), 0, any_clone, 0, 0]);
    false
}

/// Joins the sandbox and forks the worker, the only one to return.
#[inline(never)]
fn intermediate() {
    // SAFETY: the zygote waits; nobody else uses the order.
    let order = unsafe { &*ORDER.get() };
    WORKER.store(0, Ordering::Relaxed);
    match join(order) {
        Ok(()) => match crate::real_fork() {
            0 => return,
            pid if pid > 0 => WORKER.store(pid, Ordering::Relaxed),
            _ => fail(0, 11),
        },
        Err((step, errno)) => fail(step, errno),
    }
    loop {
        let _ = sys::plain(number::EXIT, [0, 0, 0, 0, 0]);
    }
}

fn join(order: &Order) -> Result<(), (u64, i32)> {
    if !order.born_in_group {
        for door in order.groups() {
            // SAFETY: one byte that lives for ever.
            unsafe { sys::call(number::WRITE, [word(*door), c"0".as_ptr() as u64, 1, 0, 0]) }.map_err(|e| (1, e))?;
        }
    }
    for (index, namespace) in order.namespaces().iter().enumerate() {
        let step = if index == 0 { 2 } else { 3 };
        sys::plain(number::SETNS, [word(*namespace), 0, 0, 0, 0]).map_err(|e| (step, e))?;
    }
    Ok(())
}

fn fail(step: u64, errno: i32) {
    WORKER.store(0, Ordering::Relaxed);
    STEP.store(step, Ordering::Relaxed);
    ERRNO.store(errno, Ordering::Relaxed);
}

/// Tells what became of the order and closes what came with it.
fn let_go() {
    match WORKER.load(Ordering::Relaxed) {
        0 => tell([FAILED, STEP.load(Ordering::Relaxed), word(ERRNO.load(Ordering::Relaxed)), 0, 0, 0, 0, 0]),
        pid => tell([FORKED, word(pid), 0, 0, 0, 0, 0, 0]),
    }
    // SAFETY: one thread, and no other reference into the order is alive here.
    let order = unsafe { &mut *ORDER.get() };
    order.fds.iter().take(order.count).for_each(|fd| sys::close(*fd));
    order.count = 0;
}

/// Reports every worker that has ended.
fn reap(children: i32) {
    let mut drain = [0_u8; 512];
    // SAFETY: the buffer outlives the call.
    let _ = unsafe { sys::call(number::READ, [word(children), drain.as_mut_ptr() as u64, 512, 0, 0]) };
    loop {
        let mut status = 0_i32;
        let mut usage = [0_u64; 18];
        let no_hang_any = 0x4000_0001;
        let (status_at, usage_at) = (&raw mut status as u64, usage.as_mut_ptr() as u64);
        // SAFETY: an `int` and a `rusage` (18 numbers) that outlive the call.
        let Ok(pid) = (unsafe { sys::call(number::WAIT4, [u64::MAX, status_at, no_hang_any, usage_at, 0]) }) else {
            return;
        };
        if pid == 0 {
            return;
        }
        // Seconds and microseconds in user code, the same in the kernel, kilobytes of the largest.
        let cpu = (usage[0] + usage[2]) * 1_000_000_000 + (usage[1] + usage[3]) * 1000;
        tell([ENDED, pid, word(status), cpu, usage[4] * 1024, 0, 0, 0]);
    }
}

fn tell(packet: Packet) {
    sys::send(CHANNEL, &packet);
}
