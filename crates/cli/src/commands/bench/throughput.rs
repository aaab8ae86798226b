//! Many callers, each asking back to back.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::contender::{Contender, Entry};
use super::plan::Plan;
use super::progress::Bar;
use super::report::{Tally, Throughput, ratio};
use super::statistics::{Dice, median, tidy};

/// How many callers.
pub(super) const CALLERS: [usize; 5] = [1, 2, 4, 16, 64];
/// Between two measurements, for pools to fill and namespaces to be taken down.
const PAUSE: Duration = Duration::from_millis(200);

/// One contender at one number of callers.
struct Seat<'a> {
    entry: &'a Entry,
    callers: usize,
    tally: Tally,
    rates: Vec<f64>,
}

/// Every contender at every number of callers, in an order that changes with each round.
pub(super) async fn measure(entries: &[Entry], plan: &Plan) -> Vec<Throughput> {
    let new = |entry| CALLERS.map(|callers| Seat { entry, callers, tally: Tally::default(), rates: Vec::new() });
    let mut seats: Vec<Seat<'_>> = entries.iter().flat_map(new).collect();
    let bar = Bar::new("throughput", plan.throughput_rounds * seats.len());
    let mut dice = Dice::new();
    for _ in 0..plan.throughput_rounds {
        for turn in dice.order(seats.len()) {
            seats[turn].measure(plan.throughput_time).await;
            tokio::time::sleep(PAUSE).await;
            bar.step();
        }
    }
    rows(seats)
}

impl Seat<'_> {
    async fn measure(&mut self, time: Duration) {
        let mut callers = JoinSet::new();
        let start = Instant::now();
        for _ in 0..self.callers {
            callers.spawn(self.entry.line().until(start + time));
        }
        let answers = callers.join_all().await;
        let took = start.elapsed();
        let right = answers.iter().flatten().filter(|answer| answer.is_ok()).count();
        self.rates.push(right as f64 / took.as_secs_f64());
        answers.into_iter().flatten().for_each(|answer| self.tally.add(answer));
    }
}

fn rows(seats: Vec<Seat<'_>>) -> Vec<Throughput> {
    let mut rows: Vec<Throughput> = seats
        .into_iter()
        .map(|mut seat| {
            seat.rates.sort_by(f64::total_cmp);
            let figures = seat.tally.figures();
            let runs_per_second = median(&seat.rates).map(tidy);
            Throughput { contender: seat.entry.contender, callers: seat.callers, runs_per_second, figures, ratio: None }
        })
        .collect();
    let plain = rows.iter().filter(|row| row.contender == Contender::Plain);
    let plain: Vec<_> = plain.map(|row| (row.callers, row.runs_per_second)).collect();
    for row in &mut rows {
        let base = plain.iter().find(|(callers, _)| *callers == row.callers).and_then(|(_, rate)| *rate);
        row.ratio = ratio(row.runs_per_second, base);
    }
    rows
}
