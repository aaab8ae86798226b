//! `saggar doctor`: what this host can enforce, and how to get the rest.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

use clap::Args;
use engine::{DockerReport, Engine, GuestUser, Report, Settings};
use types::BackendKind;

use crate::failure::{Failure, print_json, unheard, visible};
use crate::in_runtime;
use crate::remote::{Content, Server};

/// Show what this host can enforce, and how to get the rest
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  saggar doctor --json\n\nExit code: 0 if a default run would be carried out, 1 if it would be refused."
)]
pub(crate) struct Doctor {
    /// Ask the server at this address, with the key in `SAGGAR_API_KEY`, about its host
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Print the report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Doctor {
    pub(crate) fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        let report: Report = if let Some(url) = &self.server {
            Server::at(url)?.json("GET", "/v1/doctor", Content::Nothing)?
        } else {
            let engine = Engine::open(Settings::load(config)?)?;
            in_runtime(async { Ok(engine.examine().await) })?
        };
        if self.json {
            print_json(&report)?;
        } else {
            let shown: String = words(&report).chars().map(visible).collect();
            io::stdout().lock().write_all(shown.as_bytes()).map_err(unheard)?;
        }
        Ok(u8::from(!report.ok))
    }
}

/// For people. What another host says of itself is shown, not obeyed.
fn words(report: &Report) -> String {
    // Writing into a text cannot fail.
    let mut text = String::new();
    let _ = writeln!(text, "saggar on Linux {}, backend {}\n", report.kernel, report.backend.name());
    let whose = if report.backend == BackendKind::Native { "" } else { " of the backend native" };
    let _ = writeln!(text, "layers{whose}");
    for layer in &report.layers {
        let state = match (layer.on, layer.required) {
            (true, _) => "on",
            (false, true) => "OFF",
            (false, false) => "off",
        };
        let _ = writeln!(text, "  {state:3}  {}", layer.layer);
        if let Some(why) = &layer.why {
            let _ = writeln!(text, "         why: {why}");
        }
        if let Some(remedy) = &layer.remedy {
            let _ = writeln!(text, "         remedy: {remedy}");
        }
    }
    let _ = writeln!(text, "\nlanguages");
    for language in &report.languages {
        let what = match (&language.version, &language.why) {
            (Some(version), Some(why)) => format!("{version}: {why}"),
            (Some(known), None) | (None, Some(known)) => known.clone(),
            (None, None) => "not asked".to_owned(),
        };
        let _ = writeln!(text, "  {:11} {what}", language.language);
        if let Some(program) = &language.program {
            let _ = writeln!(text, "              {program}");
        }
    }
    let users: Vec<&str> = report.sessions.users.iter().map(|user| name_of(*user)).collect();
    let _ = writeln!(text, "\nsessions\n  users       {}", users.join(", "));
    for (word, said) in [("why", &report.sessions.why), ("remedy", &report.sessions.remedy)] {
        if let Some(said) = said {
            let _ = writeln!(text, "         {word}: {said}");
        }
    }
    let _ = writeln!(text, "\nDocker");
    add_docker(&mut text, &report.docker);
    let verdict = if report.ok { "a default run is carried out" } else { "a default run is refused" };
    let _ = writeln!(text, "\n{verdict}");
    text
}

fn name_of(user: GuestUser) -> &'static str {
    match user {
        GuestUser::User => "user",
        GuestUser::Root => "root",
    }
}

fn add_docker(text: &mut String, docker: &DockerReport) {
    let version = docker.version.as_deref().unwrap_or("no daemon");
    let _ = writeln!(text, "  {:3}  {version} at {}", if docker.ok { "on" } else { "off" }, docker.host);
    let missing: Vec<String> = docker.missing.iter().map(ToString::to_string).collect();
    let missing = (!missing.is_empty()).then(|| missing.join(", "));
    for (word, said) in [
        ("runtime", &docker.runtime),
        ("image", &docker.image),
        ("missing in its containers", &missing),
        ("why", &docker.why),
        ("remedy", &docker.remedy),
    ] {
        if let Some(said) = said {
            let _ = writeln!(text, "         {word}: {said}");
        }
    }
}
