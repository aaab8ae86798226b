//! `saggar evolve show|best|history|export`: what a run came to, or has come to so far.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use evals::evolve::{self, EvolveError, Outcome, Store, Use};
use serde_json::{Value, json};

use super::{Which, put_program};
use crate::failure::{Failure, print_json, unheard, visible};
use crate::options::wrong;
use crate::table;

/// Looks at a run.
#[derive(Debug, Subcommand)]
pub(crate) enum Look {
    /// What a run came to
    #[command(after_help = "Example:\n  saggar evolve show run1 --json")]
    Show(Shown),
    /// The best program of a run
    #[command(after_help = "Example:\n  saggar evolve best run1 > best.py")]
    Best(Shown),
    /// Every program of a run, with its score
    #[command(after_help = "Example:\n  saggar evolve history run1 --json | python3 -m json.tool")]
    History(Shown),
    /// A run for other programs
    #[command(
        after_help = "Examples:\n  saggar evolve export run1 --format html --out report.html\n  saggar evolve export run1 --format program --out solution\n  saggar evolve export run1 --format openevolve --out checkpoint_100"
    )]
    Export(Export),
}

/// A run, for people or for programs.
#[derive(Debug, Args)]
pub(crate) struct Shown {
    #[command(flatten)]
    which: Which,
    /// The run's folder, as it was given to the run
    #[arg(long, value_name = "DIR", conflicts_with = "run")]
    out: Option<PathBuf>,
    /// Print it as one line of JSON
    #[arg(long)]
    json: bool,
}

/// A run for other programs.
#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    which: Which,
    /// What it becomes
    #[arg(long, value_enum, default_value = "jsonl")]
    format: Format,
    /// The file, or the folder for `openevolve` and for a tree of files; standard output if absent
    #[arg(long, short, value_name = "PATH")]
    out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for each program
    Jsonl,
    /// A checkpoint folder, as the viewer of `OpenEvolve` reads it
    #[value(alias = "checkpoint")]
    Openevolve,
    /// A report that needs no other file
    Html,
    /// The best program: a file, or a folder with its files
    Program,
}

impl Shown {
    fn open(&self, config: Option<&Path>) -> Result<Store, Failure> {
        match &self.out {
            Some(folder) => Ok(Store::open(folder, Use::Read)?),
            None => self.which.open(config),
        }
    }
}

impl Look {
    pub(super) const fn wants_json(&self) -> bool {
        match self {
            Self::Show(shown) | Self::Best(shown) | Self::History(shown) => shown.json,
            Self::Export(_) => false,
        }
    }

    pub(super) fn execute(&self, config: Option<&Path>) -> Result<u8, Failure> {
        match self {
            Self::Show(shown) => show(&shown.open(config)?, shown.json),
            Self::Best(shown) => best(&shown.open(config)?, shown.json),
            Self::History(shown) => history(&shown.open(config)?, shown.json),
            Self::Export(export) => export.execute(&export.which.open(config)?),
        }
    }
}

fn show(store: &Store, json: bool) -> Result<u8, Failure> {
    let outcome = Outcome::of(store)?;
    if json {
        print_json(&outcome)?;
        return Ok(0);
    }
    let about = store.about();
    let mut text = format!("run        {}\nfolder     {}\n", outcome.id, outcome.folder);
    // Writing into memory does not fail.
    let _ = writeln!(text, "task       {}", about.prompt.lines().next().unwrap_or_default());
    let _ = writeln!(text, "by         {} with {}, seed {}", about.strategy, about.generator, about.seed);
    let _ = writeln!(text, "done       {} iterations, {} evaluations", outcome.iterations, outcome.evaluations);
    let stop = outcome.stop_reason.as_deref().unwrap_or("nothing yet: it goes on, or was interrupted");
    let _ = writeln!(text, "stopped by {stop}");
    if let Some(best) = &outcome.best {
        let _ = writeln!(text, "best       {} at iteration {}", best.score, best.iteration);
    }
    if let Some(last) = &outcome.last_word {
        let _ = writeln!(text, "again      {} ({} of {} cases)", last.score, last.passed, last.total);
    }
    let usage = &outcome.usage;
    let cost = usage.cost_usd.map_or("unknown".to_owned(), |cost| format!("{cost:.6}"));
    let tokens = usage.prompt_tokens + usage.completion_tokens;
    let _ = writeln!(
        text,
        "spent      {} calls, {tokens} tokens, {cost} USD, {:.1} s",
        usage.calls,
        usage.wall_ms / 1000.0
    );
    put(&text)
}

