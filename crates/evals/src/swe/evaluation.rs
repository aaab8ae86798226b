//! All patches of a run: several at once, each once, also after a run that was cut short.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::{Caller, Engine};
use serde::Serialize;

use super::SweError;
use super::edits::Edits;
use super::evaluate::{Bench, Rules, Verdict};
use super::grade::Resolution;
use super::hunks::{Fate, Hunk};
use super::plan::Plan;
use super::prediction::{Prediction, Predictions};
use super::report::{Report, Tree, write_text};
use super::row::Instance;
use super::steps::{self, Building, Prepared, Workshop};

/// How a run is carried out.
#[derive(Debug, Clone)]
pub struct Options {
    /// Patches at once.
    pub workers: usize,
    /// Time for each.
    pub time: Duration,
    /// What becomes of edits that could decide the verdict.
    pub edits: Edits,
    /// How often tests are run.
    pub repeat: u32,
    /// Whether what has a report is run again.
    pub again: bool,
    /// A folder of repositories.
    pub repos: Option<PathBuf>,
    /// Where projects are cloned from that are in no such folder, with `{owner}` and `{name}` in it.
    pub origin: Option<String>,
    /// A folder of wheels in place of an index.
    pub wheels: Option<PathBuf>,
    /// Where repositories are and tests run.
    pub ground: Ground,
}

/// Where repositories are and tests run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Ground {
    /// Sandboxes of this host, with environments that are made here.
    #[default]
    Native,
    /// Containers of a Docker daemon, which have both in their images: this one, or each instance's own.
    Docker {
        /// For all instances.
        image: Option<String>,
    },
}

/// What has become of one instance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Told {
    /// Which.
    pub instance: String,
    /// What.
    pub state: State,
    /// How long it took.
    pub seconds: f64,
    /// How long its test commands took by themselves.
    pub test_seconds: f64,
    /// More, for people.
    pub note: String,
}

impl Told {
    fn new(id: &str, state: State, seconds: f64) -> Self {
        Self { instance: id.to_owned(), state, seconds, test_seconds: 0.0, note: String::new() }
    }
}

/// What becomes of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Every test passes that must.
    Resolved,
    /// Not so.
    Unresolved,
    /// There is no patch.
    Empty,
    /// The patch could not be applied, or its tests took too long.
    Error,
    /// The environment could not be made.
    Environment,
    /// With validation: tests fail without the solution, and pass with it.
    Valid,
    /// Not so.
    Invalid,
}

impl State {
    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resolved => "resolved",
            Self::Unresolved => "unresolved",
            Self::Empty => "empty patch",
            Self::Error => "error",
            Self::Environment => "environment",
            Self::Valid => "valid",
            Self::Invalid => "invalid",
        }
    }
}

/// What is being done with an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Its environment and tree are made, or found.
    Preparing,
    /// It is patched and tested.
    Testing,
}

impl Phase {
    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Preparing => "preparing",
            Self::Testing => "testing",
        }
    }
}

/// An instance at work.
#[derive(Debug, Clone)]
pub struct Running {
    /// Which.
    pub instance: String,
    /// At what.
    pub phase: Phase,
    /// Since when it is at work.
    pub since: Instant,
}

/// Hears of each instance as it is done; the second is how many there are.
pub type Listener = dyn Fn(&Told, usize) + Send + Sync;

/// What a run consists of.
pub struct Evaluation {
    workshop: Workshop,
    options: Options,
    tree: Tree,
    running: Mutex<Vec<Running>>,
}

/// One thing to do.
struct Work {
    instance: Instance,
    prediction: Prediction,
}

impl Evaluation {
    /// A run whose files go into a tree.
    #[must_use]
    pub fn new(engine: Arc<Engine>, caller: Caller, options: Options, tree: Tree) -> Self {
        let workshop = Workshop::new(engine, caller, options.wheels.clone());
        Self { workshop, options, tree, running: Mutex::default() }
    }

    /// How many environments and trees it had to make.
    #[must_use]
    pub fn made(&self) -> usize {
        self.workshop.made()
    }

    /// What is being built now.
    #[must_use]
    pub fn building(&self) -> Vec<Building> {
        self.workshop.building()
    }

