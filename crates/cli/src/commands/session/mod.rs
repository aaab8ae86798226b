//! `saggar session`: sandboxes that stay, kept by a server.

mod command;
mod contexts;
mod files;
mod run;
mod snapshots;
mod terminal;
mod trees;

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand};
use engine::{SessionSpec, Settings};
use serde_json::{Value, json};
use types::{ExecRequest, parse_duration};

use crate::failure::{Failure, print_json, unheard, visible};
use crate::options::Options;
use crate::remote::{Content, Server, encode};

/// Sandboxes that stay: files, processes and variables are there for the next command
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  saggar serve &\n  ID=$(saggar session create)\n  saggar session exec $ID -- bash -c 'echo hi > greeting'\n  saggar session get $ID greeting .\n  saggar session kill $ID\n\nA session is kept by `saggar serve`, of the same user and state folder, or by another one: `saggar session --server URL …`."
)]
pub(crate) struct SessionCommand {
    /// Ask this server in place of your own, with the key in `SAGGAR_API_KEY`
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(Box<Create>),
    List(List),
    Show(Named),
    Run(run::Run),
    Exec(command::Exec),
    Shell(command::Shell),
    Ps(Named),
    Put(files::Put),
    Get(files::Get),
    Ls(files::Ls),
    Rm(files::Rm),
    Stat(files::Stat),
    Mv(files::Mv),
    Mkdir(files::Mkdir),
    Pack(trees::Pack),
    Unpack(trees::Unpack),
    Watch(trees::Watch),
    Contexts(contexts::Contexts),
    Interrupt(contexts::Interrupt),
    Restart(contexts::Restart),
    Snapshot(snapshots::Snapshot),
    Snapshots(snapshots::Snapshots),
    Rollback(snapshots::Rollback),
    Fork(snapshots::Fork),
    Forget(snapshots::Forget),
    Diff(snapshots::Diff),
    Export(snapshots::Export),
    Import(snapshots::Import),
    Extend(Extend),
    Pause(Pause),
    Resume(Resume),
    Kill(Kill),
}

/// Create a session and print its id
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar session create\n  saggar session create --ttl 30m --memory 2G --env TOKEN=x --json"
)]
struct Create {
    /// Begin with the files of a snapshot
    #[arg(long, value_name = "SNAPSHOT")]
    from: Option<String>,
    /// How long it lives, unless it is extended [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    ttl: Option<Duration>,
    /// End it after so long without a process or a call
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    idle: Option<Duration>,
    #[command(flatten)]
    options: Options,
}

