//! What it may cost: ratios within one measurement, met or not.

use serde::Serialize;

use super::contender::Contender;
use super::growth::Growth;
use super::report::{Report, ratio};
use super::statistics::tidy;
use super::work::Work;

/// One promise.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Budget {
    pub(super) name: String,
    pub(super) what: String,
    pub(super) bound: Bound,
    pub(super) limit: f64,
    pub(super) unit: &'static str,
    /// Nothing if it was not measured.
    pub(super) value: Option<f64>,
    pub(super) met: Option<bool>,
}

/// On which side of the limit a value must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bound {
    AtMost,
    AtLeast,
}

impl Budget {
    pub(super) fn at_most(limit: f64, unit: &'static str, name: impl Into<String>, what: impl Into<String>) -> Self {
        let (name, what) = (name.into(), what.into());
        Self { name, what, bound: Bound::AtMost, limit, unit, value: None, met: None }
    }

    pub(super) fn at_least(limit: f64, unit: &'static str, name: impl Into<String>, what: impl Into<String>) -> Self {
        Self { bound: Bound::AtLeast, ..Self::at_most(limit, unit, name, what) }
    }

    pub(super) fn measured(mut self, value: Option<f64>) -> Self {
        self.value = value.map(tidy);
        self.met = value.map(|value| match self.bound {
            Bound::AtMost => value <= self.limit,
            Bound::AtLeast => value >= self.limit,
        });
        self
    }
}

/// Growth by more than this is not flat: what the first hundred find ready is spread over fewer runs.
const FLAT: f64 = 1.5;

/// Every budget, with what was measured.
pub(super) fn judge(report: &Report) -> Vec<Budget> {
    let mut budgets = warm(report);
    budgets.extend(throughput(report));
    budgets.extend(cold(report));
    let mib = report.memory.map(|memory| memory.private_bytes_p50 / f64::from(1 << 20));
    budgets.push(Budget::at_most(4.0, "MiB", "idle_worker", "private memory of an idle worker, median").measured(mib));
    budgets.extend(growth(report.growth.as_ref()));
    let wrong = Budget::at_most(0.0, "runs", "errors", "wrong answers, of anybody");
    budgets.push(wrong.measured(Some(errors(report) as f64)));
    budgets
}

fn warm(report: &Report) -> Vec<Budget> {
    let python = [Work::Hello, Work::Humaneval];
    let pairs = [Contender::Library, Contender::Socket].map(|contender| python.map(|work| (contender, work)));
    let pairs: Vec<(Contender, Work)> = pairs.into_iter().flatten().collect();
    let mut budgets = Vec::new();
    for (contender, work) in &pairs {
        let (who, what) = (contender.name(), work.name());
        let text = format!("warm `{what}` through the {who}, p50 over plain p50 of `{what}`");
        let p50 = report.row(*contender, *work).and_then(|row| row.ratio);
        budgets.push(Budget::at_most(0.1, "x", format!("warm_p50_{who}_{what}"), text).measured(p50));
    }
    for (contender, work) in &pairs {
        let (who, what) = (contender.name(), work.name());
        let text = format!("warm `{what}` through the {who}, p99 over plain p50 of `{what}`");
        let p99 = report.row(*contender, *work).and_then(|row| row.figures.p99_ms);
        let value = ratio(p99, report.p50(Contender::Plain, *work));
        budgets.push(Budget::at_most(0.5, "x", format!("warm_p99_{who}_{what}"), text).measured(value));
    }
    for work in python {
        let text = format!("`saggar run` of `{}` with a server to ask, p50 over plain", work.name());
        let value = report.row(Contender::Command, work).and_then(|row| row.ratio);
        budgets.push(Budget::at_most(1.0, "x", format!("command_{}", work.name()), text).measured(value));
    }
    budgets
}

/// With fewer callers than processors not all of the machine is at work, so those are not asked.
fn throughput(report: &Report) -> Vec<Budget> {
    let worst = |contender| {
        let rows = report.throughput.iter().filter(|row| row.contender == contender);
        rows.filter(|row| row.callers >= report.machine.cores).filter_map(|row| row.ratio).reduce(f64::min)
    };
    let budget = |contender: Contender| {
        let name = format!("throughput_{}", contender.name());
        let text = format!(
            "runs per second through the {} over plain with as many callers, at the worst number from {} on",
            contender.name(),
            report.machine.cores
        );
        Budget::at_least(5.0, "x", name, text).measured(worst(contender))
    };
    [Contender::Library, Contender::Socket].map(budget).to_vec()
}

fn cold(report: &Report) -> Vec<Budget> {
    let mut budgets = Vec::new();
    for work in [Work::Hello, Work::Humaneval] {
        let text = format!("`saggar run --cold` of `{}`, p50 over plain", work.name());
        let value = report.row(Contender::Cold, work).and_then(|row| row.ratio);
        budgets.push(Budget::at_most(1.3, "x", format!("cold_{}", work.name()), text).measured(value));
    }
    for work in [Work::Bash, Work::C] {
        let text = format!("cold `{}`, the whole command, p50 above the bare program's", work.name());
        let (ours, bare) = (report.p50(Contender::Cold, work), report.p50(Contender::Plain, work));
        let value = ours.zip(bare).map(|(ours, bare)| ours - bare);
        budgets.push(Budget::at_most(4.0, "ms", format!("cold_{}", work.name()), text).measured(value));
    }
    budgets
}

fn growth(growth: Option<&Growth>) -> [Budget; 2] {
    let per_run = |runs| {
        let mut levels = growth.into_iter().flat_map(|growth| &growth.levels);
        levels.find(|level| level.runs == runs && level.errors == 0).map(|level| level.per_run_ms)
    };
    let flat = Budget::at_most(FLAT, "x", "growth", "time for each of 10,000 queued runs over that of 100");
    let fair = Budget::at_most(0.5, "x", "order", "end of a second caller's few runs over end of the first's many");
    let order = growth.and_then(|growth| growth.order.as_ref()).filter(|order| order.errors == 0);
    let share = order.and_then(|order| ratio(order.few_last_ms, order.many_last_ms));
    [flat.measured(ratio(per_run(10_000), per_run(100))), fair.measured(share)]
}

fn errors(report: &Report) -> usize {
    let growth = report.growth.as_ref();
    let levels = growth.into_iter().flat_map(|growth| &growth.levels).map(|level| level.errors);
    let order = growth.and_then(|growth| growth.order.as_ref()).map(|order| order.errors);
    let rows = report.rows.iter().map(|row| row.figures.errors);
    rows.chain(report.throughput.iter().map(|row| row.figures.errors)).chain(levels).chain(order).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_met_on_its_own_side_and_unknown_without_a_value() {
        let most = |value| Budget::at_most(0.1, "x", "", "").measured(value).met;
        let least = |value| Budget::at_least(5.0, "x", "", "").measured(value).met;
        assert_eq!([most(Some(0.1)), most(Some(0.11)), most(None)], [Some(true), Some(false), None]);
        assert_eq!([least(Some(5.0)), least(Some(4.9)), least(None)], [Some(true), Some(false), None]);
    }
}
