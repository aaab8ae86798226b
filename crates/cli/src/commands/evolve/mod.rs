//! `saggar evolve`: generate, test, improve, keep the best.

mod away;
mod look;
mod proposer;
mod view;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use engine::{Caller, Engine, Settings};
use evals::evolve::{
    Best, Event, Evolution, EvolveError, Generator, GeneratorKind, Listener, Manual, Models, Mutator, Outcome,
    Overrides, Replay, Runs, Spec, Store, Use,
};
use evals::judge::Judge;
use types::ExecRequest;

use crate::failure::{Failure, print_json, unheard};
use crate::interrupt::Interrupt;
use crate::options::wrong;
use crate::terminal::Live;
use proposer::Proposer;
use view::View;

/// Sandboxes that one evaluation may hold at once.
const PER_EVALUATION: usize = 4;

/// Generate, test, improve, keep the best
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(
    after_help = "Example:\n  cat > task.toml <<'EOF'\n  prompt = \"Write quicksort(arr)\"\n  entry = \"quicksort\"\n  tests = [\"assert quicksort([3, 1, 2]) == [1, 2, 3]\"]\n  max_iterations = 5\n  target_score = 1.0\n  [generator]\n  kind = \"model\"            # or command, replay, manual, mutate\n  model = \"gpt-4o-mini\"     # the key is in OPENAI_API_KEY\n  EOF\n  saggar evolve task.toml --out run1\n  saggar evolve best run1\n\nA folder of OpenEvolve's (initial_program.*, evaluator.py, config.yaml) is a task too. A run that was interrupted goes on\nwith the same --out. Generators: docs/EVOLVE.md.\n\nExit code: 0 the target was reached, 1 not, 2 wrong usage, 125 saggar failed, 130 interrupted."
)]
pub(crate) struct Evolve {
    #[command(subcommand)]
    look: Option<look::Look>,
    /// The task: a TOML file, or a folder in the form of `OpenEvolve`
    #[arg(value_name = "TASK", required = true)]
    task: Option<PathBuf>,
    /// A folder for the run: its history, its best program, its result; one that is there goes on
    #[arg(long, visible_alias = "output", value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with a run of this task, by its id
    #[arg(long, value_name = "RUN", conflicts_with = "out")]
    resume: Option<String>,
    /// In place of the task's `max_iterations`
    #[arg(long, alias = "iterations", value_name = "N")]
    max_iterations: Option<u64>,
    /// In place of the task's `target_score`
    #[arg(long, value_name = "SCORE")]
    target_score: Option<f64>,
    /// In place of the task's `seed`
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// In place of the task's model or models
    #[arg(long, alias = "primary-model", value_name = "NAME")]
    model: Option<String>,
    /// In place of the task's `base_url`
    #[arg(long, alias = "api-base", value_name = "URL")]
    base_url: Option<String>,
    /// Have the server at this address do it, with the key in `SAGGAR_API_KEY`
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Print what happens as lines of JSON, as it happens
    #[arg(long)]
    events: bool,
    /// Print the result as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Evolve {
    pub(crate) fn wants_json(&self) -> bool {
        self.json || self.look.as_ref().is_some_and(look::Look::wants_json)
    }

