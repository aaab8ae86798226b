//! Free space where a session's disk is, watched while something runs: the engine may be on another machine.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::super::{Engine, Report};
use crate::init::everybody;
use crate::measure::{Fallen, Gauge};
use crate::wire::Limits;

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(4);
/// How often it is looked whether programs that have ended left others running.
const OTHERS: Duration = Duration::from_millis(500);
/// The most that falls before the engine is told.
const FEW_BYTES: u64 = 16 << 20;
const FEW_ENTRIES: u64 = 1000;

/// What is watched.
pub(super) struct Level {
    gauge: Gauge,
    told: Fallen,
    /// So much must fall before it is worth telling.
    step: Fallen,
    /// When it is looked at next; never while nothing runs.
    next: Option<Instant>,
    others: Instant,
}

impl Level {
    pub(super) fn of(limits: &Limits) -> Self {
        let mut gauge = Gauge::at(Path::new("/work"));
        let told = gauge.look();
        let step = Fallen { bytes: (limits.disk / 16).min(FEW_BYTES), entries: (limits.inodes / 16).min(FEW_ENTRIES) };
        Self { gauge, told, step, next: None, others: Instant::now() }
    }

    /// Something is about to run.
    pub(super) fn stir(&mut self) {
        self.next.get_or_insert_with(Instant::now);
    }

    /// How long nobody needs to look.
    pub(super) fn patience(&self, now: Instant) -> Option<Duration> {
        self.next.map(|next| next.saturating_duration_since(now))
    }

    /// Looks if it is time to, and tells the engine of what has fallen.
    pub(super) fn look(&mut self, is_busy: bool) -> Result<(), Errno> {
        let now = Instant::now();
        if self.next.is_none_or(|next| next > now) {
            return Ok(());
        }
        let fallen = self.gauge.look();
        let since = |now: u64, told: u64| now.saturating_sub(told);
        if since(fallen.bytes, self.told.bytes) > self.step.bytes
            || since(fallen.entries, self.told.entries) > self.step.entries
        {
            self.told = fallen;
            Engine::report(&Report::Fallen(fallen))?;
        }
        if is_busy {
            self.others = now + OTHERS;
        } else if self.others <= now {
            self.others = now + OTHERS;
            if everybody().len() <= 1 {
                self.next = None;
                return Ok(());
            }
        }
        self.next = Some(now + LOOK);
        Ok(())
    }
}
