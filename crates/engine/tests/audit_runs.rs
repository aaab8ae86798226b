//! Every request leaves an entry, before its answer; what cannot be recorded is not run.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

mod common;

use std::fs;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{bash, python, settings};
use engine::{
    AdmissionSettings, Allowance, AuditSettings, Caller, Delivery, Engine, Filter, Output, Reader, Record, RunError,
    Settings, Standing, Stdin, Stream,
};
use serde_json::Value;
use types::{ErrorCode, ExecRequest, LimitsSpec, Policy};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("audit-runs-{name}"));
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn engine_in(state: &Path) -> Engine {
    Engine::open(Settings { state: state.to_path_buf(), ..settings() }).unwrap()
}

/// Once for each engine: its keeper is heard by the runtime that it was started in.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// All entries, oldest first, each with its details.
fn entries(state: &Path) -> Vec<(Record, Value)> {
    let reader = Reader::open(state).unwrap();
    assert!(reader.verify().unwrap().ok);
    let mut entries = reader.newest(&Filter::default(), 10_000).unwrap();
    entries.reverse();
    entries.into_iter().map(|entry| (entry.clone(), serde_json::from_str(&entry.details).unwrap())).collect()
}

fn key(id: &str, allowance: Allowance) -> Caller {
    let standing = Standing::Key { id: id.to_owned(), allowance: Some(allowance) };
    Caller { name: "a key".to_owned(), standing, ..Caller::default() }
}

