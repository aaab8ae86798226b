//! The program is run by a small interpreter of BPF and compared with the table, over every number and many arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;

/// One system call as the kernel shows it to a filter.
#[derive(Debug, Clone, Copy)]
struct Call {
    arch: u32,
    nr: u32,
    args: [u64; 6],
}

impl Call {
    fn native(nr: c_long, args: &[u64]) -> Self {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        Self { arch: NATIVE, nr: u32::try_from(nr).unwrap(), args: all }
    }

    fn word(&self, offset: u32) -> u32 {
        match offset {
            NR => self.nr,
            ARCH => self.arch,
            _ => {
                let index = ((offset - 16) / 8) as usize;
                assert_eq!((offset - 16) % 8, 0, "the filter reads the low half");
                (self.args[index] & 0xFFFF_FFFF) as u32
            }
        }
    }
}

/// Runs the filter; `seen` collects the instructions that were reached.
fn interpret(program: &[Instruction], call: Call, seen: &mut BTreeSet<usize>) -> u32 {
    let (mut at, mut accumulator) = (0, 0_u32);
    loop {
        seen.insert(at);
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        let code = u32::from(code);
        match code & 0x07 {
            libc::BPF_LD => accumulator = call.word(k),
            libc::BPF_ALU => accumulator &= k,
            libc::BPF_RET => return k,
            libc::BPF_JMP => {
                let taken = match code & 0xF0 {
                    libc::BPF_JA => {
                        at += k as usize;
                        continue;
                    }
                    libc::BPF_JEQ => accumulator == k,
                    libc::BPF_JGE => accumulator >= k,
                    libc::BPF_JSET => accumulator & k != 0,
                    other => panic!("jump {other:#x}"),
                };
                at += usize::from(if taken { jt } else { jf });
            }
            other => panic!("class {other:#x}"),
        }
    }
}

static METERED: LazyLock<&[Instruction]> = LazyLock::new(|| program(Profile::Metered, Room::Bounded));
static PARTS: LazyLock<[Vec<Instruction>; 2]> = LazyLock::new(|| parts(Profile::Metered));
static ACTIONS: LazyLock<BTreeMap<u32, Action>> = LazyLock::new(|| actions(Profile::Metered, Room::Bounded));

fn answer(call: Call) -> u32 {
    interpret(&METERED, call, &mut BTreeSet::new())
}

/// What the table says, written without any tree.
fn expected(actions: &BTreeMap<u32, Action>, call: Call) -> u32 {
    if call.arch != NATIVE {
        return KILL;
    }
    let low = |index: usize| (call.args[index] & 0xFFFF_FFFF) as u32;
    let choose = |allowed: bool, number: i32| if allowed { ALLOW } else { errno(number) };
    match actions.get(&call.nr).copied().unwrap_or(Action::Errno(libc::ENOSYS)) {
        Action::Allow => ALLOW,
        Action::Errno(number) => errno(number),
        Action::Clone => choose(low(0) & 0x7E02_8000 == 0, libc::EPERM),
        Action::Socket => {
            let plain = matches!(low(1) & 0xf, 1 | 2) && matches!(low(2), 0 | 6 | 17);
            let allowed = match low(0) {
                1 => true,
                2 | 10 => plain,
                16 => low(2) == 0,
                _ => false,
            };
            choose(allowed, libc::EAFNOSUPPORT)
        }
        Action::Socketpair => choose(low(0) == 1, libc::EAFNOSUPPORT),
        Action::Ioctl => choose(
            !matches!(
                low(1),
                0x5412
                    | 0x541C
                    | 0x541D
                    | 0x5423
                    | 0x4008_6602
                    | 0x401C_5820
                    | 0xC004_5877
                    | 0xC018_5879
                    | 0x4030_5828
                    | 0x4030_582A
                    | 0x4030_5839
            ),
            libc::EPERM,
        ),
        Action::Personality => choose(matches!(low(0), 0 | 8 | 0x2_0000 | 0x2_0008 | 0xFFFF_FFFF), libc::EPERM),
        Action::Prctl => choose(!matches!(low(0), 35 | 0x5961_6d61), libc::EPERM),
        Action::Fcntl => choose(!matches!(low(1), 1024 | 1026), libc::EPERM),
        Action::Prlimit => choose(low(0) == 0, libc::EPERM),
        Action::Fallocate => choose(low(1) == 3, libc::EOPNOTSUPP),
        Action::Mknod { mode } => {
            choose(matches!(low(mode as usize) & 0o170_000, 0 | 0o100_000 | 0o010_000 | 0o140_000), libc::EPERM)
        }
    }
}

