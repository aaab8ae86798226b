//! Which tests had to pass, and did: the rules of the official grader.

use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use super::Statuses;
use super::log::Parser;
use super::statuses::{ERROR, FAILED, PASSED, SKIPPED, XFAIL};

pub(super) const START: &str = ">>>>> Start Test Output";
pub(super) const END: &str = ">>>>> End Test Output";

/// With any of these in it a log says nothing.
const SPOILT: [&str; 4] =
    [">>>>> Patch Apply Failed", ">>>>> Reset Failed", ">>>>> Tests Errored", ">>>>> Tests Timed Out"];

#[expect(clippy::unwrap_used, reason = "constants, which a test reads")]
static EXIT_CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r">>>>> Test Exit Code:\s*(-?\d+)").unwrap());

/// That a runner ran, where only failures are printed. No count in it may be zero.
#[expect(clippy::unwrap_used, reason = "constants, which a test reads")]
static RAN: LazyLock<Regex> = LazyLock::new(|| {
    let signs = [
        r"Executed [1-9]\d* of \d+",
        r"TOTAL: [1-9]\d* (?:SUCCESS|FAILED)",
        r"[1-9]\d* passing",
        r"Tests:\s+[1-9]\d*",
        r"Test Suites:\s+(?:\d+ \w+, )*[1-9]\d* total",
        r"^# tests [1-9]\d*",
        r"[1-9]\d* specs?, \d+ failures?",
        r"': ok$",
    ];
    Regex::new(&format!("(?m){}", signs.join("|"))).unwrap()
});

/// How tests that a log does not name are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EvalType {
    /// As failed.
    #[default]
    PassAndFail,
    /// As passed: the runner prints failures only.
    FailOnly,
}

/// Whether an instance is resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// Everything passes that must.
    Full,
    /// Nothing broke, and some of what must pass does.
    Partial,
    /// Neither.
    No,
}

/// Tests of one list by how they ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sides {
    /// As they should.
    pub success: Vec<String>,
    /// Not so.
    pub failure: Vec<String>,
}

impl Sides {
    fn sorted(tests: &[String], is_success: impl Fn(&str) -> Option<bool>) -> Self {
        let mut sides = Self::default();
        for test in tests {
            match is_success(test) {
                Some(true) => sides.success.push(test.clone()),
                Some(false) => sides.failure.push(test.clone()),
                None => {}
            }
        }
        sides
    }
}

/// The two lists of an instance, graded. The other two are part of the format and always empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub struct TestsStatus {
    /// Tests that the patch must mend.
    pub fail_to_pass: Sides,
    /// Tests that it must not break.
    pub pass_to_pass: Sides,
    fail_to_fail: Sides,
    pass_to_fail: Sides,
}

impl TestsStatus {
    /// Tests that are on another side in another run.
    pub(super) fn differences(&self, other: &Self) -> Vec<String> {
        let sides = [(&self.fail_to_pass, &other.fail_to_pass), (&self.pass_to_pass, &other.pass_to_pass)];
        let moved = sides.into_iter().flat_map(|(a, b)| {
            let lost = a.success.iter().filter(|test| !b.success.contains(test));
            lost.chain(b.success.iter().filter(|test| !a.success.contains(test)))
        });
        moved.cloned().collect()
    }

    /// Whether the instance is resolved.
    #[must_use]
    pub fn resolution(&self) -> Resolution {
        match (self.fail_to_pass.failure.is_empty(), self.fail_to_pass.success.is_empty()) {
            _ if !self.pass_to_pass.failure.is_empty() => Resolution::No,
            (true, _) => Resolution::Full,
            (false, false) => Resolution::Partial,
            (false, true) => Resolution::No,
        }
    }
}

/// Reads a whole log of the official script. None where it says nothing that could be graded.
#[must_use]
pub fn read_log(log: &str, parser: Parser) -> Option<Statuses> {
    // Python reads files so.
    let log = log.replace("\r\n", "\n").replace('\r', "\n");
    if SPOILT.iter().any(|spoilt| log.contains(spoilt)) || !log.contains(END) {
        return None;
    }
    let slice = log.split(START).nth(1)?.split(END).next()?;
    let mut statuses = parser.read(slice);
    if statuses.is_empty() {
        statuses = parser.read(&log);
    }
    if statuses.is_empty() && !RAN.is_match(&log) {
        return None;
    }
    // One that failed and names no failure tells of another run than that which happened.
    let code = EXIT_CODE.captures(&log).map(|found| found[1].to_owned());
    let has_failed = code.is_some_and(|code| code.trim_start_matches('-').bytes().any(|digit| digit != b'0'));
    let names_failure = statuses.iter().any(|(_, status)| status == FAILED || status == ERROR);
    (!has_failed || statuses.is_empty() || names_failure).then_some(statuses)
}

/// Sorts the tests of both lists by what a log says of them.
#[must_use]
pub fn grade(statuses: &Statuses, fail_to_pass: &[String], pass_to_pass: &[String], by: EvalType) -> TestsStatus {
    let mend = |test: &str| match by {
        EvalType::PassAndFail => has_passed(find(test, statuses)),
        EvalType::FailOnly => Some(statuses.get(test) != Some(FAILED)),
    };
    let keep = |test: &str| match by {
        EvalType::PassAndFail => match find(test, statuses) {
            Some(SKIPPED) => Some(true),
            status => has_passed(status),
        },
        EvalType::FailOnly => mend(test),
    };
    TestsStatus {
        fail_to_pass: Sides::sorted(fail_to_pass, mend),
        pass_to_pass: Sides::sorted(pass_to_pass, keep),
        ..TestsStatus::default()
    }
}

/// None for a status that is none of the five: such a test is in neither list.
fn has_passed(status: Option<&str>) -> Option<bool> {
    match status {
        Some(PASSED | XFAIL) => Some(true),
        None | Some(FAILED | ERROR | SKIPPED) => Some(false),
        Some(_) => None,
    }
}

/// The status of a test. An id that was cut within its parameters stands for those that begin with it, if they agree.
fn find<'a>(test: &str, statuses: &'a Statuses) -> Option<&'a str> {
    if let Some(status) = statuses.get(test) {
        return Some(status);
    }
    if test.matches('[').count() <= test.matches(']').count() {
        return None;
    }
    let mut alike = statuses.iter().filter(|(id, _)| id.starts_with(test)).map(|(_, status)| status);
    let first = alike.next()?;
    let is_pass = |status: &str| matches!(status, PASSED | XFAIL);
    alike.all(|status| is_pass(status) == is_pass(first)).then_some(first)
}
