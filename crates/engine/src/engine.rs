//! The corridor: every door turns its input into a request and calls [`Engine::execute`].

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use types::{BackendKind, ExecRequest, ExecResult, Layer, Limits, LimitsSpec};

use crate::admission::{self, Gate, Pass};
use crate::audit::{Account, Audit, AuditError, Entry, Executed};
use crate::backend::{Backend, Native, Output, Packages, Stdin};
use crate::e2b_settings::E2bSettings;
use crate::error::RunError;
use crate::files::{Inputs, Receive};
use crate::image::Sources;
use crate::job_settings::JobSettings;
use crate::language::{self, Found, Known};
use crate::metrics::Metrics;
use crate::model_review::{self, Opinion, Reviewer};
use crate::network::Rules;
use crate::pool::Foresight;
use crate::queue::Queue;
use crate::review::{self, Reviewed};
use crate::run::{Built, Run, cancel_by};
use crate::server_settings::ServerSettings;
use crate::session::{Registry, Shelf};
use crate::settings::{Allowance, FusionSettings, Settings};
use crate::state;
use crate::station::{Station, Stations};
use crate::usage::{Books, Ledger};
use crate::watch::{Step, Steps, Trace, Watcher, Watching};

/// Sandboxes that one judged task may hold: two for tests, one for calls, one for a checker.
pub const MOST_AT_ONCE: usize = 4;

/// From so many to come on, one of them soon has company.
const IN_COMPANY: usize = 8;

/// Who asks. Doors for other people than the owner of the machine bring their own ceiling.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// Whose turn it is: runs of one caller wait for each other, not for those of another. Also who it was, for the
    /// audit trail.
    pub name: String,
    /// By what right, and thus how often.
    pub standing: Standing,
    /// Walls that this caller gives up by name, on top of the settings'.
    pub accept_missing: Vec<Layer>,
    /// Layers that this caller insists on, on top of the settings'.
    pub require: Vec<Layer>,
    /// Whether what he asks for is part of something that was admitted.
    pub admission: Admission,
    /// What his requests are a part of, for whoever watches.
    pub trace: Option<Trace>,
}

/// Whether a caller has passed admission.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Admission {
    /// Every request is counted.
    #[default]
    Due,
    /// The whole was counted, and this is a part of it.
    Done,
}

impl Caller {
    /// The id of the key that was shown, if it was made for somebody; never the key.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match &self.standing {
            Standing::Key { id, .. } => Some(id),
            Standing::Owner | Standing::FirstKey => None,
        }
    }

    /// Whether he may use what `owner` has made: the owner of the machine everything, others what is their own.
    #[must_use]
    pub fn may_use(&self, owner: &Self) -> bool {
        match &self.standing {
            Standing::Owner | Standing::FirstKey => true,
            Standing::Key { id, .. } => owner.key() == Some(id),
        }
    }
}

/// By what right somebody asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Standing {
    /// The owner of the machine: the command line and the Unix socket.
    #[default]
    Owner,
    /// Whoever has the key of the first start.
    FirstKey,
    /// Whoever has a key that the owner made.
    Key {
        /// What the key is called; not the key.
        id: String,
        /// What this key may, if not what all of them may.
        allowance: Option<Allowance>,
    },
}

/// How a run is connected to whoever asked for it.
#[derive(Default)]
pub struct Delivery<'a> {
    /// In place of the request's own `stdin`.
    pub stdin: Option<Stdin>,
    /// Reads along.
    pub live: Option<&'a mut dyn Output>,
    /// Opens the files of the caller's machine that the request names; without it there are none.
    pub inputs: Option<&'a mut dyn Inputs>,
    /// Gets the files that the run made.
    pub out: Option<&'a mut dyn Receive>,
    /// Takes the run back when it turns true.
    pub cancel: Option<watch::Receiver<bool>>,
    /// What drives the code in place of the recipe's own way of running it.
    pub harness: Harness,
    /// How long the compiler may take, in place of the usual time; never more than the ceiling.
    pub compile_wall: Option<Duration>,
    /// Where the compiler's work is kept for the next run of the same code; filled by the first.
    pub built: Option<&'a mut Option<Built>>,
    /// The run's name, where somebody was told it already.
    pub id: Option<String>,
    /// Services that a run with a way out may reach by these names and ports, also where their addresses are private.
    pub reach: Vec<(String, u16)>,
    /// What was installed for the run where its backend is: [`Engine::packages_for_script`].
    pub packages: Option<Packages>,
}

