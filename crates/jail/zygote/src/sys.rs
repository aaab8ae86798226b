//! System calls, made directly: the interpreter's C library may be any.

use core::arch::asm;

/// The kernel's answer: a number, or the error as a small negative one.
pub(crate) type Answer = Result<u64, i32>;

/// Numbers of the calls used here.
#[cfg(target_arch = "x86_64")]
pub(crate) mod number {
    pub(crate) const READ: u64 = 0;
    pub(crate) const WRITE: u64 = 1;
    pub(crate) const CLOSE: u64 = 3;
    pub(crate) const MPROTECT: u64 = 10;
    pub(crate) const RT_SIGPROCMASK: u64 = 14;
    pub(crate) const SENDTO: u64 = 44;
    pub(crate) const RECVMSG: u64 = 47;
    pub(crate) const EXIT: u64 = 60;
    pub(crate) const WAIT4: u64 = 61;
    pub(crate) const CHDIR: u64 = 80;
    pub(crate) const SETSID: u64 = 112;
    pub(crate) const SETGROUPS: u64 = 116;
    pub(crate) const SETRESUID: u64 = 117;
    pub(crate) const SETRESGID: u64 = 119;
    pub(crate) const CAPGET: u64 = 125;
    pub(crate) const CAPSET: u64 = 126;
    pub(crate) const PRCTL: u64 = 157;
    pub(crate) const EXIT_GROUP: u64 = 231;
    pub(crate) const PPOLL: u64 = 271;
    pub(crate) const UNSHARE: u64 = 272;
    pub(crate) const SIGNALFD4: u64 = 289;
    pub(crate) const DUP3: u64 = 292;
    pub(crate) const PRLIMIT64: u64 = 302;
    pub(crate) const SETNS: u64 = 308;
    pub(crate) const SECCOMP: u64 = 317;
}

/// Numbers of the calls used here.
#[cfg(target_arch = "aarch64")]
pub(crate) mod number {
    pub(crate) const DUP3: u64 = 24;
    pub(crate) const CHDIR: u64 = 49;
    pub(crate) const CLOSE: u64 = 57;
    pub(crate) const READ: u64 = 63;
    pub(crate) const WRITE: u64 = 64;
    pub(crate) const PPOLL: u64 = 73;
    pub(crate) const SIGNALFD4: u64 = 74;
    pub(crate) const CAPGET: u64 = 90;
    pub(crate) const CAPSET: u64 = 91;
    pub(crate) const EXIT: u64 = 93;
    pub(crate) const EXIT_GROUP: u64 = 94;
    pub(crate) const UNSHARE: u64 = 97;
    pub(crate) const RT_SIGPROCMASK: u64 = 135;
    pub(crate) const SETRESUID: u64 = 147;
    pub(crate) const SETRESGID: u64 = 149;
    pub(crate) const SETSID: u64 = 157;
    pub(crate) const SETGROUPS: u64 = 159;
    pub(crate) const PRCTL: u64 = 167;
    pub(crate) const SENDTO: u64 = 206;
    pub(crate) const RECVMSG: u64 = 212;
    pub(crate) const MPROTECT: u64 = 226;
    pub(crate) const WAIT4: u64 = 260;
    pub(crate) const PRLIMIT64: u64 = 261;
    pub(crate) const SETNS: u64 = 268;
    pub(crate) const SECCOMP: u64 = 277;
}

/// The same on every processor.
pub(crate) mod everywhere {
    pub(crate) const CLOSE_RANGE: u64 = 436;
    pub(crate) const LANDLOCK_RESTRICT_SELF: u64 = 446;
}

/// One system call. Whoever calls says why its arguments are sound.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn call(number: u64, arguments: [u64; 5]) -> Answer {
    let [first, second, third, fourth, fifth] = arguments;
    let answer: i64;
    // SAFETY: the kernel clobbers rcx and r11 and nothing else; the caller answers for the arguments.
    unsafe {
        asm!("syscall", inlateout("rax") number.cast_signed() => answer, in("rdi") first,
            in("rsi") second, in("rdx") third, in("r10") fourth, in("r8") fifth, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    judge(answer)
}

/// One system call. Whoever calls says why its arguments are sound.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn call(number: u64, arguments: [u64; 5]) -> Answer {
    let [first, second, third, fourth, fifth] = arguments;
    let answer: i64;
    // SAFETY: the kernel clobbers nothing but x0; the caller answers for the arguments.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") first.cast_signed() => answer,
            in("x1") second, in("x2") third, in("x3") fourth, in("x4") fifth, options(nostack));
    }
    judge(answer)
}

fn judge(answer: i64) -> Answer {
    match answer {
        -4095..0 => Err(i32::try_from(-answer).unwrap_or(5)),
        _ => Ok(answer.cast_unsigned()),
    }
}

