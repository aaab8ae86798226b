//! Whether a log can be believed: it is set beside what the reporter heard.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Statuses;
use super::channel::{Heard, Runner};
use super::log::Parser;
use super::statuses::{FAILED, PASSED, SKIPPED, XFAIL};
use super::steps::Edit;

/// What was seen that an honest patch does not do, or that should be known of a verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Integrity {
    /// Files of the patch that could decide the verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<Edit>,
    /// Whether they were put back before the tests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub neutralised: bool,
    /// Whether the reporter was heard to its end; None where there is none for this runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reporter: Option<bool>,
    /// Tests of which log and reporter do not say the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disagreements: Vec<Disagreement>,
    /// Parts of the runner that tested code replaced.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub replaced: BTreeSet<String>,
    /// Lines in the reporter's place that were not its own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forged: usize,
    /// Tests that ended in more than one way when they were repeated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flaky: Vec<String>,
}

/// A test of which log and reporter do not say the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disagreement {
    /// Which.
    pub test: String,
    /// What the log says.
    pub log: String,
    /// What the reporter said; nothing if absent.
    pub reporter: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Integrity {
    /// Whether something was seen that should be looked at.
    #[must_use]
    pub fn is_suspicious(&self) -> bool {
        self.reporter == Some(false)
            || self.forged > 0
            || [self.edits.is_empty(), self.disagreements.is_empty(), self.replaced.is_empty()].contains(&false)
    }

    /// Takes in what the reporter heard, and returns what a log says as far as that confirms it. `wanted` are tests that
    /// must have been heard; `files` those that the tests are in.
    pub fn confirm(
        &mut self,
        log: &Statuses,
        (runner, heard): &(Runner, Heard),
        parser: Parser,
        wanted: &[String],
        files: &[String],
    ) -> Statuses {
        let told = heard.statuses(*runner, parser);
        self.reporter = Some(heard.began && (heard.ended.is_some() || *runner != Runner::Pytest));
        self.forged += heard.forged;
        self.replaced.extend(heard.replaced.iter().cloned());
        let heard_files = heard.files();
        let must_be_heard = |test: &str| match (runner, test.split_once("::")) {
            (Runner::Pytest, None) => false,
            // Tests of pytest print logs of other files, whose lines are taken for tests by the official reader.
            (Runner::Pytest, Some((file, _))) => files.iter().any(|known| known == file) || heard_files.contains(file),
            (Runner::Unittest | Runner::Sympy, _) => {
                wanted.iter().any(|known| known == test) || looks_like_a_test(test)
            }
        };
        let is_spoilt = self.forged > 0 || !self.replaced.is_empty() || self.reporter == Some(false);
        let mut confirmed = Statuses::default();
        for (test, status) in log.iter() {
            let reporter = told.get(test);
            let agrees = match reporter {
                Some(reporter) => reporter == status || !is_good(status),
                None => !is_good(status) || !must_be_heard(test),
            };
            if !agrees {
                let reporter = reporter.map(str::to_owned);
                self.disagreements.push(Disagreement { test: test.to_owned(), log: status.to_owned(), reporter });
            }
            let status = match reporter {
                _ if is_spoilt && is_good(status) => FAILED,
                Some(reporter) if !agrees => reporter,
                None if !agrees => FAILED,
                _ => status,
            };
            confirmed.put(test, status);
        }
        confirmed
    }
}

fn is_good(status: &str) -> bool {
    matches!(status, PASSED | XFAIL | SKIPPED)
}

/// `test_x (package.Class)`, or the plain name of a function.
fn looks_like_a_test(test: &str) -> bool {
    let word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
    match test.split_once(" (") {
        Some((name, rest)) => word(name) && rest.strip_suffix(')').is_some_and(word),
        None => word(test),
    }
}
