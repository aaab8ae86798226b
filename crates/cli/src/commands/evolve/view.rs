//! What a person sees of a run.

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::time::Instant;

use evals::evolve::{Budget, Event, Outcome, Spec};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::visible;

/// Failures that are shown.
const FAILURES: usize = 3;

/// Lines on the terminal that are written over; nothing where nobody watches.
pub(super) struct View {
    bar: ProgressBar,
    start: Instant,
    budget: Budget,
    parallel: u64,
    iteration: u64,
    tried: u64,
    best: Option<(f64, u64)>,
    tokens: u64,
    cost_usd: f64,
    failures: VecDeque<String>,
}

impl View {
    pub(super) fn new(spec: &Spec) -> Self {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(5)
        } else {
            ProgressDrawTarget::hidden()
        };
        let style = ProgressStyle::with_template("{bar:20} {msg}\n{prefix}");
        let bar = ProgressBar::with_draw_target(Some(spec.budget.iterations), target);
        Self {
            bar: bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())),
            start: Instant::now(),
            budget: spec.budget,
            parallel: spec.parallel as u64,
            iteration: 0,
            tried: 0,
            best: None,
            tokens: 0,
            cost_usd: 0.0,
            failures: VecDeque::new(),
        }
    }

    pub(super) fn show(&mut self, event: &Event) {
        match event {
            Event::Started { resumed, .. } => self.iteration = *resumed,
            Event::Proposed { error, tokens, cost_usd, iteration, .. } => {
                self.tokens += tokens;
                self.cost_usd += cost_usd.unwrap_or(0.0);
                self.failed(*iteration, error.as_deref().unwrap_or_default());
            }
            Event::Evaluated { iteration, best, accepted, duplicate_of, trouble, .. } => {
                self.tried += u64::from(duplicate_of.is_none());
                self.iteration = self.iteration.max(*iteration);
                if *accepted || self.best.is_none() {
                    self.best = Some((*best, *iteration));
                }
                self.failed(*iteration, trouble);
            }
            Event::Ended(_) => return self.bar.finish_and_clear(),
        }
        self.bar.set_position(self.iteration);
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = self.tried as f64 / self.start.elapsed().as_secs_f64().max(0.001);
        let best = self.best.map_or("none yet".to_owned(), |(best, iteration)| format!("{best:.6} at {iteration}"));
        let generation = self.iteration.div_ceil(self.parallel.max(1));
        self.bar.set_message(format!(
            "iteration {} (generation {generation})  best {best}  {rate:.1} evaluations/s",
            self.iteration
        ));
        let mut lines = vec![format!("left: {}", self.left())];
        if !self.failures.is_empty() {
            lines.push("last failures:".to_owned());
            lines.extend(self.failures.iter().cloned());
        }
        self.bar.set_prefix(lines.join("\n"));
    }

    /// One line of it: programs write what they like into their messages.
    fn failed(&mut self, iteration: u64, why: &str) {
        let line: String = why.lines().next().unwrap_or_default().chars().map(visible).take(90).collect();
        if !line.is_empty() {
            self.failures.push_back(format!("  {iteration}: {line}"));
            self.failures.drain(..self.failures.len().saturating_sub(FAILURES));
        }
    }

    /// What of each limit has not been used.
    fn left(&self) -> String {
        let Budget { iterations, evaluations, wall, tokens, cost_usd } = self.budget;
        let mut left = vec![format!("{} iterations", iterations.saturating_sub(self.iteration))];
        left.extend(evaluations.map(|most| format!("{} evaluations", most.saturating_sub(self.tried))));
        left.extend(wall.map(|most| format!("{} s", most.saturating_sub(self.start.elapsed()).as_secs())));
        left.extend(tokens.map(|most| format!("{} tokens", most.saturating_sub(self.tokens))));
        left.extend(cost_usd.map(|most| format!("{:.4} USD", (most - self.cost_usd).max(0.0))));
        left.join(", ")
    }
}

/// How it ended, in a few words.
pub(super) fn summary(outcome: &Outcome, target: Option<f64>) -> String {
    let best = match &outcome.best {
        Some(best) => format!("best score {} at iteration {}", best.score, best.iteration),
        None => "no program was tried".to_owned(),
    };
    let end = match (target, outcome.target_reached) {
        (Some(target), true) => format!("target {target} reached"),
        (Some(target), false) => format!("target {target} not reached"),
        (None, _) => "no target".to_owned(),
    };
    let stop = outcome.stop_reason.as_deref().unwrap_or_default();
    let cost = match (outcome.usage.calls, outcome.usage.cost_usd) {
        (0, _) => String::new(),
        (calls, Some(cost)) => format!(", {calls} calls, {cost:.6} USD"),
        (calls, None) => format!(", {calls} calls of unknown cost"),
    };
    format!(
        "saggar: {best}; {end}; stopped by {stop} after {} iterations, {} evaluations, {:.1} s{cost}\nsaggar: history in {}",
        outcome.iterations,
        outcome.evaluations,
        outcome.usage.wall_ms / 1000.0,
        outcome.folder
    )
}
