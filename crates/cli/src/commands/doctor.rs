//! `saggar doctor`: what this host can enforce, and how to get the rest.

use std::path::Path;

use clap::Args;
use engine::{DockerReport, Engine, GuestUser, Report, Settings};

use crate::failure::{Failure, print_json};
use crate::in_runtime;

/// Show what this host can enforce, and how to get the rest
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  saggar doctor --json\n\nExit code: 0 if a default run would be carried out, 1 if it would be refused."
)]
pub(crate) struct Doctor {
    /// Print the report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Doctor {
    pub(crate) fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        let engine = Engine::open(Settings::load(config)?)?;
        let report = in_runtime(async { Ok(engine.examine().await) })?;
        if self.json {
            print_json(&report)?;
        } else {
            print(&report);
        }
        Ok(u8::from(!report.ok))
    }
}

fn print(report: &Report) {
    println!("saggar on Linux {}, backend {}\n", report.kernel, report.backend.name());
    println!("layers");
    for layer in &report.layers {
        let state = match (layer.on, layer.required) {
            (true, _) => "on",
            (false, true) => "OFF",
            (false, false) => "off",
        };
        println!("  {state:3}  {}", layer.layer);
        if let Some(why) = &layer.why {
            println!("         why: {why}");
        }
        if let Some(remedy) = &layer.remedy {
            println!("         remedy: {remedy}");
        }
    }
    println!("\nlanguages");
    for language in &report.languages {
        let what = match (&language.version, &language.why) {
            (Some(version), Some(why)) => format!("{version}: {why}"),
            (Some(known), None) | (None, Some(known)) => known.clone(),
            (None, None) => "not asked".to_owned(),
        };
        println!("  {:11} {what}", language.language);
        if let Some(program) = &language.program {
            println!("              {program}");
        }
    }
    let users: Vec<&str> = report.sessions.users.iter().map(|user| name_of(*user)).collect();
    println!("\nsessions\n  users       {}", users.join(", "));
    for (word, text) in [("why", report.sessions.why), ("remedy", report.sessions.remedy)] {
        if let Some(text) = text {
            println!("         {word}: {text}");
        }
    }
    println!("\nDocker");
    print_docker(&report.docker);
    let verdict = if report.ok { "a default run is carried out" } else { "a default run is refused" };
    println!("\n{verdict}");
}

fn name_of(user: GuestUser) -> &'static str {
    match user {
        GuestUser::User => "user",
        GuestUser::Root => "root",
    }
}

fn print_docker(docker: &DockerReport) {
    let version = docker.version.as_deref().unwrap_or("no daemon");
    println!("  {:3}  {version} at {}", if docker.ok { "on" } else { "off" }, docker.host);
    let missing: Vec<String> = docker.missing.iter().map(ToString::to_string).collect();
    let missing = (!missing.is_empty()).then(|| missing.join(", "));
    for (word, text) in [
        ("runtime", &docker.runtime),
        ("image", &docker.image),
        ("missing in its containers", &missing),
        ("why", &docker.why),
        ("remedy", &docker.remedy),
    ] {
        if let Some(text) = text {
            println!("         {word}: {text}");
        }
    }
}
