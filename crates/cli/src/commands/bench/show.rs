//! A report as tables: on the terminal, and as docs/BENCHMARKS.md.

use super::budgets::{Bound, Budget};
use super::contender::Contender;
use super::growth::{Growth, Level};
use super::report::{Figures, Report, Row, Throughput};
use super::table::{Table, figure};

/// What a terminal shows.
pub(super) fn text(report: &Report) -> String {
    let tables: Vec<String> = tables(report).iter().map(Table::text).collect();
    format!("{}\n\n{}", machine(report), tables.join("\n"))
}

/// The document.
pub(super) fn markdown(report: &Report) -> String {
    let tables: Vec<String> = tables(report).iter().map(Table::markdown).collect();
    format!(
        "# Benchmarks\n\nMade by `{}` on {} with saggar {}; every figure is from that one measurement.\n\n{}\n\n{}\n{}",
        report.command,
        report.date,
        report.saggar,
        machine(report),
        tables.join("\n"),
        HOW
    )
}

/// For readers of the document.
const HOW: &str = "
## How it is measured

Every round asks each contender once, in an order that changes, with 5 ms between two runs; the first rounds are dropped.
Time is from before the program, the call or the request is started until its whole answer is there, and every answer is
checked: a wrong one is an error, not a sample. *plain* is the interpreter file that saggar itself uses, called directly,
in the environment that a run in a sandbox has. p99 is shown from 100 samples on; peers slower than 150 ms are asked
in every tenth round. Throughput is asked back to back, without pauses, in a few rounds, of which the median counts.
On a machine with other work the comparison is skewed: a run in a cgroup of its own may get a larger share of the
processors than a bare program. `hello` is `print(\"hello\")`, `humaneval` is HumanEval/0 with five asserts and
`from typing import List`, `bash` is `echo hello`, `c` a static program, already compiled.
";

fn machine(report: &Report) -> String {
    let machine = &report.machine;
    let gib = machine.memory_bytes.map(|bytes| bytes as f64 / f64::from(1 << 30));
    let remarks: String = report.remarks.iter().flat_map(|remark| ["\n\nBeware: ", remark, "."]).collect();
    let missing: Vec<String> = report.isolation.missing.iter().map(ToString::to_string).collect();
    let missing = if missing.is_empty() { "none".to_owned() } else { missing.join(", ") };
    format!(
        "{}, {} processors, {} GiB, Linux {}, {}, as {}.\nLoad {} before, {} after. Layers missing in our own runs: {missing}.{remarks}",
        machine.cpu,
        machine.cores,
        figure(gib),
        machine.kernel,
        machine.python,
        machine.user,
        figure(machine.load_before),
        figure(machine.load_after),
    )
}

fn tables(report: &Report) -> Vec<Table> {
    let mut tables = Vec::new();
    if !report.rows.is_empty() {
        tables.push(latency(&report.rows));
        tables.push(contenders(&report.rows));
    }
    if !report.throughput.is_empty() {
        tables.push(throughput(&report.throughput));
    }
    if let Some(memory) = &report.memory {
        let mib = |bytes: f64| figure(Some(bytes / f64::from(1 << 20)));
        let row = vec![memory.workers.to_string(), mib(memory.private_bytes_p50), mib(memory.private_bytes_max)];
        let header = &["workers", "private MiB, median", "most"];
        tables.push(Table { title: "Idle workers", header, rows: vec![row], remark: None });
    }
    if let Some(growth) = &report.growth {
        tables.push(levels(growth));
    }
    if !report.left_out.is_empty() {
        let rows = report.left_out.iter().map(|left| vec![left.what.clone(), left.why.clone()]).collect();
        tables.push(Table { title: "Not measured", header: &["what", "why"], rows, remark: None });
    }
    tables.push(budgets(&report.budgets));
    tables
}

fn latency(rows: &[Row]) -> Table {
    let header = &["work", "contender", "n", "p50 ms", "p99 ms", "to plain", "remark"];
    let cells = |row: &Row| {
        let Figures { n, p50_ms, p99_ms, .. } = &row.figures;
        vec![
            row.work.name().to_owned(),
            row.contender.name().to_owned(),
            n.to_string(),
            figure(*p50_ms),
            figure(*p99_ms),
            times(row.ratio),
            remark(&row.figures),
        ]
    };
    Table { title: "Latency, one caller", header, rows: rows.iter().map(cells).collect(), remark: None }
}

