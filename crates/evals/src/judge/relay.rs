//! Words between a test and what it tests, carried by the judge: what either side said, and what became of it.

use tokio::time::Instant;

use super::link::{Heard, Link};
use super::result::{Finished, Verdict};
use super::value::{Value, shorter};

/// What one side said last.
pub(super) enum Said {
    /// Words for the other side.
    Words(Vec<Value>),
    /// The verdict's words, from the test's side.
    Verdict(Vec<Value>),
    /// The process of this test is gone: late, status, traces left.
    Ended { late: bool, status: i64, spent: bool },
    /// Something that is none of these.
    Nonsense,
    /// The sandbox is gone.
    Over,
    /// Nothing in time.
    Late,
}

/// Whose turn it is. Tested code speaks when it is asked: what it says besides would be left for whoever reads next, which
/// is the harness that waits for orders.
#[derive(Default)]
pub(super) struct Turns {
    /// Questions of the trusted side without an answer.
    asked: usize,
    /// Whether something was sent that nobody may have read.
    spoilt: bool,
}

impl Turns {
    /// The trusted side said this.
    pub(super) fn hear(&mut self, words: &[Value]) {
        if matches!(words, [Value::Str(kind), ..] if kind == "do") {
            self.asked += 1;
        }
    }

    /// Whether tested code may say this now.
    pub(super) fn allow(&mut self, kind: &str) -> bool {
        let is_asked = self.asked > 0;
        match kind {
            "ok" | "raised" => self.asked = self.asked.saturating_sub(1),
            "do" => {}
            _ => return false,
        }
        is_asked
    }

    /// The trusted side is told that there will be no answer.
    pub(super) fn give_up(&mut self) {
        self.spoilt |= self.asked == 0;
        self.asked = self.asked.saturating_sub(1);
    }

    /// Whether the sandbox of the trusted side has read all that it was sent.
    pub(super) fn is_clean(&self) -> bool {
        self.asked == 0 && !self.spoilt
    }
}

/// Carries words between a test and what it tests.
pub(super) struct Relay<'a> {
    pub(super) tester: &'a mut Link,
    pub(super) candidate: &'a mut Link,
    /// Whether nothing is needed of the tested side after this test.
    pub(super) last: bool,
    pub(super) verdict: Option<Vec<Value>>,
    /// What the tested side did that no verdict of the test can mend.
    pub(super) fault: Option<Finished>,
    /// Whether its sandbox has ended: how, it will say itself.
    pub(super) over: bool,
    /// Whether the test's process has ended, as its harness says.
    pub(super) ended: bool,
    pub(super) turns: Turns,
}

