//! What one cell has said so far, in bounded memory, and what came of it.

use std::time::Duration;

use types::{
    BackendKind, Bundle, CellResult, Exception, ExecResult, Finding, Isolation, LimitKind, Limits, Outcome, Start,
    Usage,
};

use super::event::{Event, Status};
use super::lines::Lines;
use super::{CellOutput, MOST_LINE};
use crate::audit::OutputFacts;
use crate::backend::Stream;
use crate::capture::Kept;

/// The most things that a cell shows.
const MOST_SHOWN: usize = 100;
/// The most that they may be together.
const MOST_BYTES: usize = 4 * MOST_LINE;

/// Who reads along.
pub(super) type Along = Option<Box<dyn CellOutput>>;

/// What a cell has said so far.
pub(crate) struct Heard {
    id: u64,
    lines: Lines,
    stdout: Kept,
    stderr: Kept,
    results: Vec<Bundle>,
    main: Option<usize>,
    dropped: u32,
    bytes: usize,
    exception: Option<Exception>,
    done: Option<(Status, i32)>,
    count: u64,
    cpu_ms: f64,
    /// Whether who read along has gone.
    deserted: bool,
}

impl Heard {
    pub(crate) fn new(id: u64, output: u64) -> Self {
        Self {
            id,
            lines: Lines::default(),
            stdout: Kept::new(output),
            stderr: Kept::new(output),
            results: Vec::new(),
            main: None,
            dropped: 0,
            bytes: 0,
            exception: None,
            done: None,
            count: 0,
            cpu_ms: 0.0,
            deserted: false,
        }
    }

    /// Goes on where the last cell's reader stopped, in the middle of a line perhaps.
    pub(super) fn resume(self, lines: Lines) -> Self {
        Self { lines, ..self }
    }

    /// Takes bytes from the driver.
    pub(crate) fn read(&mut self, chunk: &[u8], along: &mut Along) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.push(chunk, |line| match line.ok().and_then(Event::parse) {
            Some(event) => self.take(event, along),
            None => self.spoil(along),
        });
        self.lines = lines;
    }

    fn take(&mut self, event: Event, along: &mut Along) {
        match event {
            Event::Output { stream, text } => self.write(stream, text.as_bytes(), along),
            Event::Shown { id, bundle, main, lost } if id == self.id => self.show(bundle, main, lost, along),
            Event::Raised { id, exception } if id == self.id => self.raise(exception, along),
            Event::Done { id, status, code, count, cpu_ms } if id == self.id => {
                self.done = Some((status, code));
                (self.count, self.cpu_ms) = (count, cpu_ms);
            }
            // Of a cell that was before.
            Event::Ready { .. } | Event::Shown { .. } | Event::Raised { .. } | Event::Done { .. } => {}
        }
    }

    /// Takes output.
    pub(super) fn write(&mut self, stream: Stream, bytes: &[u8], along: &mut Along) {
        let kept = match stream {
            Stream::Out => &mut self.stdout,
            Stream::Err => &mut self.stderr,
        };
        let head = kept.push(bytes);
        if let Some(along) = along.as_mut().filter(|_| head > 0) {
            self.deserted |= along.write(stream, &bytes[..head]).is_break();
        }
    }

    fn show(&mut self, bundle: Bundle, main: bool, lost: u32, along: &mut Along) {
        let size: usize = bundle.values().map(|value| value.as_str().map_or(MOST_LINE / 32, str::len)).sum();
        self.dropped = self.dropped.saturating_add(lost);
        if bundle.is_empty() || self.results.len() >= MOST_SHOWN || self.bytes + size > MOST_BYTES {
            self.dropped = self.dropped.saturating_add(u32::from(!bundle.is_empty()));
            return;
        }
        self.bytes += size;
        if let Some(along) = along {
            self.deserted |= along.shown(&bundle, main).is_break();
        }
        if main {
            self.main = Some(self.results.len());
        }
        self.results.push(bundle);
    }

    fn raise(&mut self, exception: Exception, along: &mut Along) {
        if let Some(along) = along {
            self.deserted |= along.raised(&exception).is_break();
        }
        self.exception = Some(exception);
    }

    /// A line that no driver of ours writes: the cell has written there itself.
    fn spoil(&mut self, along: &mut Along) {
        if self.exception.is_none() {
            let message = "the code has written into the interpreter's own channel".to_owned();
            let kind = "InterpreterError".to_owned();
            self.raise(Exception { kind, traceback: message.clone(), message, line: None }, along);
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.done.is_some()
    }

    pub(super) fn is_deserted(&self) -> bool {
        self.deserted
    }

    /// Bytes that are kept of what it said.
    pub(crate) fn kept(&self) -> usize {
        self.bytes + self.stdout.text().len() + self.stderr.text().len()
    }

    /// Who reads along gets what was held back; the reader of lines goes on with the next cell.
    pub(super) fn end(mut self, ending: Ending, wall: Duration, along: &mut Along) -> (CellEnd, Lines) {
        if let Some(along) = along {
            for (stream, kept) in [(Stream::Out, &self.stdout), (Stream::Err, &self.stderr)] {
                let rest = kept.rest();
                if !rest.is_empty() {
                    let _ = along.write(stream, &rest);
                }
            }
        }
        let lines = std::mem::take(&mut self.lines);
        (CellEnd { heard: self, ending, wall }, lines)
    }
}

