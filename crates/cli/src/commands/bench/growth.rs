//! Many runs handed over at once: what each costs, and who waits for whom.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Caller, Delivery, Engine};
use serde::Serialize;
use tokio::task::JoinSet;
use types::ExecRequest;

use super::contender::{Wrong, check};
use super::machine::status_kib;
use super::plan::Plan;
use super::progress::Bar;
use super::statistics::{median, milliseconds, tidy};
use super::work::Work;

/// How it grows.
#[derive(Debug, Serialize)]
pub(super) struct Growth {
    pub(super) levels: Vec<Level>,
    pub(super) order: Option<Order>,
    /// Why larger numbers were not tried.
    pub(super) stopped: Option<String>,
}

/// So many runs at once.
#[derive(Debug, Serialize)]
pub(super) struct Level {
    pub(super) runs: usize,
    pub(super) total_ms: f64,
    pub(super) per_run_ms: f64,
    /// From the moment they were all handed over.
    pub(super) first_ms: Option<f64>,
    pub(super) median_ms: Option<f64>,
    pub(super) last_ms: Option<f64>,
    /// The most programs that ran at the same time.
    pub(super) at_once: usize,
    /// Our own memory at its peak; the keeper's and the runs' are not in it.
    pub(super) peak_rss_bytes: Option<u64>,
    pub(super) errors: usize,
    pub(super) first_error: Option<String>,
}

/// One caller with many runs, and one who comes after him with few.
#[derive(Debug, Serialize)]
pub(super) struct Order {
    pub(super) many_runs: usize,
    pub(super) few_runs: usize,
    /// When the last run of each had ended.
    pub(super) many_last_ms: Option<f64>,
    pub(super) few_last_ms: Option<f64>,
    /// By how many places the most overtaken run of the first caller ended later than it came.
    pub(super) overtaken_by: usize,
    pub(super) errors: usize,
    pub(super) first_error: Option<String>,
}

/// One run that was right.
#[derive(Clone, Copy)]
struct Ended {
    index: usize,
    /// Since everything was handed over.
    at: Duration,
    ran: Duration,
}

/// Runs at one level, right and wrong.
struct Batch {
    took: Duration,
    ended: Vec<Ended>,
    errors: Vec<Wrong>,
}

/// From this level on, an engine that starts everything at once is not asked for more: the host would not stand it.
const CAREFUL: usize = 100;

/// Hands over more and more runs at once.
pub(super) async fn measure(engine: &Arc<Engine>, request: &ExecRequest, plan: &Plan) -> Growth {
    let bar = Bar::new("growth", plan.growth.len() + 1);
    let mut growth = Growth { levels: Vec::new(), order: None, stopped: None };
    for runs in plan.growth {
        let level = level(engine, request, *runs).await;
        if *runs >= CAREFUL && level.at_once * 10 >= runs * 9 {
            growth.stopped = Some(format!("{} of {runs} runs ran at the same time: nothing is queued", level.at_once));
        } else if level.errors > 0 {
            growth.stopped = Some("runs failed".to_owned());
        }
        growth.levels.push(level);
        bar.step();
        if growth.stopped.is_some() {
            return growth;
        }
    }
    growth.order = Some(order(engine, request, plan.order).await);
    bar.step();
    growth
}

async fn level(engine: &Arc<Engine>, request: &ExecRequest, runs: usize) -> Level {
    // 5 forgets the peak so far: proc_pid_clear_refs(5).
    drop(fs::write("/proc/self/clear_refs", "5"));
    let batch = submit(engine, &[("growth", runs)], request).await;
    let mut ends: Vec<f64> = batch.ended.iter().map(|ended| milliseconds(ended.at)).collect();
    ends.sort_by(f64::total_cmp);
    let total = milliseconds(batch.took);
    Level {
        runs,
        total_ms: tidy(total),
        per_run_ms: tidy(total / runs as f64),
        first_ms: ends.first().copied().map(tidy),
        median_ms: median(&ends).map(tidy),
        last_ms: ends.last().copied().map(tidy),
        at_once: at_once(&batch.ended),
        peak_rss_bytes: status_kib("VmHWM").map(|kib| kib << 10),
        errors: batch.errors.len(),
        first_error: batch.errors.first().map(ToString::to_string),
    }
}

async fn order(engine: &Arc<Engine>, request: &ExecRequest, (many, few): (usize, usize)) -> Order {
    let batch = submit(engine, &[("many", many), ("few", few)], request).await;
    let (mut first, second): (Vec<Ended>, Vec<Ended>) = batch.ended.iter().partition(|ended| ended.index < many);
    let last = |ended: &[Ended]| ended.iter().map(|ended| tidy(milliseconds(ended.at))).reduce(f64::max);
    first.sort_by_key(|ended| ended.at);
    Order {
        many_runs: many,
        few_runs: few,
        many_last_ms: last(&first),
        few_last_ms: last(&second),
        overtaken_by: first.iter().enumerate().map(|(place, run)| place.saturating_sub(run.index)).max().unwrap_or(0),
        errors: batch.errors.len(),
        first_error: batch.errors.first().map(ToString::to_string),
    }
}

/// Hands over all runs of each caller, one caller after the other, and waits for the last.
async fn submit(engine: &Arc<Engine>, callers: &[(&str, usize)], request: &ExecRequest) -> Batch {
    let mut runs = JoinSet::new();
    let start = Instant::now();
    for (name, count) in callers {
        for _ in 0..*count {
            runs.spawn(one(Arc::clone(engine), caller(name), request.clone(), runs.len(), start));
        }
    }
    let (mut ended, mut errors) = (Vec::new(), Vec::new());
    for run in runs.join_all().await {
        match run {
            Ok(run) => ended.push(run),
            Err(wrong) => errors.push(wrong),
        }
    }
    Batch { took: start.elapsed(), ended, errors }
}

/// Callers have no names yet; the queue will tell them apart by one.
fn caller(_name: &str) -> Caller {
    Caller::default()
}

async fn one(
    engine: Arc<Engine>,
    caller: Caller,
    request: ExecRequest,
    index: usize,
    start: Instant,
) -> Result<Ended, Wrong> {
    let result = engine.execute(&caller, request, Delivery::default()).await?;
    let at = start.elapsed();
    check(&result, Work::Hello.expected())?;
    Ok(Ended { index, at, ran: Duration::from_secs_f64(result.usage.wall_ms.max(0.0) / 1000.0) })
}

/// The most runs whose times overlap.
fn at_once(ended: &[Ended]) -> usize {
    let starts = ended.iter().map(|run| (run.at.saturating_sub(run.ran), 1));
    let ends = ended.iter().map(|run| (run.at, -1));
    let mut events: Vec<(Duration, i64)> = starts.chain(ends).collect();
    // At the same moment an end comes before a start.
    events.sort_unstable();
    let mut now = 0;
    let counts = events.into_iter().map(|(_, change)| {
        now += change;
        now
    });
    usize::try_from(counts.max().unwrap_or(0)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_overlap_are_counted() {
        let run = |at, ran| Ended { index: 0, at: Duration::from_millis(at), ran: Duration::from_millis(ran) };
        assert_eq!(at_once(&[]), 0);
        assert_eq!(at_once(&[run(10, 10), run(20, 10), run(30, 10)]), 1);
        assert_eq!(at_once(&[run(10, 10), run(20, 15), run(30, 11), run(12, 2)]), 2);
        assert_eq!(at_once(&[run(10, 10), run(11, 11), run(12, 12)]), 3);
    }
}