/// List sessions
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar session list --json")]
struct List {
    /// Print a list of sessions as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Show a session, or what runs in it
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar session show ses_4f1c… --json")]
struct Named {
    /// The session
    id: String,
    /// Print it as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Let a session live longer
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar session extend ses_4f1c… 2h")]
struct Extend {
    /// The session
    id: String,
    /// How long, from now
    #[arg(value_parser = parse_duration)]
    ttl: Duration,
    /// Print the session as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Freeze the processes of a session; their memory is kept
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar session pause ses_4f1c…")]
struct Pause {
    #[command(flatten)]
    named: Named,
}

/// Let the processes of a paused session go on
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar session resume ses_4f1c…")]
struct Resume {
    #[command(flatten)]
    named: Named,
}

/// End a session with everything in it, or one of its processes
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  saggar session kill ses_4f1c…\n  saggar session kill ses_4f1c… --process 17")]
struct Kill {
    /// The session
    id: String,
    /// Only this process, by its number or tag, with all that it started
    #[arg(long, value_name = "PID")]
    process: Option<String>,
    /// Print what was ended as one line of JSON
    #[arg(long)]
    json: bool,
}

impl SessionCommand {
    pub(crate) fn wants_json(&self) -> bool {
        match &self.command {
            Command::Create(create) => create.options.json,
            Command::List(list) => list.json,
            Command::Show(named)
            | Command::Ps(named)
            | Command::Pause(Pause { named })
            | Command::Resume(Resume { named }) => named.json,
            Command::Run(run) => run.json,
            Command::Exec(exec) => exec.json,
            Command::Shell(_) | Command::Pack(_) => false,
            Command::Stat(stat) => stat.json(),
            Command::Mv(mv) => mv.json(),
            Command::Mkdir(mkdir) => mkdir.json(),
            Command::Unpack(unpack) => unpack.json,
            Command::Watch(watch) => watch.json,
            Command::Contexts(contexts) => contexts.json,
            Command::Interrupt(interrupt) => interrupt.one.json,
            Command::Restart(restart) => restart.one.json,
            Command::Put(put) => put.json,
            Command::Get(get) => get.json,
            Command::Ls(ls) => ls.json,
            Command::Rm(rm) => rm.json,
            Command::Snapshot(snapshot) => snapshot.json,
            Command::Snapshots(snapshots) => snapshots.json,
            Command::Rollback(rollback) => rollback.json,
            Command::Fork(fork) => fork.json,
            Command::Forget(forget) => forget.json,
            Command::Diff(diff) => diff.json,
            Command::Export(export) => export.json,
            Command::Import(import) => import.json,
            Command::Extend(extend) => extend.json,
            Command::Kill(kill) => kill.json,
        }
    }

