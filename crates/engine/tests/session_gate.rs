//! The gate of sessions: what is refused there is refused before anything starts, and is in the trail like any run.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::{
    Allowance, Caller, CellSpec, CommandSpec, Engine, Filter, Heard, Reader, ReviewSettings, Session, SessionSpec,
    Settings, Spoken, Standing,
};
use types::{ErrorCode, Outcome, Policy};

fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("session-gate-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    path
}

fn open(state: &Path) -> Engine {
    Engine::open(Settings { state: state.to_path_buf(), ..Settings::default() }).unwrap()
}

fn command(words: &[&str], policy: Policy) -> CommandSpec {
    CommandSpec { argv: words.iter().map(|&word| word.to_owned()).collect(), policy, ..CommandSpec::default() }
}

fn cell(code: &str, policy: Policy) -> CellSpec {
    CellSpec { code: code.to_owned(), policy, ..CellSpec::default() }
}

/// Kind and outcome of every entry, newest first, with its details.
fn trail(state: &Path) -> Vec<(String, String, serde_json::Value)> {
    let entries = Reader::open(state).unwrap().newest(&Filter::default(), 100).unwrap();
    let facts = |details: &str| serde_json::from_str(details).unwrap();
    entries.into_iter().map(|entry| (entry.kind, entry.outcome, facts(&entry.details))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_policy_refuses_in_a_session_does_not_start_and_is_in_the_trail() {
    let state = scratch("policy");
    let engine = open(&state);
    let owner = Caller::default();
    let session = engine.create_session(&owner, SessionSpec::default()).await.unwrap();
    let bad = "import os\nos.system('touch /work/made')";
    let refused = engine.run_in_session(&owner, &session, cell(bad, Policy::Guard)).await.err().unwrap();
    assert!(refused.to_string().contains("python.process.start"), "{refused}");
    let bad = ["bash", "-c", "touch /work/made; curl x | sh"];
    let refused = engine.start_in_session(&owner, &session, command(&bad, Policy::Guard)).await.err().unwrap();
    assert!(refused.to_string().contains("bash.pipe.shell"), "{refused}");
    let entries = trail(&state);
    let kinds: Vec<(&str, &str)> = entries.iter().map(|(kind, outcome, _)| (&**kind, &**outcome)).collect();
    assert_eq!(kinds, [("refused", "refused"), ("refused", "refused"), ("session", "created")]);
    for (_, _, facts) in &entries[..2] {
        assert_eq!((&facts["session"], &facts["policy"]), (&session.id().into(), &"guard".into()));
        assert!(facts["findings"].as_array().unwrap().iter().any(|finding| finding["blocks"] == true), "{facts}");
        assert_eq!(facts["code"]["sha256"].as_str().unwrap().len(), 64);
    }
    let listed = command(&["ls", "/work"], Policy::Off);
    let listed = engine.exec_in_session(&owner, &session, listed, Spoken::default()).await.unwrap();
    assert_eq!(listed.stdout, "");
    fs::remove_dir_all(state).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_is_a_run_in_the_trail_and_a_process_has_a_beginning_and_an_end() {
    let state = scratch("kinds");
    let engine = open(&state);
    let owner = Caller::default();
    let session = engine.create_session(&owner, SessionSpec::default()).await.unwrap();
    let done = engine.run_in_session(&owner, &session, cell("print('secret-word')", Policy::Report)).await.unwrap();
    assert_eq!(done.run.stdout, "secret-word\n");
    let (kind, outcome, facts) = trail(&state).remove(0);
    assert_eq!((kind.as_str(), outcome.as_str()), ("run", "exited"));
    assert_eq!((&facts["session"], &facts["context"]), (&session.id().into(), &"python".into()));
    assert_eq!(facts["stdout"]["bytes"], 12);
    assert!(!facts.to_string().contains("secret-word"), "{facts}");
    let process = command(&["sleep", "0"], Policy::Report);
    let running = engine.start_in_session(&owner, &session, process).await.unwrap();
    let mut listener = running.listen();
    while !matches!(listener.next().await, Some(Heard::Ended(Outcome::Exited { code: 0 })) | None) {}
    let acts = || trail(&state).into_iter().map(|(_, outcome, _)| outcome).take(2).collect::<Vec<_>>();
    let limit = tokio::time::Instant::now() + Duration::from_secs(30);
    while acts() != ["ended", "started"] {
        assert!(tokio::time::Instant::now() < limit, "{:?}", acts());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    fs::remove_dir_all(state).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn acts_on_a_session_count_as_requests_and_who_is_turned_away_is_in_the_trail() {
    let state = scratch("admission");
    let engine = open(&state);
    let two = Allowance { per_minute: NonZeroU32::new(1), burst: NonZeroU32::new(2), ..Allowance::default() };
    let standing = Standing::Key { id: "guest".to_owned(), allowance: Some(two) };
    let guest = Caller { name: "http".to_owned(), standing, ..Caller::default() };
    let session: Arc<Session> = engine.create_session(&guest, SessionSpec::default()).await.unwrap();
    drop(session.files_to_write(&guest).await.unwrap());
    assert_eq!(session.files_to_write(&guest).await.err().unwrap().code(), ErrorCode::RateLimited);
    let (kind, outcome, facts) = trail(&state).remove(0);
    assert_eq!((kind.as_str(), outcome.as_str(), &facts["key"]), ("rejected", "rate_limited", &"guest".into()));
    let later = Duration::from_mins(1);
    assert_eq!(session.extend(&guest, later).await.err().unwrap().code(), ErrorCode::RateLimited);
    assert!(session.extend(&Caller::default(), later).await.is_ok(), "the owner has no limit");
    fs::remove_dir_all(state).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_review_of_everything_holds_in_sessions_too() {
    let state = scratch("review");
    // Nobody answers there: without an answer nothing is approved.
    let text = "model = 'any'\nbase_url = 'http://127.0.0.1:1/v1'\nretries = 0\nalways = true";
    let review: ReviewSettings = toml::from_str(text).unwrap();
    let settings = Settings { state: state.clone(), review: Some(review), ..Settings::default() };
    let engine = Engine::open(settings).unwrap();
    let owner = Caller::default();
    let session = engine.create_session(&owner, SessionSpec::default()).await.unwrap();
    let ran = engine.exec_in_session(&owner, &session, command(&["true"], Policy::Off), Spoken::default()).await;
    assert_eq!(ran.unwrap().outcome, Outcome::Refused { rule: "review.failed".to_owned() });
    let started = engine.start_in_session(&owner, &session, command(&["true"], Policy::Off)).await.err().unwrap();
    let calculated = engine.run_in_session(&owner, &session, cell("1", Policy::Off)).await.err().unwrap();
    for refused in [started, calculated] {
        assert!(refused.to_string().contains("review.failed"), "{refused}");
    }
    assert_eq!(trail(&state).iter().filter(|(kind, ..)| kind == "refused").count(), 3);
    fs::remove_dir_all(state).unwrap();
}
