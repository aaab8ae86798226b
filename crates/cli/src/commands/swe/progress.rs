//! How far an evaluation is: a line for each instance that is done, and on a terminal a table of what is at work.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::{Caller, Engine};
use evals::swe::evaluation::{Evaluation, Listener, Told};
use evals::swe::steps::{Building, clones};

use crate::table::bytes;
use crate::terminal::Live;

/// How often the table is drawn anew.
const PAUSE: Duration = Duration::from_millis(500);
/// How often what takes long to build is told where there is no terminal.
const LONG: Duration = Duration::from_mins(1);

/// What is told while an evaluation runs.
pub(super) struct Progress {
    evaluation: Arc<Evaluation>,
    engine: Arc<Engine>,
    caller: Caller,
    board: Arc<Mutex<Board>>,
}

/// What is known so far.
struct Board {
    began: Instant,
    total: usize,
    done: usize,
    /// Those that were run now, and not before.
    ran: usize,
    states: BTreeMap<&'static str, usize>,
    disk: String,
    /// Lines of the table that is on the screen.
    drawn: usize,
}

impl Board {
    /// Instances in a minute, and what the rest will take at that rate.
    fn pace(&self) -> String {
        let minutes = self.began.elapsed().as_secs_f64() / 60.0;
        let rate = self.ran as f64 / minutes.max(1e-6);
        let rest = self.total.saturating_sub(self.done);
        if self.ran == 0 {
            return format!("{rest} to go");
        }
        format!("{rate:.1} a minute, about {:.0} s left", rest as f64 / rate * 60.0)
    }

    /// Takes the table off the screen.
    fn clear(&mut self) {
        if self.drawn > 0 {
            let _ = write!(std::io::stderr(), "\x1b[{}A\x1b[J", self.drawn);
            self.drawn = 0;
        }
    }
}

impl Progress {
    pub(super) fn new(evaluation: Arc<Evaluation>, engine: Arc<Engine>, caller: Caller) -> Self {
        let (began, states) = (Instant::now(), BTreeMap::new());
        let board = Board { began, total: 0, done: 0, ran: 0, states, disk: String::new(), drawn: 0 };
        let progress = Self { evaluation, engine, caller, board: Arc::new(Mutex::new(board)) };
        let disk = progress.disk();
        progress.board.lock().unwrap_or_else(PoisonError::into_inner).disk = disk;
        progress
    }

    /// What environments and trees take on the disk.
    pub(super) fn disk(&self) -> String {
        disk(&self.engine, &self.caller)
    }

    /// Says of each instance what became of it.
    pub(super) fn listener(&self) -> Arc<Listener> {
        let (board, engine, caller) = (Arc::clone(&self.board), Arc::clone(&self.engine), self.caller.clone());
        Arc::new(move |told: &Told, total: usize| {
            let mut board = board.lock().unwrap_or_else(PoisonError::into_inner);
            (board.total, board.done) = (total, board.done + 1);
            board.ran += usize::from(told.seconds > 0.0);
            *board.states.entry(told.state.name()).or_default() += 1;
            board.disk = disk(&engine, &caller);
            let note =
                if told.note.is_empty() { String::new() } else { format!(" ({})", told.note.replace('\n', " | ")) };
            let (id, state, seconds) = (&told.instance, told.state.name(), told.seconds);
            let (done, pace, kept) = (board.done, board.pace(), board.disk.clone());
            board.clear();
            Live::say(&format!("[{done}/{total}] {state}: {id}, {seconds:.1} s{note}; {pace}, {kept} on disk"));
        })
    }

    /// Draws what is at work; without a terminal it tells of builds that take long. It does not end by itself.
    pub(super) async fn show(&self) {
        if !std::io::stderr().is_terminal() {
            loop {
                tokio::time::sleep(LONG).await;
                for build in self.evaluation.building().iter().filter(|build| build.since.elapsed() >= LONG / 2) {
                    Live::say(&format!("saggar: still {}", told(build)));
                }
            }
        }
        loop {
            tokio::time::sleep(PAUSE).await;
            self.draw();
        }
    }

    fn draw(&self) {
        let running = self.evaluation.running();
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        board.clear();
        let states: Vec<String> = board.states.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let head = format!("{} of {} done: {}", board.done, board.total.max(running.len()), states.join(", "));
        let mut lines = vec![format!("{head}; {}; {} on disk", board.pace(), board.disk)];
        for running in &running {
            let (phase, seconds) = (running.phase.name(), running.since.elapsed().as_secs());
            lines.push(format!("  {phase:<10} {seconds:>5} s  {}", running.instance));
        }
        lines.extend(self.evaluation.building().iter().map(|build| format!("  {}", told(build))));
        // One line of the screen each, or the next drawing would not find its place.
        for line in &lines {
            let line: String = line.chars().take(79).collect();
            Live::say(&line);
        }
        board.drawn = lines.len();
    }

    /// Takes the table off the screen.
    pub(super) fn clear(&self) {
        self.board.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// What is being built, for how long, and what it said last.
fn told(build: &Building) -> String {
    let of: String = build.of.chars().take(30).collect();
    format!("{} ({of}), {} s: {}", build.what, build.since.elapsed().as_secs(), build.line)
}

fn disk(engine: &Engine, caller: &Caller) -> String {
    let kept = engine.list_snapshots(caller).unwrap_or_default();
    let ours = kept.iter().filter(|kept| kept.name.as_deref().is_some_and(|name| name.starts_with("swe-")));
    bytes(ours.filter_map(|kept| kept.bytes).sum::<u64>() + clones(engine))
}
