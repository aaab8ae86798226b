//! What a model needs to repair its code: public cases in full, of hidden ones the verdict class alone.

use types::Feedback;

use super::ground::Ground;
use super::result::{CaseResult, Finished, Judged, Verdict};
use super::task::{Case, Plan};
use super::value::{Value, shorter};

/// More than this is not read, by people or models.
const MOST: usize = 20;

/// Collects what is to be said, each thing once.
pub(crate) struct Teller<'g> {
    ground: &'g Ground,
    told: Vec<Feedback>,
    hidden: usize,
}

impl<'g> Teller<'g> {
    pub(crate) fn new(ground: &'g Ground) -> Self {
        Self { ground, told: Vec::new(), hidden: 0 }
    }

    /// Adds what is to be said of a case that did not pass.
    pub(crate) fn add(&mut self, case: &Case, plan: &Plan, name: &str, finished: &Finished) {
        if matches!(finished.verdict, Verdict::Pass | Verdict::NotRun) {
            return;
        }
        if case.hidden {
            let kind = finished.verdict.name().to_owned();
            let message = format!("a hidden case failed: {}", class(finished.verdict));
            self.hidden += 1;
            let known = self.told.iter().any(|told| told.message == message);
            if !known {
                // An exception's own hint would tell which one it was.
                let hint = hint(&Finished { exception: None, ..finished.clone() }).to_owned();
                self.told.push(Feedback { kind, message, hint, line: None, case: None });
            }
            return;
        }
        let (kind, line) = match &finished.exception {
            Some((kind, line)) if finished.verdict == Verdict::Exception => (kind.clone(), *line),
            Some((_, line)) => (finished.verdict.name().to_owned(), *line),
            None => (finished.verdict.name().to_owned(), None),
        };
        let message = format!("{}: {}", self.what(plan), finished.detail);
        let same = |told: &&mut Feedback| told.kind == kind && told.message == message;
        if self.told.len() < MOST && self.told.iter_mut().find(same).is_none() {
            let hint = hint(finished).to_owned();
            self.told.push(Feedback { kind, message, hint, line, case: Some(name.to_owned()) });
        }
    }

    pub(crate) fn finish(self) -> Vec<Feedback> {
        self.told
    }

    /// The case in a few words.
    fn what(&self, plan: &Plan) -> String {
        match plan {
            Plan::Call(call) => {
                let mut words: Vec<String> = match &call.args {
                    Value::Tuple(args) => args.iter().map(|arg| shorter(arg, 200)).collect(),
                    other => vec![shorter(other, 200)],
                };
                if let Value::Dict(pairs) = &call.kwargs {
                    words.extend(
                        pairs.iter().map(|(k, v)| format!("{}={}", k.as_str().unwrap_or_default(), shorter(v, 200))),
                    );
                }
                format!("{}({})", self.ground.task.entry, words.join(", "))
            }
            Plan::Program(io) if io.stdin.is_empty() => "without input".to_owned(),
            Plan::Program(io) => format!("with input `{}`", shorter(&io.stdin.trim_end(), 300)),
            Plan::Test(test) => format!("test `{}`", shorter(&test.source.trim(), 300)),
        }
    }
}

/// A verdict in a few words that give nothing away.
const fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "passed",
        Verdict::WrongAnswer => "wrong answer",
        Verdict::WrongType => "wrong type",
        Verdict::Exception => "an exception",
        Verdict::NoException => "no exception where one was expected",
        Verdict::WrongException => "another exception than expected",
        Verdict::Timeout => "too slow",
        Verdict::Memory => "too much memory",
        Verdict::Crashed => "crashed",
        Verdict::ExitedEarly => "ended before it answered",
        Verdict::CompileError => "does not compile",
        Verdict::Tampered => "interfered with the judge",
        Verdict::UnsupportedValue => "a value that cannot be judged",
        Verdict::NotRun => "not run",
        Verdict::Refused => "refused by the policy",
    }
}

fn hint(finished: &Finished) -> &'static str {
    match (finished.verdict, &finished.exception) {
        (Verdict::Exception, Some((kind, _))) => engine::hint_for_exception(kind),
        (Verdict::Exception, None) => "handle the error, or avoid what raises it",
        (Verdict::Pass | Verdict::NotRun, _) => "",
        (Verdict::WrongAnswer, _) => "work the case through by hand and see where the code goes another way",
        (Verdict::WrongType, _) => "return a value of the type that is asked for; convert it if need be",
        (Verdict::NoException, _) => "check the arguments and raise the exception that is asked for",
        (Verdict::WrongException, _) => "raise the exception that is asked for, with the message that is asked for",
        (Verdict::Timeout, _) => "look for an endless loop, a wait for input, or a slow algorithm",
        (Verdict::Memory, _) => "process the data in parts, or keep less of it",
        (Verdict::Crashed, _) => "the process died: look for endless recursion, native code or os.kill",
        (Verdict::ExitedEarly, _) => "return the answer; do not call exit, sys.exit or os._exit",
        (Verdict::CompileError, _) => "mend the compiler's first message first",
        (Verdict::Tampered, _) => "return the answer and leave other descriptors and processes alone",
        (Verdict::UnsupportedValue, _) => "return plain data: numbers, texts, lists, tuples, sets, dictionaries",
        (Verdict::Refused, _) => "leave out what the policy forbids; `findings` names it",
    }
}

/// All of it as text to paste into a prompt.
#[must_use]
pub fn for_prompt(judged: &Judged) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    let Judged { passed, total, .. } = judged;
    // Writing into memory does not fail.
    let _ = writeln!(text, "{passed} of {total} cases passed (score {:.2}).", judged.score);
    if judged.feedback.is_empty() {
        let rest: Vec<&CaseResult> = judged.cases.iter().filter(|case| !case.passed).collect();
        if let Some(first) = rest.first() {
            let _ = writeln!(text, "\nFirst case that did not pass: {} ({})", first.name, first.verdict.name());
        }
    }
    for (index, feedback) in judged.feedback.iter().enumerate() {
        let case = feedback.case.as_ref().map(|case| format!("case `{case}`, ")).unwrap_or_default();
        let line = feedback.line.map(|line| format!(" at line {line}")).unwrap_or_default();
        let _ = writeln!(text, "\n{}. {case}{}{line}\n   {}", index + 1, feedback.kind, feedback.message);
        if !feedback.hint.is_empty() {
            let _ = writeln!(text, "   Hint: {}", feedback.hint);
        }
    }
    text
}