    /// What is at work now.
    #[must_use]
    pub fn running(&self) -> Vec<Running> {
        self.at_work().clone()
    }

    fn at_work(&self) -> MutexGuard<'_, Vec<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Instances whose interpreter or image is not there, or of which nobody knows how they are tested.
    pub async fn lacking(&self, instances: &[Instance]) -> Vec<(String, SweError)> {
        let mut lacking = Vec::new();
        for instance in instances {
            let checked = match self.image(instance) {
                None => Plan::of(instance).and_then(|plan| self.workshop.python(&plan).map(drop)),
                Some(image) => match Plan::in_image(instance) {
                    Ok(_) => self.workshop.image(&image).await.map(drop),
                    Err(error) => Err(error),
                },
            };
            lacking.extend(checked.err().map(|error| (instance.id.clone(), error)));
        }
        lacking
    }

    /// The image that an instance is tested in, if it is tested in one.
    fn image(&self, instance: &Instance) -> Option<String> {
        let Ground::Docker { image } = &self.options.ground else { return None };
        let own = image.clone().or_else(|| instance.image.clone());
        Some(own.unwrap_or_else(|| steps::image_name(&instance.id)))
    }

    /// Grades every prediction; what is there already stays.
    pub async fn run(
        self: &Arc<Self>,
        instances: &[Instance],
        predictions: &Predictions,
        listener: Arc<Listener>,
    ) -> Result<Vec<Told>, SweError> {
        let mut work = VecDeque::new();
        let mut told = Vec::new();
        for instance in instances {
            let Some(prediction) = predictions.by_id.get(&instance.id) else { continue };
            let (instance, prediction) = (instance.clone(), prediction.clone());
            if prediction.is_empty() {
                told.push(Told::new(&instance.id, State::Empty, 0.0));
            } else if let Some(report) = self.finished(&instance, &prediction)? {
                told.push(outcome(&instance.id, &Verdict::Graded(Box::new(report)), "done before"));
            } else {
                work.push_back(Work { instance, prediction });
            }
        }
        let total = told.len() + work.len();
        for told in &told {
            listener(told, total);
        }
        let one = |evaluation: Arc<Self>, work: Work| async move { evaluation.one(&work).await };
        told.extend(self.share(work, total, listener, one).await?);
        told.sort_by(|a, b| a.instance.cmp(&b.instance));
        Ok(told)
    }

    /// Whether tests fail without the solution and pass with it, for every instance.
    pub async fn validate(
        self: &Arc<Self>,
        instances: &[Instance],
        listener: Arc<Listener>,
    ) -> Result<Vec<Told>, SweError> {
        let gold = Predictions::gold(instances);
        let pairs = instances.iter().filter_map(|instance| Some((instance, gold.by_id.get(&instance.id)?)));
        let work: VecDeque<Work> =
            pairs.map(|(instance, gold)| Work { instance: instance.clone(), prediction: gold.clone() }).collect();
        let total = work.len();
        let one = |evaluation: Arc<Self>, work: Work| async move { evaluation.valid(&work).await };
        let mut told = self.share(work, total, listener, one).await?;
        told.sort_by(|a, b| a.instance.cmp(&b.instance));
        Ok(told)
    }

    /// Hands work out to so many workers.
    async fn share<F, D>(
        self: &Arc<Self>,
        work: VecDeque<Work>,
        total: usize,
        listener: Arc<Listener>,
        one: F,
    ) -> Result<Vec<Told>, SweError>
    where
        F: Fn(Arc<Self>, Work) -> D + Copy + Send + Sync + 'static,
        D: Future<Output = Result<Told, SweError>> + Send + 'static,
    {
        let work = Arc::new(Mutex::new(work));
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..self.options.workers.max(1) {
            let (evaluation, work, listener) = (Arc::clone(self), Arc::clone(&work), Arc::clone(&listener));
            workers.spawn(async move {
                let mut all = Vec::new();
                loop {
                    let next = work.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(next) = next else { return Ok::<_, SweError>(all) };
                    let id = next.instance.id.clone();
                    let running = Running { instance: id.clone(), phase: Phase::Preparing, since: Instant::now() };
                    evaluation.at_work().push(running);
                    let told = one(Arc::clone(&evaluation), next).await;
                    evaluation.at_work().retain(|running| running.instance != id);
                    let told = told?;
                    listener(&told, total);
                    all.push(told);
                }
            });
        }
        let mut all = Vec::new();
        while let Some(worker) = workers.join_next().await {
            all.extend(worker.map_err(|_| SweError::Worker)??);
        }
        Ok(all)
    }

