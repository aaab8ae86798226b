//! Test programs: the test in one sandbox, the tested code in another, and calls between them carried by the judge.
//! Where processor time counts, both are for one test alone, and each has the test's time for itself.
//!
//! Nothing that tested code sends is a verdict. It is data, read and written anew before the test sees it, and the test
//! never asks it whether two values are equal.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use types::{ExecRequest, ExecResult, Policy, Source};

use super::calls::{load, names, raised};
use super::error::JudgeError;
use super::ground::{GRACE, Ground, milliseconds};
use super::link::{Heard, Link};
use super::relay::{Relay, Said, Turns, died, said};
use super::result::{Finished, Trust, Verdict};
use super::task::{Case, Runner, Sharing, Test};
use super::value::{Value, shorter};

/// How long one that may serve other tasks does.
const FRESH: Duration = Duration::from_mins(10);
/// Sandboxes for tests that wait for their next task.
const MOST_IDLE: usize = 32;

/// Runs test programs one after the other.
pub(crate) struct Tests<'g> {
    ground: &'g Ground,
    tester: Option<Tester>,
    candidate: Option<Candidate>,
    /// Tests that are still to come.
    left: usize,
    /// How loading the program failed; it is not tried again.
    broken: Option<Finished>,
}

/// A sandbox for tests. What runs in it is the task's own, each test in a process of its own: it may serve other tasks.
pub(crate) struct Tester {
    link: Link,
    /// What it was started with; another task may need something else.
    request: ExecRequest,
    /// Whether it has imported what unittest's tests need.
    has_unittest: bool,
    /// What its orders begin with.
    secret: String,
    since: Instant,
}

/// Those that no task uses at the moment.
#[derive(Default)]
pub(crate) struct Testers(Mutex<Vec<Tester>>);

impl Testers {
    fn take(&self, request: &ExecRequest, test: &Test) -> Option<Tester> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|tester| tester.since.elapsed() < FRESH);
        let index = idle.iter().position(|tester| tester.request == *request && tester.serves(test))?;
        Some(idle.swap_remove(index))
    }

    fn put(&self, tester: Tester) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MOST_IDLE {
            idle.push(tester);
        }
    }
}

impl Tester {
    fn serves(&self, test: &Test) -> bool {
        self.has_unittest || !is_for_unittest(test)
    }
}

/// Whether a test would import unittest, which takes longer than most tests do.
fn is_for_unittest(test: &Test) -> bool {
    test.runner == Runner::Unittest || [&test.source, &test.setup].iter().any(|text| text.contains("unittest"))
}

/// The sandbox of the tested code, and what tests can call there.
struct Candidate {
    link: Link,
    names: Value,
    missing: Option<String>,
}

impl<'g> Tests<'g> {
    /// For so many tests.
    pub(crate) fn new(ground: &'g Ground, left: usize) -> Self {
        Self { ground, tester: None, candidate: None, left, broken: None }
    }

    /// Judges one test.
    pub(crate) async fn run(&mut self, case: &Case, test: &Test) -> Result<Finished, JudgeError> {
        self.left = self.left.saturating_sub(1);
        if let Some(broken) = &self.broken {
            return Ok(broken.clone());
        }
        let finished = self.apart(case, test).await?;
        if finished.exception.as_ref().is_some_and(|(kind, _)| kind == NEEDS_SHARING) {
            return match self.ground.task.sharing {
                Sharing::WhereNeeded => self.together(case, test).await,
                Sharing::Never => Ok(Finished {
                    exception: None,
                    ..Finished::new(Verdict::UnsupportedValue, "the test needs the tested code's own process")
                }),
            };
        }
        Ok(finished)
    }

    /// Says what the sandboxes that are left have cost.
    pub(crate) async fn finish(&mut self) -> Result<(), JudgeError> {
        if let Some(tester) = self.tester.take() {
            self.ground.testers.put(tester);
        }
        if let Some(candidate) = self.candidate.take() {
            self.ground.note(&candidate.link.finish().await?);
        }
        Ok(())
    }

