//! The judge: code is run against cases, and what it answered is compared here, outside.

mod batch;
mod calls;
mod checker;
mod claims;
mod compare;
mod error;
mod evaluators;
mod extract;
mod feedback;
mod forgets;
mod formats;
mod ground;
mod in_line;
mod link;
mod measure;
mod programs;
mod record;
mod relay;
mod result;
mod score;
mod scripts;
mod tally;
mod task;
mod tests;
mod text;
mod typing;
mod value;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::{Admission, Caller, Engine, Pass};
use tokio::sync::OwnedSemaphorePermit;
use types::{ExecRequest, LimitsSpec, Network, Policy};

pub use batch::{BatchError, Out, Progress, batch};
pub use error::JudgeError;
pub use extract::extract_code;
pub use feedback::for_prompt;
pub use measure::{Evaluator, Measured};
pub use result::{CaseResult, Judged, Trust, Verdict};
pub use tally::{PassAt, Summary};
pub use task::{Case, Clock, Compare, Determinism, Extract, Group, GroupScore, Runner, Sharing, Stop, Task};
pub use text::outputs as compare_outputs;
pub use value::{Int, LiteralError, Tag, Value, WireError};

use calls::Calls;
use checker::Checkers;
use claims::Claims;
use evaluators::Evaluators;
use feedback::Teller;
use ground::Ground;
use programs::Programs;
use record::Account;
use result::Finished;
use task::{Call, Plan};
use tests::{Testers, Tests};

/// How long a sandbox may wait for its turn beside many others, before its own time begins.
const IN_LINE: Duration = Duration::from_mins(10);

/// The number of a case, which nobody can know before it is asked: answers in advance fit none.
fn unguessable() -> i64 {
    let id = engine::new_id("case");
    i64::from_str_radix(&id[id.len() - 15..], 16).unwrap_or_default()
}

/// Judges tasks with one engine.
pub struct Judge {
    engine: Arc<Engine>,
    caller: Caller,
    base: ExecRequest,
    overlay: Overlay,
    testers: Arc<Testers>,
    evaluators: Arc<Evaluators>,
    /// Whose measure counts what is judged, where the caller himself is not counted.
    counted: Option<Caller>,
}

/// What a caller says beside a task, and over it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overlay {
    /// Those that are said.
    pub limits: LimitsSpec,
    /// More variables.
    pub env: BTreeMap<String, String>,
    /// In place of the task's own.
    pub policy: Option<Policy>,
    /// In place of the task's own.
    pub network: Option<Network>,
}

impl Overlay {
    fn over(&self, mut task: Task) -> Task {
        let LimitsSpec { wall_ms, cpu_ms, memory_mb, cpus, pids, disk_mb, inodes, output_kb } = self.limits.clone();
        let own = task.limits;
        task.limits = LimitsSpec {
            wall_ms: wall_ms.or(own.wall_ms),
            cpu_ms: cpu_ms.or(own.cpu_ms),
            memory_mb: memory_mb.or(own.memory_mb),
            cpus: cpus.or(own.cpus),
            pids: pids.or(own.pids),
            disk_mb: disk_mb.or(own.disk_mb),
            inodes: inodes.or(own.inodes),
            output_kb: output_kb.or(own.output_kb),
        };
        task.env.extend(self.env.clone());
        task.policy = self.policy.unwrap_or(task.policy);
        task.network = self.network.unwrap_or(task.network);
        task
    }
}

impl Judge {
    /// `base` is what the door adds to every run: backend, image, whether nothing warm will do.
    #[must_use]
    pub fn new(engine: Arc<Engine>, caller: Caller, base: ExecRequest) -> Self {
        Self {
            engine,
            caller,
            base,
            overlay: Overlay::default(),
            testers: Arc::default(),
            evaluators: Arc::default(),
            counted: None,
        }
    }

