//! Everything that was measured, as it goes on the wire.

use serde::Serialize;
use types::{Isolation, Start};

use super::budgets::Budget;
use super::contender::{Contender, Once, Wrong};
use super::growth::Growth;
use super::machine::Machine;
use super::memory::Memory;
use super::statistics::{Summary, tidy};
use super::work::Work;

/// What `saggar bench` says.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Our own version.
    pub(super) saggar: &'static str,
    /// UTC.
    pub(super) date: String,
    /// What would measure this again.
    pub(super) command: String,
    pub(super) machine: Machine,
    /// What stood between our runs and the host.
    pub(super) isolation: Isolation,
    /// Latency at one caller.
    pub(super) rows: Vec<Row>,
    /// Runs per second at one and more callers.
    pub(super) throughput: Vec<Throughput>,
    pub(super) memory: Option<Memory>,
    pub(super) growth: Option<Growth>,
    /// What makes these figures mean less than they seem to.
    pub(super) remarks: Vec<String>,
    /// Who or what was not measured.
    pub(super) left_out: Vec<LeftOut>,
    pub(super) budgets: Vec<Budget>,
    /// Whether every budget was met.
    pub(super) met: bool,
}

/// One contender with one piece of work, one caller.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) work: Work,
    pub(super) contender: Contender,
    /// A peer's own words.
    pub(super) version: Option<String>,
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// Its median over that of the bare program in this measurement.
    pub(super) ratio: Option<f64>,
}

/// One contender at one number of callers, back to back.
#[derive(Debug, Serialize)]
pub(super) struct Throughput {
    pub(super) contender: Contender,
    pub(super) callers: usize,
    /// The median of the rounds.
    pub(super) runs_per_second: Option<f64>,
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// Its runs per second over those of the bare program with as many callers.
    pub(super) ratio: Option<f64>,
}

/// Who or what was not measured.
#[derive(Debug, Clone, Serialize)]
pub(super) struct LeftOut {
    pub(super) what: String,
    pub(super) why: String,
}

/// What a number of answers comes down to.
#[derive(Debug, Default, Serialize)]
pub(super) struct Figures {
    /// Right answers.
    pub(super) n: usize,
    pub(super) p50_ms: Option<f64>,
    /// Only from a hundred answers on.
    pub(super) p99_ms: Option<f64>,
    /// How many of the answers came from a warm worker, where answers say so.
    pub(super) warm_share: Option<f64>,
    /// Answers that were wrong, or none.
    pub(super) errors: usize,
    pub(super) first_error: Option<String>,
}

/// Answers on their way to figures.
#[derive(Default)]
pub(super) struct Tally {
    answers: Vec<Once>,
    errors: usize,
    first_error: Option<String>,
}

impl Tally {
    pub(super) fn add(&mut self, answer: Result<Once, Wrong>) {
        match answer {
            Ok(once) => self.answers.push(once),
            Err(wrong) => {
                self.errors += 1;
                self.first_error.get_or_insert_with(|| wrong.to_string());
            }
        }
    }

    pub(super) fn figures(&self) -> Figures {
        let times: Vec<_> = self.answers.iter().map(|once| once.took).collect();
        let starts: Vec<Start> = self.answers.iter().filter_map(|once| once.start).collect();
        let warm = starts.iter().filter(|start| **start == Start::Warm).count();
        let summary = Summary::of(&times);
        Figures {
            n: times.len(),
            p50_ms: summary.map(|summary| summary.p50_ms),
            p99_ms: summary.and_then(|summary| summary.p99_ms),
            warm_share: (!starts.is_empty()).then(|| tidy(warm as f64 / starts.len() as f64)),
            errors: self.errors,
            first_error: self.first_error.clone(),
        }
    }
}

impl Report {
    /// One contender's row.
    pub(super) fn row(&self, contender: Contender, work: Work) -> Option<&Row> {
        self.rows.iter().find(|row| row.contender == contender && row.work == work)
    }

    /// One contender's median.
    pub(super) fn p50(&self, contender: Contender, work: Work) -> Option<f64> {
        self.row(contender, work).and_then(|row| row.figures.p50_ms)
    }

    /// What makes these figures mean less than they seem to.
    pub(super) fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if self.machine.was_busy() {
            doubts.push("others were at work on this machine: take ratios only, and with care".to_owned());
        }
        let (plain, bare) = (self.p50(Contender::Plain, Work::Hello), self.p50(Contender::Nosite, Work::Hello));
        if let Some(times) = ratio(plain, bare).filter(|times| *times > HEAVY_SITE) {
            doubts.push(format!(
                "packages of this interpreter hook into its start and make plain {times:.1} times as slow as without \
                 them, which flatters every ratio of a warm run: name a clean one under [interpreters] in the settings"
            ));
        }
        doubts
    }
}

/// A clean installation takes 1.4 times as long as without `site`.
const HEAVY_SITE: f64 = 2.0;

/// `value` over `base`, where both are known.
pub(super) fn ratio(value: Option<f64>, base: Option<f64>) -> Option<f64> {
    Some(tidy(value? / base.filter(|base| *base > 0.0)?))
}
