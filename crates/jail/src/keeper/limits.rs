//! Limits that the kernel does not enforce by itself, looked at from time to time.

use std::time::{Duration, Instant};

use types::LimitKind;

use super::sandbox::Sandbox;
use super::watch::Watch;
use crate::cgroup::Group;
use crate::wire::End;

/// How often the weaker meters look, where no cgroup counts.
const WATCH: Duration = Duration::from_millis(10);

impl Sandbox {
    /// When the limits must be looked at next.
    pub(super) fn next_check(&self) -> Option<Instant> {
        if let Some(session) = self.session.as_ref().filter(|_| self.end.is_none()) {
            let looks = self.limits.cpu.is_some() || !self.is_metered();
            let look = (looks && !session.is_idle()).then_some(self.next_look);
            return session.next_check().into_iter().chain(look).min();
        }
        let started = self.started.filter(|_| self.end.is_none())?;
        let wall = started + Duration::from_nanos(self.limits.wall);
        let looks = self.limits.cpu.is_some() || !self.is_metered();
        Some(if looks { wall.min(self.next_look) } else { wall })
    }

    pub(super) fn is_metered(&self) -> bool {
        self.group.as_ref().is_some_and(Group::counts_memory)
    }

    /// Enforces what the kernel does not enforce by itself.
    pub(super) fn tick(&mut self, now: Instant) {
        if self.session.is_some() && self.end.is_none() {
            self.tick_processes(now);
            if now >= self.next_look {
                self.next_look = now + WATCH;
                self.watch_session();
            }
            return;
        }
        let Some(started) = self.started.filter(|_| self.end.is_none()) else { return };
        if now >= started + Duration::from_nanos(self.limits.wall) {
            return self.end_by(End::Limit(LimitKind::Wall));
        }
        if now < self.next_look {
            return;
        }
        self.next_look = now + WATCH;
        if self.is_out_of_time() {
            return self.end_by(End::Limit(LimitKind::Cpu));
        }
        if self.is_out_of_memory() {
            self.end_by(End::Limit(LimitKind::Memory));
        }
    }

    /// Whether everything in it together has had its time on the processors.
    fn is_out_of_time(&mut self) -> bool {
        let Some(limit) = self.limits.cpu else { return false };
        let used = match self.group.as_ref().and_then(Group::cpu) {
            Some(total) => total.saturating_sub(self.cpu_before),
            None => self.watch.as_mut().map_or(0, Watch::cpu),
        };
        used >= limit
    }

    /// What has used up its memory or time is killed; the sandbox itself stays.
    fn watch_session(&mut self) {
        if self.is_out_of_memory() {
            self.kill_processes(&End::Limit(LimitKind::Memory));
        } else if self.is_out_of_time() {
            self.kill_processes(&End::Limit(LimitKind::Cpu));
        }
        if let (Some(session), Some(watch)) = (&mut self.session, &self.watch) {
            session.count(watch.count());
        }
    }

    /// Where nobody counts memory.
    fn is_out_of_memory(&self) -> bool {
        let over = |watch: &Watch| watch.exceeds(self.limits.memory, &self.writable);
        !self.is_metered() && self.watch.as_ref().is_some_and(over)
    }

    /// Processor time as far as looking can tell, where nobody counts it.
    pub(super) fn watched_cpu(&mut self) -> Option<u64> {
        self.watch.as_mut().map(Watch::cpu)
    }
}