#[test]
fn a_run_leaves_who_what_and_how_it_ended() {
    let state = folder("run");
    let engine = engine_in(&state);
    let caller = Caller { name: "me".to_owned(), ..Caller::default() };
    let limits = LimitsSpec { wall_ms: Some(5000.0), output_kb: Some(1.0), ..LimitsSpec::default() };
    let request = ExecRequest { limits, ..bash("head -c 5000 /dev/zero; echo oops >&2; echo made > file; exit 3") };
    let result = block_on(engine.execute(&caller, request, Delivery::default())).unwrap();
    let (entry, details) = entries(&state).remove(0);
    assert_eq!(
        (entry.seq, entry.id.as_str(), entry.kind.as_str(), entry.caller.as_str(), entry.outcome.as_str()),
        (1, result.id.as_str(), "run", "me", "exited")
    );
    let hash = |bytes: &[u8]| blake3::hash(bytes).to_string();
    assert_eq!(
        details["stdout"],
        serde_json::json!({"blake3": hash(&[0; 5000]), "bytes": 5000, "truncated": true}),
        "the hash is over all of it"
    );
    assert_eq!(details["stderr"], serde_json::json!({"blake3": hash(b"oops\n"), "bytes": 5, "truncated": false}));
    assert_eq!(details["ended"], serde_json::json!({"kind": "exited", "code": 3}));
    assert_eq!(details["limits_asked"], serde_json::json!({"wall_ms": 5000.0, "output_kb": 1.0}));
    assert_eq!(details["limits_granted"]["wall_ms"], 5000.0);
    assert_eq!(details["limits_granted"]["pids"], 64);
    assert_eq!(details["language"], "bash");
    assert_eq!(details["policy"], "report");
    assert_eq!(details["start"], "cold");
    assert_eq!(details["files"][0]["path"], "file");
    assert_eq!(details["files"][0]["sha256"], result.files[0].sha256);
    assert_eq!(serde_json::to_value(&result.isolation.layers).unwrap(), details["layers"]);
    assert_eq!(serde_json::to_value(result.usage).unwrap(), details["usage"]);
    assert_eq!(details["source"], Value::Null);
    assert_eq!(details["code"]["sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn mistakes_and_failures_leave_an_entry() {
    let state = folder("errors");
    let engine = engine_in(&state);
    let limits = LimitsSpec { pids: Some(0), ..LimitsSpec::default() };
    let unknown = ExecRequest { language: Some("x".repeat(1 << 20)), ..python("1") };
    let command = ExecRequest { argv: Some(vec!["no-such-program".to_owned()]), ..ExecRequest::default() };
    for (request, code) in [
        (ExecRequest { limits, ..python("1") }, "invalid_limit"),
        (unknown, "unknown_language"),
        (command, "program_missing"),
        (ExecRequest::default(), "invalid_request"),
    ] {
        block_on(engine.execute(&Caller::default(), request, Delivery::default())).unwrap_err();
        let (entry, details) = entries(&state).pop().unwrap();
        assert_eq!((entry.kind.as_str(), entry.outcome.as_str()), ("error", code));
        assert_eq!(details["error"]["code"], code);
        assert!(entry.details.len() < 2000, "an entry grew with its request");
    }
}

#[test]
fn a_run_whose_caller_goes_away_leaves_an_entry() {
    let state = folder("abandoned");
    {
        let engine = engine_in(&state);
        block_on(async {
            let request = bash("echo started; sleep 60");
            let (told, heard) = tokio::sync::oneshot::channel();
            let mut live = Told(Some(told));
            let caller = Caller::default();
            let delivery = Delivery { live: Some(&mut live), ..Delivery::default() };
            tokio::select! {
                _ = engine.execute(&caller, request, delivery) => panic!("it ended"),
                _ = heard => {}
            }
        });
    }
    let (entry, _) = entries(&state).pop().unwrap();
    assert_eq!((entry.kind.as_str(), entry.outcome.as_str()), ("run", "abandoned"));
}

/// Says when the program has said something.
struct Told(Option<tokio::sync::oneshot::Sender<()>>);

impl Output for Told {
    fn write(&mut self, _: Stream, _: &[u8]) -> ControlFlow<()> {
        if let Some(told) = self.0.take() {
            told.send(()).unwrap();
        }
        ControlFlow::Continue(())
    }
}

#[test]
fn nothing_secret_is_in_the_files() {
    let state = folder("secrets");
    {
        let engine = engine_in(&state);
        let request = ExecRequest {
            stdin: "input-7f3a".to_owned(),
            env: [("NAME".to_owned(), "value-7f3a".to_owned())].into(),
            args: vec!["argument-7f3a".to_owned()],
            ..bash("read x; echo $x $NAME $1; echo code-7f3a >&2; exit 1")
        };
        let command = ["bash", "-c", "echo word-7f3a"].map(str::to_owned).to_vec();
        let command = ExecRequest { argv: Some(command), ..ExecRequest::default() };
        block_on(async {
            for request in [request, command] {
                engine.execute(&Caller::default(), request, Delivery::default()).await.unwrap();
            }
        });
    }
    assert_eq!(entries(&state).len(), 2);
    for file in fs::read_dir(&state).unwrap().flatten() {
        let bytes = fs::read(file.path()).unwrap();
        assert!(!bytes.windows(5).any(|window| window == b"-7f3a"), "{}", file.path().display());
        let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
        assert_eq!(mode & 0o077, 0, "{} can be read by others", file.path().display());
    }
}

#[test]
fn source_is_kept_only_if_asked_for_and_the_trail_can_be_switched_off() {
    for (name, audit, kept) in [
        ("kept", AuditSettings { keep_source: true, ..AuditSettings::default() }, Some("echo kept-source")),
        ("off", AuditSettings { enabled: false, ..AuditSettings::default() }, None),
    ] {
        let state = folder(name);
        let engine = Engine::open(Settings { state: state.clone(), audit, ..settings() }).unwrap();
        block_on(engine.execute(&Caller::default(), bash("echo kept-source"), Delivery::default())).unwrap();
        let source = entries(&state).pop().map(|(_, details)| details["source"].clone());
        assert_eq!(source, kept.map(Value::from));
        assert_eq!(state.join("audit.db").exists(), kept.is_some());
    }
}

/// Fails the test if the program says anything.
struct Silence;

impl Output for Silence {
    fn write(&mut self, _: Stream, _: &[u8]) -> ControlFlow<()> {
        panic!("it was started")
    }
}

#[test]
fn what_cannot_be_recorded_is_not_started_and_goes_again_when_mended() {
    let state = folder("unwritable");
    fs::create_dir_all(state.join("audit.db")).unwrap();
    let engine = engine_in(&state);
    block_on(async {
        for _ in 0..2 {
            let delivery = Delivery { live: Some(&mut Silence), ..Delivery::default() };
            let error = engine.execute(&Caller::default(), bash("echo hi"), delivery).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::AuditUnavailable);
            assert!(error.hint().contains("audit verify"), "{}", error.hint());
        }
        fs::remove_dir(state.join("audit.db")).unwrap();
        assert!(engine.execute(&Caller::default(), bash("echo hi"), Delivery::default()).await.unwrap().ok);
    });
    assert_eq!(entries(&state).len(), 1);
}

#[test]
fn a_write_that_fails_after_the_run_is_an_error_and_made_up_for() {
    let state = folder("fails-later");
    let engine = Arc::new(engine_in(&state));
    let head = state.join("audit.head");
    block_on(async {
        let (input, stdin) = tokio::sync::mpsc::channel(1);
        let (told, heard) = tokio::sync::oneshot::channel();
        let run = tokio::spawn({
            let engine = Arc::clone(&engine);
            async move {
                let mut live = Told(Some(told));
                let delivery =
                    Delivery { stdin: Some(Stdin::Stream(stdin)), live: Some(&mut live), ..Delivery::default() };
                engine.execute(&Caller::default(), bash("echo ready; read x"), delivery).await
            }
        });
        heard.await.unwrap();
        fs::rename(&head, state.join("away")).unwrap();
        fs::create_dir(&head).unwrap();
        input.send(b"go\n".to_vec()).await.unwrap();
        assert_eq!(run.await.unwrap().unwrap_err().code(), ErrorCode::AuditUnavailable);
        fs::remove_dir(&head).unwrap();
        fs::rename(state.join("away"), &head).unwrap();
        assert!(engine.execute(&Caller::default(), bash("exit 0"), Delivery::default()).await.unwrap().ok);
    });
    let entries = entries(&state);
    assert_eq!(entries.iter().map(|(entry, _)| entry.outcome.as_str()).collect::<Vec<_>>(), ["exited", "exited"]);
}

#[test]
fn a_caller_over_the_limit_is_told_when_to_come_back() {
    let state = folder("rate");
    let engine = engine_in(&state);
    let caller = key("k1", Allowance { per_minute: NonZeroU32::new(2), ..Allowance::default() });
    block_on(async {
        for _ in 0..2 {
            engine.execute(&caller, bash("true"), Delivery::default()).await.unwrap();
        }
        let delivery = Delivery { live: Some(&mut Silence), ..Delivery::default() };
        let error = engine.execute(&caller, bash("echo hi"), delivery).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::RateLimited);
        let wait = error.retry_after().unwrap().as_secs_f64();
        assert!(wait > 0.0 && wait <= 30.0, "{wait}");
        assert!(error.hint().contains("come back in"), "{}", error.hint());
        assert!(engine.execute(&Caller::default(), bash("true"), Delivery::default()).await.is_ok(), "others may");
    });
    let (entry, details) = entries(&state).into_iter().find(|(entry, _)| entry.kind == "rejected").unwrap();
    assert_eq!((entry.caller.as_str(), entry.outcome.as_str()), ("a key", "rate_limited"));
    assert_eq!((&details["count"], &details["key"]), (&Value::from(1), &Value::from("k1")));
}

