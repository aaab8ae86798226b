//! Writing: whoever comes first commits what waits, his own entry and others'; a thread does what takes time.
//!
//! An entry is put in line. If nobody is writing, its owner writes all that is in line there and then: a commit takes
//! less than it would to wake somebody and be woken. If somebody is, or another process has the trail, or something is
//! wrong, the thread is called, which can wait.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::entry::Entry;
use super::error::AuditError;
use super::head::Patience;
use super::store::{AppendError, Store};

/// Entries in one commit.
const MOST: usize = 256;
/// Entries of runs that ended while the trail could not be written; they are written when it can be again.
const MOST_OWED: usize = 1024;

type Answer = oneshot::Sender<Result<(), AuditError>>;
type Heard = oneshot::Receiver<Result<(), AuditError>>;

/// What somebody waits for: that this is written, or that anything could be.
struct Job {
    entry: Option<Entry>,
    answer: Answer,
}

/// Whether the trail can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Opening,
    Good,
    Bad,
}

/// The way to the trail. Dropping it waits until everything is written.
pub(super) struct Writer {
    shared: Arc<Shared>,
    state: watch::Receiver<State>,
    call: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    line: Mutex<Vec<Job>>,
    desk: Mutex<Desk>,
}

/// Where one at a time writes.
struct Desk {
    folder: PathBuf,
    store: Option<Store>,
    owed: Vec<Entry>,
    state: watch::Sender<State>,
}

impl Writer {
    /// Starts the thread, which begins to open the trail.
    pub(super) fn start(folder: &Path) -> Self {
        let (told, state) = watch::channel(State::Opening);
        let desk = Desk { folder: folder.to_path_buf(), store: None, owed: Vec::new(), state: told };
        let shared = Arc::new(Shared { line: Mutex::default(), desk: Mutex::new(desk) });
        let (call, calls) = mpsc::channel();
        let work = Arc::clone(&shared);
        let thread = thread::Builder::new().name("audit".to_owned()).spawn(move || work.answer(&calls)).ok();
        if thread.is_none() {
            // Nobody hears a call, and every request is told so.
            lock(&shared.desk).tell(State::Bad);
        }
        Self { shared, state, call: Some(call), thread }
    }

    pub(super) async fn ready(&self) -> Result<(), AuditError> {
        let mut state = self.state.clone();
        let known = state.wait_for(|state| *state != State::Opening).await.map(|state| *state);
        match known.map_err(|_| AuditError::Gone)? {
            State::Good => Ok(()),
            // It may be mended by now: whoever comes next tries.
            State::Bad | State::Opening => {
                let heard = self.join(None);
                self.call()?;
                heard.await.map_err(|_| AuditError::Gone)?
            }
        }
    }

    pub(super) async fn record(&self, entry: Entry) -> Result<(), AuditError> {
        let heard = self.join(Some(entry));
        if self.shared.write_now() == Left::Something {
            self.call()?;
        }
        heard.await.map_err(|_| AuditError::Gone)?
    }

    /// The same for one of many: somebody among them will write for all. After `patience` it is whoever has waited longest.
    pub(super) async fn record_among(&self, entry: Entry, patience: Duration) -> Result<(), AuditError> {
        let mut heard = self.join(Some(entry));
        if let Ok(told) = timeout(patience, &mut heard).await {
            return told.map_err(|_| AuditError::Gone)?;
        }
        if self.shared.write_now() == Left::Something {
            self.call()?;
        }
        heard.await.map_err(|_| AuditError::Gone)?
    }

    /// Puts an entry in line for whoever records next, or leaves: nobody waits for it, and a commit is spared.
    pub(super) fn record_with_next(&self, entry: Entry) {
        drop(self.join(Some(entry)));
        if lock(&self.shared.line).len() >= MOST / 2 {
            // Where the thread is gone, everybody who waits is told.
            let _ = self.call();
        }
    }

    /// Puts an entry in line that nobody waits for.
    pub(super) fn record_later(&self, entry: Entry) {
        drop(self.join(Some(entry)));
        // Where the thread is gone, everybody who waits is told.
        let _ = self.call();
    }

    /// Whether the next one would wait for what this one left undone.
    pub(super) fn is_long(&self) -> bool {
        lock(&self.shared.desk).store.as_ref().is_some_and(Store::is_long)
    }

