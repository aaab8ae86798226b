//! Disks that hold more than they may: who watches those of all sessions, and what becomes of who fills one.
//!
//! Counting a disk takes time, asking its file system how much is free takes a microsecond. So that is asked every few
//! milliseconds, once for all sessions, and only those are counted that could have become full by what has fallen.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jail::measure::{Fallen, Gauge};
use tokio::sync::Semaphore;

use super::Session;
use super::registry::Registry;
use super::running::Running;
use super::tally::{Level, Next};

/// Disks that are counted at once.
const AT_ONCE: usize = 2;

/// Watches all disks for as long as there is any session. While nothing stirs in any, nothing is done.
pub(super) async fn watch(registry: Registry, state: PathBuf) {
    let mut gauge = Gauge::at(&state);
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let woken = registry.watch();
    while let Some(stirring) = registry.stirring() {
        if stirring.is_empty() {
            woken.notified().await;
            continue;
        }
        gauge.look();
        let pause = count_full(stirring, &gauge, &turns);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = woken.notified() => {}
        }
    }
}

/// Has those disks counted that may be full; how long nobody needs to look again.
fn count_full(stirring: Vec<Arc<Session>>, gauge: &Gauge, turns: &Arc<Semaphore>) -> Duration {
    let (now, mut pause, mut due) = (Instant::now(), Duration::from_millis(100), Vec::new());
    for session in stirring {
        let (next, fallen, cost) = session.next_count(gauge, now);
        match next {
            Next::Look(after) => pause = pause.min(after),
            Next::Count => due.push((cost, fallen, session)),
        }
    }
    // Those first that take least, so that none waits long for one that has many files.
    due.sort_by_key(|(cost, ..)| *cost);
    for (_, fallen, session) in due {
        session.lock().tally.begin(fallen);
        let turns = Arc::clone(turns);
        tokio::spawn(async move {
            let _turn = turns.acquire_owned().await;
            session.count_disk().await;
        });
        pause = pause.min(Duration::from_millis(5));
    }
    pause
}

impl Session {
    /// What is to be done about its disk, what has fallen where that is, and how long counting takes.
    fn next_count(&self, gauge: &Gauge, now: Instant) -> (Next, Fallen, Duration) {
        let elsewhere = self.place().ok().and_then(|place| place.fallen());
        let (fallen, is_blind) = elsewhere.map_or((gauge.fallen(), gauge.is_blind()), |fallen| (fallen, false));
        let is_busy = self.is_busy();
        let state = self.lock();
        let next = state.tally.next(&self.limits, Level { fallen, is_blind }, is_busy, now);
        (next, fallen, state.tally.cost())
    }

    /// Where the disk is over its limit and still grows, programs are killed; so what removes files can run.
    async fn count_disk(&self) {
        let begun = Instant::now();
        let place = self.place().ok();
        let counted = match &place {
            Some(place) => place.grown().await.ok(),
            None => None,
        };
        let Some(now) = counted else {
            self.lock().tally.end(None, begun.elapsed());
            return;
        };
        let (is_over, running) = {
            let mut state = self.lock();
            let running: Vec<Arc<Running>> = state.running.values().cloned().collect();
            let before = state.tally.end(counted, begun.elapsed());
            let is_over = self.is_full(now) && (now.0 > before.0 || now.1 > before.1);
            // What was written until everybody was dead shows at the next count: whoever came after them is not to blame.
            let is_spared = state.tally.has_just_killed(is_over);
            (is_over && !is_spared, running)
        };
        let Some(place) = place else { return };
        if is_over {
            let limit = self.exceeded(now);
            running.iter().filter(|running| !running.has_ended()).for_each(|running| running.kill_at(limit));
            // A sandbox that cannot be told is going.
            let _ = place.kill_all();
        }
    }
}
