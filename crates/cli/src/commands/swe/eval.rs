//! `saggar swe eval`: patches on repositories, tested in sandboxes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use engine::{Caller, Engine, Settings};
use evals::swe::edits::Edits;
use evals::swe::evaluation::{Evaluation, Ground, Options, State, Told};
use evals::swe::report::Tree;
use evals::swe::row;
use evals::swe::timing::Timing;
use types::parse_duration;

use super::progress::Progress;
use super::{Source, counts};
use crate::failure::{Failure, print_json};
use crate::interrupt::Interrupt;
use crate::options::wrong;
use crate::table::print;
use crate::terminal::Live;

/// Check out, patch and test every instance, and write the official reports
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar swe eval --dataset instances.jsonl --predictions preds.jsonl --run-id first --repos mirrors\n  saggar swe eval --dataset instances.jsonl --run-id check --repos mirrors --validate-gold\n\nDIR of --repos holds a git repository for each project, as OWNER__NAME, OWNER__NAME.git or OWNER__NAME.bundle. What has\na report for the same patch is not run again, unless --force.\n\nExit code: 0 it ran to its end, whatever was resolved (with --validate-gold: all are valid), 1 not all are valid,\n2 wrong usage, 125 saggar failed."
)]
pub(super) struct Eval {
    #[command(flatten)]
    pub(super) source: Source,
    /// Have the server at this address do it, with its repositories and the key in `SAGGAR_API_KEY`
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Folder of git repositories [default: they are cloned once, from GitHub or where the settings say]
    #[arg(long, value_name = "DIR")]
    pub(super) repos: Option<PathBuf>,
    /// Patches at once [default: one for each processor]
    #[arg(long, visible_alias = "max-workers", value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) workers: Option<u16>,
    /// Time for each patch and its tests
    #[arg(long, value_name = "TIME", default_value = "1800", value_parser = parse_duration)]
    pub(super) timeout: Duration,
    /// Environments in place of those of the rows: on each line an `instance_id` and a `recipe`
    #[arg(long, value_name = "FILE")]
    pub(super) env_file: Option<PathBuf>,
    /// What becomes of edits of a patch that could decide the verdict: of tests, conftest.py, settings of the runner
    #[arg(long, value_enum, default_value = "strict")]
    edits: EditsOption,
    /// Go on with a run that was cut short; that is what happens anyway
    #[arg(long, conflicts_with = "force")]
    resume: bool,
    /// Run again what has a report already
    #[arg(long)]
    pub(super) force: bool,
    /// Run tests so often, and tell which end in more than one way
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) repeat: u32,
    /// Check the data set: do tests fail without the solution, and pass with it?
    #[arg(long)]
    pub(super) validate_gold: bool,
    /// Folder of wheels from which environments are made, without a network
    #[arg(long, value_name = "DIR")]
    pub(super) wheels: Option<PathBuf>,
    /// What isolates
    #[arg(long, value_enum, default_value = "native")]
    pub(super) backend: BackendOption,
    /// With `--backend docker`: this image for all, in place of the rows' own
    #[arg(long, value_name = "REF")]
    pub(super) image: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EditsOption {
    /// They are reported and put back
    Strict,
    /// They stay, as in the official harness
    Official,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum BackendOption {
    /// Namespaces of this host
    Native,
    /// Containers of a Docker daemon, of each row's own image
    Docker,
}

impl Eval {
    pub(super) fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        let ground = match self.backend {
            BackendOption::Native if self.image.is_some() => {
                return Err(wrong("`--image` is for `--backend docker`".to_owned()));
            }
            BackendOption::Native => Ground::Native,
            BackendOption::Docker if self.repos.is_some() || self.wheels.is_some() => {
                let why = "an image has the repository and its environment: `--repos` and `--wheels` are for the backend `native`";
                return Err(wrong(why.to_owned()));
            }
            BackendOption::Docker => Ground::Docker { image: self.image.clone() },
        };
        if let Some(url) = &self.server {
            return self.evaluate_away(url);
        }
        let (mut instances, predictions) = self.source.read()?;
        if let Some(path) = &self.env_file {
            row::take_environments(&mut instances, path)?;
        }
        let tree = Tree::new(Path::new("."), &self.source.run_id)?;
        let folder = |path: &Option<PathBuf>| match path {
            Some(path) => std::fs::canonicalize(path).map(Some).map_err(|error| Failure::input(path, error)),
            None => Ok(None),
        };
        let settings = Settings::load(config)?;
        let workers = self.workers.map_or_else(processors, usize::from);
        let options = Options {
            workers,
            time: self.timeout,
            edits: self.edits(),
            repeat: self.repeat,
            again: self.force,
            repos: folder(&self.repos)?,
            origin: settings.build.repositories.clone(),
            wheels: folder(&self.wheels)?,
            ground,
        };
        let interrupt = Interrupt::listen()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(processors())
            .enable_io()
            .enable_time()
            .build()
            .map_err(Failure::runtime)?;
        let result = runtime.block_on(async {
            let engine = Arc::new(Engine::open(settings)?);
            let caller = Caller { name: "swe".to_owned(), ..Caller::default() };
            let evaluation = Arc::new(Evaluation::new(Arc::clone(&engine), caller.clone(), options, tree.clone()));
            for (id, error) in evaluation.lacking(&instances).await {
                Live::say(&format!("saggar: {id} cannot be run: {error}\nsaggar: {}", error.hint()));
            }
            tree.begin(&self.source.dataset)?;
            let interrupted = interrupt.heard()?;
            let progress = Progress::new(Arc::clone(&evaluation), Arc::clone(&engine), caller.clone());
            let began = std::time::Instant::now();
            let work = async {
                if self.validate_gold {
                    return Ok(evaluation.validate(&instances, progress.listener()).await?);
                }
                Ok::<_, Failure>(evaluation.run(&instances, &predictions, progress.listener()).await?)
            };
            let told = tokio::select! {
                told = work => told?,
                () = progress.show() => return Ok(0),
                () = interrupted => {
                    Live::say("saggar: interrupted; the same command goes on from here");
                    return Ok(130);
                }
            };
            progress.clear();
            let timing = Timing::of(&told, workers, began.elapsed(), evaluation.made());
            tree.time(&timing)?;
            Live::say(&format!("saggar: {} environments and trees made, {} kept", timing.made, progress.disk()));
            Live::say(&format!("saggar: {}", timing.line()));
            if self.validate_gold {
                return self.tell_validated(&told);
            }
            let (path, summary) = tree.summarise(&instances, &predictions, &self.source.folder)?;
            if self.source.json {
                print_json(&summary)?;
            } else {
                print(&["instance", "state", "seconds", ""], &rows(&told), "")?;
                print(&["", "instances"], &counts(&summary), &format!("\nwritten to {}", path.display()))?;
            }
            Ok(0)
        });
        runtime.shutdown_background();
        result
    }

    pub(super) fn edits(&self) -> Edits {
        match self.edits {
            EditsOption::Strict => Edits::Strict,
            EditsOption::Official => Edits::Official,
        }
    }

    fn tell_validated(&self, told: &[Told]) -> Result<u8, Failure> {
        if self.source.json {
            print_json(&told)?;
        } else {
            print(&["instance", "state", "seconds", ""], &rows(told), "")?;
        }
        Ok(u8::from(!told.iter().all(|told| told.state == State::Valid)))
    }
}

fn rows(told: &[Told]) -> Vec<Vec<String>> {
    let row = |told: &Told| {
        let note = told.note.lines().next().unwrap_or_default().to_owned();
        vec![told.instance.clone(), told.state.name().to_owned(), format!("{:.1}", told.seconds), note]
    };
    told.iter().map(row).collect()
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