    fn join(&self, entry: Option<Entry>) -> Heard {
        let (answer, heard) = oneshot::channel();
        lock(&self.shared.line).push(Job { entry, answer });
        heard
    }

    fn call(&self) -> Result<(), AuditError> {
        self.call.as_ref().and_then(|call| call.send(()).ok()).ok_or(AuditError::Gone)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.call = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether there is something left for the thread to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    Something,
}

impl Shared {
    /// Writes what is in line, if that can be done at once.
    fn write_now(&self) -> Left {
        let Ok(mut desk) = self.desk.try_lock() else { return Left::Something };
        if desk.store.is_none() || !desk.owed.is_empty() {
            return Left::Something;
        }
        let jobs = self.next();
        match desk.append(&jobs, Patience::None) {
            Err(AppendError::Nothing(_)) => {
                // The thread can wait, open the trail anew, and say what is wrong.
                lock(&self.line).splice(..0, jobs);
                Left::Something
            }
            Ok(()) => self.left(desk.settle(jobs, &Ok(()))),
            Err(AppendError::NoHead(error)) => self.left(desk.settle(jobs, &Err(error))),
        }
    }

    /// The line may be longer than one commit.
    fn left(&self, settled: Left) -> Left {
        if lock(&self.line).is_empty() { settled } else { Left::Something }
    }

    /// The thread: opens the trail, and comes when it is called.
    fn answer(&self, calls: &Receiver<()>) {
        lock(&self.desk).open();
        while calls.recv().is_ok() {
            // One visit answers everybody who has called so far.
            calls.try_iter().for_each(drop);
            if let Some(store) = &mut self.write_all().store {
                store.tidy();
            }
        }
        if let Some(store) = self.write_all().store.take() {
            store.leave();
        }
    }

    /// Writes everything that is in line.
    fn write_all(&self) -> MutexGuard<'_, Desk> {
        let mut desk = lock(&self.desk);
        loop {
            let jobs = self.next();
            if jobs.is_empty() {
                return desk;
            }
            desk.write(jobs);
        }
    }

    fn next(&self) -> Vec<Job> {
        let mut line = lock(&self.line);
        let most = line.len().min(MOST);
        line.drain(..most).collect()
    }
}

impl Desk {
    fn open(&mut self) {
        let opened = Store::open(&self.folder);
        self.tell(if opened.is_ok() { State::Good } else { State::Bad });
        self.store = opened.ok();
    }

    /// Writes what is owed and what is asked, however long it takes.
    fn write(&mut self, jobs: Vec<Job>) {
        let opened = match self.store {
            Some(_) => Ok(()),
            None => Store::open(&self.folder).map(|store| self.store = Some(store)),
        };
        let written = opened.map_err(AppendError::Nothing).and_then(|()| self.append(&jobs, Patience::Some));
        let result = match written {
            Ok(()) => Ok(()),
            Err(AppendError::NoHead(error)) => Err(error),
            Err(AppendError::Nothing(error)) => {
                let room = MOST_OWED.saturating_sub(self.owed.len());
                self.owed.extend(jobs.iter().filter_map(|job| job.entry.clone()).take(room));
                // What SQLite holds may be of a file that is gone.
                self.store = None;
                Err(error)
            }
        };
        self.settle(jobs, &result);
    }

    fn append(&mut self, jobs: &[Job], patience: Patience) -> Result<(), AppendError> {
        let entries: Vec<&Entry> = self.owed.iter().chain(jobs.iter().filter_map(|job| job.entry.as_ref())).collect();
        let written = match &mut self.store {
            Some(store) => store.append(&entries, patience),
            None => Err(AppendError::Nothing(AuditError::Gone)),
        };
        if !matches!(written, Err(AppendError::Nothing(_))) {
            self.owed.clear();
        }
        written
    }

    /// Tells everybody.
    fn settle(&self, jobs: Vec<Job>, result: &Result<(), AuditError>) -> Left {
        self.tell(if result.is_ok() { State::Good } else { State::Bad });
        for Job { answer, .. } in jobs {
            // Whoever asked may be gone.
            let _ = answer.send(result.clone());
        }
        if self.store.as_ref().is_some_and(Store::is_untidy) { Left::Something } else { Left::Nothing }
    }

    fn tell(&self, state: State) {
        self.state.send_if_modified(|known| std::mem::replace(known, state) != state);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