#[test]
fn an_init_that_waits_may_do_next_to_nothing() {
    let allowed = |nr: c_long| interpret(waiting(), Call::native(nr, &[]), &mut BTreeSet::new()) == ALLOW;
    let count = (0..2048).filter(|nr| allowed(*nr)).count();
    assert_eq!(count, table::WAIT.len());
    for nr in [libc::SYS_ppoll, libc::SYS_wait4, libc::SYS_sendmsg, libc::SYS_exit_group] {
        assert!(allowed(nr), "{nr}");
    }
    for nr in
        [libc::SYS_execve, libc::SYS_execveat, libc::SYS_openat, libc::SYS_clone, libc::SYS_setns, libc::SYS_prctl]
    {
        assert!(!allowed(nr), "{nr}");
    }
    let foreign = Call { arch: NATIVE ^ 1, nr: 0, args: [0; 6] };
    assert_eq!(interpret(waiting(), foreign, &mut BTreeSet::new()), KILL);
}

#[test]
fn every_number_gets_what_the_table_says() {
    let all =
        [Profile::Metered, Profile::Unmetered].map(|profile| [(profile, Room::Bounded), (profile, Room::Watched)]);
    for (profile, room) in all.into_iter().flatten() {
        let (program, actions) = (program(profile, room), actions(profile, room));
        for nr in (0..2048).chain([X32 - 1, X32, X32 + 39, u32::MAX]) {
            let call = Call { arch: NATIVE, nr, args: [0; 6] };
            assert_eq!(interpret(program, call, &mut BTreeSet::new()), expected(&actions, call), "{profile:?} {nr}");
        }
    }
}

/// What two filters together make of a call: the kernel follows the stricter one.
fn stricter(parts: &[Vec<Instruction>; 2], call: Call) -> u32 {
    let [inherited, own] = parts.each_ref().map(|part| interpret(part, call, &mut BTreeSet::new()));
    // Killing is the most negative number, allowing the largest.
    let rank = |answer: u32| answer.cast_signed();
    if rank(inherited) <= rank(own) { inherited } else { own }
}

#[test]
fn a_worker_s_two_filters_are_one() {
    for profile in [Profile::Metered, Profile::Unmetered] {
        let (parts, whole) = (parts(profile), program(profile, Room::Bounded));
        for nr in (0..2048).chain([X32 - 1, X32, X32 + 39, X32 + 435, u32::MAX]) {
            for arch in [NATIVE, NATIVE ^ 1] {
                let call = Call { arch, nr, args: [0x1000_0000; 6] };
                assert_eq!(stricter(&parts, call), interpret(whole, call, &mut BTreeSet::new()), "{profile:?} {nr}");
            }
        }
        // A zygote may do what the second forbids, and no more.
        let allowed = |nr| interpret(&parts[0], Call::native(nr, &[]), &mut BTreeSet::new()) == ALLOW;
        assert!(allowed(libc::SYS_setns) && allowed(libc::SYS_clone3));
        assert!(!allowed(libc::SYS_unshare) && !allowed(libc::SYS_ptrace) && !allowed(libc::SYS_mount));
    }
}

#[test]
fn other_architectures_are_killed() {
    for arch in [0x4000_0003, 0x4000_0028, 0, 0xC000_0000] {
        assert_eq!(answer(Call { arch, nr: 0, args: [0; 6] }), KILL, "{arch:#x}");
    }
}

#[test]
fn namespaces_cannot_be_hidden_in_clone() {
    for flag in [0x2_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000_u64] {
        assert_eq!(answer(Call::native(libc::SYS_clone, &[flag | 0x11])), errno(libc::EPERM), "{flag:#x}");
    }
    // A thread, as glibc makes it.
    assert_eq!(answer(Call::native(libc::SYS_clone, &[0x003d_0f00])), ALLOW);
    // Its flags are in memory, where a filter cannot look.
    assert_eq!(answer(Call::native(libc::SYS_clone3, &[])), errno(libc::ENOSYS));
}