    pub(crate) fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        match &self.look {
            Some(look) => look.execute(config),
            None => self.evolve(config),
        }
    }

    fn evolve(&self, config: Option<&Path>) -> Result<u8, Failure> {
        let path = self.task.as_deref().ok_or_else(|| wrong("give a TASK".to_owned()))?;
        if let Some(url) = &self.server {
            return self.evolve_away(url, path);
        }
        let overrides = Overrides {
            iterations: self.max_iterations,
            target: self.target_score,
            seed: self.seed,
            model: self.model.clone(),
            base_url: self.base_url.clone(),
        };
        let spec = Spec::load(path, &overrides)?;
        for warning in &spec.warnings {
            Live::say(&format!("saggar: {warning}"));
        }
        let mut settings = Settings::load(config)?;
        settings.pool.running = settings.pool.running.max(spec.parallel * PER_EVALUATION);
        let interrupt = Interrupt::listen()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(std::thread::available_parallelism().map_or(1, usize::from))
            .enable_io()
            .enable_time()
            .build()
            .map_err(Failure::runtime)?;
        let result = runtime.block_on(async {
            let runs = Runs::of(&settings.state);
            let folder = self.folder(&runs)?;
            let engine = Arc::new(Engine::open(settings)?.with_pool());
            let store = Store::open(&folder, Use::Write(&spec))?;
            runs.remember(&store.about().id, &folder)?;
            let generator = generator(&spec, &engine, &runs)?;
            let caller = Caller { name: "local".to_owned(), ..Caller::default() };
            let judge = Arc::new(Judge::new(engine, caller, ExecRequest::default()));
            let suffix = spec.suffix();
            let evolution = Evolution::new(spec.clone(), store, generator, judge, self.listener(&spec))?;
            let interrupted = interrupt.heard()?;
            tokio::select! {
                outcome = evolution.run() => {
                    let outcome = outcome?;
                    keep(&folder, suffix, &outcome)?;
                    self.tell(&outcome, &spec)
                }
                () = interrupted => {
                    Live::say("saggar: interrupted; what was done is kept, and the same command with --out or --resume goes on from here");
                    Ok(130)
                }
            }
        });
        runtime.shutdown_background();
        result
    }

    fn folder(&self, runs: &Runs) -> Result<PathBuf, EvolveError> {
        match (&self.out, &self.resume) {
            (Some(out), _) => Ok(out.clone()),
            (None, Some(run)) => runs.find(Some(run)),
            (None, None) => Ok(runs.new_folder()),
        }
    }

    fn listener(&self, spec: &Spec) -> Listener {
        if self.events {
            return Box::new(|event: &Event| {
                // Whoever does not listen any more still wants the result.
                let mut stdout = io::stdout().lock();
                let _ = serde_json::to_writer(&mut stdout, event);
                let _ = stdout.write_all(b"\n").and_then(|()| stdout.flush());
            });
        }
        let mut view = View::new(spec);
        Box::new(move |event: &Event| view.show(event))
    }

    fn tell(&self, outcome: &Outcome, spec: &Spec) -> Result<u8, Failure> {
        if self.json {
            print_json(outcome)?;
        } else if !self.events {
            Live::say(&view::summary(outcome, spec.target));
            if let Some(best) = &outcome.best {
                let mut stdout = io::stdout().lock();
                stdout.write_all(best.code.as_bytes()).and_then(|()| stdout.flush()).map_err(unheard)?;
            }
        }
        Ok(u8::from(!outcome.target_reached))
    }
}

/// Who proposes programs.
fn generator(spec: &Spec, engine: &Engine, runs: &Runs) -> Result<Box<dyn Generator>, EvolveError> {
    let generator = &spec.generator;
    Ok(match generator.kind {
        GeneratorKind::Model => Box::new(Models::new(generator, engine)?),
        GeneratorKind::Command => Box::new(Proposer::new(generator, &spec.folder)),
        GeneratorKind::Replay => {
            let from = generator.from.as_deref().unwrap_or_default();
            let beside = spec.folder.join(from);
            let folder = runs.find(Some(&beside.to_string_lossy())).or_else(|_| runs.find(Some(from)))?;
            Box::new(Replay::open(&folder)?)
        }
        GeneratorKind::Manual => {
            Box::new(Manual::open(&spec.folder.join(generator.queue.as_deref().unwrap_or(Path::new("queue"))))?)
        }
        GeneratorKind::Mutate => Box::new(Mutator(generator.mutations)),
    })
}

/// Puts the best program and the result beside the history.
fn keep(folder: &Path, suffix: &str, outcome: &Outcome) -> Result<(), EvolveError> {
    if let Some(best) = &outcome.best {
        let name = if best.files.is_some() { "best_program".to_owned() } else { format!("best_program.{suffix}") };
        put_program(&folder.join(name), best)?;
    }
    put(&folder.join("result.json"), &format!("{}\n", serde_json::json!(outcome)))
}

/// Writes a program: a file, or a folder with its files.
fn put_program(path: &Path, best: &Best) -> Result<(), EvolveError> {
    let Some(files) = &best.files else { return put(path, &best.code) };
    for (name, text) in files {
        // Paths were the task's own, and are looked at again: what is written is somebody else's text.
        let name = types::RelPath::new(name.as_str()).map_err(|_| EvolveError::Task(format!("`{name}` leads out")))?;
        let path = path.join(name.as_str());
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|source| EvolveError::Write { path: folder.to_path_buf(), source })?;
        put(&path, text)?;
    }
    Ok(())
}

fn put(path: &Path, text: &str) -> Result<(), EvolveError> {
    std::fs::write(path, text).map_err(|source| EvolveError::Write { path: path.to_path_buf(), source })
}

/// For those who only look at a run.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The run, by its id or folder; the last one if absent
    #[arg(value_name = "RUN")]
    run: Option<String>,
}

impl Which {
    fn open(&self, config: Option<&Path>) -> Result<Store, Failure> {
        let runs = Runs::of(&Settings::load(config)?.state);
        Ok(Store::open(&runs.find(self.run.as_deref())?, Use::Read)?)
    }
}
