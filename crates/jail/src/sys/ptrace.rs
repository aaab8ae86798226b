//! Holding another process still, and making it enter a folder: what no call from outside can do for it.

use rustix::io::Errno;

use super::check;

// The kernel's numbers, as in ptrace(2): C libraries differ in their types.
const DETACH: u64 = 17;
const SEIZE: u64 = 0x4206;
const INTERRUPT: u64 = 0x4207;

/// What a held task did last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// It stands; this signal was on its way to it, or 0.
    Stopped(i32),
    /// It is gone.
    Gone,
}

/// Takes a task that is not held by anybody; whoever it starts from now on is held too. It goes on until it is told to
/// stop, and again when its holder ends.
pub(crate) fn seize(task: i32) -> Result<(), Errno> {
    /// Forks, `vfork`s and threads.
    const FOLLOW: u64 = 2 | 4 | 8;
    request(SEIZE, task, 0, FOLLOW)
}

/// Tells a held task to stop, without a signal that it could notice.
pub(crate) fn interrupt(task: i32) -> Result<(), Errno> {
    request(INTERRUPT, task, 0, 0)
}

/// Lets a task go that stands, with the signal that was on its way to it.
pub(crate) fn let_go(task: i32, signal: i32) -> Result<(), Errno> {
    request(DETACH, task, 0, u64::from(signal.unsigned_abs()))
}

/// What a held task did, if one did something: `task`, or any if it is -1.
pub(crate) fn heard_of(task: i32) -> Result<Option<(i32, Event)>, Errno> {
    let mut status = 0;
    // SAFETY: `status` is writable and lives across the call; null means that the cost is not wanted.
    let pid = unsafe { libc::waitpid(task, &raw mut status, libc::__WALL | libc::WNOHANG) };
    match check(pid.into())? {
        0 => Ok(None),
        _ if libc::WIFSTOPPED(status) => {
            // Above the signal's number stands the event that stopped it; without one the signal itself did.
            let signal = if status >> 16 == 0 { libc::WSTOPSIG(status) } else { 0 };
            Ok(Some((pid, Event::Stopped(signal))))
        }
        _ => Ok(Some((pid, Event::Gone))),
    }
}

fn request(request: u64, task: i32, address: u64, data: u64) -> Result<(), Errno> {
    // SAFETY: for all requests made here the two words are numbers or, in this module, pointers to what lives across the
    // call; memory of this process is written through those alone.
    check(unsafe { libc::syscall(libc::SYS_ptrace, request, i64::from(task), address, data) }).map(drop)
}

/// Makes a task that stands, with all of its process, enter a folder by its name, as its own call would. What comes back
/// is a signal that came meanwhile, or 0.
#[cfg(target_arch = "x86_64")]
pub(crate) fn enter_folder(task: i32, path: &std::ffi::CStr) -> Result<i32, Errno> {
    /// The selector of code of 64 bits.
    const LONG_MODE: u64 = 0x33;
    /// `syscall`.
    const CALL: u64 = 0x050f;
    let before = registers(task)?;
    if before.cs != LONG_MODE {
        return Err(Errno::NOSYS);
    }
    // Whoever waits in a system call stands behind its instruction; for others one is put where they stand.
    let behind = peek(task, before.rip.wrapping_sub(2)).is_ok_and(|word| word & 0xffff == CALL);
    let call = if behind { before.rip - 2 } else { before.rip };
    let mut borrowed = Borrowed { task, words: Vec::new() };
    if !behind {
        let word = peek(task, call)?;
        borrowed.put(call, word & !0xffff | CALL)?;
    }
    // The name lies on its stack meanwhile, over what is there.
    for (number, piece) in path.to_bytes_with_nul().chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..piece.len()].copy_from_slice(piece);
        borrowed.put(before.rsp + number as u64 * 8, u64::from_ne_bytes(word))?;
    }
    let mut during = before;
    during.rip = call;
    during.rax = libc::SYS_chdir.unsigned_abs();
    during.rdi = before.rsp;
    // No call of its own is to be begun again before ours.
    during.orig_rax = u64::MAX;
    set_registers(task, &during)?;
    let stepped = step(task);
    let answer = registers(task).map(|after| after.rax.cast_signed());
    drop(borrowed);
    set_registers(task, &before)?;
    let signal = stepped?;
    match answer? {
        0 => Ok(signal),
        errno => Err(Errno::from_raw_os_error(i32::try_from(-errno).unwrap_or(libc::EIO))),
    }
}

/// Elsewhere nobody has written down how.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn enter_folder(_: i32, _: &std::ffi::CStr) -> Result<i32, Errno> {
    Err(Errno::NOSYS)
}

/// Words of a task's memory that are put back.
#[cfg(target_arch = "x86_64")]
struct Borrowed {
    task: i32,
    words: Vec<(u64, u64)>,
}

#[cfg(target_arch = "x86_64")]
impl Borrowed {
    fn put(&mut self, address: u64, word: u64) -> Result<(), Errno> {
        let old = peek(self.task, address)?;
        poke(self.task, address, word)?;
        self.words.push((address, old));
        Ok(())
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for Borrowed {
    fn drop(&mut self) {
        for (address, word) in self.words.iter().rev() {
            let _ = poke(self.task, *address, *word);
        }
    }
}

/// Lets a task do one instruction; a signal that came before that, or 0.
#[cfg(target_arch = "x86_64")]
fn step(task: i32) -> Result<i32, Errno> {
    const PATIENCE: std::time::Duration = std::time::Duration::from_millis(500);
    let mut came = 0;
    request(number::STEP, task, 0, 0)?;
    let begun = std::time::Instant::now();
    loop {
        match heard_of(task)? {
            None if begun.elapsed() > PATIENCE => return Err(Errno::TIMEDOUT),
            None => std::thread::sleep(std::time::Duration::from_micros(20)),
            Some((_, Event::Gone)) => return Err(Errno::SRCH),
            Some((_, Event::Stopped(libc::SIGTRAP))) => return Ok(came),
            Some((_, Event::Stopped(signal))) => {
                came = signal.max(came);
                request(number::STEP, task, 0, 0)?;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod number {
    pub(super) const PEEK: u64 = 1;
    pub(super) const POKE: u64 = 4;
    pub(super) const STEP: u64 = 9;
    pub(super) const GET_REGISTERS: u64 = 12;
    pub(super) const SET_REGISTERS: u64 = 13;
}

#[cfg(target_arch = "x86_64")]
fn registers(task: i32) -> Result<libc::user_regs_struct, Errno> {
    // SAFETY: the structure is plain numbers; all zero is a valid one.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    request(number::GET_REGISTERS, task, 0, std::ptr::from_mut(&mut registers) as u64).map(|()| registers)
}

#[cfg(target_arch = "x86_64")]
fn set_registers(task: i32, registers: &libc::user_regs_struct) -> Result<(), Errno> {
    request(number::SET_REGISTERS, task, 0, std::ptr::from_ref(registers) as u64)
}

#[cfg(target_arch = "x86_64")]
fn peek(task: i32, address: u64) -> Result<u64, Errno> {
    let mut word = 0_u64;
    request(number::PEEK, task, address, std::ptr::from_mut(&mut word) as u64).map(|()| word)
}

#[cfg(target_arch = "x86_64")]
fn poke(task: i32, address: u64, word: u64) -> Result<(), Errno> {
    request(number::POKE, task, address, word)
}