    async fn apart(&mut self, case: &Case, test: &Test) -> Result<Finished, JudgeError> {
        // Both sandboxes start at once.
        let mut tester = self.tester(case, test).await;
        let mut candidate = match self.ready(case).await? {
            Ok(candidate) => candidate,
            Err(broken) => {
                self.tester = Some(tester);
                return Ok(broken);
            }
        };
        let number = super::unguessable();
        let limit = self.ground.patience(self.ground.time(case));
        let last = self.left == 0 || self.ground.by_cpu();
        let start = Instant::now();
        let words = |last: bool| vec![Value::int(number), Value::Float(limit.as_secs_f64()), Value::Bool(last)];
        candidate.link.send(words(last)).await;
        let mut order = vec![Value::text(&tester.secret)];
        order.extend(words(false));
        order.push(self.words(test, &candidate.names));
        tester.link.send(order).await;
        let mut relay = Relay {
            tester: &mut tester.link,
            candidate: &mut candidate.link,
            last,
            verdict: None,
            fault: None,
            over: false,
            ended: false,
            turns: Turns::default(),
        };
        let deadline = start + limit + GRACE;
        // Words for somebody who does not read are not waited for either.
        let carried = timeout_at(deadline + GRACE, relay.carry(deadline)).await;
        let (tester_lives, candidate_lives) = carried.unwrap_or_else(|_| {
            relay.fault.get_or_insert(Finished::new(Verdict::Timeout, "it did not end in time"));
            (false, false)
        });
        let Relay { verdict, mut fault, over, ended, .. } = relay;
        let wall_ms = milliseconds(start.elapsed());
        let mut memory = None;
        if tester_lives && !self.ground.by_cpu() {
            self.tester = Some(tester);
        } else {
            let result = tester.link.kill().await?;
            self.ground.note(&result);
            let reached = self.reached(case, &result).filter(|_| verdict.is_none() || self.ground.by_cpu());
            fault = fault.or(reached);
            if verdict.is_none() && fault.is_none() && !ended {
                // Nothing that is tested reaches that sandbox: the host took it.
                return Err(JudgeError::Interrupted);
            }
        }
        let missing = candidate.missing.clone();
        if candidate_lives {
            self.candidate = Some(candidate);
        } else {
            let result = candidate.link.kill().await?;
            self.ground.note(&result);
            let ended = self.ground.ended_by(&result);
            if over {
                fault = Some(ended.clone());
            }
            // Too late by the clock that counts, whatever the test made of its answers.
            let late = self.ground.too_late(case, &result).filter(|_| self.ground.by_cpu());
            fault = late.or(fault);
            memory = Some(ended).filter(|ended| ended.verdict == Verdict::Memory);
        }
        let finished = match (memory, fault, verdict) {
            (Some(memory), ..) => memory,
            (None, Some(fault), _) => fault,
            (None, None, Some(words)) => told(&words, missing.as_deref()),
            (None, None, None) => Finished::new(Verdict::Crashed, "the test itself ended without a verdict"),
        };
        Ok(Finished { wall_ms, ..finished })
    }

    /// A limit that the test itself has reached. What it was given may be the cause: that is no failure of the host.
    fn reached(&self, case: &Case, result: &ExecResult) -> Option<Finished> {
        let ended = self.ground.ended_by(result);
        let memory = || Some(ended).filter(|ended| ended.verdict == Verdict::Memory);
        let reached = self.ground.too_late(case, result).or_else(memory)?;
        Some(Finished { detail: format!("in the test: {}", reached.detail), ..reached })
    }

    async fn tester(&mut self, case: &Case, test: &Test) -> Tester {
        let request = ExecRequest {
            code: Some(Source(Vec::new())),
            files: self.ground.task.files.clone(),
            policy: Policy::Off,
            review: false,
            ..self.ground.harnessed(self.ground.serving(case))
        };
        if let Some(tester) = self.tester.take() {
            if tester.serves(test) {
                return tester;
            }
            self.ground.testers.put(tester);
        }
        // One whose own time counts begins with it.
        let idle = if self.ground.by_cpu() { None } else { self.ground.testers.take(&request, test) };
        if let Some(tester) = idle {
            return tester;
        }
        let link = Link::open(&self.ground.engine, &self.ground.caller, request.clone());
        let has_unittest = is_for_unittest(test);
        let secret = engine::new_id("order");
        let mut order = vec![Value::text("tests"), Value::text(&secret)];
        order.extend(has_unittest.then(|| Value::text("unittest")));
        link.send(order).await;
        Tester { link, request, has_unittest, secret, since: Instant::now() }
    }

