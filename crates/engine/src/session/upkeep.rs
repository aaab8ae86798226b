//! What happens to a session without anybody asking: its time runs out, its disk fills, its sandbox dies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Session;
use super::registry::Registry;
use super::running::Running;
use crate::backend::Gone;

/// How often a session that does something is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// Looking at the disk may take one part of so many of the time.
const SHARE: u32 = 20;
/// The same while nobody waits for anything.
const IDLE_SHARE: u32 = 200;
/// How long an ended program can still be asked about.
const REMEMBERED: Duration = Duration::from_mins(5);
/// How many ended programs can still be asked about.
const MOST_REMEMBERED: usize = 64;

/// Watches over a session until it ends.
pub(super) async fn keep(registry: Registry, session: Arc<Session>) {
    let Ok(place) = session.place() else { return };
    let gone = place.gone();
    drop(place);
    let ended = tokio::select! {
        gone = gone => match gone {
            Gone::Closed => return,
            Gone::Limit(limit) => ("limit_exceeded", serde_json::json!({ "limit": limit })),
            Gone::Failed(why) => ("failed", serde_json::json!({ "why": why })),
        },
        why = watch(&session) => (why, serde_json::Value::Null),
    };
    if registry.end(session.id()).is_some() {
        // What cannot be written now is owed by the trail.
        let _ = session.record(&session.owner.clone(), ended.0, ended.1).await;
    }
}

/// Comes back when the session must end, and says why.
async fn watch(session: &Session) -> &'static str {
    let (mut next_count, mut left) = (Instant::now(), false);
    loop {
        tokio::time::sleep(LOOK.min(session.left())).await;
        let now = Instant::now();
        if session.left().is_zero() {
            return "expired";
        }
        session.forget_ended();
        let busy = session.is_busy();
        // What a program left running fills a disk as well; where nothing is left, nothing begins by itself.
        let lately = session.idle_for() < LOOK * 4;
        left = busy || (left || lately) && session.has_processes().await;
        if !busy && session.spec.idle_ms.is_some_and(|idle| session.idle_for() >= Duration::from_millis(idle)) {
            return "idle";
        }
        if left && now >= next_count {
            session.count_disk().await;
            next_count = Instant::now() + now.elapsed() * if busy { SHARE } else { IDLE_SHARE };
        }
    }
}

impl Session {
    fn left(&self) -> Duration {
        self.lock().expires.saturating_duration_since(Instant::now())
    }

    fn idle_for(&self) -> Duration {
        self.lock().used.elapsed()
    }

    fn is_busy(&self) -> bool {
        self.lock().running.values().any(|running| !running.has_ended())
    }

    async fn has_processes(&self) -> bool {
        match self.place() {
            Ok(place) => place.count().await > 0,
            Err(_) => false,
        }
    }

    /// Ended programs are remembered for a while only.
    fn forget_ended(&self) {
        let mut state = self.lock();
        let long_ago = types::Timestamp::from(std::time::SystemTime::now()).before(REMEMBERED);
        state.running.retain(|_, running| !running.has_ended() || running.started() > long_ago);
        let mut ended: Vec<(types::Timestamp, u32)> = state
            .running
            .values()
            .filter(|running| running.has_ended())
            .map(|running| (running.started(), running.pid()))
            .collect();
        ended.sort_unstable();
        let surplus = ended.len().saturating_sub(MOST_REMEMBERED);
        for (_, pid) in ended.into_iter().take(surplus) {
            state.running.remove(&pid);
        }
    }

    /// Where the disk is over its limit and still grows, programs are killed; so what removes files can run.
    async fn count_disk(&self) {
        let Ok(place) = self.place() else { return };
        let Ok(usage) = place.usage().await else { return };
        let now = (usage.disk_bytes, usage.disk_inodes);
        let (before, running) = {
            let mut state = self.lock();
            let running: Vec<Arc<Running>> = state.running.values().cloned().collect();
            (std::mem::replace(&mut state.disk, now), running)
        };
        if self.is_full(now) && (now.0 > before.0 || now.1 > before.1) {
            let limit = self.exceeded(now);
            running.iter().filter(|running| !running.has_ended()).for_each(|running| running.kill_at(limit));
            // A sandbox that cannot be told is going.
            let _ = place.kill_all();
        }
    }
}