impl Relay<'_> {
    /// Until the test has ended. Says which of the two sandboxes can serve the next one.
    pub(super) async fn carry(&mut self, deadline: Instant) -> (bool, bool) {
        let mut candidate_lives = true;
        loop {
            let (from_test, said) = tokio::select! {
                biased;
                said = said(self.tester, deadline) => (true, said),
                said = said(self.candidate, deadline), if candidate_lives => (false, said),
            };
            match (from_test, said) {
                (true, Said::Words(words)) => {
                    self.turns.hear(&words);
                    if candidate_lives {
                        self.candidate.send(words).await;
                    } else {
                        self.answer_gone().await;
                    }
                }
                (true, Said::Verdict(words)) => self.verdict = Some(words),
                (true, Said::Ended { late, status, spent }) => {
                    self.ended = true;
                    if late && self.fault.is_none() {
                        self.fault = Some(Finished::new(Verdict::Timeout, "it did not end in time"));
                    }
                    let ends = candidate_lives && !self.last && self.let_go(deadline).await;
                    // One that was killed in the middle of an answer has left the rest of it.
                    let is_clean = !late && status == 0 && self.turns.is_clean();
                    return (is_clean && !spent, ends);
                }
                (true, Said::Over | Said::Nonsense) => return (false, false),
                (false, Said::Words(words)) => candidate_lives = self.pass_on(words).await,
                (false, Said::Ended { late, status, .. }) => {
                    candidate_lives = false;
                    self.gone(died(late, status)).await;
                }
                (false, Said::Over) => {
                    candidate_lives = false;
                    self.over = true;
                    self.gone(Finished::new(Verdict::Crashed, "its process was killed")).await;
                }
                (false, Said::Verdict(_) | Said::Nonsense) => {
                    candidate_lives = false;
                    self.gone(Finished::new(Verdict::Tampered, "it wrote into the judge's own channel")).await;
                }
                (_, Said::Late) => {
                    self.fault.get_or_insert(Finished::new(Verdict::Timeout, "it did not end in time"));
                    return (false, false);
                }
            }
        }
    }

    /// Words of tested code for the test: values, exceptions, or a reason why there is neither. Whether it is heard on.
    async fn pass_on(&mut self, words: Vec<Value>) -> bool {
        match &words[..] {
            [Value::Str(kind), ..] if self.turns.allow(kind) => self.tester.send(words).await,
            [Value::Str(kind), Value::Str(code)] if kind == "left" => {
                let detail = format!("it left with sys.exit({}) before it answered", shorter(code, 100));
                self.gone(Finished::new(Verdict::ExitedEarly, detail)).await;
            }
            [Value::Str(kind), Value::Str(what)] if kind == "unsupported" => {
                let detail = format!("it returned {}", shorter(what, 300));
                self.gone(Finished::new(Verdict::UnsupportedValue, detail)).await;
            }
            _ => {
                self.gone(Finished::new(Verdict::Tampered, "it wrote into the judge's own channel")).await;
                return false;
            }
        }
        true
    }

    async fn gone(&mut self, fault: Finished) {
        self.fault.get_or_insert(fault);
        self.answer_gone().await;
    }

    async fn answer_gone(&mut self) {
        self.turns.give_up();
        self.tester.send(vec![Value::text("gone")]).await;
    }

    /// Ends the tested side's process of this test. Whether the sandbox can serve another.
    async fn let_go(&mut self, deadline: Instant) -> bool {
        self.candidate.send(vec![Value::text("end")]).await;
        loop {
            match said(self.candidate, deadline).await {
                // What was still under way when the test ended does not matter.
                Said::Words(_) | Said::Verdict(_) => {}
                Said::Ended { late, spent, .. } => return !late && !spent,
                Said::Nonsense | Said::Over | Said::Late => return false,
            }
        }
    }
}

/// The next thing that one side says.
pub(super) async fn said(link: &mut Link, deadline: Instant) -> Said {
    loop {
        let frame = match link.next(deadline).await {
            Heard::Frame(frame) => frame,
            Heard::Over => return Said::Over,
            Heard::Late => return Said::Late,
        };
        let Ok(Value::Tuple(words)) = Value::from_wire(&frame) else { return Said::Nonsense };
        match &words[..] {
            [Value::Str(kind)] if kind == "here" || kind == "loaded" => {}
            [Value::Str(kind), _number] if kind == "answer" => {
                return match link.next(deadline).await {
                    Heard::Frame(frame) => match Value::from_wire(&frame) {
                        Ok(Value::Tuple(words)) => Said::Verdict(words),
                        _ => Said::Nonsense,
                    },
                    Heard::Over => Said::Over,
                    Heard::Late => Said::Late,
                };
            }
            [Value::Str(kind), _number, Value::Bool(late), status, _cpu, Value::Bool(spent)] if kind == "ended" => {
                return Said::Ended { late: *late, status: status.as_int().unwrap_or(1), spent: *spent };
            }
            _ => return Said::Words(words),
        }
    }
}

/// How a process that should still be there has gone.
pub(super) fn died(late: bool, status: i64) -> Finished {
    if late {
        return Finished::new(Verdict::Timeout, "it did not end in time");
    }
    if status & 0x7f != 0 {
        return Finished::new(Verdict::Crashed, format!("it was ended by signal {}", status & 0x7f));
    }
    let code = (status >> 8) & 0xff;
    Finished::new(Verdict::ExitedEarly, format!("it ended with exit code {code} before it answered"))
}
