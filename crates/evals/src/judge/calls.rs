//! Function cases in Python: the program is loaded once, each case is a fork of it, and only plain data comes out.

use std::time::Duration;

use tokio::time::Instant;

use super::claims::Claims;
use super::compare;
use super::error::JudgeError;
use super::ground::{GRACE, Ground, milliseconds};
use super::link::{Heard, Link};
use super::result::{Finished, Verdict};
use super::task::{Call, Case, Compare, Raises};
use super::typing::Type;
use super::value::{Value, WireError, short};

/// Runs function cases one after the other.
pub(crate) struct Calls<'g> {
    ground: &'g Ground,
    link: Option<Link>,
    /// A sandbox that has answered and is about to end: nobody waits for that before there is nothing else to do.
    leaving: Option<Link>,
    number: i64,
    /// Cases that are still to come.
    left: usize,
    /// How loading the program failed; it is not tried again.
    broken: Option<Finished>,
}

/// What the harness told of one case.
struct Told {
    answer: Option<Vec<u8>>,
    late: bool,
    status: i64,
    spent: bool,
}

impl<'g> Calls<'g> {
    /// For so many cases.
    pub(crate) fn new(ground: &'g Ground, left: usize) -> Self {
        Self { ground, link: None, leaving: None, number: 0, left, broken: None }
    }

    /// Judges one case.
    pub(crate) async fn run(&mut self, case: &Case, call: &Call) -> Result<Finished, JudgeError> {
        let words = vec![call.args.clone(), call.kwargs.clone()];
        self.ask(case, words, &mut |answer| judge_answer(case, call, answer)).await
    }

    /// Judges a test that is nothing but claims about calls; `None` if the answers leave it open.
    pub(crate) async fn claims(&mut self, case: &Case, claims: &Claims) -> Result<Option<Finished>, JudgeError> {
        let mut open = false;
        let mut conclude = |answer: &[u8]| {
            claims.conclude(answer).unwrap_or_else(|| {
                open = true;
                Finished::new(Verdict::UnsupportedValue, "")
            })
        };
        let finished = self.ask(case, vec![claims.calls()], &mut conclude).await?;
        Ok(Some(finished).filter(|_| !open))
    }

    /// Has the harness do something, and concludes from its answer.
    async fn ask(
        &mut self,
        case: &Case,
        question: Vec<Value>,
        conclude: &mut (dyn FnMut(&[u8]) -> Finished + Send),
    ) -> Result<Finished, JudgeError> {
        self.left = self.left.saturating_sub(1);
        self.number = super::unguessable();
        let limit = self.ground.patience(self.ground.time(case));
        // The last has the loaded program to itself: no fork, and its end is the sandbox's.
        let last = self.left == 0 || self.ground.by_cpu();
        let mut words = vec![Value::int(self.number), Value::Float(limit.as_secs_f64()), Value::Bool(last)];
        words.extend(question);
        let mut link = match self.ready(case, words).await? {
            Ok(link) => link,
            Err(broken) => return Ok(broken),
        };
        let start = Instant::now();
        let grace = if last { Duration::ZERO } else { GRACE };
        let told = self.listen(&mut link, start + limit + grace).await;
        let wall_ms = milliseconds(start.elapsed());
        let finished = match told {
            Ok(told) => self.conclude(case, link, told, conclude).await?,
            Err(finished) => self.lost(link, finished).await?,
        };
        Ok(Finished { wall_ms, ..finished })
    }

    /// Says what the sandbox that is left has cost.
    pub(crate) async fn finish(&mut self) -> Result<(), JudgeError> {
        self.part().await?;
        if let Some(link) = self.link.take() {
            self.ground.note(&link.finish().await?);
        }
        Ok(())
    }

    /// Says what the sandbox that is leaving has cost.
    async fn part(&mut self) -> Result<(), JudgeError> {
        if let Some(link) = self.leaving.take() {
            self.ground.note(&link.leave().await?);
        }
        Ok(())
    }

