//! `saggar judge`: code against cases.

mod away;
mod batch;

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use engine::{Engine, RunError, Settings};
use evals::judge::{self, Judged, Overlay, Task};
use types::ExecRequest;

use crate::failure::{Failure, print_json};
use crate::in_runtime;
use crate::interrupt::Interrupt;
use crate::options::{Options, wrong};

/// Run code against cases and score it
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  echo '{\"code\": \"def add(a, b): return a + b\", \"entry\": \"add\",\n    \"cases\": [{\"args\": [1, 2], \"expected\": 3}]}' | saggar judge -\n  saggar judge --batch tasks.jsonl --out results.jsonl --jobs 8\n\nA batch that was interrupted goes on where its results end.\n\nExit code: 0 all cases passed (a batch: it ran to its end), 1 not, 2 wrong usage, 125 saggar failed."
)]
pub(crate) struct Judge {
    /// The task, or - to read it from standard input
    #[arg(value_name = "TASK.json", required_unless_present = "batch", conflicts_with = "batch")]
    task: Option<PathBuf>,
    /// Many tasks, one on each line, or - for standard input; --out is a file then
    #[arg(long, value_name = "TASKS.jsonl")]
    batch: Option<PathBuf>,
    /// Tasks of a batch at once [default: one for each processor]
    #[arg(long, value_name = "N", requires = "batch", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// How the result is shown
    #[arg(long, value_enum, default_value = "table", conflicts_with = "json")]
    format: Format,
    /// Language, where the task names none [default: python]
    #[arg(short, long)]
    language: Option<String>,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for each case
    Table,
    /// What to paste into a prompt
    Feedback,
    /// The whole result, as with --json
    Json,
}

impl Judge {
    pub(crate) fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        let request = self.options.request()?;
        if let Some(input) = &self.batch {
            return batch::execute(&self, input, request, config);
        }
        if let Some(url) = &self.options.server {
            return away::judge(&self, url, &request);
        }
        let text = read(self.task.as_deref().unwrap_or(Path::new("-")))?;
        let mut task = Task::from_any(&text)?;
        task.language = task.language.or_else(|| self.language.clone());
        if self.options.out.is_some() {
            return Err(wrong("`--out` goes with `--batch`".to_owned()));
        }
        let overlay = self.options.overlay(&request)?;
        let engine = Arc::new(Engine::open(Settings::load(config)?)?);
        let judge =
            judge::Judge::new(engine, self.options.caller(), ExecRequest { cold: self.options.cold, ..base(request) })
                .with_overlay(overlay);
        let interrupt = Interrupt::listen()?;
        in_runtime(async {
            let interrupted = interrupt.heard()?;
            tokio::select! {
                judged = judge.judge(&task) => self.tell(&judged?),
                // What is under way ends with us.
                () = interrupted => Ok(130),
            }
        })
    }

    /// What is said beside a task stays here: a server reads the task alone.
    fn refuse_beside(&self, request: &ExecRequest) -> Result<(), Failure> {
        let overlay = self.options.overlay(request)?;
        if overlay == Overlay::default() && self.language.is_none() && base(request.clone()) == ExecRequest::default() {
            return Ok(());
        }
        Err(wrong("with `--server`, say limits, language, environment and the like in the task itself".to_owned()))
    }

    fn tell(&self, judged: &Judged) -> Result<u8, Failure> {
        match self.format {
            Format::Json => print_json(judged)?,
            _ if self.options.json => print_json(judged)?,
            Format::Table => put(&table(judged))?,
            Format::Feedback => put(&judge::for_prompt(judged))?,
        }
        Ok(u8::from(!judged.all_passed))
    }
}

/// What the command line says for every run, without what the task says itself.
fn base(request: ExecRequest) -> ExecRequest {
    let ExecRequest { backend, image, review, .. } = request;
    ExecRequest { backend, image, review, ..ExecRequest::default() }
}

fn read(path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        io::stdin().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.map_err(|error| Failure::input(path, error))?;
    String::from_utf8(bytes).map_err(|_| wrong(format!("`{}` is not UTF-8 text", path.display())))
}

fn table(judged: &Judged) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for case in &judged.cases {
        let mark = if case.passed { "ok  " } else { "FAIL" };
        let shared = if case.trust == judge::Trust::Shared { ", shared" } else { "" };
        let detail = if case.detail.is_empty() { String::new() } else { format!("  {}", case.detail) };
        let (name, verdict, wall) = (&case.name, case.verdict.name(), case.wall_ms);
        // Writing into memory does not fail.
        let _ = writeln!(text, "{mark} {name}  {verdict} ({wall:.1} ms{shared}){detail}");
    }
    let _ = writeln!(text, "{} of {} passed, score {:.4}", judged.passed, judged.total, judged.score);
    // Names, values and messages are what tasks and programs made them.
    text.chars().map(|c| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn put(text: &str) -> Result<(), Failure> {
    let put = io::stdout().lock().write_all(text.as_bytes());
    put.map_err(|source| RunError::Output { path: "standard output".into(), source }.into())
}