    /// The report of a prediction that was graded before, in the same way.
    fn finished(&self, instance: &Instance, prediction: &Prediction) -> Result<Option<Report>, SweError> {
        let folder = self.tree.instance(&prediction.model, &instance.id)?;
        if self.options.again {
            // A report is the sign of what is done.
            for name in ["report.json", "integrity.json"] {
                let _ = std::fs::remove_file(folder.join(name));
            }
            return Ok(None);
        }
        let same = |name: &str, text: &str| std::fs::read_to_string(folder.join(name)).is_ok_and(|kept| kept == text);
        let is_same = same("patch.diff", prediction.patch.as_deref().unwrap_or_default()) && same("edits", self.mode());
        Ok(if is_same { Report::read(&folder, &instance.id)? } else { None })
    }

    const fn mode(&self) -> &'static str {
        match self.options.edits {
            Edits::Strict => "strict\n",
            Edits::Official => "official\n",
        }
    }

    async fn one(&self, work: &Work) -> Result<Told, SweError> {
        let began = Instant::now();
        let id = &work.instance.id;
        let folder = self.tree.instance(&work.prediction.model, id)?;
        std::fs::create_dir_all(&folder).map_err(|source| SweError::File { path: folder.clone(), source })?;
        let _ = std::fs::remove_file(folder.join("report.json"));
        write_text(&folder.join("edits"), self.mode())?;
        let graded = self.grade(work, &work.prediction, &folder).await;
        let seconds = began.elapsed().as_secs_f64();
        match graded {
            Ok((verdict, tests)) => {
                Ok(Told { seconds, test_seconds: tests.as_secs_f64(), ..outcome(id, &verdict, "") })
            }
            Err(error) => trouble(id, &error, &folder, seconds),
        }
    }

    async fn grade(
        &self,
        work: &Work,
        prediction: &Prediction,
        folder: &Path,
    ) -> Result<(Verdict, Duration), SweError> {
        let instance = &work.instance;
        let image = self.image(instance);
        let (plan, prepared) = match &image {
            Some(image) => {
                let plan = Plan::in_image(instance)?;
                let prepared = self.workshop.image_tree(image, &instance.base_commit).await?;
                (plan, prepared)
            }
            None => self.prepare(instance).await?,
        };
        for running in self.at_work().iter_mut().filter(|running| running.instance == instance.id) {
            running.phase = Phase::Testing;
        }
        let rules = Rules { edits: self.options.edits, time: self.options.time, repeat: self.options.repeat };
        let (workshop, image) = (&self.workshop, image.as_deref());
        let bench = Bench { workshop, instance, plan: &plan, prepared: &prepared, rules: &rules, image };
        bench.grade(prediction, folder).await
    }

    /// What an instance stands on, on this host.
    async fn prepare(&self, instance: &Instance) -> Result<(Plan, Prepared), SweError> {
        let plan = Plan::of(instance)?;
        self.workshop.python(&plan)?;
        let repository = match &self.options.repos {
            Some(folder) => steps::find(folder, &instance.repo)?,
            None => steps::origin(self.options.origin.as_deref(), &instance.repo)?,
        };
        let prepared = match self.workshop.tree(&plan, &repository, &instance.base_commit).await {
            // Keeping a large disk has a deadline, which an overloaded machine can miss. Nothing of the patch was there yet.
            Err(SweError::Sandbox(_)) => self.workshop.tree(&plan, &repository, &instance.base_commit).await?,
            prepared => prepared?,
        };
        Ok((plan, prepared))
    }

    /// Without the solution, then with it.
    async fn valid(&self, work: &Work) -> Result<Told, SweError> {
        let began = Instant::now();
        let id = &work.instance.id;
        let nothing =
            Prediction { model: "nothing".to_owned(), patch: Some(NOTHING.to_owned()), ..work.prediction.clone() };
        let (mut sides, mut tests) = (Vec::new(), Duration::ZERO);
        for prediction in [&nothing, &work.prediction] {
            let folder = self.tree.instance(&prediction.model, id)?;
            match self.grade(work, prediction, &folder).await {
                Ok((verdict, took)) => {
                    tests += took;
                    sides.push(if let Verdict::Graded(report) = verdict { report.tests_status } else { None });
                }
                Err(error) => return trouble(id, &error, &folder, began.elapsed().as_secs_f64()),
            }
        }
        // Tests that cannot even be loaded fail as well.
        let fails_before = sides[0].as_ref().is_none_or(|before| before.fail_to_pass.success.is_empty());
        let passes_after = sides[1].as_ref().is_some_and(|after| after.resolution() == Resolution::Full);
        let (state, note) = match (fails_before, passes_after) {
            (true, true) => (State::Valid, ""),
            (false, true) => (State::Invalid, "some of the tests pass without the solution"),
            (_, false) => (State::Invalid, "the solution does not resolve it"),
        };
        let (test_seconds, note) = (tests.as_secs_f64(), note.to_owned());
        Ok(Told { test_seconds, note, ..Told::new(id, state, began.elapsed().as_secs_f64()) })
    }
}

