//! The worker: what closes it before any code of the user's is near, in the order in which a cold run is closed.

use core::sync::atomic::Ordering;

use crate::serve::{FILTER, FILTER_BYTES, Order};
use crate::sys::{self, Answer, everywhere, number, word};
use crate::wire::{CHANNEL, FAILED, LEASE, NUMBERS, Packet, SEALED, UNLIMITED};

const SET_DUMPABLE: u64 = 4;
const CAPBSET_DROP: u64 = 24;
const SET_SECUREBITS: u64 = 28;
const SET_NO_NEW_PRIVS: u64 = 38;
const CAP_AMBIENT: u64 = 47;

/// Keep capabilities while changing user: the bounding set is emptied with them.
const KEEP: u64 = 1 << 2 | 1 << 4;
/// No root, no fix-up, no keeping, no ambient raise: all locked.
const LOCKED: u64 = 0b1110_1111;

/// Closes this process; ends it if that fails.
pub(crate) fn close(order: &Order) {
    let channel = order.channel();
    if let Err((step, errno)) = close_all(order) {
        sys::send(channel, &[FAILED, step, word(errno), 0, 0, 0, 0, 0]);
        sys::send(CHANNEL, &[FAILED, step, word(errno), 0, 0, 0, 0, 0]);
        sys::exit(1);
    }
}

fn close_all(order: &Order) -> Result<(), (u64, i32)> {
    let at = |step: u64| move |errno: i32| (step, errno);
    let none: u64 = 0;
    let set = 2;
    // SAFETY: reads one empty 8-byte set.
    let _ = unsafe { sys::call(number::RT_SIGPROCMASK, [set, &raw const none as u64, 0, 8, 0]) };
    sys::plain(number::SETSID, [0; 5]).map_err(at(4))?;
    become_guest(order.user, order.group).map_err(at(4))?;
    drop_capabilities().map_err(at(5))?;
    prctl(SET_NO_NEW_PRIVS, 1).map_err(at(6))?;
    if let Some(rules) = order.rules() {
        sys::plain(everywhere::LANDLOCK_RESTRICT_SELF, [word(rules), 0, 0, 0, 0]).map_err(at(7))?;
    }
    let cloexec = 0o2_000_000;
    sys::plain(number::DUP3, [word(order.channel()), word(CHANNEL), cloexec, 0, 0]).map_err(at(8))?;
    sys::plain(everywhere::CLOSE_RANGE, [word(CHANNEL + 1), u64::from(u32::MAX), 0, 0, 0]).map_err(at(8))?;
    // SAFETY: a path that lives for ever.
    unsafe { sys::call(number::CHDIR, [c"/work".as_ptr() as u64, 0, 0, 0, 0]) }.map_err(at(9))?;
    limit_always().map_err(at(11))?;
    // Its own memory is its own to look at, as it is after exec.
    prctl(SET_DUMPABLE, 1).map_err(at(4))?;
    load_filter().map_err(at(10))
}

fn become_guest(user: u64, group: u64) -> Result<(), i32> {
    prctl(SET_SECUREBITS, KEEP)?;
    // Denied where the map was written by its own process; then there is nothing to drop either.
    match sys::plain(number::SETGROUPS, [0; 5]) {
        Ok(_) | Err(sys::EPERM) => {}
        Err(errno) => return Err(errno),
    }
    sys::plain(number::SETRESGID, [group, group, group, 0, 0])?;
    sys::plain(number::SETRESUID, [user, user, user, 0, 0]).map(drop)
}

