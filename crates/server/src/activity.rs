//! Counting what is under way: runs for `--idle-exit`, connections for a stop that cuts nobody short; and signals.

use tokio::sync::watch;

/// How many of something are under way.
#[derive(Debug, Clone)]
pub(crate) struct Activity(watch::Sender<usize>);

impl Activity {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// One more, until the guard is dropped.
    pub(crate) fn begin(&self) -> Underway {
        self.0.send_modify(|count| *count += 1);
        Underway(self.0.clone())
    }

    /// How many there are now.
    pub(crate) fn count(&self) -> usize {
        *self.0.borrow()
    }

    /// Waits until nothing is under way.
    pub(crate) async fn none(&self) {
        drop(self.0.subscribe().wait_for(|count| *count == 0).await);
    }

    /// Waits until nothing has been under way for `time`.
    pub(crate) async fn quiet_for(&self, time: std::time::Duration) {
        let mut changes = self.0.subscribe();
        loop {
            drop(changes.wait_for(|count| *count == 0).await);
            tokio::select! {
                () = tokio::time::sleep(time) => return,
                _ = changes.changed() => {}
            }
        }
    }
}

/// Waits for a signal to turn true; forever, if nobody is left to turn it.
pub(crate) async fn turned(signal: &mut watch::Receiver<bool>) {
    if signal.wait_for(|on| *on).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Something that is under way.
#[derive(Debug)]
pub(crate) struct Underway(watch::Sender<usize>);

impl Drop for Underway {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
