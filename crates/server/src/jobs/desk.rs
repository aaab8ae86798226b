//! All jobs: which wait, which are worked on, and those that have ended. A few at once, and whoever has fewest under way
//! is next. What is accepted is on disk before anybody is told so: after a restart it goes on where it was.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use axum::body::Bytes;
use engine::{AdmissionError, Caller, Engine, RunError, new_id};
use evals::jobs::{JobError, Order, Rules, Site, Work};
use tokio::sync::watch;
use types::{ErrorBody, ErrorCode, Timestamp};

use super::job::{Job, Line, State};
use super::journal::Journal;
use crate::activity::turned;
use crate::error::{Refusal, stopping};
use crate::keys::Ring;

/// Of each owner: jobs that wait or are worked on.
const MOST_OPEN: u32 = 16;
/// Of each owner: jobs that have ended and are kept.
const MOST_KEPT: usize = 100;
/// How often in a row the server may go away over a job that is begun again: it may be the reason.
const MOST_CRASHES: u64 = 3;

/// All of them.
pub(crate) struct Desk {
    engine: Arc<Engine>,
    journal: Journal,
    inner: Mutex<Inner>,
    /// Turns true when the server ends.
    stop: watch::Sender<bool>,
}

#[derive(Default)]
struct Inner {
    jobs: HashMap<String, Arc<Job>>,
    queue: VecDeque<(Arc<Job>, Arc<Work>)>,
    running: Vec<Arc<Job>>,
    /// By kind and end.
    ended: BTreeMap<(String, &'static str), u64>,
}

/// What counts of jobs.
pub(crate) struct Counts {
    pub(crate) queued: usize,
    pub(crate) running: usize,
    pub(crate) ended: BTreeMap<(String, &'static str), u64>,
}

impl Desk {
    /// With the jobs from before: those that have not ended wait again.
    pub(crate) fn open(engine: Arc<Engine>, keys: &Ring) -> io::Result<Arc<Self>> {
        let journal = Journal::open(engine.state())?;
        let desk = Self { engine, journal, inner: Mutex::default(), stop: watch::Sender::new(false) };
        for page in desk.journal.read()? {
            let (owner, is_known) = match &page.key {
                None => (page.first_owner(), true),
                Some(id) => match keys.by_id(id) {
                    Some(identity) => (identity.caller, true),
                    None => (page.former_owner(id), false),
                },
            };
            let job = Arc::new(Job::from_page(&page, &owner));
            desk.lock().jobs.insert(job.id.clone(), Arc::clone(&job));
            if !job.is_open() {
                continue;
            }
            match desk.again(&job, is_known) {
                Ok(work) => desk.lock().queue.push_back((job, Arc::new(work))),
                Err(body) => {
                    let refusal = Refusal::new(body.code, body.message, body.hint);
                    job.close(State::Interrupted(refusal.written().1.into()));
                    // What cannot be written is found out again at the next start.
                    let _ = desk.journal.write(&job.page());
                    job.tell_end();
                }
            }
        }
        Ok(Arc::new(desk))
    }

    /// What there is left to do of a job from before.
    fn again(&self, job: &Job, is_known: bool) -> Result<Work, ErrorBody> {
        let interrupted = |why: &str| ErrorBody {
            code: ErrorCode::ServerGone,
            message: format!("the job was interrupted, and {why}"),
            hint: "ask for it again".to_owned(),
        };
        if !is_known {
            return Err(interrupted("its key is not valid any more"));
        }
        if job.crashes() >= MOST_CRASHES {
            return Err(interrupted("the server went away too often over it"));
        }
        let order = self.journal.order(&job.id).map_err(|_| interrupted("what was asked for is lost"))?;
        let plan = Order::read(&order).and_then(|order| self.plan(&job.owner, &order));
        plan.map_err(|error| interrupted(&format!("cannot go on: {error}")))
    }

    /// What there is to do, by the rules of this host.
    pub(super) fn plan(&self, caller: &Caller, order: &Order) -> Result<Work, JobError> {
        let earlier = |id: &str| Some(self.journal.work(&self.get(caller, id).ok()?.id));
        let places = self.engine.gauges().places;
        order.plan(&Rules { settings: self.engine.job_settings(), places, earlier: &earlier })
    }

    /// Accepts a job.
    pub(super) fn begin(
        self: &Arc<Self>,
        caller: &Caller,
        kind: &str,
        body: &[u8],
        work: Work,
    ) -> Result<Arc<Job>, RunError> {
        let created: Timestamp = SystemTime::now().into();
        let job = Arc::new(Job::new(new_id("job"), kind, caller, created, work.progress()));
        {
            let mut inner = self.lock();
            let open = inner.jobs.values().filter(|job| job.is_open() && name(&job.owner) == name(caller)).count();
            if open >= MOST_OPEN as usize {
                return Err(AdmissionError::Concurrent { most: MOST_OPEN }.into());
            }
            inner.jobs.insert(job.id.clone(), Arc::clone(&job));
        }
        let written = self.journal.begin(&job.id, body).and_then(|()| self.journal.write(&job.page()));
        if let Err(source) = written {
            self.lock().jobs.remove(&job.id);
            self.journal.remove(&job.id);
            return Err(RunError::State { path: "jobs".into(), source });
        }
        self.lock().queue.push_back((Arc::clone(&job), Arc::new(work)));
        self.go_on();
        Ok(job)
    }