/// A program of ours that loads the code and converses about it. Its standard input and output are the conversation,
/// passed on whole and as they come; whatever the code itself prints is in `stderr` of the result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Harness {
    /// None: the code is simply run.
    #[default]
    None,
    /// The judge's: calls into the code, one process for each.
    Judge,
}

/// Runs requests. One for each process; cheap until the first run.
pub struct Engine {
    pub(crate) settings: Settings,
    known: Known,
    pub(crate) stations: Stations,
    pub(crate) audit: Audit,
    gate: Gate,
    pub(crate) queue: Queue,
    pub(crate) metrics: Metrics,
    /// Places for what holds several sandboxes at once.
    several: Arc<Semaphore>,
    reviewer: Option<Reviewer>,
    ledger: OnceLock<Arc<Ledger>>,
    /// Who watches requests, if anybody does.
    watcher: OnceLock<Box<dyn Watcher>>,
    pub(crate) sessions: Registry,
    /// Sandboxes for sessions to come.
    pub(crate) ahead: Shelf,
}

impl Engine {
    /// Opens the state folder and, beside whatever comes next, the audit trail in it; starts nothing else yet.
    pub fn open(settings: Settings) -> Result<Self, RunError> {
        let backend = Arc::new(Native::new(settings.cgroup.clone(), false));
        Self::with_backend(settings, backend)
    }

    /// The same on a backend that the caller brings.
    pub fn with_backend(settings: Settings, backend: Arc<dyn Backend>) -> Result<Self, RunError> {
        state::open(&settings.state)?;
        let audit = Audit::open(&settings.state, &settings.audit);
        let gate = Gate::new(settings.admission.clone());
        let queue = Queue::new(settings.pool.running, settings.admission.waiting);
        let several = Arc::new(Semaphore::new((settings.pool.running / MOST_AT_ONCE).max(1)));
        let reviewer = settings.review.clone().map(|review| Reviewer::new(review, &settings.state));
        Ok(Self {
            settings,
            known: Known::default(),
            stations: Stations::new(Station::new(backend)),
            audit,
            gate,
            queue,
            metrics: Metrics::default(),
            several,
            reviewer,
            ledger: OnceLock::new(),
            watcher: OnceLock::new(),
            sessions: Registry::default(),
            ahead: Shelf::default(),
        })
    }

    /// Keeps sandboxes and interpreters ready from now on. For whoever runs more than one program: it needs a runtime
    /// that lives as long as the engine.
    #[must_use]
    pub fn with_pool(mut self) -> Self {
        let backend = Arc::new(Native::new(self.settings.cgroup.clone(), true));
        self.stations = Stations::new(Station::with_pool(backend, &self.settings));
        self
    }

    /// Tells `watcher` of every request from now on. There is one at most: the first stays.
    pub fn watch(&self, watcher: Box<dyn Watcher>) {
        let _ = self.watcher.set(watcher);
    }

    /// Says that a run will come, so that what takes time and needs to know nothing of it begins beside whatever comes
    /// before it.
    pub fn expect_run(&self) {
        if self.settings.backend == BackendKind::Native {
            self.stations.native.backend.expect();
        }
    }

    /// Says how many runs will come, for whoever has the engine to himself: as many are made ready, and none that nobody
    /// would take. What was said before no longer holds.
    pub fn foresee(&self, foresight: Foresight) {
        if let Some(pool) = &self.stations.native.pool {
            pool.foresee(foresight);
        }
    }

    /// Writes an entry of an act that may be one of many. It is committed when this returns: at once, or, where more are
    /// known to come, together with theirs.
    pub async fn record(&self, entry: Entry) -> Result<(), AuditError> {
        let coming = self.stations.native.pool.as_ref().map_or(0, |pool| pool.foresight().least);
        if coming >= IN_COMPANY { self.audit.record_among(entry).await } else { self.audit.record(entry).await }
    }

    /// Carries out one request: admit, review, acquire, run, record. A bad end is a result; an `Err` is our own failure,
    /// or the caller's mistake. Either is in the audit trail before it is returned.
    pub async fn execute(
        &self,
        caller: &Caller,
        mut request: ExecRequest,
        mut delivery: Delivery<'_>,
    ) -> Result<ExecResult, RunError> {
        request.backend.get_or_insert(self.settings.backend);
        let timed = self.metrics.begin();
        let watching = Watching::begin(self.watcher.get().map(|watcher| &**watcher), caller);
        let id = delivery.id.take();
        let account = Account::open(&self.audit, caller, &request);
        let mut account = if delivery.harness == Harness::Judge { account.part() } else { account };
        // On the heap: what a run needs to be remembered is large, and callers keep many of them.
        let mut end = Box::pin(self.carry_out(caller, request, delivery, &mut account, &watching.steps)).await;
        if let (Ok(executed), Some(id)) = (&mut end, id) {
            executed.result.id = id;
        }
        watching.steps.begin(Step::Record);
        let result = account.close(end).await;
        timed.end(&result);
        watching.end(&result);
        result
    }