#[test]
fn junk_in_the_high_half_of_an_argument_changes_nothing() {
    let junk = 0xDEAD_BEEF_0000_0000;
    assert_eq!(answer(Call::native(libc::SYS_ioctl, &[0, junk | 0x5412])), errno(libc::EPERM));
    assert_eq!(answer(Call::native(libc::SYS_socket, &[junk | 0x28, 1, 0])), errno(libc::EAFNOSUPPORT));
}

#[test]
fn memory_that_nobody_counts_cannot_be_made() {
    for nr in [libc::SYS_memfd_create, libc::SYS_shmget, libc::SYS_semget, libc::SYS_msgget, libc::SYS_mq_open] {
        let run = |profile| interpret(program(profile, Room::Bounded), Call::native(nr, &[]), &mut BTreeSet::new());
        assert_eq!((run(Profile::Metered), run(Profile::Unmetered)), (ALLOW, errno(libc::ENOSYS)));
    }
}

#[test]
fn room_on_a_disk_that_is_only_watched_is_taken_by_filling_it() {
    let run = |room, mode| {
        let call = Call::native(libc::SYS_fallocate, &[3, mode, 0, 1 << 40]);
        interpret(program(Profile::Metered, room), call, &mut BTreeSet::new())
    };
    for mode in [0, 1, 0x10, 0x20, 0x40] {
        assert_eq!((run(Room::Bounded, mode), run(Room::Watched, mode)), (ALLOW, errno(libc::EOPNOTSUPP)), "{mode}");
    }
    assert_eq!(run(Room::Watched, 3), ALLOW, "a hole");
}

#[test]
fn the_common_path_is_short() {
    let program = program(Profile::Metered, Room::Bounded);
    assert!(program.len() < 400, "{} instructions", program.len());
    for nr in [libc::SYS_read, libc::SYS_write, libc::SYS_mmap, libc::SYS_futex, libc::SYS_openat] {
        let mut seen = BTreeSet::new();
        interpret(program, Call::native(nr, &[]), &mut seen);
        assert!(seen.len() <= 14, "{nr}: {} steps", seen.len());
    }
}

fn call() -> impl Strategy<Value = Call> {
    let interesting = prop_oneof![
        any::<u64>(),
        0..64_u64,
        Just(0x5412),
        Just(0x541C),
        Just(0x4008_6602),
        Just(0xFFFF_FFFF),
        Just(0o060_000),
        Just(0o100_644),
    ];
    let nr = prop_oneof![8 => 0..500_u32, 1 => any::<u32>()];
    let arch = prop_oneof![9 => Just(NATIVE), 1 => any::<u32>()];
    (arch, nr, prop::array::uniform6(interesting)).prop_map(|(arch, nr, args)| Call { arch, nr, args })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn any_call_gets_what_the_table_says(call in call()) {
        prop_assert_eq!(stricter(&PARTS, call), answer(call));
        if call.nr < X32 {
            prop_assert_eq!(answer(call), expected(&ACTIONS, call));
        } else if call.arch == NATIVE {
            prop_assert_eq!(answer(call), errno(libc::ENOSYS));
        }
    }
}

#[test]
fn no_instruction_is_dead() {
    let program = program(Profile::Metered, Room::Bounded);
    let mut seen = BTreeSet::new();
    let values = [
        0,
        1,
        2,
        3,
        5,
        6,
        8,
        10,
        16,
        17,
        35,
        0x5412,
        0x541C,
        0x541D,
        0x5423,
        1024,
        1026,
        0x4008_6602,
        0x401C_5820,
        0xC004_5877,
        0xC018_5879,
        0x4030_5828,
        0x4030_582A,
        0x4030_5839,
        0x2_0000,
        0x2_0008,
        0xFFFF_FFFF,
        0x5961_6d61,
        0o100_000,
        0o010_000,
        0o140_000,
        0o060_000,
    ];
    for nr in (0..512).chain([X32]) {
        for a in values {
            for b in values {
                for c in [0, 1, 6, 17, 0o100_000, 0o010_000, 0o140_000, 0o060_000] {
                    let call = Call { arch: NATIVE, nr, args: [a, b, c, 0, 0, 0] };
                    interpret(program, call, &mut seen);
                }
            }
        }
    }
    interpret(program, Call { arch: 0, nr: 0, args: [0; 6] }, &mut seen);
    let dead: Vec<_> = (0..program.len()).filter(|at| !seen.contains(at)).collect();
    assert!(dead.is_empty(), "never reached: {dead:?} of {}", program.len());
}