    /// The sandbox with the program loaded and `words` said, or how that failed. The harness of a new one finds them
    /// once it has loaded the program: nobody waits for anybody in between.
    async fn ready(&mut self, case: &Case, words: Vec<Value>) -> Result<Result<Link, Finished>, JudgeError> {
        if let Some(broken) = &self.broken {
            return Ok(Err(broken.clone()));
        }
        if let Some(link) = self.link.take() {
            link.send(words).await;
            return Ok(Ok(link));
        }
        let task = &self.ground.task;
        let order = vec![Value::text("cases"), Value::text(&task.setup), Value::text(&task.entry)];
        let loaded = load(self.ground, self.ground.serving(case), vec![order, words]).await?;
        if let Err(broken) = &loaded {
            self.broken = Some(broken.clone());
        }
        Ok(loaded)
    }

    async fn listen(&self, link: &mut Link, deadline: Instant) -> Result<Told, Option<Finished>> {
        let tampered = || Some(Finished::new(Verdict::Tampered, "it wrote into the judge's own channel"));
        let mut answer = None;
        loop {
            let frame = match link.next(deadline).await {
                Heard::Frame(frame) => frame,
                Heard::Over => return Err(None),
                Heard::Late => return Err(Some(Finished::new(Verdict::Timeout, "it did not end in time"))),
            };
            let Ok(Value::Tuple(words)) = Value::from_wire(&frame) else { return Err(tampered()) };
            match &words[..] {
                [Value::Str(kind), number] if kind == "answer" && number.as_int() == Some(self.number) => {
                    if answer.is_some() {
                        return Err(tampered());
                    }
                    match link.next(deadline).await {
                        Heard::Frame(frame) => answer = Some(frame),
                        Heard::Over => return Err(None),
                        Heard::Late => return Err(tampered()),
                    }
                }
                [Value::Str(kind), number, Value::Bool(late), status, _cpu, Value::Bool(spent)]
                    if kind == "ended" && number.as_int() == Some(self.number) =>
                {
                    let status = status.as_int().unwrap_or(1);
                    return Ok(Told { answer, late: *late, status, spent: *spent });
                }
                _ => return Err(tampered()),
            }
        }
    }

    /// The case has ended as it should: its own process is gone, the program is still loaded.
    async fn conclude(
        &mut self,
        case: &Case,
        link: Link,
        told: Told,
        conclude: &mut (dyn FnMut(&[u8]) -> Finished + Send),
    ) -> Result<Finished, JudgeError> {
        let finished = match &told {
            Told { late: true, .. } => Finished::new(Verdict::Timeout, "it did not end in time"),
            Told { answer: Some(answer), .. } => conclude(answer),
            Told { status, .. } if status & 0x7f != 0 => {
                // It may have been killed for its memory: only the sandbox knows.
                let result = link.finish().await?;
                self.ground.note(&result);
                let by_signal = Finished::new(Verdict::Crashed, format!("it was ended by signal {}", status & 0x7f));
                let ended = self.ground.ended_by(&result);
                return Ok(if ended.verdict == Verdict::Memory { ended } else { by_signal });
            }
            Told { status, .. } => {
                let code = (status >> 8) & 0xff;
                Finished::new(Verdict::ExitedEarly, format!("it ended with exit code {code} before it answered"))
            }
        };
        if self.ground.by_cpu() {
            let result = link.finish().await?;
            self.ground.note(&result);
            // It was just in time to answer, and too late by the clock that counts.
            if let Some(late) = self.ground.too_late(case, &result) {
                return Ok(late);
            }
        } else if told.spent {
            // One at a time: a task of many cases that all leave traces must not hold as many sandboxes.
            self.part().await?;
            self.leaving = Some(link);
        } else {
            self.link = Some(link);
        }
        Ok(finished)
    }

    /// The sandbox went with the case, or has to.
    async fn lost(&mut self, link: Link, finished: Option<Finished>) -> Result<Finished, JudgeError> {
        let result = link.kill().await?;
        self.ground.note(&result);
        Ok(finished.unwrap_or_else(|| self.ground.ended_by(&result)))
    }
}