    async fn carry_out(
        &self,
        caller: &Caller,
        request: ExecRequest,
        mut delivery: Delivery<'_>,
        account: &mut Account<'_>,
        steps: &Steps,
    ) -> Result<Executed, RunError> {
        let _pass = self.gate.enter(caller)?;
        steps.begin(Step::Review);
        // 2 review comes first in time where it needs only the text; 1 admit turns the request into a plan.
        let own_code = match &mut delivery.inputs {
            Some(inputs) => review::with_own_code(&request, &self.settings, *inputs)?,
            None => None,
        };
        let to_check = own_code.as_ref().unwrap_or(&request);
        let Reviewed { mut findings, refusal, policy } = review::review(to_check, &self.settings).await?;
        account.policy(policy);
        steps.begin(Step::Admit);
        let mut to_review = self.wants_review(&request)?.then(|| request.clone());
        let stdin = delivery.stdin.take().unwrap_or_else(|| Stdin::Bytes(request.stdin.clone().into_bytes()));
        let station = self.stations.get(request.backend.unwrap_or(self.settings.backend), &self.settings)?;
        let mut admitted = admission::admit(request, &self.settings, &self.known, caller)?;
        if admitted.network.is_some() && !delivery.reach.is_empty() {
            let (settings, names) = (self.settings.network.clone(), std::mem::take(&mut delivery.reach));
            // Names are looked up.
            let rules = tokio::task::spawn_blocking(move || Rules::new(&settings).reaching(&names)).await;
            admitted.network = Some(Arc::new(rules.map_err(|_| RunError::NetworkClosed)?));
        }
        account.grant(&admitted.limits);
        let mut run = Run::new(self, station, caller, admitted, steps).with_packages(delivery.packages.take());
        if let Some(rule) = refusal {
            return Ok(run.refused(rule, findings));
        }
        run.look_at_image().await?;
        run.check_required(caller).await?;
        if let (Some(request), Some(inputs)) = (&mut to_review, &mut delivery.inputs) {
            model_review::read_own_files(request, *inputs)?;
        }
        if to_review.is_some() {
            steps.begin(Step::Opinion);
        }
        // A model takes its time: nobody else waits in line behind that.
        let reviewed = tokio::select! {
            reviewed = self.review_if(to_review.as_ref()) => reviewed?,
            () = cancel_by(delivery.cancel.clone()) => return Ok(run.cancelled_in_line(findings)),
        };
        if let Some(opinion) = &reviewed {
            account.review(opinion);
        }
        if let Some(Opinion { refused_by, findings: seen, .. }) = reviewed {
            findings.extend(seen);
            if let Some(rule) = refused_by {
                return Ok(run.refused(rule.to_owned(), findings));
            }
        }
        let cancelled = cancel_by(delivery.cancel.clone());
        let in_line = Instant::now();
        steps.begin(Step::Wait);
        let _slot = tokio::select! {
            slot = self.queue.enter(&caller.name) => slot?,
            () = cancelled => return Ok(run.cancelled_in_line(findings)),
        };
        self.metrics.queued(in_line.elapsed());
        // 3 acquire and 4 run; 5 record is the end of `execute`.
        let mut executed = run.carry_out(stdin, delivery).await?;
        executed.result.findings.extend(findings);
        Ok(executed)
    }

    /// Lets a model review a request's program, and runs nothing.
    pub async fn review(&self, request: &ExecRequest) -> Result<Opinion, RunError> {
        let reviewer = self.reviewer.as_ref().ok_or(RunError::ReviewOff)?;
        let books = self.books(model_review::COMPONENT)?;
        reviewer.review(request, books).await
    }

    async fn review_if(&self, request: Option<&ExecRequest>) -> Result<Option<Opinion>, RunError> {
        match request {
            Some(request) => self.review(request).await.map(Some),
            None => Ok(None),
        }
    }

    fn wants_review(&self, request: &ExecRequest) -> Result<bool, RunError> {
        match &self.reviewer {
            Some(reviewer) => Ok(reviewer.is_wanted(request)),
            None if request.review => Err(RunError::ReviewOff),
            None => Ok(false),
        }
    }