    /// Begins what there is room for. To be called inside a runtime.
    pub(crate) fn go_on(self: &Arc<Self>) {
        let most = self.engine.job_settings().running.max(1);
        loop {
            let mut inner = self.lock();
            if *self.stop.borrow() || inner.running.len() >= most {
                return;
            }
            let under_way = |owner: &Caller| inner.running.iter().filter(|job| name(&job.owner) == name(owner)).count();
            let waiting = inner.queue.iter().enumerate();
            let next = waiting.min_by_key(|(at, (job, _))| (under_way(&job.owner), *at)).map(|(at, _)| at);
            let Some((job, work)) = next.and_then(|at| inner.queue.remove(at)) else { return };
            inner.running.push(Arc::clone(&job));
            drop(inner);
            tokio::spawn(Arc::clone(self).carry_out(job, work));
        }
    }

    async fn carry_out(self: Arc<Self>, job: Arc<Job>, work: Arc<Work>) {
        job.begin();
        let _ = self.journal.write(&job.page());
        let (mut cancelled, mut stop) = (job.cancel.subscribe(), self.stop.subscribe());
        let teller = Arc::clone(&job);
        let site = Site {
            id: job.id.clone(),
            folder: self.journal.work(&job.id),
            engine: Arc::clone(&self.engine),
            caller: job.owner.clone(),
            listener: Arc::new(move |step| teller.tell(&step)),
        };
        // A task of its own: if it breaks down, the job has failed, and nothing else.
        let mut task = tokio::spawn(async move { work.carry_out(&site).await });
        let end = tokio::select! {
            done = &mut task => Some(done),
            () = turned(&mut cancelled) => None,
            () = turned(&mut stop) => None,
        };
        let end = match end {
            Some(Ok(Ok(result))) => Some(State::Ended(result.to_string().into())),
            Some(Ok(Err(error))) => Some(failed(error.body())),
            Some(Err(_)) => Some(failed(ErrorBody {
                code: ErrorCode::SandboxFailed,
                message: "the job broke down".to_owned(),
                hint: "this is a defect of saggar: please report it".to_owned(),
            })),
            None => {
                task.abort();
                // What it held is free when it is gone.
                drop(task.await);
                cancelled.borrow().then_some(State::Cancelled)
            }
        };
        if let Some(state) = end {
            self.close(&job, state);
        } else {
            // It goes on after a restart; what was done by then is on record.
            job.pause();
            let _ = self.journal.write(&job.page());
        }
        self.lock().running.retain(|other| other.id != job.id);
        self.go_on();
    }

    fn close(&self, job: &Arc<Job>, state: State) {
        job.close(state);
        *self.lock().ended.entry((job.kind.clone(), job.state_name())).or_default() += 1;
        // What cannot be written is done again after a restart.
        let _ = self.journal.write(&job.page());
        job.tell_end();
        self.prune(&job.owner);
    }

    /// Forgets the oldest of those that have ended, if there are too many.
    fn prune(&self, owner: &Caller) {
        let mut ended: Vec<Arc<Job>> = {
            let inner = self.lock();
            let own = inner.jobs.values().filter(|job| !job.is_open() && name(&job.owner) == name(owner));
            own.cloned().collect()
        };
        ended.sort_by_key(|job| job.line().created);
        for job in ended.iter().take(ended.len().saturating_sub(MOST_KEPT)) {
            self.forget(job);
        }
    }

    /// A job by its name, for somebody who may know of it. Others' are like those that never were.
    pub(super) fn get(&self, caller: &Caller, id: &str) -> Result<Arc<Job>, Refusal> {
        let found = self.lock().jobs.get(id).cloned();
        found.filter(|job| caller.may_use(&job.owner)).ok_or_else(|| {
            Refusal::new(ErrorCode::NotFound, "there is no job of this name", "`GET /v1/jobs` lists those there are")
        })
    }

    /// Jobs that this caller may know of, newest first.
    pub(super) fn list(&self, caller: &Caller) -> Vec<Line> {
        let mut lines: Vec<Line> = {
            let inner = self.lock();
            inner.jobs.values().filter(|job| caller.may_use(&job.owner)).map(|job| job.line()).collect()
        };
        lines.sort_by_key(|line| std::cmp::Reverse(line.created));
        lines
    }

    /// Takes a job back that waits or is worked on.
    pub(super) fn cancel(&self, job: &Arc<Job>) {
        let waiting = {
            let mut inner = self.lock();
            let at = inner.queue.iter().position(|(other, _)| other.id == job.id);
            at.and_then(|at| inner.queue.remove(at)).is_some()
        };
        if waiting {
            self.close(job, State::Cancelled);
        } else {
            job.cancel.send_replace(true);
        }
    }

    /// Forgets one that has ended, and what it has kept.
    pub(super) fn forget(&self, job: &Job) {
        self.lock().jobs.remove(&job.id);
        self.journal.remove(&job.id);
    }

    /// Whether anything waits or is worked on.
    pub(crate) fn is_busy(&self) -> bool {
        let inner = self.lock();
        !inner.queue.is_empty() || !inner.running.is_empty()
    }

    pub(crate) fn counts(&self) -> Counts {
        let inner = self.lock();
        let is_running = |job: &&Arc<Job>| job.is(&State::Running);
        let running = inner.running.iter().filter(is_running).count();
        Counts { queued: inner.queue.len(), running, ended: inner.ended.clone() }
    }

    /// Stops work for now. Nothing is lost: it goes on after a restart.
    pub(crate) async fn stop(&self) {
        self.stop.send_replace(true);
        while !self.lock().running.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(body: ErrorBody) -> State {
    State::Failed(Bytes::from(Refusal::new(body.code, body.message, body.hint).json().1))
}

/// Whose it is, for what each owner has of his own.
fn name(caller: &Caller) -> &str {
    caller.key().unwrap_or("")
}

/// To whoever asks for a job when the server ends.
pub(super) fn refuse_at_the_end(desk: &Desk) -> Result<(), Refusal> {
    if *desk.stop.borrow() { Err(stopping()) } else { Ok(()) }
}
