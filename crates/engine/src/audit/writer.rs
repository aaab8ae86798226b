//! The one thread that writes: it takes every entry that waits and commits them together.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use tokio::sync::{oneshot, watch};

use super::entry::Entry;
use super::error::AuditError;
use super::schema;
use super::store::Store;

/// Entries in one commit.
const MOST: usize = 256;
/// Entries of runs that ended while the trail could not be written; they are written when it can be again.
const MOST_OWED: usize = 1024;

type Answer = oneshot::Sender<Result<(), AuditError>>;

/// What the thread is asked to do: write this, or only what it still owes.
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

/// The thread that writes, and the way to it. Dropping it waits until everything is written.
pub(super) struct Writer {
    jobs: Option<Sender<Job>>,
    state: watch::Receiver<State>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread, which begins to open the trail.
    pub(super) fn start(folder: &Path) -> Self {
        let (jobs, queue) = mpsc::channel();
        let (told, state) = watch::channel(State::Opening);
        let desk = Desk { folder: folder.to_path_buf(), owed: Vec::new(), state: told };
        // Without a thread the queue is gone, and every request is told so.
        let thread = thread::Builder::new().name("audit".to_owned()).spawn(move || desk.work(&queue)).ok();
        Self { jobs: Some(jobs), state, thread }
    }

    pub(super) async fn ready(&self) -> Result<(), AuditError> {
        let mut state = self.state.clone();
        let known = state.wait_for(|state| *state != State::Opening).await.map(|state| *state);
        match known.map_err(|_| AuditError::Gone)? {
            State::Good => Ok(()),
            // It may be mended by now: whoever comes next tries.
            State::Bad | State::Opening => self.ask(None)?.await.map_err(|_| AuditError::Gone)?,
        }
    }

    pub(super) async fn record(&self, entry: Entry) -> Result<(), AuditError> {
        self.send(entry)?.await.map_err(|_| AuditError::Gone)?
    }

    /// Puts an entry into the queue; the receiver hears when it is committed.
    pub(super) fn send(&self, entry: Entry) -> Result<oneshot::Receiver<Result<(), AuditError>>, AuditError> {
        self.ask(Some(entry))
    }

    fn ask(&self, entry: Option<Entry>) -> Result<oneshot::Receiver<Result<(), AuditError>>, AuditError> {
        let (answer, heard) = oneshot::channel();
        let jobs = self.jobs.as_ref().ok_or(AuditError::Gone)?;
        jobs.send(Job { entry, answer }).map_err(|_| AuditError::Gone)?;
        Ok(heard)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread has before it.
struct Desk {
    folder: PathBuf,
    owed: Vec<Entry>,
    state: watch::Sender<State>,
}

impl Desk {
    /// Opens the trail and writes, until nobody can ask any more. Where that fails, whoever comes next tries again.
    fn work(mut self, queue: &Receiver<Job>) {
        let mut jobs = Vec::new();
        loop {
            match schema::open(&schema::path(&self.folder)) {
                Ok(connection) => match Store::new(&connection, &self.folder) {
                    Ok(store) => self.keep(store, queue, jobs),
                    Err(error) => self.settle(jobs, |_| Err(error)),
                },
                Err(error) => self.settle(jobs, |_| Err(error)),
            };
            let Some(next) = wait(queue) else { return };
            jobs = next;
        }
    }

    /// Writes until something fails; what SQLite holds may then be of a file that is gone.
    fn keep(&mut self, mut store: Store<'_>, queue: &Receiver<Job>, jobs: Vec<Job>) -> bool {
        let mut jobs = jobs;
        while self.settle(jobs, |entries| store.append(entries)) {
            // The disk is waited for when nobody waits for us.
            store.tidy();
            let Some(next) = wait(queue) else { return true };
            jobs = next;
        }
        false
    }

    /// Writes what is owed and what is asked, and tells everybody; whether it went well.
    fn settle(&mut self, jobs: Vec<Job>, write: impl FnOnce(&mut Vec<Entry>) -> Result<(), AuditError>) -> bool {
        let mut batch = std::mem::take(&mut self.owed);
        let (entries, answers): (Vec<_>, Vec<_>) = jobs.into_iter().map(|job| (job.entry, job.answer)).unzip();
        batch.extend(entries.into_iter().flatten());
        let written = write(&mut batch);
        batch.truncate(MOST_OWED);
        self.owed = batch;
        let state = if written.is_ok() { State::Good } else { State::Bad };
        self.state.send_if_modified(|known| std::mem::replace(known, state) != state);
        for answer in answers {
            // Whoever asked may be gone.
            let _ = answer.send(written.clone());
        }
        written.is_ok()
    }
}

/// Everything that waits, once something does; `None` when nobody is left to ask.
fn wait(queue: &Receiver<Job>) -> Option<Vec<Job>> {
    let first = queue.recv().ok()?;
    Some(std::iter::once(first).chain(queue.try_iter().take(MOST - 1)).collect())
}
