//! Sandboxes of sessions that are made before anybody asks for them.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use engine::{Caller, CellSpec, Engine, Filter, Reader, Session, SessionSpec, Settings};

/// So long that no test waits for its end.
const LONG: Duration = Duration::from_hours(1);

/// An engine with a state folder of its own.
fn open() -> (PathBuf, Arc<Engine>) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ahead-{}-{number}", std::process::id()));
    let _ = fs::remove_dir_all(&state);
    let settings = Settings { state: state.clone(), ..Settings::default() };
    (state, Arc::new(Engine::open(settings).unwrap()))
}

/// An environment that counts when an interpreter begins.
fn with(name: &str) -> SessionSpec {
    with_env(&[("PYTHON_NAME", name)])
}

fn with_env(env: &[(&str, &str)]) -> SessionSpec {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    SessionSpec { env: env.collect(), ..SessionSpec::default() }
}

/// Has one made of a kind, whoever comes.
fn keep(engine: &Arc<Engine>, spec: SessionSpec, idle: Duration) -> tokio::task::JoinHandle<()> {
    let engine = Arc::clone(engine);
    tokio::spawn(async move { engine.keep_sessions_ready(&Caller::default(), &spec, 1, idle).await })
}

async fn create(engine: &Engine, spec: SessionSpec) -> Arc<Session> {
    engine.create_session(&Caller::default(), spec).await.unwrap()
}

/// Whether a session's sandbox had been made before, as the trail has it.
fn was_ahead(state: &Path, session: &Session) -> bool {
    let entries = Reader::open(state).unwrap().newest(&Filter::default(), 100).unwrap();
    let entry = entries.iter().find(|entry| entry.id == session.id() && entry.outcome == "created").unwrap();
    let details: serde_json::Value = serde_json::from_str(&entry.details).unwrap();
    details["facts"]["ahead"].as_bool().unwrap()
}

/// Disks of sandboxes that live.
fn disks(state: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(state.join("sessions")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.starts_with("ses_")).collect()
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_is_for_whoever_asks_for_the_very_same() {
    let (state, engine) = open();
    keep(&engine, with("a"), LONG);
    until("one is made", || disks(&state).len() == 1).await;
    let other = create(&engine, with("b")).await;
    assert!(!was_ahead(&state, &other));
    // It may still be on its way: who asks then waits for it.
    let same = create(&engine, with("a")).await;
    assert!(was_ahead(&state, &same));
    let cell = CellSpec { code: "import os; os.environ['PYTHON_NAME']".to_owned(), ..CellSpec::default() };
    let answer = engine.run_in_session(&Caller::default(), &same, cell).await.unwrap();
    assert_eq!(answer.results[0]["text/plain"], "'a'");
    engine.end_sessions().await;
}

/// A variable of the owner's own is there in a cell and between two cells; that of whoever asked for the
/// sandbox to be made is nowhere.
#[tokio::test(flavor = "multi_thread")]
async fn an_environment_of_ones_own_comes_with_its_owner() {
    // It looks a few steps after its cell is over.
    const LATER: &str = "import os, asyncio\nseen = []\nasync def look():\n    for _ in range(9):\n        await asyncio.sleep(0)\n    seen.append(os.environ.get('NAME'))\nawait asyncio.sleep(0)\ntask = asyncio.ensure_future(look())";
    const NOW: &str = "await task\n(seen, os.environ['NAME'], 'secret' in open('/proc/self/environ').read(), os.environ.get('OTHER'))";
    let (state, engine) = open();
    keep(&engine, with_env(&[("PYTHON_NAME", "a"), ("NAME", "secret"), ("OTHER", "secret")]), LONG);
    until("one is made", || disks(&state).len() == 1).await;
    let session = create(&engine, with_env(&[("PYTHON_NAME", "a"), ("NAME", "mine")])).await;
    assert!(was_ahead(&state, &session));
    let run = async |code: &str| {
        let cell = CellSpec { code: code.to_owned(), ..CellSpec::default() };
        engine.run_in_session(&Caller::default(), &session, cell).await.unwrap()
    };
    run(LATER).await;
    let answer = run(NOW).await;
    assert_eq!(answer.results[0]["text/plain"], "(['mine'], 'mine', False, None)");
    engine.end_sessions().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_asks_for_goes() {
    let (state, engine) = open();
    keep(&engine, with("a"), Duration::from_millis(1)).await.unwrap();
    until("it is gone", || disks(&state).is_empty()).await;
    let later = create(&engine, with("a")).await;
    assert!(!was_ahead(&state, &later));
    engine.end_sessions().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_that_nobody_asks_for_again_make_room() {
    let (state, engine) = open();
    let mut seen = BTreeSet::new();
    for number in 0..6 {
        keep(&engine, with(&number.to_string()), LONG);
        until("it is made", || {
            seen.extend(disks(&state));
            assert!(engine.count_ready_sessions() <= 4);
            seen.len() > number
        })
        .await;
    }
    until("no more than four wait", || disks(&state).len() == 4 && engine.count_ready_sessions() == 4).await;
    let first = create(&engine, with("0")).await;
    assert!(!was_ahead(&state, &first));
    engine.end_sessions().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn code_that_was_expected_finds_the_interpreter_that_was_started_for_it() {
    let (_, engine) = open();
    let session = create(&engine, with("a")).await;
    engine.expect_code(&session);
    engine.expect_code(&session);
    // Every interpreter has the same words; one of them is two processes.
    let count = "import glob\nown = open('/proc/self/cmdline').read()\n\
        sum(open(path).read() == own for path in glob.glob('/proc/[0-9]*/cmdline'))";
    let cell = CellSpec { code: count.to_owned(), ..CellSpec::default() };
    let answer = engine.run_in_session(&Caller::default(), &session, cell.clone()).await.unwrap();
    assert_eq!(answer.results[0]["text/plain"], "2");
    engine.expect_code(&session);
    let answer = engine.run_in_session(&Caller::default(), &session, cell).await.unwrap();
    assert_eq!((&answer.results[0]["text/plain"], answer.execution_count), (&"2".into(), 2));
    engine.end_sessions().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ends_while_code_is_expected_is_gone() {
    let (state, engine) = open();
    let session = create(&engine, with("a")).await;
    engine.expect_code(&session);
    engine.kill_session(&Caller::default(), session.id()).await.unwrap();
    until("its disk is gone", || disks(&state).is_empty()).await;
    assert!(engine.run_in_session(&Caller::default(), &session, CellSpec::default()).await.is_err());
}
