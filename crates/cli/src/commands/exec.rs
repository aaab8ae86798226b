//! `saggar exec`: one command in a fresh sandbox.

use std::path::Path;

use clap::Args;

use super::run::carry_out;
use crate::failure::Failure;
use crate::options::Options;

/// Run one command in a fresh sandbox
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  saggar exec -- ls -l /\n  saggar exec --file data.csv -- sort -t, -k2 data.csv")]
pub(crate) struct Exec {
    #[command(flatten)]
    pub(crate) options: Options,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM ARGS")]
    argv: Vec<String>,
}

impl Exec {
    pub(crate) fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        let mut request = self.options.request()?;
        request.argv = Some(self.argv);
        carry_out(request, &self.options, false, config)
    }
}
