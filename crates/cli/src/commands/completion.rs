//! `saggar completion SHELL`: what a shell needs to complete our words.

use std::io;

use clap::{Args, Command};
use clap_complete::{Shell, generate};

/// Print the completion script of a shell.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar completion bash > ~/.local/share/bash-completion/completions/saggar")]
pub(crate) struct Completion {
    /// For which shell
    shell: Shell,
}

impl Completion {
    pub(crate) fn execute(&self, mut command: Command) -> u8 {
        let mut script = Vec::new();
        generate(self.shell, &mut command, "saggar", &mut script);
        // A reader who has seen enough is no failure.
        let _ = io::Write::write_all(&mut io::stdout(), &script);
        0
    }
}
