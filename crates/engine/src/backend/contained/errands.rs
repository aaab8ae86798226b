//! A thread of its own for the talk with somebody elsewhere, so that whoever must wait for it can do so without a runtime.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{mpsc, oneshot};

/// How long we stay for what is still to be removed.
const FAREWELL: Duration = Duration::from_secs(10);

/// The thread, and what is under way on it.
pub(in crate::backend) struct Errands {
    pub(in crate::backend) handle: Handle,
    /// Ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
    /// One sender for each thing that is waited for at the end; closed when there is none.
    removing: Mutex<Option<mpsc::Sender<()>>>,
    removed: Mutex<mpsc::Receiver<()>>,
}

impl Errands {
    pub(in crate::backend) fn new(name: &str) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let body = move || {
            // Either way it is time.
            drop(runtime.block_on(stopped));
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body)?;
        let (removing, removed) = mpsc::channel(1);
        Ok(Self {
            handle,
            stop: Some(stop),
            thread: Some(thread),
            removing: Mutex::new(Some(removing)),
            removed: Mutex::new(removed),
        })
    }

    /// Does something on the thread; `None` if the thread is gone.
    pub(in crate::backend) async fn on_thread<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.handle.spawn(work).await.ok()
    }

    /// Goes on by itself on the thread.
    pub(in crate::backend) fn beside(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }

    /// Whoever holds it is waited for at our end.
    pub(in crate::backend) fn under_way(&self) -> Option<mpsc::Sender<()>> {
        self.removing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Errands {
    fn drop(&mut self) {
        drop(self.removing.lock().unwrap_or_else(PoisonError::into_inner).take());
        let mut removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        wait(async {
            // The clock is that of the thread.
            let timeout = self.handle.spawn(async { tokio::time::sleep(FAREWELL).await });
            tokio::select! {
                _ = removed.recv() => {}
                _ = timeout => {}
            }
        });
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Waits for something that happens on another thread. It needs no runtime; where other tasks share this thread, they
/// move to another meanwhile.
pub(in crate::backend) fn wait<T>(work: impl Future<Output = T>) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(|| park_until(work)),
        _ => park_until(work),
    }
}

fn park_until<T>(work: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    // Without it the runtime's patience with this task would end, and nobody would come to renew it.
    let mut work = pin!(tokio::task::unconstrained(work));
    loop {
        match work.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
