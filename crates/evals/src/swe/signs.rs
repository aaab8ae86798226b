//! Signs in a log that the environment broke, or may have. They explain and change no verdict.

use std::sync::LazyLock;

use regex::Regex;

/// What a sign is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// No patch of a repository can be at fault.
    Environment,
    /// It may be either.
    Ambiguous,
}

const SIGNS: &[(&str, Weight, &str)] = &[
    // Ours, on top of the official ones.
    ("environment_unavailable", Weight::Environment, "^Environment failure: "),
    ("browser_launch_failed", Weight::Environment, "Failed to launch|Failed to connect to the bus"),
    ("display_unavailable", Weight::Environment, "cannot open display|Missing X server|unable to open X display"),
    ("out_of_memory", Weight::Environment, "Cannot allocate memory|OutOfMemoryError|^Killed$"),
    ("container_unavailable", Weight::Environment, "Error response from daemon|Cannot connect to the Docker daemon"),
    ("network_unreachable", Weight::Environment, "Could not resolve host|Temporary failure in name resolution"),
    ("missing_module", Weight::Ambiguous, "Cannot find module|MODULE_NOT_FOUND|ModuleNotFoundError"),
    ("no_tests_collected", Weight::Ambiguous, "no tests ran|collected 0 items"),
    ("tests_timed_out", Weight::Ambiguous, r"Timeout error: \d+ seconds exceeded"),
];

#[expect(clippy::unwrap_used, reason = "constants, which a test reads")]
static PATTERNS: LazyLock<Vec<Regex>> =
    LazyLock::new(|| SIGNS.iter().map(|(.., pattern)| Regex::new(&format!("(?m){pattern}")).unwrap()).collect());

/// The first sign in the order of the list, not of the text.
pub(super) fn found(text: &str) -> Option<(&'static str, Weight)> {
    let mut signs = SIGNS.iter().zip(PATTERNS.iter());
    signs.find(|(_, pattern)| pattern.is_match(text)).map(|(&(reason, weight, _), _)| (reason, weight))
}