/// A patch that changes no code.
const NOTHING: &str = "diff --git a/.saggar-nothing b/.saggar-nothing\nnew file mode 100644\n--- /dev/null\n+++ b/.saggar-nothing\n@@ -0,0 +1 @@\n+nothing\n";

fn outcome(id: &str, verdict: &Verdict, note: &str) -> Told {
    let (state, more) = match verdict {
        Verdict::Graded(report) if report.resolved => (State::Resolved, String::new()),
        Verdict::Graded(report) => (State::Unresolved, failures(report)),
        Verdict::NotApplied(hunks) => (State::Error, refused(hunks)),
        Verdict::Late => (State::Error, "the tests took too long".to_owned()),
    };
    let suspicious = match verdict {
        Verdict::Graded(report) => {
            report.integrity.as_ref().filter(|seen| seen.is_suspicious()).map(|_| "see integrity.json".to_owned())
        }
        _ => None,
    };
    let notes: Vec<String> =
        [note.to_owned(), more, suspicious.unwrap_or_default()].into_iter().filter(|note| !note.is_empty()).collect();
    Told { note: notes.join("; "), ..Told::new(id, state, 0.0) }
}

fn refused(hunks: &[Hunk]) -> String {
    let bad: Vec<String> = hunks.iter().filter(|hunk| hunk.fate != Fate::Fits).map(ToString::to_string).collect();
    if bad.is_empty() {
        "the patch does not apply".to_owned()
    } else {
        format!("the patch does not apply: {}", bad.join("; "))
    }
}

fn failures(report: &Report) -> String {
    let Some(status) = &report.tests_status else { return "no test was graded".to_owned() };
    let (mend, keep) = (&status.fail_to_pass, &status.pass_to_pass);
    let all = |sides: &super::grade::Sides| sides.success.len() + sides.failure.len();
    format!("{} of {} to mend fail, {} of {} to keep", mend.failure.len(), all(mend), keep.failure.len(), all(keep))
}

/// An instance that could not be run stops nobody else; what is wrong with the machine does.
fn trouble(id: &str, error: &SweError, folder: &Path, seconds: f64) -> Result<Told, SweError> {
    std::fs::create_dir_all(folder).map_err(|source| SweError::File { path: folder.to_path_buf(), source })?;
    let state = if error.is_environment() { State::Environment } else { State::Error };
    let mark = if error.is_environment() { "Environment failure" } else { "Error" };
    let log = folder.join("run_instance.log");
    let before = std::fs::read_to_string(&log).unwrap_or_default();
    let built = if let SweError::Environment { log, .. } = error { log } else { "" };
    write_text(&log, &format!("{before}{built}\n{mark}: {error}\n{}\n", error.hint()))?;
    let note = if built.is_empty() { error.to_string() } else { format!("{error}; {}", error.hint()) };
    Ok(Told { note, ..Told::new(id, state, seconds) })
}
