//! Numbers about a program: an evaluator in one sandbox, the program in another, and calls between them carried here.
//!
//! The evaluator is its task's own and trusted; the program is not. What the evaluator loads is a stand-in, so that nothing
//! of the program is ever in the evaluator's process, its files or its reach.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::Delivery;
use tokio::time::{Instant, timeout_at};
use types::{ExecRequest, FileContent, InputFile, LimitsSpec, Policy, RelPath, Source};

use super::Judge;
use super::calls::{load, names};
use super::error::JudgeError;
use super::evaluators::{Evaluators, Idle};
use super::forgets::forgets;
use super::ground::{GRACE, Ground};
use super::link::{Heard, Link};
use super::relay::{Said, Turns, died, said};
use super::result::{Finished, Trust, Verdict};
use super::task::Task;
use super::value::{Value, shorter};

/// A program that returns numbers about programs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evaluator {
    /// Python that defines `evaluate(program_path)`.
    pub source: String,
    /// Files beside it, for it alone.
    pub files: Vec<InputFile>,
    /// Of these the first that it defines is called; without any `evaluate`, or its stages.
    pub functions: Vec<String>,
    /// The score from which on the next of its stages is worth its time; without them there is one stage.
    pub thresholds: Option<Vec<f64>>,
    /// What a program's file ends with, where it is not Python.
    pub suffix: String,
}

/// What an evaluator said, or why it said nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// By name.
    pub numbers: BTreeMap<String, f64>,
    /// What should be one, and is infinite or none.
    pub no_numbers: BTreeSet<String>,
    /// What it says beside them.
    pub texts: BTreeMap<String, String>,
    /// How it ended.
    pub verdict: Verdict,
    /// What went wrong, if anything.
    pub detail: String,
    /// Whether the program had a say in it.
    pub trust: Trust,
}

impl Judge {
    /// Measures the task's program. A failure of the host is tried once more. An evaluator that cannot be loaded is an
    /// error: it would say nothing about any program.
    pub async fn measure(&self, task: &Task, evaluator: &Evaluator) -> Result<Measured, JudgeError> {
        let task = self.overlay.over(task.clone());
        match Box::pin(self.measure_once(task.clone(), evaluator)).await {
            Err(error) if error.is_infrastructure() => Box::pin(self.measure_once(task, evaluator)).await,
            other => other,
        }
    }

    /// Whatever is measured from here on is measured by evaluators that have measured nothing yet.
    pub fn dismiss_evaluators(&self) {
        self.evaluators.dismiss();
    }

    async fn measure_once(&self, task: Task, evaluator: &Evaluator) -> Result<Measured, JudgeError> {
        let testers = Arc::clone(&self.testers);
        let ground = Ground::new(Arc::clone(&self.engine), self.caller.clone(), self.base.clone(), task, testers)?;
        Measuring { ground: &ground, evaluators: &self.evaluators, evaluator }.run().await
    }
}

struct Measuring<'a> {
    ground: &'a Ground,
    evaluators: &'a Evaluators,
    evaluator: &'a Evaluator,
}

