//! Commands in a session: `exec`, `shell`, `ps`.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use clap::{Args, ValueEnum};
use engine::{CommandSpec, GuestUser};
use serde_json::Value;
use server::InSession;
use types::{LimitsSpec, parse_duration, parse_size};

use super::{address, body, say, terminal, text};
use crate::away;
use crate::client;
use crate::commands::run::{Ends, tell};
use crate::failure::{Failure, print_json, unheard, visible};
use crate::interrupt::Interrupt;
use crate::options::wrong;
use crate::remote::{Content, Server};
use crate::terminal::Live;
use crate::window::Window;

/// Run a command in a session, in /work
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar session exec ses_4f1c… -- ls -l\n  saggar session exec ses_4f1c… --user root --timeout 5m -- apt-get update\n  saggar session exec ses_4f1c… --background --tag web -- python3 -m http.server\n\nExit code: the command's own; 124 time limit, 137 another limit, 128+N signal N, 126 refused, 130 cancelled, 125 saggar failed, 2 wrong usage."
)]
pub(super) struct Exec {
    /// The session
    id: String,
    #[command(flatten)]
    place: Place,
    /// Wall time, such as 500ms, 30s or 2m [default: the session's, 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Bytes kept of each output, head and tail [default: the session's, 100K]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    output_limit: Option<u64>,
    /// Leave it running and print its number
    #[arg(long)]
    background: bool,
    /// A name to find it by, with --background
    #[arg(long, requires = "background")]
    tag: Option<String>,
    /// Print the whole result as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Pass control sequences to the terminal
    #[arg(long)]
    raw: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM ARGS")]
    argv: Vec<String>,
}

/// Open a terminal in a session
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  saggar session shell ses_4f1c…\n  saggar session shell ses_4f1c… -- python3")]
pub(super) struct Shell {
    /// The session
    id: String,
    #[command(flatten)]
    place: Place,
    /// What runs in it [default: bash, as a login shell]
    #[arg(last = true, value_name = "PROGRAM ARGS")]
    argv: Vec<String>,
}

/// Where and as whom a command runs.
#[derive(Debug, Args)]
struct Place {
    /// A variable of its environment (repeatable)
    #[arg(long, value_name = "K=V")]
    env: Vec<String>,
    /// Where it begins [default: /work]
    #[arg(long, value_name = "PATH")]
    cwd: Option<String>,
    /// Who it is inside
    #[arg(long, value_enum, default_value = "user")]
    user: UserOption,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum UserOption {
    User,
    Root,
}

impl Place {
    fn command(self, argv: Vec<String>) -> Result<CommandSpec, Failure> {
        let pair = |text: &String| {
            let (name, value) = text.split_once('=').ok_or_else(|| wrong(format!("`--env {text}` must be K=V")))?;
            Ok((name.to_owned(), value.to_owned()))
        };
        Ok(CommandSpec {
            argv,
            env: self.env.iter().map(pair).collect::<Result<BTreeMap<_, _>, Failure>>()?,
            cwd: self.cwd,
            user: match self.user {
                UserOption::User => GuestUser::User,
                UserOption::Root => GuestUser::Root,
            },
            ..CommandSpec::default()
        })
    }
}

impl Exec {
    pub(super) fn execute(self, server: &Server) -> Result<u8, Failure> {
        let limits = LimitsSpec {
            wall_ms: self.timeout.map(|time| time.as_secs_f64() * 1000.0),
            output_kb: self.output_limit.map(|bytes| bytes as f64 / 1024.0),
            ..LimitsSpec::default()
        };
        let command = CommandSpec { limits, tag: self.tag, ..self.place.command(self.argv)? };
        if self.background {
            let started: Value = server.json("POST", &address(&self.id, "/processes"), body(&command)?)?;
            if self.json {
                print_json(&started)?;
            } else {
                say(&started["pid"].to_string())?;
            }
            return Ok(0);
        }
        let mut ends = Ends {
            stdin: io::stdin().as_fd().try_clone_to_owned().ok(),
            live: (!self.json).then(|| Live::new(self.raw)),
            out: None,
            interrupt: Interrupt::listen()?,
            window: None,
        };
        let result = match server {
            Server::Own(state) => client::exec_in_session(state, InSession { id: self.id, command }, &mut ends)?,
            Server::Named(_) => away::exec_in_session(server, &address(&self.id, "/exec"), command, &mut ends)?,
        };
        tell(&result, ends.live)
    }
}

impl Shell {
    pub(super) fn execute(self, server: &Server) -> Result<u8, Failure> {
        let argv = if self.argv.is_empty() { vec!["bash".to_owned(), "-l".to_owned()] } else { self.argv };
        let command = CommandSpec { terminal: Some(Window::size()), ..self.place.command(argv)? };
        let window =
            Window::take().map_err(|_| wrong("`shell` needs a terminal; use `exec` without one".to_owned()))?;
        let Server::Own(state) = server else {
            return terminal::converse(server, &self.id, &command, &window);
        };
        let mut ends = Ends {
            stdin: io::stdin().as_fd().try_clone_to_owned().ok(),
            live: Some(Live::new(true)),
            out: None,
            interrupt: Interrupt::listen()?,
            window: Some(window),
        };
        let result = client::exec_in_session(state, InSession { id: self.id, command }, &mut ends);
        // The terminal is ours again before anything is said.
        ends.window = None;
        tell(&result?, ends.live)
    }
}

/// What runs in a session.
pub(super) fn list(server: &Server, id: &str, json: bool) -> Result<u8, Failure> {
    let processes: Value = server.json("GET", &address(id, "/processes"), Content::Nothing)?;
    if json {
        print_json(&processes)?;
        return Ok(0);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    writeln!(out, "{:>8}  {:12}  {:20}  {:6}  COMMAND", "PID", "TAG", "STARTED", "USER").map_err(unheard)?;
    for process in processes.as_array().into_iter().flatten() {
        let words = process["argv"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let command: String = words.collect::<Vec<_>>().join(" ").chars().map(visible).take(200).collect();
        let (tag, user) = (text(process, "tag"), text(process, "user"));
        let (pid, started) = (process["pid"].to_string(), text(process, "started"));
        writeln!(out, "{pid:>8}  {tag:12}  {started:20.19}  {user:6}  {}", command.replace('\n', " "))
            .map_err(unheard)?;
    }
    out.flush().map_err(unheard)?;
    Ok(0)
}
