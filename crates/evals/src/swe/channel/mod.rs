//! What the reporter inside the tests' own interpreter says, over a way that nothing printed can reach.
//!
//! Each record carries a proof by a key that only the reporter has: it took it before tested code was loaded. A record
//! without one is somebody else's, and is counted as that.

pub(super) mod proof;

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::Statuses;
use super::log::Parser;
use super::statuses::{ERROR, FAILED, PASSED, SKIPPED, XFAIL};

/// The reporter, and the file by which every Python of the environment loads it.
pub(super) const REPORTER: &str = include_str!("reporter.py");
pub(super) const MODULE: &str = "_saggar_channel";

/// Who runs the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    /// pytest.
    Pytest,
    /// `unittest`, such as Django's.
    Unittest,
    /// sympy's own.
    Sympy,
}

impl Runner {
    /// The runner of a test command, if it is one that the reporter knows.
    #[must_use]
    pub fn of(command: &str) -> Option<Self> {
        let has = |text: &str| command.contains(text);
        if has("pytest") || has("py.test") {
            Some(Self::Pytest)
        } else if has("runtests.py") || has("unittest") {
            Some(Self::Unittest)
        } else if has("bin/test") {
            Some(Self::Sympy)
        } else {
            None
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Pytest => "pytest",
            Self::Unittest => "unittest",
            Self::Sympy => "sympy",
        }
    }
}

/// What was heard.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// Whether the reporter was there.
    pub began: bool,
    /// pytest's own exit status, from its end.
    pub ended: Option<i64>,
    /// Lines without a proof, or out of order.
    pub forged: usize,
    /// Parts of the runner that tested code replaced.
    pub replaced: BTreeSet<String>,
    /// Tests with all their names and how they ended, each as often as it was told.
    tests: Vec<(Vec<String>, String)>,
}

impl Heard {
    /// Reads records.
    #[must_use]
    pub fn read(text: &str, key: &str) -> Self {
        let mut heard = Self::default();
        let (mut made, mut logged) = (Phases::default(), Phases::default());
        let mut next = 0;
        for line in text.lines() {
            let record = proof::checked(line, key).and_then(|text| serde_json::from_str::<Vec<Json>>(text).ok());
            match record.filter(|record| record.first().and_then(Json::as_u64) == Some(next)) {
                Some(record) => {
                    next += 1;
                    heard.take(&record[1..], &mut made, &mut logged);
                }
                None => heard.forged += 1,
            }
        }
        let known: BTreeSet<String> = made.0.iter().map(|(id, _)| id.clone()).collect();
        // Other processes ran what was only logged here.
        let elsewhere = logged.0.into_iter().filter(|(id, _)| !known.contains(id));
        heard.tests.extend(made.0.into_iter().chain(elsewhere).map(|(id, status)| (vec![id], status)));
        heard
    }

    fn take(&mut self, record: &[Json], made: &mut Phases, logged: &mut Phases) {
        let text = |at: usize| record.get(at).and_then(Json::as_str).unwrap_or_default();
        let flag = |at: usize| record.get(at).and_then(Json::as_bool).unwrap_or_default();
        match text(0) {
            "begin" => self.began = true,
            "end" => self.ended = record.get(1).and_then(Json::as_i64),
            "replaced" => drop(self.replaced.insert(text(1).to_owned())),
            "made" => made.add(text(1), text(2), text(3), (flag(4), flag(5))),
            "logged" => logged.add(text(1), text(2), text(3), (text(3) == "failed", flag(4))),
            "test" => {
                let names = [text(1), text(2)].into_iter().filter(|name| !name.is_empty());
                self.tests.push((names.map(str::to_owned).collect(), text(3).to_owned()));
            }
            _ => self.forged += 1,
        }
    }

    /// What was heard of each test, by the ids that a log of it would have.
    #[must_use]
    pub fn statuses(&self, runner: Runner, parser: Parser) -> Statuses {
        if runner == Runner::Pytest {
            let lines = self.tests.iter().filter_map(|(names, status)| Some(format!("{status} {}\n", names.first()?)));
            return parser.read(&lines.collect::<String>());
        }
        let mut statuses = Statuses::default();
        for (names, status) in &self.tests {
            for name in names {
                // One that failed once has failed, whatever is told of another of that name.
                if !matches!(statuses.get(name), Some(FAILED | ERROR)) {
                    statuses.put(name.clone(), status);
                }
            }
        }
        statuses
    }

    /// Files of which something was heard, for pytest.
    #[must_use]
    pub fn files(&self) -> BTreeSet<&str> {
        self.tests.iter().filter_map(|(names, _)| names.first()?.split("::").next()).collect()
    }
}

/// Tests of pytest, put together from their phases.
#[derive(Default)]
struct Phases(Vec<(String, String)>);

impl Phases {
    fn add(&mut self, id: &str, when: &str, outcome: &str, (raised, xfail): (bool, bool)) {
        let status = match (when, outcome) {
            // Whatever a report says: what raised has not passed.
            ("call", "passed") if raised => FAILED,
            ("call", "passed") if xfail => "XPASS",
            ("call", "passed") => PASSED,
            (_, "skipped") if xfail => XFAIL,
            (_, "skipped") => SKIPPED,
            ("call", _) => FAILED,
            (_, "passed") if !raised => return,
            _ => ERROR,
        };
        match self.0.iter_mut().rev().find(|(known, _)| known == id) {
            Some((_, old)) => status.clone_into(old),
            None => self.0.push((id.to_owned(), status.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(key: &str, text: &str) -> String {
        format!("{} {text}\n", proof::of(key, text))
    }

    #[test]
    fn only_records_with_a_proof_are_heard() {
        let key = "secret";
        let text = [
            line(key, r#"[0, "begin", "pytest"]"#),
            line(key, r#"[1, "made", "t.py::a", "setup", "passed", false, false]"#),
            line(key, r#"[2, "made", "t.py::a", "call", "passed", false, false]"#),
            line(key, r#"[3, "made", "t.py::b", "call", "passed", true, false]"#),
            line(key, r#"[4, "made", "t.py::c", "call", "skipped", true, true]"#),
            line("other", r#"[5, "made", "t.py::d", "call", "passed", false, false]"#),
            line(key, r#"[2, "made", "t.py::e", "call", "passed", false, false]"#),
            "t.py::f PASSED\n".to_owned(),
        ];
        let heard = Heard::read(&text.concat(), key);
        assert!(heard.began && heard.ended.is_none());
        assert_eq!(heard.forged, 3);
        let statuses = heard.statuses(Runner::Pytest, Parser::named("pytest").unwrap());
        let found: Vec<_> = statuses.iter().collect();
        assert_eq!(found, [("t.py::a", PASSED), ("t.py::b", FAILED), ("t.py::c", XFAIL)]);
    }
}