impl Measuring<'_> {
    async fn run(&self) -> Result<Measured, JudgeError> {
        let request = self.request();
        // Its sandbox starts while the program's does; one that is there measures others meanwhile.
        let is_short = self.evaluators.is_short_of(self.evaluator, &request);
        let mut opened = if is_short { Some(self.open(request.clone()).await) } else { None };
        let program = if self.ground.is_python() { Some(self.program().await?) } else { None };
        if opened.is_none() && matches!(program, None | Some(Ok(_))) {
            opened = self.evaluators.wait(self.evaluator, &request).await;
        }
        let mut idle = match (opened, &program) {
            (Some(idle), _) => idle,
            (None, Some(Err(broken))) => return Ok(ended(broken)),
            (None, _) => self.open(request).await,
        };
        self.load(&mut idle).await?;
        match program.transpose() {
            Ok(program) => self.measure(idle, program).await,
            Err(broken) => {
                self.evaluators.put(idle);
                Ok(ended(&broken))
            }
        }
    }

    /// The evaluator's sandbox. Nothing that is measured is in it.
    fn request(&self) -> ExecRequest {
        // It serves many programs: what they cost it is none of the next one's.
        let limits = LimitsSpec { cpu_ms: None, ..self.ground.sandbox(Duration::from_hours(1)) };
        let mut request = self.ground.harnessed(limits);
        request.language = Some("python".to_owned());
        request.code = Some(Source(self.evaluator.source.clone().into_bytes()));
        request.file_name = RelPath::new("evaluator.py").ok();
        request.files = self.ground.task.files.iter().chain(&self.evaluator.files).cloned().collect();
        ExecRequest { policy: Policy::Off, review: false, ..request }
    }

    async fn open(&self, request: ExecRequest) -> Idle {
        let link = Link::open(&self.ground.engine, &self.ground.caller, request.clone());
        let secret = engine::new_id("order");
        // A module beside it may keep what it does not.
        let is_alone = !request.files.iter().any(|file| is_code(file.path.as_str()));
        let forgets = self.ground.is_python() && is_alone && forgets(&self.evaluator.source);
        let mut order = vec![Value::text("evaluate"), Value::text(&secret), Value::Bool(forgets)];
        order.extend(self.evaluator.functions.iter().map(Value::text));
        link.send(order).await;
        self.evaluators.hire(self.evaluator, request, link, secret, forgets)
    }

    /// Waits until the evaluator is there, or says why it never will be.
    async fn load(&self, idle: &mut Idle) -> Result<(), JudgeError> {
        let until = Instant::now() + super::IN_LINE;
        while !idle.is_loaded {
            let Heard::Frame(frame) = idle.link.next(until).await else {
                return Err(JudgeError::Evaluator { why: "it ended before it was loaded".to_owned() });
            };
            let Ok(Value::Tuple(words)) = Value::from_wire(&frame) else { return Err(JudgeError::Interrupted) };
            match &words[..] {
                [Value::Str(kind)] if kind == "here" => {}
                [Value::Str(kind)] if kind == "loaded" => idle.is_loaded = true,
                [Value::Str(kind), kinds, Value::Str(message), line] if kind == "raised" => {
                    let name = names(kinds).first().cloned().unwrap_or_default();
                    let line = line.as_int().map(|line| format!(" (line {line})")).unwrap_or_default();
                    let why = format!("loading it raised {name}: {}{line}", shorter(message, 500));
                    return Err(JudgeError::Evaluator { why });
                }
                _ => return Err(JudgeError::Interrupted),
            }
        }
        Ok(())
    }

    /// The program's sandbox, loaded, and what it has to offer.
    async fn program(&self) -> Result<Result<(Link, Value), Finished>, JudgeError> {
        let shares = Value::Bool(false);
        let order = vec![Value::text("candidate"), Value::text(&self.ground.task.setup), Value::text(""), shares];
        let wall = self.ground.limits.wall;
        let mut link = match load(self.ground, self.ground.sandbox(wall * 2 + GRACE), vec![order]).await? {
            Ok(link) => link,
            Err(broken) => return Ok(Err(broken)),
        };
        if let Heard::Frame(frame) = link.next(Instant::now() + wall + GRACE).await
            && let Ok(Value::Tuple(words)) = Value::from_wire(&frame)
            && let [Value::Str(kind), found @ Value::Dict(_), _] = &words[..]
            && kind == "names"
        {
            return Ok(Ok((link, found.clone())));
        }
        let result = link.kill().await?;
        self.ground.note(&result);
        let ended = self.ground.ended_by(&result);
        let tampered = Finished::new(Verdict::Tampered, "it wrote into the judge's own channel");
        Ok(Err(if ended.verdict == Verdict::Memory { ended } else { tampered }))
    }

    async fn measure(&self, mut idle: Idle, program: Option<(Link, Value)>) -> Result<Measured, JudgeError> {
        let limit = self.ground.limits.wall;
        // One that forks ends its forks itself, in time.
        let patience = if idle.forgets { limit } else { limit + GRACE };
        let number = super::unguessable();
        let order = |last: bool| vec![Value::int(number), Value::Float(limit.as_secs_f64()), Value::Bool(last)];
        let mut words = vec![Value::text(&idle.secret)];
        words.extend(order(false));
        words.push(self.words(program.as_ref().map(|(_, names)| names)));
        let mut link = program.map(|(link, _)| link);
        if let Some(link) = &link {
            link.send(order(true)).await;
        }
        idle.link.send(words).await;
        let mut carrier = Carrier {
            ground: self.ground,
            evaluator: &mut idle.link,
            program: link.as_mut(),
            answer: None,
            fault: None,
            over: false,
            ended: false,
            turns: Turns::default(),
        };
        let deadline = Instant::now() + patience;
        // Words for somebody who does not read are not waited for either.
        let lives = if let Ok(lives) = timeout_at(deadline + GRACE, carrier.carry(deadline)).await {
            lives?
        } else {
            carrier.fault.get_or_insert(Finished::new(Verdict::Timeout, "it did not end in time"));
            false
        };
        let Carrier { answer, mut fault, over, ended: has_ended, .. } = carrier;
        // Others wait for it; the program's end is for this measurement alone.
        let lost = if lives {
            self.evaluators.put(idle);
            None
        } else {
            Some(idle)
        };
        if let Some(link) = link {
            let result = link.kill().await?;
            self.ground.note(&result);
            let ended = self.ground.ended_by(&result);
            // What it did to its own sandbox tells more than that it is gone.
            if over || ended.verdict == Verdict::Memory || (fault.is_some() && ended.verdict == Verdict::Timeout) {
                fault = Some(ended);
            }
        }
        if let Some(idle) = lost {
            let ended = self.ground.ended_by(&idle.link.kill().await?);
            if answer.is_none() && matches!(ended.verdict, Verdict::Memory | Verdict::Timeout) {
                let detail = format!("in the evaluator: {}", ended.detail);
                fault.get_or_insert(Finished { detail, ..ended });
            }
        }
        match (fault, answer) {
            (Some(fault), _) => Ok(ended(&fault)),
            (None, Some(words)) => Ok(told(&words)),
            (None, None) if has_ended => {
                Ok(ended(&Finished::new(Verdict::Crashed, "the evaluator ended without a result")))
            }
            // Nothing that is measured reaches that sandbox: the host took it.
            (None, None) => Err(JudgeError::Interrupted),
        }
    }

    fn words(&self, found: Option<&Value>) -> Value {
        let numbers = |all: &Vec<f64>| Value::List(all.iter().map(|one| Value::Float(*one)).collect());
        let pairs = [
            ("names", found.cloned().unwrap_or(Value::Dict(Vec::new()))),
            ("source", if found.is_some() { Value::None } else { Value::text(&self.ground.task.code) }),
            ("files", Value::Dict(if found.is_some() { Vec::new() } else { self.texts() })),
            ("suffix", Value::text(&self.evaluator.suffix)),
            ("thresholds", self.evaluator.thresholds.as_ref().map_or(Value::None, numbers)),
        ];
        Value::Dict(pairs.into_iter().map(|(name, value)| (Value::text(name), value)).collect())
    }
}

