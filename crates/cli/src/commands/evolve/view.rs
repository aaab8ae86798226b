//! What a person sees of a run.

use std::io::{self, IsTerminal};
use std::time::Instant;

use evals::evolve::{Event, Outcome, Spec};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::visible;

/// A line on the terminal that is written over; nothing where nobody watches.
pub(super) struct View {
    bar: ProgressBar,
    start: Instant,
    tried: u64,
    best: Option<f64>,
    tokens: u64,
    trouble: String,
}

impl View {
    pub(super) fn new(spec: &Spec) -> Self {
        let most = spec.budget.iterations;
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(5)
        } else {
            ProgressDrawTarget::hidden()
        };
        let style = ProgressStyle::with_template("{bar:20} {pos}/{len}  {msg}  {eta} left\n{prefix}");
        let bar = ProgressBar::with_draw_target(Some(most), target);
        let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, start: Instant::now(), tried: 0, best: None, tokens: 0, trouble: String::new() }
    }

    pub(super) fn show(&mut self, event: &Event) {
        match event {
            Event::Started { resumed, .. } => self.bar.set_position(*resumed),
            Event::Proposed { error, tokens, iteration, .. } => {
                self.tokens += tokens;
                if let Some(error) = error {
                    self.trouble = format!("{iteration}: {error}");
                }
            }
            Event::Evaluated { iteration, best, duplicate_of, trouble, .. } => {
                self.tried += u64::from(duplicate_of.is_none());
                self.best = Some(*best);
                self.bar.set_position(*iteration);
                if !trouble.is_empty() {
                    self.trouble = format!("{iteration}: {trouble}");
                }
            }
            Event::Ended(_) => return self.bar.finish_and_clear(),
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = self.tried as f64 / self.start.elapsed().as_secs_f64().max(0.001);
        let best = self.best.map_or("none yet".to_owned(), |best| format!("{best:.6}"));
        let tokens = if self.tokens > 0 { format!(", {} tokens", self.tokens) } else { String::new() };
        self.bar.set_message(format!("best {best}, {rate:.1} evaluations/s{tokens}"));
        // One line of it: programs write what they like into their messages.
        let trouble: String = self.trouble.lines().next().unwrap_or_default().chars().map(visible).take(100).collect();
        self.bar.set_prefix(trouble);
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
