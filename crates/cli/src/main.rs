//! The command line: arguments become requests, results become output and an exit code.
//!
//! stdout is data, stderr is talk. `--json` prints exactly one value, on errors too.

mod away;
mod client;
mod commands;
mod events;
mod failure;
mod interrupt;
mod jobs;
mod options;
mod program;
mod remote;
mod table;
mod terminal;
mod window;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use types::{ErrorBody, ErrorCode};

use failure::Failure;

/// Runs, judges and improves code that nobody trusts.
#[derive(Debug, Parser)]
#[command(name = "saggar", version, arg_required_else_help = true)]
#[command(after_help = "Example:\n  saggar run -c 'print(\"hello\")'")]
struct Cli {
    /// Settings file in place of the usual one
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(commands::run::Run),
    Exec(commands::exec::Exec),
    Check(commands::check::Check),
    Judge(commands::judge::Judge),
    Evolve(commands::evolve::Evolve),
    Swe(commands::swe::Swe),
    Session(commands::session::SessionCommand),
    Serve(commands::serve::Serve),
    Key(commands::key::Key),
    Config(commands::config::Config),
    Mcp(commands::mcp::Mcp),
    Audit(commands::audit::Audit),
    Doctor(commands::doctor::Doctor),
    Usage(commands::usage::Usage),
    Image(commands::image::Image),
    Df(commands::df::Df),
    Prune(commands::df::Prune),
    Bench(commands::bench::Bench),
    Completion(commands::completion::Completion),
}

impl Command {
    fn wants_json(&self) -> bool {
        match self {
            Self::Run(run) => run.options.json,
            Self::Exec(exec) => exec.options.json,
            Self::Check(check) => check.json || check.sarif,
            Self::Judge(judge) => judge.options.json,
            Self::Evolve(evolve) => evolve.wants_json(),
            Self::Swe(swe) => swe.wants_json(),
            Self::Session(session) => session.wants_json(),
            Self::Key(key) => key.wants_json(),
            Self::Config(config) => config.wants_json(),
            Self::Serve(_) | Self::Mcp(_) | Self::Completion(_) => false,
            Self::Audit(audit) => audit.wants_json(),
            Self::Doctor(doctor) => doctor.json,
            Self::Usage(usage) => usage.json,
            Self::Image(image) => image.wants_json(),
            Self::Df(df) => df.json,
            Self::Prune(prune) => prune.json,
            Self::Bench(bench) => bench.json,
        }
    }

    /// Whether it asks for something by its name: that there is none of it is an answer, no, and not a failure of ours.
    fn looks_up(&self) -> bool {
        matches!(self, Self::Audit(_) | Self::Key(_) | Self::Image(_))
    }
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let parsed = Cli::command().try_get_matches_from(&arguments);
    let cli = match parsed.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches))) {
        Ok((cli, matches)) => {
            options::remember_command(&matches);
            cli
        }
        Err(error) => return usage(&error, asks_for_json(&arguments)),
    };
    let json = cli.command.wants_json();
    let looks_up = cli.command.looks_up();
    let config = cli.config.as_deref();
    let result = match cli.command {
        Command::Run(run) => run.execute(config),
        Command::Exec(exec) => exec.execute(config),
        Command::Check(check) => check.execute(config),
        Command::Judge(judge) => judge.execute(config),
        Command::Evolve(evolve) => evolve.execute(config),
        Command::Swe(swe) => swe.execute(config),
        Command::Session(session) => session.execute(config),
        Command::Serve(serve) => serve.execute(config),
        Command::Key(key) => key.execute(config),
        Command::Config(command) => command.execute(config),
        Command::Mcp(mcp) => mcp.execute(config),
        Command::Audit(audit) => audit.execute(config),
        Command::Doctor(doctor) => doctor.execute(config),
        Command::Usage(usage) => usage.execute(config),
        Command::Image(image) => image.execute(config),
        Command::Df(df) => df.execute(config),
        Command::Prune(prune) => prune.execute(config),
        Command::Bench(bench) => in_runtime(bench.execute(config)),
        Command::Completion(completion) => Ok(completion.execute(Cli::command())),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) if looks_up && failure.is_missing() => {
            failure.report(json);
            ExitCode::FAILURE
        }
        Err(failure) => failure.report(json),
    }
}

/// Runs a future to its end, in this thread. A run that the server carries out has no need of it.
fn in_runtime<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(Failure::runtime)?;
    let result = runtime.block_on(work);
    // A thread may still be reading the terminal for a run that is over.
    runtime.shutdown_background();
    result
}

/// Whether the caller wanted JSON, read off arguments that could not be parsed.
fn asks_for_json(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

/// Help and version are answers; anything else is a usage error.
fn usage(error: &clap::Error, json: bool) -> ExitCode {
    if !error.use_stderr() || !json {
        let _ = error.print();
        return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
    }
    let text = error.render().to_string();
    let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let hint = "`--help` after the command shows its options and an example".to_owned();
    Failure::from(ErrorBody { code: ErrorCode::Usage, message, hint }).report(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
