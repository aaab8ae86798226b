//! How sandboxes begin, pause, go on and end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use engine::{Caller, SessionSpec, SnapshotSpec};
use types::{BackendKind, LimitsSpec, Network};

use super::expected;
use super::fault::{Fault, NOT_FOUND};
use super::sandbox::{AtEnd, Kept, Sandbox, Stand, Wanted, boot_id};
use super::template::{self, Origin};
use crate::http::Shared;

/// A session lives as long as any may: when a sandbox ends is decided here.
const SESSION_TIME: Duration = Duration::from_hours(24 * 7);
/// What is kept of a cell's output, beside what was sent as it came.
const OUTPUT_KB: f64 = 16.0 * 1024.0;
/// How long a sandbox lives that a request has woken.
const WOKEN: Duration = Duration::from_mins(5);

/// Makes a sandbox; it is ready when this returns.
pub(super) async fn create(
    shared: &Arc<Shared>,
    owner: &Caller,
    wanted: Wanted,
    origin: Origin,
    lives: Duration,
) -> Result<Arc<Sandbox>, Fault> {
    let spec = spec(shared, &wanted, origin);
    let session = shared.engine.create_session(owner, spec.clone()).await?;
    if wanted.template == template::INTERPRETER {
        // Who asks for one runs code in it next.
        shared.engine.expect_code(&session);
    }
    expected::after(shared, owner, &wanted, spec);
    let sandbox = Sandbox::new(owner.clone(), wanted, session, lives);
    shared.e2b.add(&sandbox);
    tokio::spawn(keep(Arc::clone(shared), Arc::clone(&sandbox)));
    Ok(sandbox)
}

pub(super) fn spec(shared: &Shared, wanted: &Wanted, origin: Origin) -> SessionSpec {
    let (image, from) = match origin {
        Origin::Nothing => (None, None),
        Origin::Image(name) => (Some(name), None),
        Origin::Snapshot(name) => (None, Some(name)),
    };
    let settings = shared.engine.e2b();
    let env = environment(&wanted.env);
    let most_kb = shared.engine.most_output() as f64 / 1024.0;
    SessionSpec {
        // Templates are images of our own.
        backend: image.is_some().then_some(BackendKind::Native),
        image,
        from,
        limits: LimitsSpec {
            wall_ms: Some(shared.engine.longest().as_secs_f64() * 1e3),
            output_kb: Some(OUTPUT_KB.min(most_kb)),
            cpus: Some(f64::from(settings.cpus).min(shared.engine.most_cpus())),
            ..LimitsSpec::default()
        },
        network: if wanted.internet == Some(false) { Network::None } else { settings.network },
        env,
        ttl_ms: u64::try_from(SESSION_TIME.as_millis()).ok(),
        metadata: wanted.metadata.clone(),
        ..SessionSpec::default()
    }
}

/// What a sandbox has in its environment beside what its client wants there.
pub(super) fn environment(wanted: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut env = wanted.clone();
    env.entry("E2B_SANDBOX".to_owned()).or_insert_with(|| "true".to_owned());
    env
}