/// What the engine itself knows of a cell's end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Ending {
    /// Who interrupted it.
    pub(super) stopped: Option<Stopped>,
    /// How its process ended, if it did.
    pub(super) lost: Option<Outcome>,
}

/// Why a cell was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    /// Its time was over.
    Wall,
    /// The caller said so, or went away.
    Caller,
}

/// What came of a cell.
pub struct CellEnd {
    heard: Heard,
    ending: Ending,
    wall: Duration,
}

/// What the session adds to a cell's end.
pub struct CellFrame<'a> {
    /// Of the run.
    pub id: String,
    /// Name of the context.
    pub context: String,
    /// Name of the recipe.
    pub language: String,
    /// What isolated it.
    pub backend: BackendKind,
    /// What stood between it and the host.
    pub isolation: Isolation,
    /// What the static check saw.
    pub findings: Vec<Finding>,
    /// The limits that it ran under, for what is said about them.
    pub limits: &'a Limits,
}

impl CellEnd {
    /// Whether the interpreter ended with it.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.ending.lost.is_some()
    }

    /// What it wrote, for the trail.
    pub(crate) fn outputs(&self) -> (OutputFacts, OutputFacts) {
        (self.heard.stdout.facts(), self.heard.stderr.facts())
    }

    /// How it ended.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let code = match self.heard.done {
            Some((Status::Ok, _)) if self.heard.exception.is_none() => 0,
            Some((Status::Exit, code)) => code,
            Some(_) | None => 1,
        };
        let was_stopped = matches!(self.heard.done, Some((Status::Interrupted, _))) || self.is_lost();
        match (&self.ending.lost, self.ending.stopped) {
            (_, Some(Stopped::Wall)) if was_stopped => Outcome::LimitExceeded { limit: LimitKind::Wall },
            (_, Some(Stopped::Caller)) if was_stopped => Outcome::Cancelled,
            (Some(outcome), _) => outcome.clone(),
            (None, _) => Outcome::Exited { code },
        }
    }

    /// The whole result.
    #[must_use]
    pub fn result(self, frame: CellFrame<'_>) -> CellResult {
        let outcome = self.outcome();
        let lost = self.is_lost();
        let hit = |outcome: &Outcome| match outcome {
            Outcome::LimitExceeded { limit } => vec![*limit],
            _ => Vec::new(),
        };
        let heard = self.heard;
        let mut run = ExecResult {
            id: frame.id,
            ok: outcome.is_ok(),
            limits_hit: hit(&outcome),
            outcome,
            language: Some(frame.language),
            backend: frame.backend,
            image: None,
            start: Start::Warm,
            compile: None,
            stdout: heard.stdout.text(),
            stderr: heard.stderr.text(),
            stdout_bytes: heard.stdout.total(),
            stderr_bytes: heard.stderr.total(),
            stdout_truncated: heard.stdout.is_cut(),
            stderr_truncated: heard.stderr.is_cut(),
            usage: Usage { wall_ms: self.wall.as_secs_f64() * 1e3, cpu_ms: heard.cpu_ms, peak_memory_bytes: 0 },
            exception: heard.exception,
            files: Vec::new(),
            findings: frame.findings,
            feedback: Vec::new(),
            isolation: frame.isolation,
        };
        run.feedback = crate::feedback::for_result(&run, frame.limits, &[]);
        CellResult {
            run,
            context: frame.context,
            execution_count: heard.count,
            results: heard.results,
            main_result: heard.main,
            results_dropped: heard.dropped,
            context_lost: lost,
        }
    }
}