#[test]
fn a_flood_of_refusals_is_a_few_entries_that_count_all_of_them() {
    const FLOOD: usize = 2000;
    let state = folder("flood");
    let engine = engine_in(&state);
    let caller = key("k1", Allowance { per_minute: NonZeroU32::new(1), ..Allowance::default() });
    let counted = |state: &Path| -> u64 {
        let rejected = entries(state).into_iter().filter(|(entry, _)| entry.kind == "rejected");
        rejected.map(|(_, details)| details["count"].as_u64().unwrap()).sum()
    };
    block_on(async {
        engine.execute(&caller, bash("true"), Delivery::default()).await.unwrap();
        let knock = async || {
            let end = engine.execute(&caller, bash("true"), Delivery::default()).await;
            assert!(matches!(end, Err(RunError::Admission(_))), "{end:?}");
        };
        knock().await;
        assert_eq!(counted(&state), 1, "an answer left before its entry");
        let mut all: Vec<_> = (0..FLOOD).map(|_| Box::pin(knock())).collect();
        std::future::poll_fn(|context| {
            all.retain_mut(|one| one.as_mut().poll(context).is_pending());
            if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    });
    assert_eq!(counted(&state), FLOOD as u64 + 1);
    let rejected = entries(&state).into_iter().filter(|(entry, _)| entry.kind == "rejected").count();
    assert!(rejected <= 10, "{rejected} entries");
}

#[test]
fn too_much_at_once_and_too_long_a_line_are_busy() {
    let state = folder("busy");
    let mut settings = Settings { state: state.clone(), ..settings() };
    settings.pool.running = 1;
    settings.admission = AdmissionSettings { waiting: 1, ..AdmissionSettings::default() };
    let engine = Engine::open(settings).unwrap();
    let one = key("k1", Allowance { concurrent: NonZeroU32::new(1), ..Allowance::default() });
    let owner = Caller { name: "owner".to_owned(), ..Caller::default() };
    block_on(async {
        let (told, heard) = tokio::sync::oneshot::channel();
        let (cancel, cancelled) = tokio::sync::watch::channel(false);
        let mut live = Told(Some(told));
        let delivery = Delivery { live: Some(&mut live), cancel: Some(cancelled.clone()), ..Delivery::default() };
        let first = engine.execute(&one, bash("echo hi; sleep 60"), delivery);
        let ask = async || {
            let delivery = Delivery { cancel: Some(cancelled.clone()), ..Delivery::default() };
            engine.execute(&owner, bash("true"), delivery).await
        };
        let others = async {
            heard.await.unwrap();
            let (mut second, mut third) = (Box::pin(ask()), Box::pin(ask()));
            let (refused, in_line) = tokio::select! {
                end = &mut second => (end, third),
                end = &mut third => (end, second),
            };
            assert_eq!(refused.unwrap_err().code(), ErrorCode::Busy);
            let error = engine.execute(&one, bash("true"), Delivery::default()).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::Busy);
            assert!(error.retry_after().is_some());
            cancel.send_replace(true);
            in_line.await
        };
        let (first, in_line) = tokio::join!(first, others);
        assert_eq!((first.unwrap().outcome.name(), in_line.unwrap().outcome.name()), ("cancelled", "cancelled"));
    });
    let busy = entries(&state).into_iter().filter(|(entry, _)| entry.outcome == "busy").count();
    assert_eq!(busy, 2);
}

#[test]
fn a_policy_that_could_not_be_checked_leaves_an_entry() {
    let state = folder("policy");
    let engine = engine_in(&state);
    let request = ExecRequest { policy: Policy::Strict, ..bash("true") };
    let delivery = Delivery { live: Some(&mut Silence), ..Delivery::default() };
    // Refused by the check, or because there is none: either way it is told of and nothing ran.
    let _ = block_on(engine.execute(&Caller::default(), request, delivery));
    let (entry, details) = entries(&state).pop().unwrap();
    assert_eq!((details["policy"].as_str().unwrap(), entry.seq), ("strict", 1));
}
