//! From the table to a program of classic BPF.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use libc::c_long;

use super::{Profile, Room, table};
use crate::sys::Instruction;

/// Offsets into `struct seccomp_data`: number, architecture, then six arguments of eight bytes.
const NR: u32 = 0;
const ARCH: u32 = 4;

/// Where the low half of argument `index` lies. The kernel reads most arguments as 32 bits: comparing all 64 would let
/// junk in the high half slip past.
const fn argument(index: u32) -> u32 {
    16 + 8 * index + if cfg!(target_endian = "big") { 4 } else { 0 }
}

/// How `fallocate` makes a hole; it knows no other way.
const HOLE: u32 = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE).cast_unsigned();

#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xC000_00B7;

/// From here on numbers mean the x32 ABI, a second door to every call.
const X32: u32 = 0x4000_0000;

/// What to do with one system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Allow,
    /// Fail with this number; 0 pretends success.
    Errno(i32),
    Clone,
    Socket,
    Socketpair,
    Ioctl,
    Personality,
    Prctl,
    Fcntl,
    Prlimit,
    Fallocate,
    /// Mode of the node is this argument.
    Mknod {
        mode: u32,
    },
}

/// What is done with a call that no table names.
const UNKNOWN: Action = Action::Errno(libc::ENOSYS);

/// Calls that are allowed or not by their arguments.
const BY_ARGUMENT: &[((&str, c_long), Action)] = &[
    (("clone", libc::SYS_clone), Action::Clone),
    (("socket", libc::SYS_socket), Action::Socket),
    (("socketpair", libc::SYS_socketpair), Action::Socketpair),
    (("ioctl", libc::SYS_ioctl), Action::Ioctl),
    (("personality", libc::SYS_personality), Action::Personality),
    (("prctl", libc::SYS_prctl), Action::Prctl),
    (("fcntl", libc::SYS_fcntl), Action::Fcntl),
    (("prlimit64", libc::SYS_prlimit64), Action::Prlimit),
    (("mknodat", libc::SYS_mknodat), Action::Mknod { mode: 2 }),
    #[cfg(target_arch = "x86_64")]
    (("mknod", libc::SYS_mknod), Action::Mknod { mode: 1 }),
];

/// Every call that some program could make with some arguments, by name.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let allowed = [table::ALLOW, table::ALLOW_HERE, table::ALLOW_NEW].into_iter().flatten();
    allowed.chain(BY_ARGUMENT.iter().map(|(call, _)| call)).map(|(name, _)| *name)
}

/// The filter for `profile` and `room`. Made once: what a keeper has made, its forks have too.
pub(crate) fn program(profile: Profile, room: Room) -> &'static [Instruction] {
    static MADE: [OnceLock<Vec<Instruction>>; 4] = [const { OnceLock::new() }; 4];
    let slot = match (profile, room) {
        (Profile::Metered, Room::Bounded) => &MADE[0],
        (Profile::Unmetered, Room::Bounded) => &MADE[1],
        (Profile::Metered, Room::Watched) => &MADE[2],
        (Profile::Unmetered, Room::Watched) => &MADE[3],
    };
    slot.get_or_init(|| make(profile, room))
}

/// The same in two parts, for workers. The first is a zygote's own, which its forks inherit: it allows what brings them into
/// their sandboxes. The second forbids just that, and each worker loads it: making a filter ready takes the kernel longer
/// than all else that closes a worker, and the second is short. Together they are [`program`].
pub(crate) fn parts(profile: Profile) -> [Vec<Instruction>; 2] {
    let mut inherited = actions(profile, Room::Bounded);
    let own = table::JOIN.iter().filter_map(|&(_, nr)| u32::try_from(nr).ok());
    let own: Vec<_> = own.map(|nr| (nr, inherited.insert(nr, Action::Allow))).collect();
    let mut last = vec![load(NR)];
    for (nr, action) in own {
        if let Action::Errno(number) = action.unwrap_or(UNKNOWN) {
            last.extend([jump(libc::BPF_JEQ, nr, 0, 1), ret(errno(number))]);
        }
    }
    last.push(ret(libc::SECCOMP_RET_ALLOW));
    [assemble(&inherited), last]
}

/// The filter of an init whose program comes from a zygote.
pub(crate) fn waiting() -> &'static [Instruction] {
    static MADE: OnceLock<Vec<Instruction>> = OnceLock::new();
    MADE.get_or_init(|| {
        let calls = table::WAIT.iter().filter_map(|&(_, nr)| u32::try_from(nr).ok());
        assemble(&calls.map(|nr| (nr, Action::Allow)).collect())
    })
}

fn make(profile: Profile, room: Room) -> Vec<Instruction> {
    assemble(&actions(profile, room))
}

