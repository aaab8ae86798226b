//! Sessions to test with.
#![allow(dead_code, reason = "each test file uses its share")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use engine::{Caller, CommandSpec, Engine, Session, SessionSpec, Settings, Spoken};

/// A state folder of its own.
pub(crate) fn scratch(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}-{number}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    path
}

pub(crate) fn open(state: &Path) -> Engine {
    Engine::open(Settings { state: state.to_path_buf(), ..Settings::default() }).unwrap()
}

pub(crate) async fn create(engine: &Engine) -> Arc<Session> {
    engine.create_session(&Caller::default(), SessionSpec::default()).await.unwrap()
}

pub(crate) fn shell(script: &str) -> CommandSpec {
    CommandSpec { argv: ["bash", "-c", script].map(str::to_owned).to_vec(), ..CommandSpec::default() }
}

/// What a script writes that ends well.
pub(crate) async fn out(engine: &Engine, session: &Arc<Session>, script: &str) -> String {
    let command = shell(script);
    let result = engine.exec_in_session(&Caller::default(), session, command, Spoken::default()).await.unwrap();
    assert!(result.ok, "{script}: {result:?}");
    result.stdout
}
