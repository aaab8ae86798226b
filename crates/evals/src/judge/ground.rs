//! What all cases of one task stand on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::{Caller, Engine};
use types::{
    ExecRequest, ExecResult, FileContent, Finding, InputFile, Isolation, LimitKind, Limits, LimitsSpec, Outcome,
    RelPath, Source, Usage,
};

use super::error::JudgeError;
use super::result::{Finished, Verdict};
use super::task::{Case, Clock, Task, solution};
use super::tests::Testers;

/// How much longer than its own limit a case may seem to take from outside.
pub(crate) const GRACE: Duration = Duration::from_millis(1500);

/// How long one sandbox serves at most: beyond that the next case gets a new one.
const SERVES: Duration = Duration::from_hours(1);

/// Where time is counted on the processors, the wall gives this much more.
const WALL_FOR_CPU: u32 = 20;

/// What `setup` is called among the files of a run.
pub(crate) const SETUP: &str = "saggar_setup.py";

/// The engine, the task and what its sandboxes have cost so far.
pub(crate) struct Ground {
    pub(crate) engine: Arc<Engine>,
    pub(crate) caller: Caller,
    pub(crate) task: Task,
    /// What the door adds to every request.
    pub(crate) base: ExecRequest,
    /// Limits of the task, complete.
    pub(crate) limits: Limits,
    /// Sandboxes for tests, shared with other tasks of the same judge.
    pub(crate) testers: Arc<Testers>,
    spent: Mutex<Spent>,
}

/// What sandboxes have cost, and what they were.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spent {
    pub(crate) usage: Usage,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) findings: Vec<Finding>,
}

impl Ground {
    pub(crate) fn new(
        engine: Arc<Engine>,
        caller: Caller,
        base: ExecRequest,
        task: Task,
        testers: Arc<Testers>,
    ) -> Result<Self, JudgeError> {
        let limits = engine.limits(&task.limits)?;
        // A limit above the ceiling is refused before anything has run.
        for case in &task.cases {
            engine.limits(&LimitsSpec { wall_ms: case.timeout_ms.or(task.limits.wall_ms), ..task.limits.clone() })?;
        }
        Ok(Self { engine, caller, task, base, limits, testers, spent: Mutex::default() })
    }

    /// The time that a case may take.
    pub(crate) fn time(&self, case: &Case) -> Duration {
        case.wall().unwrap_or(self.limits.wall)
    }

    /// Whether time limits count processor time.
    pub(crate) fn by_cpu(&self) -> bool {
        self.task.determinism.clock == Clock::Cpu
    }

    /// How long something that may take `time` is waited for. Where processor time counts, its sandbox knows when it is
    /// up, and the wall is there for those that sleep.
    pub(crate) fn patience(&self, time: Duration) -> Duration {
        if self.by_cpu() { time.saturating_mul(WALL_FOR_CPU) + 2 * GRACE } else { time }
    }

    /// That a sandbox took longer than its case may, by the clock that counts, whatever it had answered by then.
    pub(crate) fn too_late(&self, case: &Case, result: &ExecResult) -> Option<Finished> {
        let ended = self.ended_by(result);
        if self.by_cpu() && result.usage.cpu_ms > milliseconds(self.time(case)) {
            return Some(Finished::new(Verdict::Timeout, "it did not end in time"));
        }
        Some(ended).filter(|ended| ended.verdict == Verdict::Timeout)
    }

    /// The limits of a sandbox that serves for `wall`; never more than the ceiling.
    pub(crate) fn sandbox(&self, wall: Duration) -> LimitsSpec {
        LimitsSpec { wall_ms: Some(milliseconds(wall.min(self.engine.longest()))), ..self.task.limits.clone() }
    }

    /// The limits of a sandbox in which the harness serves cases, or one of them where its own processor time counts.
    pub(crate) fn serving(&self, case: &Case) -> LimitsSpec {
        if self.by_cpu() { self.alone(case) } else { self.sandbox(SERVES.max(self.time(case) * 2 + GRACE)) }
    }