/// Starts a sandbox and waits until the harness in it has loaded the program. Orders after the first are for then.
pub(crate) async fn load(
    ground: &Ground,
    limits: types::LimitsSpec,
    orders: Vec<Vec<Value>>,
) -> Result<Result<Link, Finished>, JudgeError> {
    let mut link = Link::open(&ground.engine, &ground.caller, ground.set_up(limits));
    link.send_all(orders).await;
    let mut heard = link.next(Instant::now() + super::IN_LINE).await;
    // The harness is there; what it takes from now on is the program's own time.
    let start = Instant::now();
    if matches!(&heard, Heard::Frame(frame) if is_here(frame)) {
        heard = link.next(start + ground.patience(ground.limits.wall) + GRACE).await;
    }
    let wall_ms = milliseconds(start.elapsed());
    let failed = |finished: Finished| Ok(Err(Finished { wall_ms, ..finished }));
    let frame = match heard {
        Heard::Frame(frame) => frame,
        Heard::Over => {
            let result = link.kill().await?;
            ground.note(&result);
            return failed(ground.ended_by(&result));
        }
        Heard::Late => {
            ground.note(&link.kill().await?);
            return failed(Finished::new(Verdict::Timeout, "loading the program did not end in time"));
        }
    };
    let finished = match Value::from_wire(&frame) {
        Ok(Value::Tuple(words)) => match &words[..] {
            [Value::Str(kind)] if kind == "loaded" => return Ok(Ok(link)),
            [Value::Str(kind), kinds, Value::Str(message), line] if kind == "raised" => {
                raised(&names(kinds), message, line, "loading the program raised ")
            }
            [Value::Str(kind), Value::Str(code)] if kind == "left" => Finished::new(
                Verdict::ExitedEarly,
                format!("the program left with sys.exit({code}) when it was loaded"),
            ),
            _ => Finished::new(Verdict::Tampered, "it wrote into the judge's own channel"),
        },
        _ => Finished::new(Verdict::Tampered, "it wrote into the judge's own channel"),
    };
    ground.note(&link.kill().await?);
    failed(finished)
}

/// The first word of a harness, before any code of others has run.
pub(crate) fn is_here(frame: &[u8]) -> bool {
    matches!(Value::from_wire(frame), Ok(Value::Tuple(words)) if matches!(&words[..], [Value::Str(word)] if word == "here"))
}

/// What an answer is worth. Everything in it was said by tested code.
fn judge_answer(case: &Case, call: &Call, answer: &[u8]) -> Finished {
    let words = match Value::from_wire(answer) {
        Ok(Value::Tuple(words)) => words,
        Err(error @ (WireError::Deep | WireError::Many | WireError::Text)) => {
            return Finished::new(Verdict::UnsupportedValue, error.to_string());
        }
        Ok(_) | Err(_) => return Finished::new(Verdict::Tampered, "its answer is none of the judge's words"),
    };
    match &words[..] {
        [Value::Str(kind), value, kinds] if kind == "value" => judge_value(case, call, value, &names(kinds)),
        [Value::Str(kind), kinds, Value::Str(message), line] if kind == "raised" => {
            judge_exception(call.raises.as_ref(), &names(kinds), message, line)
        }
        [Value::Str(kind), Value::Str(what)] if kind == "missing" => {
            Finished { exception: Some(("NameError".to_owned(), None)), ..Finished::new(Verdict::Exception, what) }
        }
        [Value::Str(kind), Value::Str(code)] if kind == "left" => {
            Finished::new(Verdict::ExitedEarly, format!("it left with sys.exit({code}) before it answered"))
        }
        [Value::Str(kind), Value::Str(what)] if kind == "unsupported" => {
            Finished::new(Verdict::UnsupportedValue, format!("it returned {}", short(what)))
        }
        _ => Finished::new(Verdict::Tampered, "its answer is none of the judge's words"),
    }
}