// `clone3` for a child that shares our memory while we wait for it. It shares the stack too, and what it calls overwrites
// everything below it: so the return address must not lie there.
#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".globl saggar_split",
    ".hidden saggar_split",
    "saggar_split:",
    "pop rdx",
    "mov eax, 435",
    "syscall",
    "push rdx",
    "ret",
);

#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(".globl saggar_split", ".hidden saggar_split", "saggar_split:", "mov x8, #435", "svc 0", "ret");

unsafe extern "C" {
    /// `clone3`, safe for `CLONE_VM | CLONE_VFORK` without a stack of its own.
    pub(crate) fn saggar_split(arguments: *const CloneArguments, size: usize) -> i64;
}

/// As the kernel reads it.
#[repr(C)]
pub(crate) struct CloneArguments {
    pub(crate) flags: u64,
    pub(crate) pidfd: u64,
    pub(crate) child_tid: u64,
    pub(crate) parent_tid: u64,
    pub(crate) exit_signal: u64,
    pub(crate) stack: u64,
    pub(crate) stack_size: u64,
    pub(crate) tls: u64,
    pub(crate) set_tid: u64,
    pub(crate) set_tid_size: u64,
    pub(crate) cgroup: u64,
}

/// As the kernel reads it.
#[repr(C)]
struct Message {
    name: u64,
    name_length: u64,
    parts: *mut Part,
    part_count: usize,
    control: *mut Control,
    control_length: usize,
    flags: u64,
}

#[repr(C)]
struct Part {
    start: *mut u8,
    length: usize,
}

/// One control message of descriptors.
#[repr(C)]
struct Control {
    length: usize,
    level: i32,
    kind: i32,
    fds: [i32; crate::wire::MAX_FDS],
}

/// A packet that came in, and the descriptors beside it.
pub(crate) struct Received {
    pub(crate) bytes: usize,
    pub(crate) fds: [i32; crate::wire::MAX_FDS],
    pub(crate) count: usize,
}

/// Takes one packet from a channel, waiting for it.
pub(crate) fn receive(channel: i32, into: &mut [u8]) -> Result<Received, i32> {
    let mut part = Part { start: into.as_mut_ptr(), length: into.len() };
    let mut control = Control { length: 0, level: 0, kind: 0, fds: [-1; crate::wire::MAX_FDS] };
    let mut message = Message {
        name: 0,
        name_length: 0,
        parts: &raw mut part,
        part_count: 1,
        control: &raw mut control,
        control_length: size_of::<Control>(),
        flags: 0,
    };
    let cloexec = 0x4000_0000;
    let bytes = loop {
        // SAFETY: `message` points at one part that spans `into` and at one control buffer; all outlive the call.
        match unsafe { call(number::RECVMSG, [word(channel), &raw mut message as u64, cloexec, 0, 0]) } {
            Err(EINTR) => {}
            other => break usize::try_from(other?).map_err(|_| EINVAL)?,
        }
    };
    let header = 16;
    let count = if message.control_length > header { (control.length - header) / 4 } else { 0 };
    Ok(Received { bytes, fds: control.fds, count: count.min(crate::wire::MAX_FDS) })
}

/// Sends one packet; one that nobody takes any more is not missed.
pub(crate) fn send(channel: i32, packet: &crate::wire::Packet) {
    let no_signal = 0x4000;
    // SAFETY: the packet outlives the call, and its size is its own.
    let _ = unsafe { call(number::SENDTO, [word(channel), packet.as_ptr() as u64, 64, no_signal, 0]) };
}

/// A descriptor or another small number as the kernel takes it.
pub(crate) fn word(number: i32) -> u64 {
    i64::from(number).cast_unsigned()
}

pub(crate) const EPERM: i32 = 1;
pub(crate) const EINTR: i32 = 4;
pub(crate) const EINVAL: i32 = 22;

/// A call that takes numbers alone.
pub(crate) fn plain(number: u64, arguments: [u64; 5]) -> Answer {
    // SAFETY: callers pass numbers for calls that take no pointer, or null where one is optional.
    unsafe { call(number, arguments) }
}

pub(crate) fn close(fd: i32) {
    let _ = plain(number::CLOSE, [word(fd), 0, 0, 0, 0]);
}

/// Ends the process and nothing else.
pub(crate) fn exit(code: i32) -> ! {
    loop {
        let _ = plain(number::EXIT_GROUP, [word(code), 0, 0, 0, 0]);
    }
}

/// Whether this process has no other thread: only then may it have its memory for itself.
pub(crate) fn is_single_threaded() -> bool {
    let memory = 0x100;
    plain(number::UNSHARE, [memory, 0, 0, 0, 0]).is_ok()
}

/// What the real `pause` does.
pub(crate) fn wait_for_signal() -> i32 {
    let _ = plain(number::PPOLL, [0, 0, 0, 0, 0]);
    -1
}