fn contenders(rows: &[Row]) -> Table {
    let measured = Contender::ALL.into_iter().filter_map(|who| rows.iter().find(|row| row.contender == who));
    let cells = |row: &Row| {
        let version = row.version.clone().unwrap_or_default();
        vec![row.contender.name().to_owned(), row.contender.describe().to_owned(), version]
    };
    let header = &["contender", "as run", "version"];
    Table { title: "Contenders", header, rows: measured.map(cells).collect(), remark: None }
}

fn throughput(rows: &[Throughput]) -> Table {
    let header = &["contender", "callers", "n", "runs/s", "p50 ms", "p99 ms", "to plain", "remark"];
    let cells = |row: &Throughput| {
        let Figures { n, p50_ms, p99_ms, .. } = &row.figures;
        vec![
            row.contender.name().to_owned(),
            row.callers.to_string(),
            n.to_string(),
            figure(row.runs_per_second),
            figure(*p50_ms),
            figure(*p99_ms),
            times(row.ratio),
            remark(&row.figures),
        ]
    };
    let rows = rows.iter().map(cells).collect();
    Table { title: "Throughput of `hello`, callers back to back", header, rows, remark: None }
}

fn levels(growth: &Growth) -> Table {
    let header =
        &["runs", "total ms", "per run ms", "first ms", "median ms", "last ms", "at once", "own MiB", "remark"];
    let cells = |level: &Level| {
        let mib = level.peak_rss_bytes.map(|bytes| bytes as f64 / f64::from(1 << 20));
        vec![
            level.runs.to_string(),
            figure(Some(level.total_ms)),
            figure(Some(level.per_run_ms)),
            figure(level.first_ms),
            figure(level.median_ms),
            figure(level.last_ms),
            level.at_once.to_string(),
            figure(mib),
            level.first_error.as_ref().map(|first| wrong(level.errors, first)).unwrap_or_default(),
        ]
    };
    let order = growth.order.as_ref().map(|order| {
        format!(
            "Order: one caller with {} runs was done after {} ms; another, who came after him with {}, after {} ms. \
             No run of the first was overtaken by more than {} of his own.",
            order.many_runs,
            figure(order.many_last_ms),
            order.few_runs,
            figure(order.few_last_ms),
            order.overtaken_by
        )
    });
    let stopped = growth.stopped.as_ref().map(|why| format!("Stopped here: {why}."));
    let rows = growth.levels.iter().map(cells).collect();
    Table { title: "Growth: `hello`, handed to the library at once", header, rows, remark: order.or(stopped) }
}

pub(super) fn budgets(budgets: &[Budget]) -> Table {
    let cells = |budget: &Budget| {
        let bound = match budget.bound {
            Bound::AtMost => "<=",
            Bound::AtLeast => ">=",
        };
        let met = match budget.met {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "not measured",
        };
        vec![
            budget.name.clone(),
            format!("{bound} {} {}", budget.limit, budget.unit),
            figure(budget.value),
            met.to_owned(),
            budget.what.clone(),
        ]
    };
    let header = &["budget", "limit", "value", "met", "what"];
    Table { title: "Budgets", header, rows: budgets.iter().map(cells).collect(), remark: None }
}

fn times(ratio: Option<f64>) -> String {
    ratio.map(|ratio| format!("{} x", figure(Some(ratio)))).unwrap_or_default()
}

fn remark(figures: &Figures) -> String {
    let cold = figures.warm_share.filter(|share| *share < 1.0);
    let cold = cold.map(|share| format!("{:.0} % warm", share * 100.0));
    let errors = figures.first_error.as_ref().map(|first| wrong(figures.errors, first));
    cold.into_iter().chain(errors).collect::<Vec<_>>().join("; ")
}

fn wrong(errors: usize, first: &str) -> String {
    format!("{errors} wrong, the first: {first}")
}