    /// One for work that takes long: what it judges counts as that of `caller`, who is slowed down to his measure and
    /// never turned away.
    #[must_use]
    pub fn slowed(engine: Arc<Engine>, caller: Caller, base: ExecRequest) -> Self {
        let part = Caller { admission: Admission::Done, ..caller.clone() };
        Self { counted: Some(caller), ..Self::new(engine, part, base) }
    }

    /// Waits for the turn of whoever is counted.
    pub(crate) async fn turn(&self) -> Result<Option<Pass>, JudgeError> {
        let Some(caller) = &self.counted else { return Ok(None) };
        loop {
            match self.engine.admit(caller, "judge").await {
                Ok(pass) => return Ok(pass),
                Err(error) => match error.retry_after() {
                    Some(time) => tokio::time::sleep(time).await,
                    None => return Err(error.into()),
                },
            }
        }
    }

    /// Judges every task with `overlay` over it.
    #[must_use]
    pub fn with_overlay(self, overlay: Overlay) -> Self {
        Self { overlay, ..self }
    }

    /// Judges a task. A failure of the host is tried once more: it is never a wrong answer. What came of it is in the
    /// audit trail before it is returned.
    pub async fn judge(&self, task: &Task) -> Result<Judged, JudgeError> {
        self.judge_as(engine::new_id("judge"), task, None).await
    }

    /// The same under a name that was there before. `turn` ends when the last case has its verdict: what is left then is
    /// to wait for the end of sandboxes, and for the trail.
    async fn judge_as(
        &self,
        id: String,
        task: &Task,
        turn: Option<OwnedSemaphorePermit>,
    ) -> Result<Judged, JudgeError> {
        let task = self.overlay.over(task.clone());
        let account = Account::open(&self.caller, &task);
        let judged = self.judge_twice(task, turn).await;
        self.engine.metrics().judged(match &judged {
            Ok(judged) if judged.all_passed => "passed",
            Ok(_) => "failed",
            Err(_) => "error",
        });
        if !judged.as_ref().is_err_and(JudgeError::is_recorded) {
            let entry = account.close(&id, judged.as_ref());
            self.engine.record(entry).await.map_err(engine::RunError::from)?;
        }
        Ok(Judged { id, ..judged? })
    }

    /// Admitted as one request, however many sandboxes it takes.
    async fn judge_twice(&self, task: Task, mut turn: Option<OwnedSemaphorePermit>) -> Result<Judged, JudgeError> {
        let _pass = self.engine.admit(&self.caller, "judge").await?;
        let _place = self.engine.hold_several().await;
        match self.judge_once(task.clone(), &mut turn).await {
            Err(error) if error.is_infrastructure() => self.judge_once(task, &mut turn).await,
            other => other,
        }
    }

    async fn judge_once(&self, task: Task, turn: &mut Option<OwnedSemaphorePermit>) -> Result<Judged, JudgeError> {
        task.check()?;
        let ground = Ground::new(
            Arc::clone(&self.engine),
            Caller { admission: Admission::Done, ..self.caller.clone() },
            self.base.clone(),
            task,
            Arc::clone(&self.testers),
        )?;
        let ways = ways(&ground.task)?;
        let mut bench = Bench::new(&ground, &ways);
        let mut teller = Teller::new(&ground);
        let mut cases = Vec::with_capacity(ground.task.cases.len());
        let mut stopped = false;
        for (index, (case, way)) in ground.task.cases.iter().zip(&ways).enumerate() {
            let name = case.shown_name(index);
            let finished = if stopped {
                Finished::new(Verdict::NotRun, "a case before it failed")
            } else {
                bench.run(case, way).await?
            };
            stopped |= ground.task.stop == Stop::FirstFailure && finished.verdict != Verdict::Pass;
            teller.add(case, &way.plan, &name, &finished);
            cases.push(shown(name, case, finished));
        }
        drop(turn.take());
        bench.finish().await?;
        Ok(judged(&ground, cases, teller))
    }
}

