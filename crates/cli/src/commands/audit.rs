//! `saggar audit`: what was run, by whom, and whether the trail is as it was written.

mod trail;

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, Subcommand};
use engine::{ChainReport, Filter, Record, RunError, Settings};
use types::{ErrorBody, ErrorCode, Timestamp, TimestampError, parse_duration};

use self::trail::Trail;
use crate::failure::{Failure, print_json, unheard, visible};

/// Show the audit trail, and whether it is as it was written
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar audit list --since 1h --outcome exited\n  saggar audit show 17\n  saggar audit verify\n  saggar audit export --since 2026-11-01 --out november.jsonl\n  saggar audit verify --server https://box.example.org\n\nExit code of verify: 0 if the trail is whole, 1 if not; the first bad entry is named."
)]
pub(crate) struct Audit {
    /// Ask the server at this address, with the key in `SAGGAR_API_KEY`, for its trail
    #[arg(long, value_name = "URL", global = true)]
    server: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(List),
    Show(Show),
    Verify(Verify),
    Export(Export),
}

/// List entries, newest first
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar audit list --since 1h --kind error --json")]
struct List {
    #[command(flatten)]
    wanted: Wanted,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Print a list of whole entries as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Show one entry, whole, as JSON
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  saggar audit show 17\n  saggar audit show run_4f1c…")]
struct Show {
    /// Its number, or the id of its run
    #[arg(value_name = "ID")]
    id: String,
    /// Print it on one line
    #[arg(long)]
    json: bool,
}

/// Check every entry and the end of the trail
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar audit verify --json\n\nExit code: 0 if the trail is whole, 1 if not.")]
struct Verify {
    /// Print the verdict as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Write entries as lines of JSON, oldest first
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar audit export --since 24h --out today.jsonl")]
struct Export {
    #[command(flatten)]
    wanted: Wanted,
    /// A new file, in place of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Which entries.
#[derive(Debug, Args)]
struct Wanted {
    /// Written then or later: a time in UTC, or so long ago, such as 1h
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<Timestamp>,
    /// Written before: a time in UTC, or so long ago
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<Timestamp>,
    /// Of this caller: local, attach, socket, http, or a key's id
    #[arg(long, value_name = "NAME")]
    caller: Option<String>,
    /// With this outcome, such as exited, signaled, cancelled, or an error's code
    #[arg(long, value_name = "NAME")]
    outcome: Option<String>,
    /// Of this kind: run, refused, rejected, error, judge, image, key, session, gap
    #[arg(long, value_name = "NAME")]
    kind: Option<String>,
}

impl Audit {
    pub(crate) fn wants_json(&self) -> bool {
        match &self.command {
            Command::List(list) => list.json,
            Command::Show(show) => show.json,
            Command::Verify(verify) => verify.json,
            Command::Export(_) => false,
        }
    }

    pub(crate) fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        let trail = match &self.server {
            Some(url) => Trail::elsewhere(url)?,
            None => Trail::of(&Settings::load(config)?.state)?,
        };
        match self.command {
            Command::List(list) => list.execute(&trail),
            Command::Show(show) => show.execute(&trail),
            Command::Verify(verify) => verify.execute(&trail),
            Command::Export(export) => export.execute(&trail),
        }
    }
}

impl List {
    fn execute(self, trail: &Trail) -> Result<u8, Failure> {
        let entries = trail.newest(&self.wanted.filter(), self.limit)?;
        if self.json {
            print_json(&entries)?;
        } else {
            table(&entries).map_err(unheard)?;
        }
        Ok(0)
    }
}

impl Show {
    fn execute(self, trail: &Trail) -> Result<u8, Failure> {
        let Some(entry) = trail.find(&self.id)? else {
            let message = format!("the audit trail has no entry `{}`", self.id);
            let hint = "`saggar audit list` shows numbers and ids".to_owned();
            return Err(ErrorBody { code: ErrorCode::NotFound, message, hint }.into());
        };
        if self.json {
            print_json(&entry)?;
        } else {
            // Through a value, because `details` is kept as it was written: on one line.
            let pretty = serde_json::to_value(&entry).and_then(|value| serde_json::to_string_pretty(&value));
            let text = pretty.map_err(io::Error::from).map_err(unheard)?;
            writeln!(io::stdout(), "{text}").map_err(unheard)?;
        }
        Ok(0)
    }
}

impl Verify {
    fn execute(self, trail: &Trail) -> Result<u8, Failure> {
        let verdict = trail.verify()?;
        if self.json {
            print_json(&verdict)?;
        } else {
            writeln!(io::stdout(), "{}", words(&verdict)).map_err(unheard)?;
        }
        Ok(u8::from(!verdict.ok))
    }
}

impl Export {
    fn execute(self, trail: &Trail) -> Result<u8, Failure> {
        let mut into: Box<dyn Write> = match &self.out {
            Some(path) => {
                // What is in it is for the owner, as the trail is; and nothing is overwritten.
                let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
                Box::new(BufWriter::new(made.map_err(|source| RunError::Output { path: path.clone(), source })?))
            }
            None => Box::new(BufWriter::new(io::stdout().lock())),
        };
        let path = self.out.clone().unwrap_or_else(|| "standard output".into());
        let failed = |source: io::Error| Failure::from(RunError::Output { path: path.clone(), source });
        trail.all(&self.wanted.filter(), |line| {
            into.write_all(line).and_then(|()| into.write_all(b"\n")).map_err(failed)
        })?;
        into.flush().map_err(failed)?;
        Ok(0)
    }
}

impl Wanted {
    fn filter(self) -> Filter {
        let Self { since, until, caller, outcome, kind } = self;
        Filter { since, until, caller, outcome, kind }
    }
}

/// A time, or how long ago.
fn parse_time(text: &str) -> Result<Timestamp, TimestampError> {
    match parse_duration(text) {
        Ok(ago) => Ok(Timestamp::from(SystemTime::now()).before(ago)),
        Err(_) => text.parse(),
    }
}

/// One line for each, for people; a changed entry may hold anything, so it is shown, not obeyed.
fn table(entries: &[Record]) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    writeln!(out, "{:>8}  {:27}  {:8}  {:8}  {:16}  ID", "NUMBER", "TIME", "KIND", "CALLER", "OUTCOME")?;
    for Record { seq, time, kind, caller, outcome, id, .. } in entries {
        let line = format!("{seq:>8}  {time:27}  {kind:8}  {caller:8}  {outcome:16}  {id}");
        writeln!(out, "{}", line.chars().map(|c| if c == '\n' { ' ' } else { visible(c) }).collect::<String>())?;
    }
    out.flush()
}

fn words(verdict: &ChainReport) -> String {
    let ChainReport { entries, head_seq, head_hash, first_bad, .. } = verdict;
    let head = format!("head: entry {head_seq}, {head_hash}");
    match first_bad {
        None => format!("good: {entries} entries, each as it was written\n{head}"),
        Some(bad) => {
            let id = bad.id.as_ref().map(|id| format!(" ({id})")).unwrap_or_default();
            let words = format!("bad: entry {}{id}: {}", bad.seq, bad.why);
            format!("{}\n{entries} entries before it are good\n{head}", words.chars().map(visible).collect::<String>())
        }
    }
}