impl Measuring<'_> {
    /// Further files of a program that the evaluator has to run itself.
    fn texts(&self) -> Vec<(Value, Value)> {
        let text = |file: &InputFile| match &file.content {
            FileContent::Text(text) => Some((Value::text(file.path.as_str()), Value::text(text))),
            _ => None,
        };
        self.ground.task.tree.iter().filter_map(text).collect()
    }
}

/// Carries words between an evaluator and what it measures.
struct Carrier<'a> {
    ground: &'a Ground,
    evaluator: &'a mut Link,
    program: Option<&'a mut Link>,
    answer: Option<Vec<Value>>,
    /// What the program did that no evaluator can mend.
    fault: Option<Finished>,
    /// Whether its sandbox has ended: how, it will say itself.
    over: bool,
    /// Whether the evaluator's process has ended, as its harness says.
    ended: bool,
    turns: Turns,
}

impl Carrier<'_> {
    /// Until the evaluator has ended. Says whether its sandbox can serve the next program.
    async fn carry(&mut self, deadline: Instant) -> Result<bool, JudgeError> {
        loop {
            let (from_evaluator, said) = match &mut self.program {
                Some(program) => tokio::select! {
                    biased;
                    said = said(self.evaluator, deadline) => (true, said),
                    said = said(program, deadline) => (false, said),
                },
                None => (true, said(self.evaluator, deadline).await),
            };
            match (from_evaluator, said) {
                (true, Said::Words(words)) => self.pass_on(words).await?,
                (true, Said::Verdict(words)) => self.answer = Some(words),
                (true, Said::Ended { late, status, spent }) => {
                    self.ended = true;
                    if late {
                        self.fault.get_or_insert(Finished::new(Verdict::Timeout, "it did not end in time"));
                    }
                    return Ok(!late && status == 0 && !spent && self.turns.is_clean());
                }
                (true, Said::Over | Said::Nonsense) => return Ok(false),
                (false, Said::Words(words)) => self.pass_back(words).await,
                (false, Said::Ended { late, status, .. }) => self.gone(died(late, status)).await,
                (false, Said::Over) => {
                    self.over = true;
                    self.gone(Finished::new(Verdict::Crashed, "its process was killed")).await;
                }
                (false, Said::Verdict(_) | Said::Nonsense) => {
                    self.gone(Finished::new(Verdict::Tampered, "it wrote into the judge's own channel")).await;
                }
                (_, Said::Late) => {
                    self.fault.get_or_insert(Finished::new(Verdict::Timeout, "it did not end in time"));
                    return Ok(false);
                }
            }
        }
    }

    /// Words of the evaluator for the program.
    async fn pass_on(&mut self, words: Vec<Value>) -> Result<(), JudgeError> {
        if let [Value::Str(kind), Value::List(arguments), Value::Str(stdin)] = &words[..]
            && kind == "program"
        {
            let answer = self.run(arguments, stdin).await?;
            self.evaluator.send(vec![Value::text("ok"), answer, Value::List(Vec::new())]).await;
            return Ok(());
        }
        self.turns.hear(&words);
        match &mut self.program {
            Some(program) => program.send(words).await,
            None => self.answer_gone().await,
        }
        Ok(())
    }

    /// Runs the program as one, in a sandbox of its own.
    async fn run(&self, arguments: &[Value], stdin: &str) -> Result<Value, JudgeError> {
        let mut request = self.ground.request(self.ground.task.limits.clone());
        stdin.clone_into(&mut request.stdin);
        request.args = arguments.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let result = self.ground.engine.execute(&self.ground.caller, request, Delivery::default()).await?;
        self.ground.note(&result);
        let code = match result.outcome {
            types::Outcome::Exited { code } => i64::from(code),
            types::Outcome::Signaled { signal } => 128 + i64::from(signal),
            types::Outcome::LimitExceeded { .. } => 124,
            types::Outcome::Refused { .. } | types::Outcome::Cancelled => 126,
        };
        Ok(Value::Tuple(vec![Value::text(result.stdout), Value::text(result.stderr), Value::int(code)]))
    }

    /// Words of the program for the evaluator: values, exceptions, or a reason why there is neither.
    async fn pass_back(&mut self, words: Vec<Value>) {
        match &words[..] {
            [Value::Str(kind), ..] if self.turns.allow(kind) => self.evaluator.send(words).await,
            [Value::Str(kind), Value::Str(code)] if kind == "left" => {
                let detail = format!("it left with sys.exit({}) before it answered", shorter(code, 100));
                self.gone(Finished::new(Verdict::ExitedEarly, detail)).await;
            }
            [Value::Str(kind), Value::Str(what)] if kind == "unsupported" => {
                let detail = format!("it returned {}", shorter(what, 300));
                self.gone(Finished::new(Verdict::UnsupportedValue, detail)).await;
            }
            _ => self.gone(Finished::new(Verdict::Tampered, "it wrote into the judge's own channel")).await,
        }
    }

    async fn gone(&mut self, fault: Finished) {
        self.program = None;
        self.fault.get_or_insert(fault);
        self.answer_gone().await;
    }

    async fn answer_gone(&mut self) {
        self.turns.give_up();
        self.evaluator.send(vec![Value::text("gone")]).await;
    }
}

