//! What happens to a session without anybody asking: its time runs out, nobody needs it, its sandbox dies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Session;
use super::registry::Registry;
use crate::backend::Gone;

/// How often a session that does something is looked at.
const LOOK: Duration = Duration::from_millis(500);
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
    loop {
        tokio::time::sleep(LOOK.min(session.left())).await;
        if session.left().is_zero() {
            return "expired";
        }
        session.forget_ended();
        let busy = session.is_busy();
        session.settle_down(busy).await;
        if !busy && session.spec.idle_ms.is_some_and(|idle| session.idle_for() >= Duration::from_millis(idle)) {
            return "idle";
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

    pub(super) fn is_busy(&self) -> bool {
        self.lock().running.values().any(|running| !running.has_ended())
    }

    /// Takes note when nothing can write to its disk any more. What a program left running fills it as well; where nothing
    /// is left, nothing begins by itself.
    async fn settle_down(&self, busy: bool) {
        let stirs = self.lock().stirs;
        let left = busy || stirs && self.has_processes().await;
        let mut state = self.lock();
        // Somebody may have come meanwhile.
        let lately = state.used.elapsed() < LOOK * 4;
        state.stirs = !state.paused && (left || state.stirs && lately);
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
}
