//! Lists of commands that `exec` may run.

/// What work on a repository takes. `python`, `git`, `pip` and `find -exec` run anything they are told to: the list
/// keeps mistakes out, not attackers.
pub const PRESET: &[&str] = &[
    "git", "pytest", "python", "python3", "pip", "pip3", "cat", "ls", "echo", "find", "grep", "head", "tail", "mkdir",
    "cp", "mv", "touch", "chmod",
];

/// Names of the presets.
pub const PRESETS: &[&str] = &["repository"];

/// The commands of a preset.
#[must_use]
pub fn preset(name: &str) -> Option<&'static [&'static str]> {
    match name {
        "repository" => Some(PRESET),
        _ => None,
    }
}