fn best_of(outcome: Outcome) -> Result<evolve::Best, EvolveError> {
    let none = || EvolveError::NoRun(format!("{} has tried no program, so that there is no best one", outcome.id));
    outcome.best.ok_or_else(none)
}

fn best(store: &Store, json: bool) -> Result<u8, Failure> {
    let outcome = Outcome::of(store)?;
    let id = outcome.id.clone();
    let best = best_of(outcome)?;
    if json {
        let mut about = json!(best);
        about["id"] = id.into();
        print_json(&about)?;
        return Ok(0);
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(best.code.as_bytes()).and_then(|()| stdout.flush()).map_err(unheard)?;
    Ok(0)
}

fn history(store: &Store, json: bool) -> Result<u8, Failure> {
    let members = store.members()?;
    let steps = evolve::accepted(&members);
    if json {
        let all: Vec<Value> = steps.iter().map(|(member, accepted)| evolve::step(member, *accepted)).collect();
        print_json(&all)?;
        return Ok(0);
    }
    let mut rows = Vec::new();
    for (member, accepted) in &steps {
        let told = member.evaluation.as_ref();
        let remark = match (&member.proposal.error, told.and_then(|told| told.duplicate_of)) {
            (Some(error), _) => error.lines().next().unwrap_or_default().to_owned(),
            (None, Some(twin)) => format!("the same as {twin}"),
            (None, None) => String::new(),
        };
        rows.push(vec![
            member.iteration().to_string(),
            member.proposal.parent.map(|parent| parent.to_string()).unwrap_or_default(),
            told.map(|told| format!("{:.6}", told.score)).unwrap_or_default(),
            told.filter(|told| told.total > 0)
                .map(|told| format!("{}/{}", told.passed, told.total))
                .unwrap_or_default(),
            if *accepted { "*".to_owned() } else { String::new() },
            member.proposal.by.clone(),
            remark,
        ]);
    }
    table::print(&["iteration", "parent", "score", "cases", "best", "by", "remark"], &rows, "")?;
    Ok(0)
}

impl Export {
    fn execute(&self, store: &Store) -> Result<u8, Failure> {
        let text = match self.format {
            Format::Jsonl => evolve::jsonl(store)?,
            Format::Html => evolve::html(store)?,
            Format::Program => {
                let best = best_of(Outcome::of(store)?)?;
                match &self.out {
                    Some(path) => {
                        put_program(path, &best)?;
                        return Ok(0);
                    }
                    None => best.code,
                }
            }
            Format::Openevolve => {
                let out =
                    self.out.as_deref().ok_or_else(|| wrong("`--format openevolve` needs `--out DIR`".to_owned()))?;
                evolve::checkpoint(store, out)?;
                return Ok(0);
            }
        };
        match &self.out {
            Some(path) => {
                std::fs::write(path, text).map_err(|source| EvolveError::Write { path: path.clone(), source })?;
            }
            None => io::stdout().lock().write_all(text.as_bytes()).map_err(unheard)?,
        }
        Ok(0)
    }
}

/// Names and messages are what tasks and programs made them.
fn put(text: &str) -> Result<u8, Failure> {
    let shown: String = text.chars().map(visible).collect();
    io::stdout().lock().write_all(shown.as_bytes()).map_err(unheard)?;
    Ok(0)
}
