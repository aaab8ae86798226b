//! What is known of a program of a sandbox that stays, from its order to its end.

use std::time::{Duration, Instant};

use types::LimitKind;

use crate::wire::{Cost, End};

/// A program that was ordered and has not ended.
pub(crate) struct Program {
    /// Its number inside, once it runs.
    pub(crate) pid: Option<i32>,
    started: Instant,
    wall: Option<Duration>,
    /// What was decided about it: the first cause wins.
    pub(crate) end: Option<End>,
    /// How often memory had run out when it began.
    out_of_memory: u64,
}

impl Program {
    /// Ordered now.
    pub(crate) fn ordered(wall: Option<u64>, out_of_memory: u64) -> Self {
        Self { pid: None, started: Instant::now(), wall: wall.map(Duration::from_nanos), end: None, out_of_memory }
    }

    /// It runs from now on; whether it was to be killed before it was there.
    pub(crate) fn begin(&mut self, pid: i32) -> bool {
        self.pid = Some(pid);
        self.started = Instant::now();
        self.end.is_some()
    }

    /// When it has had its time, if nothing was decided about it yet.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.end.is_some() {
            return None;
        }
        self.pid.and_then(|_| Some(self.started + self.wall?))
    }

    /// How it ended and what it cost: its status as the kernel gives it, nanoseconds on the processors, bytes of the largest
    /// process, and how often memory has run out by now.
    pub(crate) fn over(self, status: i32, cpu: u64, largest: u64, out_of_memory: u64) -> (End, Cost) {
        let ran_out = out_of_memory > self.out_of_memory;
        let end = self.end.unwrap_or(match libc::WTERMSIG(status) {
            0 => End::Exited(libc::WEXITSTATUS(status)),
            libc::SIGKILL if ran_out => End::Limit(LimitKind::Memory),
            signal => End::Signaled(signal),
        });
        let mut hits: Vec<LimitKind> = ran_out.then_some(LimitKind::Memory).into_iter().collect();
        if let End::Limit(limit) = end
            && !hits.contains(&limit)
        {
            hits.push(limit);
        }
        let wall = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        (end, Cost { wall, cpu, memory: largest, hits })
    }
}
