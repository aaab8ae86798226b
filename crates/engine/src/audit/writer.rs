//! The one thread that writes: it takes every entry that waits and commits them together.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use tokio::sync::{oneshot, watch};

use super::entry::Entry;
use super::error::AuditError;
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
        let desk = Desk { folder: folder.to_path_buf(), store: None, owed: Vec::new(), state: told };
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
    store: Option<Store>,
    owed: Vec<Entry>,
    state: watch::Sender<State>,
}

impl Desk {
    fn work(mut self, queue: &Receiver<Job>) {
        let opened = self.open();
        self.tell(&opened);
        while let Ok(first) = queue.recv() {
            let mut jobs = vec![first];
            jobs.extend(queue.try_iter().take(MOST - 1));
            let answers = self.commit(jobs);
            for (answer, result) in answers {
                // Whoever asked may be gone.
                let _ = answer.send(result);
            }
            if let Some(store) = &mut self.store {
                store.tidy();
            }
        }
    }

    fn open(&mut self) -> Result<(), AuditError> {
        if self.store.is_none() {
            self.store = Some(Store::open(&self.folder)?);
        }
        Ok(())
    }

    fn commit(&mut self, jobs: Vec<Job>) -> Vec<(Answer, Result<(), AuditError>)> {
        let mut batch = std::mem::take(&mut self.owed);
        let mut answers = Vec::new();
        for Job { entry, answer } in jobs {
            batch.extend(entry);
            answers.push(answer);
        }
        let written = self.open().and_then(|()| match &mut self.store {
            Some(store) if !batch.is_empty() => store.append(&mut batch),
            _ => Ok(()),
        });
        if written.is_err() {
            // What SQLite holds may be of a file that is gone.
            self.store = None;
            batch.truncate(MOST_OWED);
            self.owed = batch;
        }
        self.tell(&written);
        answers.into_iter().map(|answer| (answer, written.clone())).collect()
    }

    fn tell(&self, result: &Result<(), AuditError>) {
        let state = if result.is_ok() { State::Good } else { State::Bad };
        self.state.send_if_modified(|known| std::mem::replace(known, state) != state);
    }
}