    pub(crate) fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        let named = match &self.command {
            Command::Create(create) => create.options.server.as_ref().or(self.server.as_ref()),
            _ => self.server.as_ref(),
        };
        let server = match named {
            Some(url) => Server::at(url)?,
            None => Server::Own(Settings::load(config)?.state),
        };
        match self.command {
            Command::Create(create) => create.execute(&server),
            Command::List(list) => list.execute(&server),
            Command::Show(named) => named.show(&server),
            Command::Run(run) => run.execute(&server),
            Command::Exec(exec) => exec.execute(&server),
            Command::Shell(shell) => shell.execute(&server),
            Command::Ps(named) => command::list(&server, &named.id, named.json),
            Command::Put(put) => put.execute(&server),
            Command::Get(get) => get.execute(&server),
            Command::Ls(ls) => ls.execute(&server),
            Command::Rm(rm) => rm.execute(&server),
            Command::Stat(stat) => stat.execute(&server),
            Command::Mv(mv) => mv.execute(&server),
            Command::Mkdir(mkdir) => mkdir.execute(&server),
            Command::Pack(pack) => pack.execute(&server),
            Command::Unpack(unpack) => unpack.execute(&server),
            Command::Watch(watch) => watch.execute(&server),
            Command::Contexts(contexts) => contexts.execute(&server),
            Command::Interrupt(interrupt) => interrupt.one.execute(&server, "POST", "/interrupt"),
            Command::Restart(restart) => restart.one.execute(&server, "DELETE", ""),
            Command::Snapshot(snapshot) => snapshot.execute(&server),
            Command::Snapshots(snapshots) => snapshots.execute(&server),
            Command::Rollback(rollback) => rollback.execute(&server),
            Command::Fork(fork) => fork.execute(&server),
            Command::Forget(forget) => forget.execute(&server),
            Command::Diff(diff) => diff.execute(&server),
            Command::Export(export) => export.execute(&server),
            Command::Import(import) => import.execute(&server),
            Command::Extend(extend) => extend.execute(&server),
            Command::Pause(Pause { named }) => named.change(&server, "pause"),
            Command::Resume(Resume { named }) => named.change(&server, "resume"),
            Command::Kill(kill) => kill.execute(&server),
        }
    }
}

/// The address of a session, or of something in it.
fn address(id: &str, rest: &str) -> String {
    format!("/v1/sessions/{}{rest}", encode(id).replace('/', "%2F"))
}

fn body(value: &impl serde::Serialize) -> Result<Content<'static>, Failure> {
    serde_json::to_vec(value).map(Content::Json).map_err(|error| unheard(error.into()))
}

/// One line for a person, shown, not obeyed.
fn say(line: &str) -> Result<(), Failure> {
    let shown: String = line.chars().map(visible).collect();
    writeln!(io::stdout(), "{shown}").map_err(unheard)
}

impl Create {
    fn execute(self, server: &Server) -> Result<u8, Failure> {
        let ExecRequest { files, env, limits, network, backend, image, .. } = self.options.request()?;
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let spec = SessionSpec {
            backend,
            image,
            from: self.from,
            limits,
            network,
            env,
            ttl_ms: self.ttl.map(ms),
            idle_ms: self.idle.map(ms),
            ..SessionSpec::default()
        };
        let session: Value = server.json("POST", "/v1/sessions", body(&spec)?)?;
        let id = text(&session, "id").to_owned();
        for file in files {
            if let Err(failure) = files::place(server, &id, &file) {
                // A session without its files is of no use to anybody.
                let _ = server.json::<Value>("DELETE", &address(&id, ""), Content::Nothing);
                return Err(failure);
            }
        }
        if self.options.json {
            print_json(&session)?;
        } else {
            say(&id)?;
        }
        Ok(0)
    }
}

impl List {
    fn execute(&self, server: &Server) -> Result<u8, Failure> {
        let sessions: Value = server.json("GET", "/v1/sessions", Content::Nothing)?;
        if self.json {
            print_json(&sessions)?;
            return Ok(0);
        }
        let mut out = BufWriter::new(io::stdout().lock());
        let head = ["ID", "STATE", "CREATED", "EXPIRES", "PROCESSES"];
        let row = |words: [&str; 5]| {
            let [id, state, created, expires, processes] = words;
            format!("{id:36}  {state:8}  {created:20.19}  {expires:20.19}  {processes}")
        };
        writeln!(out, "{}", row(head)).map_err(unheard)?;
        for session in sessions.as_array().into_iter().flatten() {
            let processes = session["processes"].to_string();
            let words =
                [text(session, "id"), text(session, "state"), text(session, "created"), text(session, "expires")];
            let [id, state, created, expires] = words;
            writeln!(out, "{}", row([id, state, created, expires, &processes])).map_err(unheard)?;
        }
        out.flush().map_err(unheard)?;
        Ok(0)
    }
}

impl Named {
    fn show(&self, server: &Server) -> Result<u8, Failure> {
        let session: Value = server.json("GET", &address(&self.id, ""), Content::Nothing)?;
        self.tell(&session)
    }

    fn change(&self, server: &Server, act: &str) -> Result<u8, Failure> {
        let session: Value = server.json("POST", &address(&self.id, &format!("/{act}")), Content::Nothing)?;
        self.tell(&session)
    }

    fn tell(&self, session: &Value) -> Result<u8, Failure> {
        if self.json {
            print_json(session)?;
        } else {
            let pretty = serde_json::to_string_pretty(session).map_err(|error| unheard(error.into()))?;
            writeln!(io::stdout(), "{pretty}").map_err(unheard)?;
        }
        Ok(0)
    }
}

impl Extend {
    fn execute(self, server: &Server) -> Result<u8, Failure> {
        let ttl_ms = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
        let content = body(&json!({ "ttl_ms": ttl_ms }))?;
        let session: Value = server.json("POST", &address(&self.id, "/extend"), content)?;
        Named { id: self.id, json: self.json }.tell(&session)
    }
}

impl Kill {
    fn execute(self, server: &Server) -> Result<u8, Failure> {
        let rest = self.process.map(|process| format!("/processes/{}", encode(&process))).unwrap_or_default();
        let ended: Value = server.json("DELETE", &address(&self.id, &rest), Content::Nothing)?;
        if self.json {
            print_json(&ended)?;
        }
        Ok(0)
    }
}

/// A field that is text.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