    /// The limits of a sandbox for one case alone.
    pub(crate) fn alone(&self, case: &Case) -> LimitsSpec {
        let time = self.time(case);
        match self.task.determinism.clock {
            Clock::Wall => self.sandbox(time),
            Clock::Cpu => LimitsSpec {
                cpu_ms: Some(milliseconds(time)),
                ..self.sandbox(time.saturating_mul(WALL_FOR_CPU) + GRACE)
            },
        }
    }

    /// A run of the task's code.
    pub(crate) fn request(&self, limits: LimitsSpec) -> ExecRequest {
        let mut env = self.task.env.clone();
        let fixed = &self.task.determinism;
        let mut set = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                env.entry(name.to_owned()).or_insert(value);
            }
        };
        set("PYTHONHASHSEED", fixed.hash_seed.map(|seed| seed.to_string()));
        set("TZ", fixed.timezone.clone());
        set("LC_ALL", fixed.locale.clone());
        for name in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"] {
            set(name, fixed.threads.map(|threads| threads.to_string()));
        }
        ExecRequest {
            language: Some(self.task.language().to_owned()),
            code: Some(Source(self.task.code.clone().into_bytes())),
            files: self.task.files.iter().chain(&self.task.tree).cloned().collect(),
            env,
            limits,
            network: self.task.network,
            policy: self.task.policy,
            ..self.base.clone()
        }
    }

    /// A run of the task's code by the harness.
    pub(crate) fn harnessed(&self, limits: LimitsSpec) -> ExecRequest {
        let file_name = solution().filter(|_| self.is_python());
        ExecRequest { file_name, ..self.request(limits) }
    }

    /// The same with the task's `setup`, which the policy reads as it reads every file of a run.
    pub(crate) fn set_up(&self, limits: LimitsSpec) -> ExecRequest {
        let mut request = self.harnessed(limits);
        if !self.task.setup.is_empty()
            && let Ok(path) = RelPath::new(SETUP)
        {
            request.files.push(InputFile { path, content: FileContent::Text(self.task.setup.clone()) });
        }
        request
    }

    pub(crate) fn is_python(&self) -> bool {
        matches!(self.task.language(), "python" | "python3" | "py")
    }

    /// Adds what a sandbox has cost.
    pub(crate) fn note(&self, result: &ExecResult) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let compile = result.compile.as_ref().map(|compile| compile.usage).unwrap_or_default();
        for usage in [result.usage, compile] {
            spent.usage.wall_ms += usage.wall_ms;
            spent.usage.cpu_ms += usage.cpu_ms;
            spent.usage.peak_memory_bytes = spent.usage.peak_memory_bytes.max(usage.peak_memory_bytes);
        }
        if spent.findings.is_empty() {
            spent.findings.clone_from(&result.findings);
        }
        if spent.isolation.is_none() && !result.isolation.layers.is_empty() {
            spent.isolation = Some(result.isolation.clone());
        }
    }

    pub(crate) fn spent(&self) -> Spent {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the end of a sandbox means for the case that was going on in it.
    pub(crate) fn ended_by(&self, result: &ExecResult) -> Finished {
        let (verdict, detail) = match &result.outcome {
            Outcome::LimitExceeded { limit: LimitKind::Wall | LimitKind::Cpu } => {
                (Verdict::Timeout, "it did not end in time".to_owned())
            }
            Outcome::LimitExceeded { limit: LimitKind::Memory } => {
                (Verdict::Memory, format!("it reached the memory limit of {} MiB", self.limits.memory >> 20))
            }
            _ if result.limits_hit.contains(&LimitKind::Memory) => {
                (Verdict::Memory, format!("it reached the memory limit of {} MiB", self.limits.memory >> 20))
            }
            Outcome::LimitExceeded { limit } => (Verdict::Crashed, format!("it reached the {} limit", limit.name())),
            Outcome::Signaled { signal } => (Verdict::Crashed, format!("it was ended by signal {signal}")),
            Outcome::Exited { code } => {
                (Verdict::ExitedEarly, format!("it ended with exit code {code} before it answered"))
            }
            Outcome::Refused { rule } => (Verdict::Refused, format!("the policy refuses it: {rule}")),
            Outcome::Cancelled => (Verdict::Tampered, "it wrote into the judge's own channel".to_owned()),
        };
        Finished::new(verdict, detail)
    }
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