/// What a case asks, and whether a test of it is nothing but claims.
struct Way {
    plan: Plan,
    claims: Option<Claims>,
}

/// Reads what every case asks.
fn ways(task: &Task) -> Result<Vec<Way>, JudgeError> {
    let way = |(index, case): (usize, &Case)| {
        let plan = case.plan().map_err(|why| JudgeError::Case { case: case.shown_name(index), why })?;
        let claims = if let Plan::Test(test) = &plan { Claims::of(test, task) } else { None };
        Ok(Way { plan, claims })
    };
    task.cases.iter().enumerate().map(way).collect()
}

/// The ways to run a case, each with what it keeps from one to the next.
struct Bench<'g> {
    ground: &'g Ground,
    calls: Calls<'g>,
    programs: Programs<'g>,
    tests: Tests<'g>,
    checkers: Checkers<'g>,
}

impl<'g> Bench<'g> {
    fn new(ground: &'g Ground, ways: &[Way]) -> Self {
        let is_call = |way: &&Way| matches!(way.plan, Plan::Call(_)) || way.claims.is_some();
        let is_test = |way: &&Way| matches!(way.plan, Plan::Test(_)) && way.claims.is_none();
        Self {
            ground,
            calls: Calls::new(ground, ways.iter().filter(is_call).count()),
            programs: Programs::new(ground),
            tests: Tests::new(ground, ways.iter().filter(is_test).count()),
            checkers: Checkers::new(ground),
        }
    }

    async fn run(&mut self, case: &Case, way: &Way) -> Result<Finished, JudgeError> {
        match &way.plan {
            Plan::Call(call) => {
                let finished = if self.ground.is_python() {
                    self.calls.run(case, call).await?
                } else {
                    scripts::run(self.ground, case, call).await?
                };
                self.check(case, call, finished).await
            }
            Plan::Program(io) => self.programs.run(case, io, &mut self.checkers).await,
            Plan::Test(test) => {
                if let Some(claims) = &way.claims
                    && let Some(finished) = self.calls.claims(case, claims).await?
                {
                    return Ok(finished);
                }
                self.tests.run(case, test).await
            }
        }
    }

    /// Asks the case's checker about a value, if it has one.
    async fn check(&mut self, case: &Case, call: &Call, finished: Finished) -> Result<Finished, JudgeError> {
        let (Some(Compare::Checker { language, code }), Some(value)) = (&case.compare, &finished.to_check) else {
            return Ok(finished);
        };
        let answer = call.expected.as_ref().map(ToString::to_string).unwrap_or_default();
        let said = self.checkers.ask((language, code), [&call.args.to_string(), value, &answer]).await?;
        let Finished { output, wall_ms, .. } = finished;
        Ok(Finished { output, wall_ms, ..said })
    }

    async fn finish(&mut self) -> Result<(), JudgeError> {
        self.calls.finish().await?;
        self.tests.finish().await
    }
}

/// A hidden case shows its verdict class and nothing else.
fn shown(name: String, case: &Case, finished: Finished) -> CaseResult {
    let Finished { verdict, score, output, detail, wall_ms, trust, .. } = finished;
    let (output, detail) = if case.hidden { (String::new(), String::new()) } else { (output, detail) };
    CaseResult { name, passed: verdict == Verdict::Pass, verdict, score, output, detail, wall_ms, trust }
}

fn judged(ground: &Ground, cases: Vec<CaseResult>, teller: Teller<'_>) -> Judged {
    let passed = cases.iter().filter(|case| case.passed).count();
    let total = cases.len();
    let spent = ground.spent();
    Judged {
        id: String::new(),
        task_id: ground.task.task_id.clone(),
        score: score::score(&ground.task, &cases),
        passed,
        total,
        all_passed: total > 0 && passed == total,
        cases,
        feedback: teller.finish(),
        findings: spent.findings,
        usage: spent.usage,
        isolation: spent.isolation.unwrap_or_default(),
    }
}
