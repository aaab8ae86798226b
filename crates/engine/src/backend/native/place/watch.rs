//! Watching folders of a sandbox that stays.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use jail::inside::{Event, Files, SECOND_HALF, Watch};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use types::GuestPath;

use crate::backend::{FileEvent, Reach};

/// Events that wait for a reader; then the kernel keeps them, and says when it could not.
const QUEUE: usize = 256;

/// Begins to watch a folder; what happens from now on comes out, until nobody receives.
pub(super) fn begin(files: &Files, path: &GuestPath, reach: Reach) -> io::Result<mpsc::Receiver<FileEvent>> {
    let watch = files.watch(path, reach.into())?;
    let (tell, told) = mpsc::channel(QUEUE);
    #[expect(
        deprecated,
        reason = "its successor is unsafe for types that may change their descriptor; this one cannot"
    )]
    let inotify = AsyncFd::new(watch.descriptor())?;
    tokio::spawn(follow(watch, inotify, tell));
    Ok(told)
}

async fn follow(mut watch: Watch, inotify: AsyncFd<Arc<OwnedFd>>, tell: mpsc::Sender<FileEvent>) {
    loop {
        let events = tokio::select! {
            ready = inotify.readable() => {
                let Ok(mut ready) = ready else { return };
                match ready.try_io(|_| watch.read()) {
                    Err(_) => continue,
                    Ok(Ok(events)) => events,
                    Ok(Err(_)) => return,
                }
            }
            () = tokio::time::sleep(SECOND_HALF), if watch.waits() => watch.wait_no_longer(),
            () = tell.closed() => return,
        };
        if send(events, &tell).await.is_err() || watch.is_over() {
            return;
        }
    }
}

async fn send(events: Vec<Event>, tell: &mpsc::Sender<FileEvent>) -> Result<(), ()> {
    for event in events {
        tell.send(event.into()).await.map_err(drop)?;
    }
    Ok(())
}