    /// The sandbox of the tested code, loaded.
    async fn ready(&mut self, case: &Case) -> Result<Result<Candidate, Finished>, JudgeError> {
        if let Some(candidate) = self.candidate.take() {
            return Ok(Ok(candidate));
        }
        let task = &self.ground.task;
        let order = vec![Value::text("candidate"), Value::text(&task.setup), Value::text(&task.entry)];
        let mut link = match load(self.ground, self.ground.serving(case), vec![order]).await? {
            Ok(link) => link,
            Err(broken) => {
                self.broken = Some(broken.clone());
                return Ok(Err(broken));
            }
        };
        let tampered = Finished::new(Verdict::Tampered, "it wrote into the judge's own channel");
        let heard = link.next(Instant::now() + self.ground.patience(self.ground.limits.wall) + GRACE).await;
        if let Heard::Frame(frame) = heard
            && let Ok(Value::Tuple(words)) = Value::from_wire(&frame)
            && let [Value::Str(kind), names @ Value::Dict(_), missing] = &words[..]
            && kind == "names"
        {
            let missing = missing.as_str().map(str::to_owned);
            return Ok(Ok(Candidate { link, names: names.clone(), missing }));
        }
        let result = link.kill().await?;
        self.ground.note(&result);
        let ended = self.ground.ended_by(&result);
        Ok(Err(if ended.verdict == Verdict::Memory { ended } else { tampered }))
    }

    fn words(&self, test: &Test, names: &Value) -> Value {
        let names = used(names, &test.source, &self.ground.task.entry);
        let defines = |word: &str| test.source.lines().any(|line| line.trim_start().starts_with(word));
        let pairs = [
            ("source", Value::text(&test.source)),
            ("setup", Value::text(&test.setup)),
            ("runner", Value::text(test.runner.name())),
            ("entry", Value::text(&self.ground.task.entry)),
            ("has_check", Value::Bool(defines("def check("))),
            ("has_tests", Value::Bool(defines("def test") || defines("class Test"))),
            ("module", Value::text(&self.ground.task.module)),
            ("names", names),
        ];
        Value::Dict(pairs.into_iter().map(|(name, value)| (Value::text(name), value)).collect())
    }

    /// In one process: only where the test itself cannot do without.
    async fn together(&mut self, case: &Case, test: &Test) -> Result<Finished, JudgeError> {
        let order = vec![Value::text("together"), Value::text(&self.ground.task.setup)];
        let mut link = match load(self.ground, self.ground.serving(case), vec![order]).await? {
            Ok(link) => link,
            Err(broken) => return Ok(broken),
        };
        let nonce = engine::new_id("proof");
        let limit = self.ground.patience(self.ground.time(case));
        let start = Instant::now();
        let mut words = self.words(test, &Value::Dict(Vec::new()));
        if let Value::Dict(pairs) = &mut words {
            pairs.push((Value::text("nonce"), Value::text(&nonce)));
        }
        link.send(vec![Value::int(1), Value::Float(limit.as_secs_f64()), Value::Bool(false), words]).await;
        let mut verdict = None;
        let fault = loop {
            match said(&mut link, start + limit + GRACE).await {
                Said::Verdict(words) if verdict.is_none() => verdict = Some(words),
                Said::Ended { late, status, .. } => {
                    break Some(died(late, status)).filter(|_| late || verdict.is_none());
                }
                Said::Late => break Some(Finished::new(Verdict::Timeout, "it did not end in time")),
                Said::Over => break Some(Finished::new(Verdict::ExitedEarly, "it ended before the test did")),
                Said::Words(_) | Said::Verdict(_) | Said::Nonsense => {
                    break Some(Finished::new(Verdict::Tampered, "it wrote into the judge's own channel"));
                }
            }
        };
        let result = link.kill().await?;
        self.ground.note(&result);
        let late = self.ground.too_late(case, &result).filter(|_| self.ground.by_cpu());
        let finished = match (late.or(fault), verdict) {
            (Some(fault), _) => fault,
            // The end of the test was reached by whoever knows the nonce.
            (None, Some(mut words)) => match words.pop() {
                Some(Value::Str(proof)) if proof == nonce => told(&words, None),
                _ => Finished::new(Verdict::Tampered, "the test was not run to its end"),
            },
            (None, None) => Finished::new(Verdict::ExitedEarly, "it ended before the test did"),
        };
        Ok(Finished { wall_ms: milliseconds(start.elapsed()), trust: Trust::Shared, ..finished })
    }
}

