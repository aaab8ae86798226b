//! Ctrl-C and its like.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use tokio::io::AsyncReadExt;
use tokio::sync::watch;

use crate::failure::Failure;

/// Past a file size limit a write fails then, and is reported, in place of ending us.
const SIGXFSZ: i32 = 25;

/// Hears the first signal; a second one ends us at once, and the keeper or the server's run with us.
///
/// The second needs no thread of ours: they may be blocked in a write to a terminal that nobody reads.
pub(crate) struct Interrupt(UnixStream);

impl Interrupt {
    /// From now on, signals are heard.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Self::register().map_err(Failure::runtime)
    }

    fn register() -> io::Result<Self> {
        let (hear, tell) = UnixStream::pair()?;
        let seen = Arc::new(AtomicBool::new(false));
        for signal in wanted() {
            // In this order: from the first line on a signal no longer ends us, so that line must hear it; and the first
            // signal finds `seen` false and sets it.
            low_level::pipe::register(signal, tell.try_clone()?)?;
            flag::register_conditional_shutdown(signal, 130, Arc::clone(&seen))?;
            flag::register(signal, Arc::clone(&seen))?;
        }
        flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        Ok(Self(hear))
    }

    /// Comes true at the first signal. To be called inside a runtime.
    pub(crate) fn watch(self) -> Result<watch::Receiver<bool>, Failure> {
        let (cancel, cancelled) = watch::channel(false);
        let heard = self.heard()?;
        tokio::spawn(async move {
            heard.await;
            cancel.send_replace(true);
        });
        Ok(cancelled)
    }

    /// Ends at the first signal. To be called inside a runtime.
    pub(crate) fn heard(self) -> Result<impl Future<Output = ()>, Failure> {
        self.0.set_nonblocking(true).map_err(Failure::runtime)?;
        let mut hear = tokio::net::UnixStream::from_std(self.0).map_err(Failure::runtime)?;
        Ok(async move {
            if hear.read_u8().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

impl AsFd for Interrupt {
    /// Can be read from the first signal on.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Those that our caller does not ignore: `nohup` means what it says.
fn wanted() -> impl Iterator<Item = i32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(move |signal| ignored & (1 << (signal - 1)) == 0)
}