/// A value against what the case says of it.
pub(crate) fn judge_value(case: &Case, call: &Call, value: &Value, kinds: &[String]) -> Finished {
    let output = short(value);
    if let Some(Raises { name, .. }) = &call.raises {
        let detail = format!("expected {name} to be raised, but it returned {output}");
        return Finished::new(Verdict::NoException, detail).with_output(output);
    }
    if let Some(text) = &case.expected_type {
        let holds = Type::parse(text).is_some_and(|expected| expected.holds(value, kinds));
        if !holds {
            let is = kinds.first().map_or_else(|| value.type_name(), String::as_str);
            let detail = format!("expected a value of type {text}, got {output} ({is})");
            return Finished::new(Verdict::WrongType, detail).with_output(output);
        }
    }
    if matches!(case.compare, Some(Compare::Checker { .. })) {
        return Finished { to_check: Some(value.to_string()), ..Finished::pass(output) };
    }
    let Some(expected) = &call.expected else { return Finished::pass(output) };
    match compare::values(expected, value, case.compare.as_ref().unwrap_or(&Compare::Exact)) {
        Ok(()) => Finished::pass(output),
        Err(difference) => Finished::new(Verdict::WrongAnswer, difference.to_string()).with_output(output),
    }
}

pub(crate) fn judge_exception(expected: Option<&Raises>, kinds: &[String], message: &str, line: &Value) -> Finished {
    let came = raised(kinds, message, line, "it raised ");
    let Some(Raises { name, message: pattern }) = expected else { return came };
    let fits = kinds.iter().any(|kind| is_class(kind, name));
    if !fits {
        let detail = format!("expected {name}, but {}", came.detail);
        return Finished { verdict: Verdict::WrongException, detail, ..came };
    }
    match pattern {
        Some(pattern) if !pattern.is_match(message) => {
            let detail = format!("the message should match `{pattern}`, but {}", came.detail);
            Finished { verdict: Verdict::WrongException, detail, ..came }
        }
        _ => Finished { exception: None, ..Finished::pass(came.output) },
    }
}

/// Whether a class told as `module.name` is the one that a task calls `name`. A builtin is never somebody's own class.
fn is_class(told: &str, name: &str) -> bool {
    let (module, short) = told.rsplit_once('.').unwrap_or(("", told));
    if told == name {
        return true;
    }
    short == name.rsplit('.').next().unwrap_or(name) && (module == "builtins" || !is_builtin(name))
}

/// Whether an exception of this name is one of Python's own.
pub(crate) fn is_builtin(name: &str) -> bool {
    const WITHOUT_ERROR: [&str; 9] = [
        "Exception",
        "BaseException",
        "StopIteration",
        "StopAsyncIteration",
        "KeyboardInterrupt",
        "GeneratorExit",
        "SystemExit",
        "Warning",
        "ExceptionGroup",
    ];
    const ERRORS: &str = "ArithmeticError AssertionError AttributeError BlockingIOError BrokenPipeError BufferError \
        ChildProcessError ConnectionAbortedError ConnectionError ConnectionRefusedError ConnectionResetError EOFError \
        EnvironmentError FileExistsError FileNotFoundError FloatingPointError IOError ImportError IndentationError \
        IndexError InterruptedError IsADirectoryError KeyError LookupError MemoryError ModuleNotFoundError NameError \
        NotADirectoryError NotImplementedError OSError OverflowError PermissionError ProcessLookupError RecursionError \
        ReferenceError RuntimeError SyntaxError SystemError TabError TimeoutError TypeError UnboundLocalError \
        UnicodeDecodeError UnicodeEncodeError UnicodeError UnicodeTranslateError ValueError ZeroDivisionError";
    WITHOUT_ERROR.contains(&name) || ERRORS.split(' ').any(|error| error == name)
}

pub(crate) fn raised(kinds: &[String], message: &str, line: &Value, before: &str) -> Finished {
    let kind = kinds.first().map_or("an exception", |kind| kind.rsplit('.').next().unwrap_or(kind)).to_owned();
    let line = line.as_int().and_then(|line| u32::try_from(line).ok());
    let place = line.map(|line| format!(" (line {line})")).unwrap_or_default();
    let shown =
        if message.is_empty() { kind.clone() } else { format!("{kind}: {}", super::value::shorter(&message, 500)) };
    let verdict = if kind == "MemoryError" { Verdict::Memory } else { Verdict::Exception };
    let exception = Some((kind, line));
    Finished { exception, output: shown.clone(), ..Finished::new(verdict, format!("{before}{shown}{place}")) }
}

/// A list of texts.
pub(crate) fn names(value: &Value) -> Vec<String> {
    match value {
        Value::List(items) | Value::Tuple(items) => {
            items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    }
}
