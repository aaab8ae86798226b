//! Loaded into an interpreter before anything else, this library turns it into a zygote.
//!
//! It stands in front of two functions of the C library. A driver that runs in the interpreter calls them in this
//! order, and each means something else than usual once:
//!
//! 1. `pause()` says that everything is imported: from here on this process is a zygote.
//! 2. `fork()` serves the keeper's orders. It never returns in the zygote; in each worker it returns 0, after the worker
//!    has joined the namespaces of one sandbox and sealed itself.
//! 3. `pause()` in the worker waits for its lease: standard streams and limits.
//!
//! Afterwards, and in every process that is no zygote, both are what they always were. The real `fork` of the C library
//! makes the worker, so that its own and the interpreter's hooks run as they would after any fork.
//!
//! No standard library and no C library of its own: it has to fit into whatever interpreter this host has.
#![no_std]

mod mappings;
mod seal;
mod serve;
mod sys;
mod wire;

use core::sync::atomic::{AtomicU32, Ordering};

/// What this process is; see above.
static STATE: AtomicU32 = AtomicU32::new(STARTING);
const STARTING: u32 = 0;
const ZYGOTE: u32 = 1;
const WORKER: u32 = 2;
const LEASED: u32 = 3;

unsafe extern "C" {
    /// The C library's own `fork`, under its second name.
    fn __fork() -> i32;
}

/// In a zygote: makes workers. Elsewhere: forks.
#[unsafe(no_mangle)]
pub extern "C" fn fork() -> i32 {
    if STATE.load(Ordering::Relaxed) == ZYGOTE {
        serve::until_worker();
        STATE.store(WORKER, Ordering::Relaxed);
        return 0;
    }
    real_fork()
}

/// In a starting zygote: it is ready. In a worker: waits for its lease. Elsewhere: waits for a signal.
#[unsafe(no_mangle)]
pub extern "C" fn pause() -> i32 {
    match STATE.load(Ordering::Relaxed) {
        STARTING => {
            // A fork would lose other threads, and whatever they hold.
            if !sys::is_single_threaded() {
                sys::exit(3);
            }
            mappings::merge();
            STATE.store(ZYGOTE, Ordering::Relaxed);
        }
        WORKER => {
            seal::wait_for_lease();
            STATE.store(LEASED, Ordering::Relaxed);
        }
        _ => return sys::wait_for_signal(),
    }
    0
}

fn real_fork() -> i32 {
    // SAFETY: fork takes nothing; a zygote has one thread, and elsewhere the caller wanted a fork.
    unsafe { __fork() }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::exit(101)
}