/// Whether Python could load a file of this name.
fn is_code(name: &str) -> bool {
    [".py", ".pyc", ".so", ".zip", ".pth"].iter().any(|ending| name.ends_with(ending))
}

/// An end without numbers.
fn ended(finished: &Finished) -> Measured {
    Measured {
        numbers: BTreeMap::new(),
        no_numbers: BTreeSet::new(),
        texts: BTreeMap::new(),
        verdict: finished.verdict,
        detail: finished.detail.clone(),
        trust: finished.trust,
    }
}

/// What the evaluator said of the program.
fn told(words: &[Value]) -> Measured {
    let trust = |shared: &Value| if *shared == Value::Bool(true) { Trust::Shared } else { Trust::Separate };
    match words {
        [Value::Str(kind), Value::Dict(numbers), Value::Dict(texts), shared] if kind == "measured" => {
            let number = |(name, value): &(Value, Value)| match value {
                Value::Float(number) => Some((name.as_str()?.to_owned(), *number)),
                _ => None,
            };
            let (numbers, odd): (BTreeMap<_, _>, BTreeMap<_, _>) =
                numbers.iter().filter_map(number).partition(|(_, number)| number.is_finite());
            let text = |(name, value): &(Value, Value)| Some((name.as_str()?.to_owned(), value.as_str()?.to_owned()));
            Measured {
                numbers,
                no_numbers: odd.into_keys().collect(),
                texts: texts.iter().filter_map(text).collect(),
                verdict: Verdict::Pass,
                detail: String::new(),
                trust: trust(shared),
            }
        }
        [Value::Str(kind), Value::Str(who), kinds, Value::Str(message), line, shared] if kind == "failed" => {
            let name = names(kinds).first().cloned().unwrap_or_default();
            let line = line.as_int().map(|line| format!(" (line {line})")).unwrap_or_default();
            let whose = if who == "tested" { "it raised" } else { "the evaluator raised" };
            let detail = format!("{whose} {name}: {}{line}", shorter(message, 1000));
            Measured { trust: trust(shared), ..ended(&Finished::new(Verdict::Exception, detail)) }
        }
        _ => ended(&Finished::new(Verdict::Crashed, "the evaluator ended without a result")),
    }
}