fn assemble(actions: &BTreeMap<u32, Action>) -> Vec<Instruction> {
    let mut out = vec![
        load(ARCH),
        jump(libc::BPF_JEQ, NATIVE, 1, 0),
        ret(libc::SECCOMP_RET_KILL_PROCESS),
        load(NR),
        jump(libc::BPF_JGE, X32, 0, 1),
        ret(errno(libc::ENOSYS)),
    ];
    out.extend(search(&ranges(actions)));
    out
}

fn actions(profile: Profile, room: Room) -> BTreeMap<u32, Action> {
    let mut actions = BTreeMap::new();
    let mut put = |calls: &[(&str, c_long)], action| {
        actions.extend(calls.iter().filter_map(|&(_, nr)| u32::try_from(nr).ok()).map(|nr| (nr, action)));
    };
    put(table::ALLOW, Action::Allow);
    put(table::ALLOW_HERE, Action::Allow);
    put(table::ALLOW_NEW, Action::Allow);
    put(table::REFUSE, Action::Errno(libc::EPERM));
    put(table::REFUSE_HERE, Action::Errno(libc::EPERM));
    put(table::REFUSE_NEW, Action::Errno(libc::EPERM));
    put(table::PRETEND, Action::Errno(0));
    for &(call, action) in BY_ARGUMENT {
        put(&[call], action);
    }
    if profile == Profile::Unmetered {
        put(table::UNCOUNTED, Action::Errno(libc::ENOSYS));
    }
    if room == Room::Watched {
        put(&[("fallocate", libc::SYS_fallocate)], Action::Fallocate);
    }
    actions
}

/// Neighbours with the same action, as `(first number, action)`; gaps are unknown calls.
fn ranges(actions: &BTreeMap<u32, Action>) -> Vec<(u32, Action)> {
    let mut ranges = vec![(0, UNKNOWN)];
    let mut add = |start, action| match ranges.last_mut() {
        Some(last) if last.0 == start => last.1 = action,
        Some(last) if last.1 == action => {}
        _ => ranges.push((start, action)),
    };
    let mut next = 0;
    for (&nr, &action) in actions {
        if nr > next {
            add(next, UNKNOWN);
        }
        add(nr, action);
        next = nr + 1;
    }
    add(next, UNKNOWN);
    ranges
}

/// A binary search over `ranges`.
fn search(ranges: &[(u32, Action)]) -> Vec<Instruction> {
    let [(_, action)] = ranges else {
        let (below, from) = ranges.split_at(ranges.len() / 2);
        let (left, right) = (search(below), search(from));
        let mut out = match u8::try_from(left.len()) {
            Ok(skip) => vec![jump(libc::BPF_JGE, from[0].0, skip, 0)],
            // Conditional jumps reach 255 instructions; the plain one reaches all.
            Err(_) => vec![jump(libc::BPF_JGE, from[0].0, 0, 1), always(left.len())],
        };
        out.extend(left);
        out.extend(right);
        return out;
    };
    leaf(*action)
}

fn leaf(action: Action) -> Vec<Instruction> {
    let allow = ret(libc::SECCOMP_RET_ALLOW);
    let refuse = ret(errno(libc::EPERM));
    match action {
        Action::Allow => vec![allow],
        Action::Errno(number) => vec![ret(errno(number))],
        Action::Clone => {
            // A sibling would be the child of whoever waits for the program, be it init or a zygote.
            let refused = libc::CLONE_PARENT
                | libc::CLONE_NEWNS
                | libc::CLONE_NEWCGROUP
                | libc::CLONE_NEWUTS
                | libc::CLONE_NEWIPC
                | libc::CLONE_NEWUSER
                | libc::CLONE_NEWPID
                | libc::CLONE_NEWNET;
            vec![load(argument(0)), jump(libc::BPF_JSET, refused.cast_unsigned(), 0, 1), refuse, allow]
        }
        Action::Socket => socket(),
        Action::Socketpair => {
            vec![load(argument(0)), equal(libc::AF_UNIX, 0, 1), allow, ret(errno(libc::EAFNOSUPPORT))]
        }
        Action::Ioctl => one_of(
            argument(1),
            // Typing into a terminal, taking its output, its line discipline; freezing and trimming file systems and
            // their inode flags; taking room in a file by the old names of `fallocate`.
            &[
                0x5412,
                0x541C,
                0x541D,
                0x5423,
                0x4008_6602,
                0x401C_5820,
                0xC004_5877,
                0xC018_5879,
                0x4030_5828,
                0x4030_582A,
                0x4030_5839,
            ],
            refuse,
            allow,
        ),
        // Docker's list: Linux, 32-bit addresses' name only, UNAME26, both, and the question itself.
        Action::Personality => one_of(argument(0), &[0, 0x8, 0x2_0000, 0x2_0008, 0xFFFF_FFFF], allow, refuse),
        Action::Prctl => {
            one_of(argument(0), &[libc::PR_SET_MM.cast_unsigned(), libc::PR_SET_PTRACER.cast_unsigned()], refuse, allow)
        }
        // A lease holds up whoever opens the file next, on the host too; a notification tells of the host's own doings.
        Action::Fcntl => {
            one_of(argument(1), &[libc::F_SETLEASE.cast_unsigned(), libc::F_NOTIFY.cast_unsigned()], refuse, allow)
        }
        // One's own limits only: init is of the same user, and a run could starve it.
        Action::Prlimit => one_of(argument(0), &[0], allow, refuse),
        // Making holes gives room back. All else takes any amount at once, which many file systems do not know either.
        Action::Fallocate => one_of(argument(1), &[HOLE], allow, ret(errno(libc::EOPNOTSUPP))),
        Action::Mknod { mode } => {
            let mut out = vec![load(argument(mode)), and(libc::S_IFMT)];
            out.extend(compare(&[0, libc::S_IFREG, libc::S_IFIFO, libc::S_IFSOCK], allow, refuse));
            out
        }
    }
}