    /// The books of the state folder, opened when they are first needed.
    pub fn ledger(&self) -> Result<Arc<Ledger>, RunError> {
        if let Some(ledger) = self.ledger.get() {
            return Ok(Arc::clone(ledger));
        }
        let opened = Arc::new(Ledger::open(&self.settings.state)?);
        Ok(Arc::clone(self.ledger.get_or_init(|| opened)))
    }

    /// The books as one component writes in them.
    pub fn books(&self, component: &'static str) -> Result<Books, RunError> {
        Ok(Books::new(self.ledger()?, component, Arc::new(self.settings.prices.clone())))
    }

    /// Lets a caller in, or turns him away for now; whoever asks writes that down.
    pub(crate) fn enter(&self, caller: &Caller) -> Result<Option<Pass>, RunError> {
        Ok(self.gate.enter(caller)?)
    }

    /// Waits for a place among those who hold several sandboxes at once, at most [`MOST_AT_ONCE`] each: as long as these
    /// fit, nobody waits for a sandbox of somebody who waits himself.
    pub async fn hold_several(&self) -> Option<OwnedSemaphorePermit> {
        // Never closed.
        Arc::clone(&self.several).acquire_owned().await.ok()
    }

    /// The same for an act that has no account of its own, or for many runs as one act: who holds the pass asks for them
    /// with [`Admission::Done`].
    pub async fn admit(&self, caller: &Caller, act: &str) -> Result<Option<Pass>, RunError> {
        self.gate.admit(&self.audit, caller, act).await
    }

    /// What everybody passes first, for what outlives a call.
    pub(crate) fn gate(&self) -> Gate {
        self.gate.clone()
    }

    /// A model's word on a request that no run is made of, where the settings or the request want one.
    pub(crate) async fn opinion(&self, request: &ExecRequest) -> Result<Option<Opinion>, RunError> {
        let wanted = self.wants_review(request)?;
        self.review_if(wanted.then_some(request)).await
    }

    /// For a process that is about to end: puts away only what the next one would have to wait for. The rest ends with
    /// the process.
    pub fn leave(self) {
        // Sandboxes elsewhere would wait for nobody until their time is over.
        if self.audit.is_long() || self.stations.is_elsewhere() {
            return;
        }
        std::mem::forget(self);
    }

    /// The trail in which acts other than runs are recorded.
    #[must_use]
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// The limits that a request of these would get, or why it would be refused.
    pub fn limits(&self, limits: &LimitsSpec) -> Result<Limits, RunError> {
        Ok(limits.resolve(&self.settings.defaults, &self.settings.ceiling)?)
    }

    /// The longest time on the wall that a request may ask for.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.settings.ceiling.0.wall
    }

    /// The most bytes of each output that a request may have kept.
    #[must_use]
    pub fn most_output(&self) -> u64 {
        self.settings.ceiling.0.output
    }

    /// The most processors that a request may ask for.
    #[must_use]
    pub fn most_cpus(&self) -> f64 {
        self.settings.ceiling.0.cpus
    }

    /// How the server is to be reached.
    #[must_use]
    pub fn server_settings(&self) -> &ServerSettings {
        &self.settings.server
    }

    /// What jobs of the server's callers may use.
    #[must_use]
    pub fn job_settings(&self) -> &JobSettings {
        &self.settings.jobs
    }

    /// How `SandboxFusion`'s clients are served.
    #[must_use]
    pub fn fusion(&self) -> &FusionSettings {
        &self.settings.fusion
    }

    /// Where saggar keeps what outlives a command.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.settings.state
    }

    /// How often keys that the owner has made may ask, unless one has its own measure.
    #[must_use]
    pub fn usual_allowance(&self) -> Allowance {
        self.settings.admission.keys
    }

    /// What the E2B-compatible door may do.
    #[must_use]
    pub fn e2b(&self) -> &E2bSettings {
        &self.settings.e2b
    }

    /// Where packages come from.
    #[must_use]
    pub fn sources(&self) -> &Sources {
        &self.settings.build
    }

    /// A Python of this version on this host, if there is one.
    #[must_use]
    pub fn python(&self, version: (u8, u8)) -> Option<Found> {
        language::python(version, &self.settings)
    }

    pub(crate) fn accepted(&self, caller: &Caller) -> Vec<Layer> {
        self.settings.accept_missing.iter().chain(&caller.accept_missing).copied().collect()
    }
}
