//! Django's runner: unittest's lines, in which other output may stand between a test's name and its `ok`.

use std::sync::LazyLock;

use regex::Regex;

use super::{trimmed, words};
use crate::swe::statuses::{ERROR, FAILED, PASSED, SKIPPED, Statuses};

/// Longer pieces of output that are known to stand there.
#[expect(clippy::unwrap_used, reason = "constants, which a test reads")]
static BETWEEN: LazyLock<[Regex; 3]> = LazyLock::new(|| {
    [
        r"(?m)^(.*?)\s\.\.\.\sTesting against Django installed in (?s:.*?) silenced\)\.\nok$",
        r"(?m)^(.*?)\s\.\.\.\sInternal Server Error: /.*/\nok$",
        r"(?m)^(.*?)\s\.\.\.\sSystem check identified no issues \(0 silenced\)\nok$",
    ]
    .map(|pattern| Regex::new(pattern).unwrap())
});

/// A test whose name is its docstring, which spans lines.
const VERSION: &str = "--version is equivalent to version";
/// One migration's line is not ended before the next test's name (django-7188).
const UNENDED: &str = "Applying sites.0002_alter_domain_unique...test_no_migrations";

pub(super) fn read(log: &str) -> Statuses {
    let mut statuses = Statuses::default();
    let mut last = None;
    for line in log.split('\n').map(trimmed) {
        if line.contains(VERSION) {
            statuses.put(VERSION, PASSED);
        }
        if let Some((test, _)) = line.split_once(" ... ") {
            last = Some(test);
        }
        let mut line = line;
        if let Some(end) = [" ... ok", " ... OK", " ...  OK"].into_iter().find(|end| line.ends_with(end)) {
            if line.starts_with(UNENDED) {
                line = line.split_once("...").map_or(line, |(_, rest)| trimmed(rest));
            }
            statuses.put(line.strip_suffix(end).unwrap_or(line), PASSED);
        }
        if let Some((test, _)) = line.split_once(" ... skipped") {
            statuses.put(test, SKIPPED);
        }
        for (end, heading, status) in [(" ... FAIL", "FAIL:", FAILED), (" ... ERROR", "ERROR:", ERROR)] {
            if line.ends_with(end) {
                statuses.put(line.split_once(end).map_or(line, |(test, _)| test), status);
            }
            if line.starts_with(heading)
                && let Some(test) = words(line).get(1)
            {
                statuses.put(*test, status);
            }
        }
        if line.starts_with("ok")
            && let Some(test) = last
        {
            statuses.put(test, PASSED);
        }
    }
    for pattern in BETWEEN.iter() {
        for found in pattern.captures_iter(log) {
            statuses.put(&found[1], PASSED);
        }
    }
    statuses
}