/// Of the tested program's names those that the test mentions. Which these are is never told to the program: words of a
/// test may be answers. And what Python itself calls by a name stays Python's, or a test's own `abs` would be theirs.
fn used(names: &Value, source: &str, entry: &str) -> Value {
    let words: HashSet<&str> = source.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
    let root = entry.split('.').next().unwrap_or_default().trim_end_matches("()");
    let is_used = |name: &str| name == "$entry" || name == root || (words.contains(name) && !is_builtin(name));
    match names {
        Value::Dict(pairs) => {
            Value::Dict(pairs.iter().filter(|(name, _)| name.as_str().is_some_and(is_used)).cloned().collect())
        }
        _ => Value::Dict(Vec::new()),
    }
}

/// Whether every Python program has this name already.
fn is_builtin(name: &str) -> bool {
    const BUILTINS: &str = "abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr classmethod \
        compile complex copyright credits delattr dict dir divmod enumerate eval exec exit filter float format frozenset \
        getattr globals hasattr hash help hex id input int isinstance issubclass iter len license list locals map max \
        memoryview min next object oct open ord pow print property quit range repr reversed round set setattr slice \
        sorted staticmethod str sum super tuple type vars zip check unittest pytest";
    name.starts_with("__") || super::calls::is_builtin(name) || BUILTINS.split(' ').any(|builtin| builtin == name)
}

/// The harness's word for a test that proxies cannot serve.
const NEEDS_SHARING: &str = "NeedsSharing";

/// What the test said of itself.
fn told(words: &[Value], missing: Option<&str>) -> Finished {
    let trust = |shared: &Value| if *shared == Value::Bool(true) { Trust::Shared } else { Trust::Separate };
    match words {
        [Value::Str(kind), count, shared] if kind == "passed" && count.as_int().is_some_and(|count| count > 0) => {
            Finished { trust: trust(shared), ..Finished::pass(String::new()) }
        }
        [Value::Str(kind), Value::Str(who), kinds, Value::Str(message), line, shared] if kind == "failed" => {
            let kinds = names(kinds);
            let finished = match (who.as_str(), kinds.first().map(String::as_str)) {
                ("sharing", _) => {
                    let finished = Finished::new(Verdict::UnsupportedValue, message);
                    Finished { exception: Some((NEEDS_SHARING.to_owned(), None)), ..finished }
                }
                (_, Some("builtins.SystemExit")) => {
                    Finished::new(Verdict::ExitedEarly, "it left with sys.exit before the test ended")
                }
                ("tested", _) => raised(&kinds, message, line, "it raised "),
                ("test", Some("builtins.AssertionError" | "unittest.case.AssertionError")) => {
                    Finished::new(Verdict::WrongAnswer, format!("the assertion failed: {}", shorter(message, 500)))
                }
                ("skipped" | "nothing", _) => Finished::new(Verdict::WrongAnswer, message),
                ("test", Some("builtins.NameError")) if missing.is_some() => {
                    Finished::new(Verdict::Exception, missing.unwrap_or_default())
                }
                _ => {
                    let finished = raised(&kinds, message, &Value::None, "the test ended with ");
                    Finished { output: String::new(), ..finished }
                }
            };
            Finished { trust: trust(shared), ..finished }
        }
        _ => Finished::new(Verdict::Crashed, "the test itself ended without a verdict"),
    }
}
