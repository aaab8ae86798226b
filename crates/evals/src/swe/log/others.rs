//! Runners of other languages, for repositories that are in none of the sets.

use std::sync::LazyLock;

use regex::Regex;

use crate::swe::statuses::{ERROR, FAILED, PASSED, SKIPPED, Statuses};

#[expect(clippy::unwrap_used, reason = "constants, which tests read")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

static GO: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^\s*--- (PASS|FAIL|SKIP): (\S.*?)(?: \([0-9.]+s\))?\r?$"));
static CARGO: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^test (\S.*?) \.\.\. (ok|FAILED|ignored)\b"));
static JEST: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^\s*([✓✔√✕✗×○]) (\S.*?)(?: \(\d+(?:\.\d+)? ?m?s\))?\r?$"));
static CASE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?s)<testcase\b([^>]*?)(?:/>|>(.*?)</testcase>)"));
static ATTRIBUTE: LazyLock<Regex> = LazyLock::new(|| pattern(r#"\b(name|classname)\s*=\s*(?:"([^"]*)"|'([^']*)')"#));

/// `go test -v`.
pub(super) fn go(log: &str) -> Statuses {
    read(&GO, log, |found| (found[2].to_owned(), status(&found[1])))
}

/// `cargo test`.
pub(super) fn cargo(log: &str) -> Statuses {
    // `should panic` stands behind the name.
    let name = |text: &str| text.split(" - should panic").next().unwrap_or(text).to_owned();
    read(&CARGO, log, |found| (name(&found[1]), status(&found[2])))
}

/// `jest --verbose` and those that print like it.
pub(super) fn jest(log: &str) -> Statuses {
    read(&JEST, log, |found| (found[2].to_owned(), status(&found[1])))
}

/// A report in the form of `JUnit`: ids are `CLASS::NAME`.
pub(super) fn junit(log: &str) -> Statuses {
    read(&CASE, log, |found| {
        let (mut class, mut name) = (String::new(), String::new());
        for attribute in ATTRIBUTE.captures_iter(&found[1]) {
            let value = attribute.get(2).or_else(|| attribute.get(3)).map_or("", |value| value.as_str());
            if &attribute[1] == "name" { &mut name } else { &mut class }.push_str(&plain(value));
        }
        let inside = found.get(2).map_or("", |inside| inside.as_str());
        let status = [("<failure", FAILED), ("<error", ERROR), ("<skipped", SKIPPED)];
        let status = status.into_iter().find(|(tag, _)| inside.contains(tag)).map_or(PASSED, |(_, status)| status);
        (if class.is_empty() { name } else { format!("{class}::{name}") }, status)
    })
}

fn read(pattern: &Regex, log: &str, test: impl Fn(&regex::Captures<'_>) -> (String, &'static str)) -> Statuses {
    let mut statuses = Statuses::default();
    for found in pattern.captures_iter(log) {
        let (id, status) = test(&found);
        statuses.put(id, status);
    }
    statuses
}

fn status(word: &str) -> &'static str {
    match word {
        "PASS" | "ok" | "✓" | "✔" | "√" => PASSED,
        "SKIP" | "ignored" | "○" => SKIPPED,
        _ => FAILED,
    }
}

fn plain(text: &str) -> String {
    let named = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    named.iter().fold(text.to_owned(), |text, (name, character)| text.replace(name, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(statuses: &Statuses) -> Vec<(&str, &str)> {
        statuses.iter().collect()
    }

    #[test]
    fn each_runner_is_read_as_it_prints() {
        let go_log = "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- FAIL: TestB/x_y (1.20s)\n--- SKIP: TestC (0.00s)\nok  \tx\t0.1s\n";
        assert_eq!(listed(&go(go_log)), [("TestA", PASSED), ("TestB/x_y", FAILED), ("TestC", SKIPPED)]);
        let cargo_log = "running 3 tests\ntest a::b ... ok\ntest c ... FAILED\ntest d - should panic ... ok\ntest e ... ignored, slow\n";
        assert_eq!(listed(&cargo(cargo_log)), [("a::b", PASSED), ("c", FAILED), ("d", PASSED), ("e", SKIPPED)]);
        let jest_log = "  sum\n    ✓ adds 1 + 2 (3 ms)\n    ✕ fails\n    ○ skipped later\n";
        assert_eq!(listed(&jest(jest_log)), [("adds 1 + 2", PASSED), ("fails", FAILED), ("skipped later", SKIPPED)]);
        let xml = "<testsuite><testcase classname='a.B' name=\"x[&lt;1&gt;]\" time=\"1\"/><testcase name=\"y\"><failure>no</failure></testcase></testsuite>";
        assert_eq!(listed(&junit(xml)), [("a.B::x[<1>]", PASSED), ("y", FAILED)]);
    }
}
