//! sympy's own runner: headings of failures, then a line for each test.

use std::sync::LazyLock;

use regex::Regex;

use super::{trimmed, words};
use crate::swe::statuses::{ERROR, FAILED, PASSED, Statuses};

/// `____ sympy/core/tests/test_basic.py:test_x ____`
#[expect(clippy::unwrap_used, reason = "a constant, which a test reads")]
static HEADING: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"_* (.*)\.py:(.*) _*").unwrap());

pub(super) fn read(log: &str) -> Statuses {
    let mut statuses = Statuses::default();
    for found in HEADING.captures_iter(log) {
        statuses.put(format!("{}.py:{}", &found[1], &found[2]), FAILED);
    }
    for line in log.split('\n').map(trimmed).filter(|line| line.starts_with("test_")) {
        let ends = [(" E", ERROR), (" F", FAILED), (" ok", PASSED)];
        if let Some((_, status)) = ends.into_iter().find(|(end, _)| line.ends_with(end))
            && let Some(test) = words(line).first()
        {
            statuses.put(*test, status);
        }
    }
    statuses
}