/// Bounding set first: emptying it needs a capability.
fn drop_capabilities() -> Result<(), i32> {
    for capability in 0..64 {
        match prctl(CAPBSET_DROP, capability) {
            Ok(_) => {}
            // Past the last capability that this kernel has.
            Err(sys::EINVAL) => break,
            Err(errno) => return Err(errno),
        }
    }
    prctl(SET_SECUREBITS, LOCKED)?;
    let clear_all = 4;
    prctl(CAP_AMBIENT, clear_all)?;
    let header: [u32; 2] = [0x2008_0522, 0];
    let nothing = [0_u32; 6];
    let mut left = [u32::MAX; 6];
    // SAFETY: a header and three pairs of numbers, as version 3 of the call wants them; all outlive the calls.
    unsafe {
        sys::call(number::CAPSET, [header.as_ptr() as u64, nothing.as_ptr() as u64, 0, 0, 0])?;
        sys::call(number::CAPGET, [header.as_ptr() as u64, left.as_mut_ptr() as u64, 0, 0, 0])?;
    }
    // Read back: a set that stayed would be worth more than all the rest.
    if left == nothing { Ok(()) } else { Err(sys::EPERM) }
}

/// Loads the filter at hand.
pub(crate) fn load_filter() -> Result<(), i32> {
    #[repr(C)]
    struct Program {
        length: u16,
        instructions: *const u8,
    }
    let length = u16::try_from(FILTER_BYTES.load(Ordering::Relaxed) / 8).map_err(|_| sys::EINVAL)?;
    let program = Program { length, instructions: FILTER.get().cast::<u8>() };
    let set_mode_filter = 1;
    // SAFETY: the program spans `length` instructions in static memory, which the kernel copies.
    unsafe { sys::call(number::SECCOMP, [set_mode_filter, 0, &raw const program as u64, 0, 0]) }.map(drop)
}

/// Waits until the keeper lends this worker to a run; ends the process if nobody will.
pub(crate) fn wait_for_lease() {
    sys::send(CHANNEL, &[SEALED, 0, 0, 0, 0, 0, 0, 0]);
    let mut packet: Packet = [0; NUMBERS];
    // SAFETY: eight numbers seen as their bytes; every pattern of bytes is a number.
    let bytes = unsafe { core::slice::from_raw_parts_mut(packet.as_mut_ptr().cast::<u8>(), 64) };
    let Ok(received) = sys::receive(CHANNEL, bytes) else { sys::exit(1) };
    let [kind, processes, data, cpu, ..] = packet;
    if received.bytes != 64 || kind != LEASE || received.count != 3 {
        sys::exit(1);
    }
    for (stream, fd) in [0, 1, 2].into_iter().zip(received.fds) {
        if sys::plain(number::DUP3, [word(fd), word(stream), 0, 0, 0]).is_err() {
            sys::exit(1);
        }
        sys::close(fd);
    }
    if limit(processes, data, cpu).is_err() {
        sys::exit(1);
    }
}

/// Limits that are the same for every run; see the keeper's `Rlimits`.
fn limit_always() -> Result<(), i32> {
    let mib = 1 << 20;
    for (resource, soft, hard) in [
        (4, 0, 0),
        (7, 1024, 4096),
        (8, 8 * mib, 8 * mib),
        (3, 8 * mib, 64 * mib),
        (12, 819_200, 819_200),
        (11, 4096, 4096),
        (13, 0, 0),
        (14, 0, 0),
    ] {
        set(resource, soft, hard)?;
    }
    Ok(())
}

/// This run's own limits.
fn limit(processes: u64, data: u64, cpu: u64) -> Result<(), i32> {
    set(6, processes, processes)?;
    if data != UNLIMITED {
        set(2, data, data)?;
    }
    if cpu != UNLIMITED {
        set(0, cpu, cpu + 1)?;
    }
    Ok(())
}

/// Never above what the zygote may have itself.
fn set(resource: u64, soft: u64, hard: u64) -> Result<(), i32> {
    let mut now = [0_u64; 2];
    // SAFETY: reads and writes pairs of numbers that outlive the calls.
    unsafe {
        sys::call(number::PRLIMIT64, [0, resource, 0, now.as_mut_ptr() as u64, 0])?;
        let hard = hard.min(now[1]);
        let wanted = [soft.min(hard), hard];
        sys::call(number::PRLIMIT64, [0, resource, wanted.as_ptr() as u64, 0, 0]).map(drop)
    }
}

fn prctl(option: u64, value: u64) -> Answer {
    sys::plain(number::PRCTL, [option, value, 0, 0, 0])
}
