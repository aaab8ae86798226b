//! `saggar judge --batch`: many tasks, a line each.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::sync::Arc;

use engine::{Engine, MOST_AT_ONCE, Settings};
use evals::judge::{self, Out, PassAt, Progress, Summary};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use types::ExecRequest;

use super::{Judge, base};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal::Live;

pub(super) fn execute(
    command: &Judge,
    input: &Path,
    request: ExecRequest,
    config: Option<&Path>,
) -> Result<u8, Failure> {
    if let Some(url) = &command.options.server {
        return super::away::batch(command, url, open(input)?.0, &request);
    }
    let (reader, size) = open(input)?;
    let overlay = command.options.overlay(&request)?;
    let jobs = command.jobs.map_or_else(processors, usize::from);
    let mut settings = Settings::load(config)?;
    // Each waits for the others' sandboxes only as long as these do not wait for each other.
    settings.pool.running = settings.pool.running.max(jobs * MOST_AT_ONCE);
    let interrupt = Interrupt::listen()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(processors())
        .enable_io()
        .enable_time()
        .build()
        .map_err(Failure::runtime)?;
    let result = runtime.block_on(async {
        let engine = Arc::new(Engine::open(settings)?.with_pool());
        engine.expect_run();
        let base = ExecRequest { cold: command.options.cold, ..base(request) };
        let judge = Arc::new(judge::Judge::new(engine, command.options.caller(), base).with_overlay(overlay));
        let out = match &command.options.out {
            Some(path) => Out::File(path.clone()),
            None => Out::Writer(Box::new(io::stdout())),
        };
        let bar = bar(size);
        let interrupted = interrupt.heard()?;
        tokio::select! {
            summary = judge::batch(judge, jobs, reader, out, |progress| show(&bar, progress)) => {
                bar.finish_and_clear();
                tell(&summary?);
                Ok(0)
            }
            () = interrupted => {
                bar.finish_and_clear();
                Live::say("saggar: interrupted; the same command goes on from here");
                Ok(130)
            }
        }
    });
    runtime.shutdown_background();
    result
}

fn open(input: &Path) -> Result<(Box<dyn Read + Send>, Option<u64>), Failure> {
    if input == Path::new("-") {
        return Ok((Box::new(io::stdin()), None));
    }
    let file = File::open(input).map_err(|error| Failure::input(input, error))?;
    let size = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|meta| meta.len());
    Ok((Box::new(file), size))
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// For people alone.
fn bar(size: Option<u64>) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(size, ProgressDrawTarget::hidden());
    }
    let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr_with_hz(5));
    let template = if size.is_some() { "{bar:30} {percent}% {msg}, {eta} left" } else { "{spinner} {msg}" };
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn show(bar: &ProgressBar, progress: Progress) {
    let rate = (progress.done - progress.resumed) as f64 / bar.elapsed().as_secs_f64().max(0.001);
    bar.set_message(format!("{} tasks, {rate:.0}/s", progress.done));
    bar.set_position(progress.bytes);
}

fn tell(summary: &Summary) {
    let Summary { tasks, all_passed, errors, mean_score, pass_at } = summary;
    let mut text = format!("saggar: {tasks} tasks, {all_passed} passed, {errors} errors, mean score {mean_score:.4}");
    for PassAt { k, share, tasks, left_out } in pass_at {
        let of = if *left_out > 0 { format!(" (of {tasks} tasks)") } else { String::new() };
        text = format!("{text}, pass@{k} {share:.4}{of}");
    }
    if *errors > 0 {
        text = format!("{text}; errors have neither passed nor failed, and are left out of the score and of pass@k");
    }
    Live::say(&text);
}