/// UNIX any; INET and INET6 as plain TCP or UDP; netlink for routes only; no other family exists.
fn socket() -> Vec<Instruction> {
    let allow = ret(libc::SECCOMP_RET_ALLOW);
    let refuse = ret(errno(libc::EAFNOSUPPORT));
    let mut inet = vec![load(argument(1)), and(0xf)];
    // A stream or datagram goes on to the protocol (over the refusal); anything else stops here.
    inet.extend([equal(libc::SOCK_STREAM, 2, 0), equal(libc::SOCK_DGRAM, 1, 0), refuse, load(argument(2))]);
    inet.extend(compare(&[0, libc::IPPROTO_TCP.cast_unsigned(), libc::IPPROTO_UDP.cast_unsigned()], allow, refuse));
    let mut netlink = vec![load(argument(2))];
    netlink.extend(compare(&[libc::NETLINK_ROUTE.cast_unsigned()], allow, refuse));

    let skip = |instructions: &[Instruction]| u8::try_from(instructions.len()).unwrap_or(u8::MAX);
    let mut out = vec![
        load(argument(0)),
        equal(libc::AF_UNIX, 0, 1),
        allow,
        equal(libc::AF_INET, 3, 0),
        equal(libc::AF_INET6, 2, 0),
        equal(libc::AF_NETLINK, 1 + skip(&inet), 0),
        refuse,
    ];
    out.extend(inet);
    out.extend(netlink);
    out
}

/// `hit` if the word at `offset` is one of `values`, else `miss`.
fn one_of(offset: u32, values: &[u32], hit: Instruction, miss: Instruction) -> Vec<Instruction> {
    let mut out = vec![load(offset)];
    out.extend(compare(values, hit, miss));
    out
}

/// `hit` if the loaded word is one of `values`, else `miss`.
fn compare(values: &[u32], hit: Instruction, miss: Instruction) -> Vec<Instruction> {
    let mut out: Vec<_> = (0..values.len())
        .map(|i| jump(libc::BPF_JEQ, values[i], u8::try_from(values.len() - i).unwrap_or(u8::MAX), 0))
        .collect();
    out.extend([miss, hit]);
    out
}

const fn errno(number: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | number.cast_unsigned()
}

/// Codes of classic BPF fit sixteen bits; `libc` has them in thirty-two.
#[expect(clippy::cast_possible_truncation, reason = "the largest code is below 256")]
const fn code(bits: u32) -> u16 {
    bits as u16
}

const fn load(offset: u32) -> Instruction {
    Instruction { code: code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS), jt: 0, jf: 0, k: offset }
}

const fn and(mask: u32) -> Instruction {
    Instruction { code: code(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K), jt: 0, jf: 0, k: mask }
}

const fn jump(test: u32, k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code: code(libc::BPF_JMP | test | libc::BPF_K), jt, jf, k }
}

const fn equal(k: i32, jt: u8, jf: u8) -> Instruction {
    jump(libc::BPF_JEQ, k.cast_unsigned(), jt, jf)
}

fn always(skip: usize) -> Instruction {
    let k = u32::try_from(skip).unwrap_or(u32::MAX);
    Instruction { code: code(libc::BPF_JMP | libc::BPF_JA), jt: 0, jf: 0, k }
}

const fn ret(value: u32) -> Instruction {
    Instruction { code: code(libc::BPF_RET | libc::BPF_K), jt: 0, jf: 0, k: value }
}

#[cfg(test)]
mod tests;
