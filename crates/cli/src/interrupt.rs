//! Ctrl-C and its like.

use std::fs;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::failure::Failure;

/// Turns true at the first signal; a second one ends us at once, and the keeper with us.
///
/// A thread of its own listens: ours may be blocked in a write to a terminal that nobody reads.
pub(crate) fn listen() -> Result<watch::Receiver<bool>, Failure> {
    let (cancel, cancelled) = watch::channel(false);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(Failure::runtime)?;
    let signals = {
        let _inside = runtime.enter();
        // Past a file size limit a write fails then, and is reported, in place of ending us.
        let too_large = signal(SignalKind::from_raw(25)).map_err(Failure::runtime)?;
        let signals: Result<Vec<Signal>, _> = wanted().into_iter().map(signal).collect();
        (signals.map_err(Failure::runtime)?, too_large)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            let (signals, _too_large) = signals;
            let tasks: Vec<_> =
                signals.into_iter().map(|signals| tokio::spawn(until_second(signals, cancel.clone()))).collect();
            for task in tasks {
                drop(task.await);
            }
        });
    });
    Ok(cancelled)
}

async fn until_second(mut signals: Signal, cancel: watch::Sender<bool>) {
    while signals.recv().await.is_some() {
        if cancel.send_replace(true) {
            std::process::exit(130);
        }
    }
}

/// Those that our caller does not ignore: `nohup` means what it says.
fn wanted() -> Vec<SignalKind> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
        .into_iter()
        .filter(|kind| ignored & (1 << (kind.as_raw_value() - 1)) == 0)
        .collect()
}
