//! `saggar config`: which settings are in force.

use std::path::Path;

use clap::{Args, Subcommand};
use engine::Settings;
use serde_json::Value;

use crate::failure::{Failure, print_json};
use crate::table::print;

/// Show which settings are in force
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  saggar config show\n  saggar config show --json | jq .limits")]
pub(crate) struct Config {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(Show),
}

/// Show every setting, after the file and the environment
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  saggar --config other.toml config show\n\nSettings come from --config, else SAGGAR_CONFIG, else ~/.config/saggar/saggar.toml; SAGGAR_HOME and SAGGAR_CGROUP go over\nthe file. Lines are as a settings file has them."
)]
struct Show {
    /// Print them as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Config {
    pub(crate) fn wants_json(&self) -> bool {
        let Command::Show(show) = &self.command;
        show.json
    }

    pub(crate) fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        let shown = Settings::load(config)?.shown();
        if self.wants_json() {
            print_json(&shown)?;
        } else {
            let mut lines = Vec::new();
            write_table("", &shown, &mut lines);
            print(&[], &[], lines.join("\n").trim_end())?;
        }
        Ok(0)
    }
}

/// As TOML has it: plain values first, then tables of their own; what is not set is left out.
fn write_table(name: &str, table: &Value, lines: &mut Vec<String>) {
    let fields = || table.as_object().into_iter().flatten();
    for (key, value) in fields().filter(|(_, value)| !value.is_object() && !value.is_null()) {
        // Texts, numbers and lists are written in TOML as in JSON.
        lines.push(format!("{key} = {value}"));
    }
    for (key, value) in fields().filter(|(_, value)| value.as_object().is_some_and(|inner| !inner.is_empty())) {
        let inner = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
        lines.extend([String::new(), format!("[{inner}]")]);
        write_table(&inner, value, lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_could_be_a_file() {
        let mut lines = Vec::new();
        let shown = serde_json::json!({"a": "x", "none": null, "t": {"n": 1, "u": {"l": ["y"]}, "empty": {}}});
        write_table("", &shown, &mut lines);
        assert_eq!(lines, ["a = \"x\"", "", "[t]", "n = 1", "", "[t.u]", "l = [\"y\"]"]);
    }
}
