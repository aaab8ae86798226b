//! One caller, one run at a time, everybody in turn.

use std::time::{Duration, Instant};

use super::contender::{Contender, Entry, Line};
use super::plan::Plan;
use super::progress::Bar;
use super::report::{Row, Tally, ratio};
use super::statistics::Dice;

/// Between two runs, so that what the last one left to be done (reaping, a pool's refill) is not the next one's cost.
const PAUSE: Duration = Duration::from_millis(5);
/// A peer who never took less than this while warming up is asked in every tenth round only.
const SLOW: Duration = Duration::from_millis(150);
const SLOW_EVERY: usize = 10;
/// Rounds beyond the hundredth are not started after this.
const MOST: Duration = Duration::from_secs(150);
const LEAST_ROUNDS: usize = 100;

/// One contender's place in the round.
struct Seat<'a> {
    entry: &'a Entry,
    line: Line,
    /// The best time while warming up.
    best: Option<Duration>,
    tally: Tally,
}

impl Seat<'_> {
    /// Whether it is asked in this round; `None` is one that does not count.
    fn is_due(&self, round: Option<usize>) -> bool {
        let slow = self.entry.contender.is_peer() && self.best.is_some_and(|best| best > SLOW);
        !slow || round.is_some_and(|round| round.is_multiple_of(SLOW_EVERY))
    }
}

/// Asks everybody once a round, in an order that changes; the first rounds are for warming up and do not count.
pub(super) async fn measure(entries: &[Entry], plan: &Plan) -> Vec<Row> {
    let new = |entry| Seat { entry, line: Entry::line(entry), best: None, tally: Tally::default() };
    let mut seats: Vec<Seat<'_>> = entries.iter().map(new).collect();
    let bar = Bar::new("latency", plan.warm_up + plan.rounds);
    let mut dice = Dice::new();
    let start = Instant::now();
    for round in 0..plan.warm_up + plan.rounds {
        if round >= plan.warm_up + LEAST_ROUNDS && start.elapsed() > MOST {
            break;
        }
        for turn in dice.order(seats.len()) {
            let seat = &mut seats[turn];
            let counted = round.checked_sub(plan.warm_up);
            if !seat.is_due(counted) {
                continue;
            }
            let answer = seat.line.once().await;
            tokio::time::sleep(PAUSE).await;
            match (&answer, counted) {
                (Ok(once), None) => seat.best = Some(seat.best.map_or(once.took, |best| best.min(once.took))),
                // An error counts in every round: it is nothing that warming up excuses.
                (Ok(_), Some(_)) | (Err(_), _) => seat.tally.add(answer),
            }
        }
        bar.step();
    }
    rows(&seats)
}

fn rows(seats: &[Seat<'_>]) -> Vec<Row> {
    let mut rows: Vec<Row> = seats
        .iter()
        .map(|Seat { entry, tally, .. }| {
            let figures = tally.figures();
            Row { work: entry.work, contender: entry.contender, version: None, figures, ratio: None }
        })
        .collect();
    let plain: Vec<_> = rows.iter().filter(|row| row.contender == Contender::Plain).collect();
    let plain: Vec<_> = plain.into_iter().map(|row| (row.work, row.figures.p50_ms)).collect();
    for row in &mut rows {
        let base = plain.iter().find(|(work, _)| *work == row.work).and_then(|(_, p50)| *p50);
        row.ratio = ratio(row.figures.p50_ms, base);
    }
    rows
}