/// Watches over a sandbox until it ends.
async fn keep(shared: Arc<Shared>, sandbox: Arc<Sandbox>) {
    let mut changed = sandbox.changed.subscribe();
    while shared.e2b.get(&sandbox.id).is_some() {
        changed.mark_unchanged();
        let (stand, ends) = {
            let state = sandbox.state();
            (state.stand.clone(), state.ends)
        };
        let (session, left) = match stand {
            Stand::Running(session) => (Some(session), ends.duration_since(SystemTime::now()).ok()),
            Stand::Frozen(session) => (Some(session), Some(Duration::MAX)),
            Stand::Stored(_) => (None, Some(Duration::MAX)),
        };
        let ended = async {
            match &session {
                Some(session) => session.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = changed.changed() => {}
            () = ended => {
                let now = sandbox.state().stand.clone();
                let is_same = |other: &Arc<engine::Session>| session.as_ref().is_some_and(|own| Arc::ptr_eq(own, other));
                if matches!(&now, Stand::Running(other) | Stand::Frozen(other) if is_same(other)) {
                    shared.e2b.remove(&sandbox.id);
                }
            }
            () = tokio::time::sleep(left.unwrap_or_default()) => over(&shared, &sandbox).await,
        }
    }
}

/// Its time is over.
async fn over(shared: &Arc<Shared>, sandbox: &Arc<Sandbox>) {
    let done = match sandbox.wanted.at_end {
        AtEnd::Kill => kill(shared, sandbox).await,
        AtEnd::Pause(kept) => pause(shared, sandbox, kept).await,
    };
    if done.is_err() && sandbox.session().is_some() {
        // What cannot be paused must not live on.
        let _ = kill(shared, sandbox).await;
    }
}

/// Ends a sandbox. Its name means nothing from now on.
pub(super) async fn kill(shared: &Arc<Shared>, sandbox: &Arc<Sandbox>) -> Result<(), Fault> {
    shared.e2b.remove(&sandbox.id);
    let stand = sandbox.state().stand.clone();
    match stand {
        Stand::Running(session) | Stand::Frozen(session) => {
            // It may have ended by itself.
            let _ = shared.engine.kill_session(&sandbox.owner, session.id()).await;
        }
        Stand::Stored(snapshot) => drop(shared.engine.delete_snapshot(&sandbox.owner, &snapshot).await?),
    }
    sandbox.changed.send_modify(|count| *count += 1);
    Ok(())
}

/// Stops a sandbox where it is, or keeps its disk alone.
pub(super) async fn pause(shared: &Arc<Shared>, sandbox: &Arc<Sandbox>, kept: Kept) -> Result<(), Fault> {
    let _turn = sandbox.turn.lock().await;
    if sandbox.is_paused() {
        return Err(Fault::new(axum::http::StatusCode::CONFLICT, "The sandbox is paused already"));
    }
    let Some(session) = sandbox.session() else { return Err(Fault::missing(NOT_FOUND)) };
    match kept {
        Kept::Memory => {
            session.pause(&sandbox.owner).await?;
            session.extend(&sandbox.owner, SESSION_TIME).await?;
            sandbox.stand(Stand::Frozen(session));
        }
        Kept::Disk => {
            let spec = SnapshotSpec { note: format!("paused {}", sandbox.id), kill: true, name: None };
            let snapshot = shared.engine.snapshot_session(&sandbox.owner, session.id(), spec).await?;
            sandbox.stand(Stand::Stored(snapshot.id));
            let _ = shared.engine.kill_session(&sandbox.owner, session.id()).await;
        }
    }
    Ok(())
}

/// Whether a sandbox was paused before somebody asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    Running,
    Paused,
}

/// Lets a sandbox live so long at least, and go on if it was paused.
pub(super) async fn resume(shared: &Arc<Shared>, sandbox: &Arc<Sandbox>, lives: Duration) -> Result<Before, Fault> {
    let _turn = sandbox.turn.lock().await;
    let stand = sandbox.state().stand.clone();
    let session = match stand {
        Stand::Running(session) if session.has_ended() => return Err(Fault::missing(NOT_FOUND)),
        Stand::Running(_) => {
            if sandbox.state().ends < SystemTime::now() + lives {
                sandbox.live(lives);
            }
            return Ok(Before::Running);
        }
        Stand::Frozen(session) => {
            session.resume(&sandbox.owner).await?;
            session
        }
        Stand::Stored(snapshot) => {
            let spec = spec(shared, &sandbox.wanted, Origin::Snapshot(snapshot.clone()));
            let session = shared.engine.create_session(&sandbox.owner, spec).await?;
            // What it stands on stays as long as it lives.
            let _ = shared.engine.delete_snapshot(&sandbox.owner, &snapshot).await;
            let mut state = sandbox.state();
            state.boot = boot_id();
            state.contexts.clear();
            state.watchers.clear();
            session
        }
    };
    {
        let mut state = sandbox.state();
        state.stand = Stand::Running(session);
        state.ends = SystemTime::now() + lives;
    }
    sandbox.changed.send_modify(|count| *count += 1);
    Ok(Before::Paused)
}

/// Lets a sandbox go on because somebody wants something of it.
pub(super) async fn wake(shared: &Arc<Shared>, sandbox: &Arc<Sandbox>) -> Result<(), Fault> {
    resume(shared, sandbox, WOKEN).await.map(drop)
}

/// Copies of a sandbox, which begin with its files.
pub(super) async fn fork(
    shared: &Arc<Shared>,
    sandbox: &Arc<Sandbox>,
    count: u32,
    lives: Duration,
) -> Result<Vec<Result<Arc<Sandbox>, Fault>>, Fault> {
    let _turn = sandbox.turn.lock().await;
    let Some(session) = sandbox.session() else { return Err(Fault::missing(NOT_FOUND)) };
    let spec = SnapshotSpec { note: format!("fork of {}", sandbox.id), kill: false, name: None };
    let snapshot = shared.engine.snapshot_session(&sandbox.owner, session.id(), spec).await?;
    let mut copies = Vec::new();
    for _ in 0..count {
        let origin = Origin::Snapshot(snapshot.id.clone());
        copies.push(create(shared, &sandbox.owner, sandbox.wanted.clone(), origin, lives).await);
    }
    let _ = shared.engine.delete_snapshot(&sandbox.owner, &snapshot.id).await;
    Ok(copies)
}
