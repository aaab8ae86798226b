//! `saggar check`: what can be said of code without running it.

mod sarif;
mod show;

use std::path::Path;

use clap::Args;
use engine::{Engine, Settings};
use types::{CheckResult, ExecRequest};

use crate::away;
use crate::failure::{Failure, print_json};
use crate::in_runtime;
use crate::options::{Lists, PolicyOption};
use crate::program::Program;
use crate::remote::{Content, Server, broken};

/// Say what code would do, without running it
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar check script.py\n  saggar check -c 'import os; os.system(\"id\")' --json\n  saggar check --policy strict --allow-import math --allow-import json solution.py\n  saggar check --server http://127.0.0.1:7244 script.py\n\nExit code: 0 if nothing blocks, 1 if something blocks or the code cannot be parsed, 2 wrong usage."
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
    /// Ask the server at this address, with the key in `SAGGAR_API_KEY`
    #[arg(long, value_name = "URL")]
    server: Option<String>,
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
        request.review = self.review;
        let result = match &self.server {
            Some(url) => elsewhere(&Server::at(url)?, &request)?,
            None => here(&request, Settings::load(config)?)?,
        };
        let code = request.code.map(|code| code.0).unwrap_or_default();
        let shown = self.program.path().map_or("<code>".into(), |path| path.to_string_lossy());
        if self.json {
            print_json(&result)?;
        } else if self.sarif {
            print_json(&sarif::log(&result, &shown))?;
        } else {
            show::print(&result, &code, &shown)?;
        }
        Ok(u8::from(!result.ok))
    }
}

fn here(request: &ExecRequest, settings: Settings) -> Result<CheckResult, Failure> {
    let mut checked = engine::check(request, &settings)?;
    if request.review {
        let engine = Engine::open(settings)?;
        let opinion = in_runtime(async { Ok(engine.review(request).await?) })?;
        checked.report.findings.extend(opinion.findings);
        checked.report.refused_by = checked.report.refused_by.or(opinion.refused_by.map(str::to_owned));
    }
    Ok(checked.result())
}

fn elsewhere(server: &Server, request: &ExecRequest) -> Result<CheckResult, Failure> {
    away::must_be_text(request)?;
    let json = serde_json::to_vec(request).map_err(|error| broken(error.into()))?;
    server.json("POST", "/v1/check", Content::Json(json))
}
