//! Tests of any repository, set against what they should come to.

use super::Statuses;
use super::grade::{self, EvalType, Resolution, TestsStatus};
use super::integrity::Integrity;
use super::log::Parser;
use super::steps::Tested;

/// What tests came to.
#[derive(Debug, Clone)]
pub struct Checked {
    /// Each test that was seen.
    pub statuses: Statuses,
    /// Those that were asked for.
    pub tests: TestsStatus,
    /// Whether all of them came out as they should. Where none was asked for, or none ran, nothing did.
    pub resolution: Resolution,
    /// What should be known of it.
    pub integrity: Integrity,
}

/// Sets what a test command printed, and what the reporter heard where there is one, against two lists of tests: those
/// that must pass now and those that must still pass. `files` are those that the tests are in, as far as they are known.
#[must_use]
pub fn check_tests(
    tested: &Tested,
    parser: Parser,
    fail_to_pass: &[String],
    pass_to_pass: &[String],
    files: &[String],
) -> Checked {
    let mut integrity = Integrity::default();
    let said = parser.read(&tested.log);
    let statuses = match &tested.heard {
        Some(heard) => integrity.confirm(&said, heard, parser, fail_to_pass, files),
        None => said,
    };
    let tests = grade::grade(&statuses, fail_to_pass, pass_to_pass, EvalType::PassAndFail);
    let is_nothing = tested.is_late || statuses.is_empty() || (fail_to_pass.is_empty() && pass_to_pass.is_empty());
    let resolution = if is_nothing { Resolution::No } else { tests.resolution() };
    Checked { statuses, tests, resolution, integrity }
}
