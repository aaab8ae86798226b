//! `saggar check`: what can be said of code without running it.

mod sarif;
mod show;

use std::path::Path;

use clap::Args;
use engine::{Engine, Settings};

use crate::failure::{Failure, print_json};
use crate::in_runtime;
use crate::options::{Lists, PolicyOption};
use crate::program::Program;

/// Say what code would do, without running it
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar check script.py\n  saggar check -c 'import os; os.system(\"id\")' --json\n  saggar check --policy strict --allow-import math --allow-import json solution.py\n\nExit code: 0 if nothing blocks, 1 if something blocks or the code cannot be parsed, 2 wrong usage."
)]
pub(crate) struct Check {
    #[command(flatten)]
    program: Program,
    /// What blocks
    #[arg(long, value_enum, default_value = "guard")]
    policy: PolicyOption,
    #[command(flatten)]
    lists: Lists,
    /// Let a model review the code too
    #[arg(long)]
    review: bool,
    /// Print the findings as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the findings as SARIF 2.1.0
    #[arg(long, conflicts_with = "json")]
    pub(crate) sarif: bool,
}

impl Check {
    pub(crate) fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        let mut request = self.lists.request()?;
        request.policy = self.policy.into();
        self.program.put_into(&mut request)?;
        let settings = Settings::load(config)?;
        let mut checked = engine::check(&request, &settings)?;
        if self.review {
            let engine = Engine::open(settings)?;
            let opinion = in_runtime(async { Ok(engine.review(&request).await?) })?;
            checked.report.findings.extend(opinion.findings);
            checked.report.refused_by = checked.report.refused_by.or(opinion.refused_by.map(str::to_owned));
        }
        let result = checked.result();
        let code = request.code.map(|code| code.0).unwrap_or_default();
        let shown = self.program.path().map_or("<code>".into(), |path| path.to_string_lossy());
        if self.json {
            print_json(&result)?;
        } else if self.sarif {
            print_json(&sarif::log(&checked.report, &shown))?;
        } else {
            show::print(&checked, &code, &shown)?;
        }
        Ok(u8::from(!result.ok))
    }
}
