//! Sessions in containers of a real Docker daemon. `scripts/test` starts one; by hand:
//!
//!     scripts/docker-engine run cargo test -p saggar-engine --test docker_sessions -- --ignored
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail loudly")]

mod common;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bollard::query_parameters::{ListContainersOptions, ListImagesOptions};
use common::sessions::{out, scratch, shell};
use engine::{
    Caller, CellSpec, Change, CommandSpec, DockerSettings, Engine, FileChange, FileKind, GuestUser, Heard, Onto, Reach,
    Running, Session, SessionSpec, Settings, SnapshotSpec, Spoken, TerminalSize,
};
use tokio::io::AsyncReadExt as _;
use types::{BackendKind, ErrorCode, ExecResult, GuestPath, Layer, LimitKind, LimitsSpec, Outcome};

fn host() -> String {
    std::env::var("SAGGAR_TEST_DOCKER").expect("SAGGAR_TEST_DOCKER names a daemon: see scripts/docker-engine")
}

fn image() -> String {
    std::env::var("SAGGAR_TEST_IMAGE").unwrap_or_else(|_| "saggar-test:latest".to_owned())
}

fn open(state: &Path) -> Engine {
    let docker = DockerSettings { host: Some(host()), image: Some(image()), ..DockerSettings::default() };
    Engine::open(Settings { state: state.to_path_buf(), docker, ..Settings::default() }).unwrap()
}

fn contained() -> SessionSpec {
    SessionSpec { backend: Some(BackendKind::Docker), ..SessionSpec::default() }
}

async fn create(engine: &Engine) -> Arc<Session> {
    engine.create_session(&Caller::default(), contained()).await.unwrap()
}

async fn exec(engine: &Engine, session: &Arc<Session>, command: CommandSpec) -> ExecResult {
    engine.exec_in_session(&Caller::default(), session, command, Spoken::default()).await.unwrap()
}

fn path(text: &str) -> GuestPath {
    GuestPath::new(text).unwrap()
}

async fn daemon() -> bollard::Docker {
    let address = host();
    let client =
        bollard::Docker::connect_with_unix(address.strip_prefix("unix://").unwrap(), 30, bollard::API_DEFAULT_VERSION);
    client.unwrap().negotiate_version().await.unwrap()
}

/// How many containers of a session there are, in whatever state.
async fn containers(session: &str) -> usize {
    let filters = HashMap::from([("label".to_owned(), vec!["dev.saggar.session".to_owned()])]);
    let options = ListContainersOptions { all: true, filters: Some(filters), ..ListContainersOptions::default() };
    let all = daemon().await.list_containers(Some(options)).await.unwrap();
    all.iter().filter(|one| one.labels.as_ref().unwrap()["dev.saggar.session"].starts_with(session)).count()
}

async fn image_is_there(id: &str) -> bool {
    let all = daemon().await.list_images(None::<ListImagesOptions>).await.unwrap();
    all.iter().any(|image| image.id == id)
}

/// Everything that a program says until its end, and how it ends.
async fn hear(running: &Arc<Running>) -> (String, Outcome) {
    let (mut listener, mut text) = (running.listen(), Vec::new());
    loop {
        match listener.next().await.unwrap() {
            Heard::Output(_, bytes) => text.extend_from_slice(&bytes),
            Heard::Lost(_) => {}
            Heard::Ended(outcome) => return (String::from_utf8_lossy(&text).into_owned(), outcome),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
async fn files_and_processes_of_one_command_are_there_for_the_next_and_nothing_is_left() {
    let engine = open(&scratch("docker-sessions"));
    let session = create(&engine).await;
    assert_eq!(out(&engine, &session, "echo hi > a; sleep 1000 >/dev/null 2>&1 & pwd").await, "/work\n");
    assert_eq!(out(&engine, &session, "cat a; cat /proc/[0-9]*/comm | grep -c sleep").await, "hi\n1\n");
    assert_eq!(
        out(&engine, &session, "cd; pwd; echo x > b; cat ~/b; id -u; touch /tmp/t").await,
        "/home/user\nx\n1000\n"
    );
    let second = create(&engine).await;
    let alone = out(&engine, &second, "ls /work /home/user /tmp; cat /proc/[0-9]*/comm | grep -c sleep || true").await;
    assert_eq!(alone, "/home/user:\n\n/tmp:\n\n/work:\n0\n", "nothing of one session is in another");
    for session in [&session, &second] {
        engine.kill_session(&Caller::default(), session.id()).await.unwrap();
    }
    drop(engine);
    assert_eq!((containers(session.id()).await, containers(second.id()).await), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
async fn a_command_is_what_any_run_is() {
    let engine = open(&scratch("docker-sessions"));
    let session = create(&engine).await;
    let result = exec(&engine, &session, shell("echo out; echo err >&2; exit 3")).await;
    assert_eq!(
        (result.outcome, result.stdout, result.stderr, result.backend),
        (Outcome::Exited { code: 3 }, "out\n".into(), "err\n".into(), BackendKind::Docker)
    );
    for layer in Layer::ALL.into_iter().filter(|layer| layer.is_wall()) {
        assert!(result.isolation.layers.contains(&layer), "{layer:?}");
    }
    assert!(result.isolation.missing.contains(&Layer::DiskQuota), "a watched disk is no quota");
    assert_eq!(exec(&engine, &session, shell("kill -TERM $$")).await.outcome, Outcome::Signaled { signal: 15 });
    let spoken =
        CommandSpec { stdin: "a\nb\n".into(), env: [("K".into(), "v".into())].into(), ..shell("cat; echo $K") };
    assert_eq!(exec(&engine, &session, spoken).await.stdout, "a\nb\nv\n");
    let large =
        CommandSpec { stdin: "x".repeat(3 << 20), ..shell("sleep 0.2; wc -c; head -c 3000000 /dev/zero | wc -c >&2") };
    let large = exec(&engine, &session, large).await;
    assert_eq!((large.stdout.trim(), large.stderr.trim()), ("3145728", "3000000"));
    let flood = exec(&engine, &session, shell("head -c 5000000 /dev/zero")).await;
    assert_eq!((flood.stdout_bytes, flood.stdout_truncated, flood.ok), (5_000_000, true, true));
    let missing = CommandSpec { argv: vec!["no-such-program".to_owned()], ..CommandSpec::default() };
    let refused = engine.exec_in_session(&Caller::default(), &session, missing, Spoken::default()).await;
    assert_eq!(refused.unwrap_err().code(), ErrorCode::ProgramMissing);
    let nowhere = CommandSpec { cwd: Some("/nowhere".to_owned()), ..shell("true") };
    let refused = engine.exec_in_session(&Caller::default(), &session, nowhere, Spoken::default()).await.unwrap_err();
    assert_eq!(refused.to_string(), "cwd `/nowhere` does not exist");
    let root = CommandSpec { user: GuestUser::Root, ..shell("true") };
    let refused = engine.exec_in_session(&Caller::default(), &session, root, Spoken::default()).await.unwrap_err();
    assert_eq!(refused.to_string(), "user `root` cannot be had in this session");
    let unknown = SessionSpec { image: Some("no-such-image:x".to_owned()), ..contained() };
    assert_eq!(engine.create_session(&Caller::default(), unknown).await.err().unwrap().code(), ErrorCode::NotFound);
}

/// What a program can find out about process 1, its own parent and the way to the engine; and what it can write to.
const PRY: &str = r#"
import os, socket
def tell(name, what):
    try: print(name, what())
    except Exception as e: print(name, type(e).__name__)
status = dict(line.split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
print("ids", os.getuid(), os.getgid(), os.getgroups())
print("caps", {status[c].strip() for c in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")})
print("nnp", status["NoNewPrivs"].strip(), "seccomp", status["Seccomp"].strip())
print("net", sorted(i for _, i in socket.if_nameindex()))
for path in ("/", "/usr", "/etc", "/opt/saggar", "/opt/saggar/init", "/dev", "/proc/sys/kernel/core_pattern"):
    tell(path, lambda: open(path if os.path.isfile(path) else path + "/x", "w"))
for pid in (1, os.getppid()):
    tell("mem", lambda: open(f"/proc/{pid}/mem", "rb"))
    tell("fd", lambda: os.listdir(f"/proc/{pid}/fd"))
    tell("env", lambda: open(f"/proc/{pid}/environ", "rb").read())
tell("kill", lambda: os.kill(1, 9))
print("open", sorted(os.listdir("/proc/self/fd"))[:4])
tell("chroot", lambda: os.chroot("/tmp"))
"#;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
async fn the_walls_hold_from_inside() {
    let engine = open(&scratch("docker-sessions"));
    let session = create(&engine).await;
    let spec = CommandSpec { argv: ["python3", "-c", PRY].map(str::to_owned).to_vec(), ..CommandSpec::default() };
    let result = exec(&engine, &session, spec).await;
    let seen = "ids 1000 1000 [1000]\ncaps {'0000000000000000'}\nnnp 1 seccomp 2\nnet ['lo']\n\
                / OSError\n/usr OSError\n/etc OSError\n/opt/saggar OSError\n/opt/saggar/init OSError\n\
                /dev PermissionError\n/proc/sys/kernel/core_pattern OSError\n\
                mem PermissionError\nfd PermissionError\nenv PermissionError\n\
                mem PermissionError\nfd PermissionError\nenv PermissionError\nkill None\n\
                open ['0', '1', '2', '3']\nchroot PermissionError\n";
    assert_eq!(result.stdout, seen, "{}", result.stderr);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
async fn limits_hold_for_each_command_and_for_the_whole() {
    let engine = open(&scratch("docker-sessions"));
    let limits = LimitsSpec { memory_mb: Some(128.0), pids: Some(40), disk_mb: Some(20.0), ..LimitsSpec::default() };
    let spec = SessionSpec { limits, ..contained() };
    let session = engine.create_session(&Caller::default(), spec).await.unwrap();
    let script = "setsid bash -c 'trap \"\" TERM; exec sleep 1001' & (setsid sleep 1001 &) ; sleep 1001";
    let late = CommandSpec { limits: LimitsSpec { wall_ms: Some(700.0), ..LimitsSpec::default() }, ..shell(script) };
    assert_eq!(exec(&engine, &session, late).await.outcome, Outcome::LimitExceeded { limit: LimitKind::Wall });
    assert_eq!(out(&engine, &session, "cat /proc/[0-9]*/comm | grep -c sleep || true").await, "0\n");
    let eats = shell("exec python3 -c 'x = []\nwhile True: x.append(bytearray(10 << 20))'");
    assert_eq!(exec(&engine, &session, eats).await.outcome, Outcome::LimitExceeded { limit: LimitKind::Memory });
    let forks = shell("for i in $(seq 100); do sleep 3 & done 2>&1 | head -3; ls /proc | grep -c '^[0-9]'; kill 0");
    exec(&engine, &session, forks).await;
    let fills = shell("while :; do head -c 1000000 /dev/zero >> /tmp/x; sleep 0.05; done");
    assert_eq!(exec(&engine, &session, fills).await.outcome, Outcome::LimitExceeded { limit: LimitKind::Disk });
    assert_eq!(out(&engine, &session, "rm /tmp/x; echo alive").await, "alive\n");
    // As fast as it can, and by a file without a name.
    let speeds = |file| {
        format!(
            "f = open('{file}', 'wb', buffering=0)\nimport os\nif '{file}' == 'n': os.unlink('n')\nfor _ in range(1000): f.write(b'z' * (1 << 20))"
        )
    };
    for file in ["n", "x"] {
        let fills =
            CommandSpec { argv: vec!["python3".to_owned(), "-c".to_owned(), speeds(file)], ..CommandSpec::default() };
        assert_eq!(exec(&engine, &session, fills).await.outcome, Outcome::LimitExceeded { limit: LimitKind::Disk });
    }
    let held = session.info_with_usage().await.unwrap().usage.unwrap().disk_bytes >> 20;
    assert!((20..400).contains(&held), "{held} MB");
    assert_eq!(out(&engine, &session, "rm x; echo alive").await, "alive\n");
    let usage = session.info_with_usage().await.unwrap().usage.unwrap();
    assert!(usage.usage.cpu_ms > 0.0 && usage.disk_bytes < 10 << 20, "{usage:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
async fn programs_in_the_background_and_at_a_terminal_are_spoken_with() {
    let engine = open(&scratch("docker-sessions"));
    let session = create(&engine).await;
    let caller = Caller::default();
    let command = CommandSpec {
        stdin_open: true,
        tag: Some("talker".to_owned()),
        ..shell("echo ready; read x; echo \"got $x\"; trap 'echo bye; exit 7' TERM; sleep 1000 & echo on; wait")
    };
    let running = engine.start_in_session(&caller, &session, command).await.unwrap();
    let mut listener = running.listen();
    let Some(Heard::Output(_, first)) = listener.next().await else { panic!() };
    assert_eq!(&*first, b"ready\n");
    running.write(b"one\n".to_vec()).await.unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"on\n") {
        let Some(Heard::Output(_, more)) = listener.next().await else { panic!("{said:?}") };
        said.extend_from_slice(&more);
    }
    assert_eq!(said, b"got one\non\n");
    // Its own number inside is what others see.
    assert!(out(&engine, &session, &format!("cat /proc/{}/comm", running.pid())).await.starts_with("bash"));
    session.process("talker").unwrap().control().signal(15).unwrap();
    assert_eq!(hear(&running).await, ("ready\ngot one\non\nbye\n".to_owned(), Outcome::Exited { code: 7 }));
    let spec = CommandSpec {
        terminal: Some(TerminalSize { columns: 81, rows: 25 }),
        ..shell("test -t 0 && test -t 1 && stty size < /dev/tty && read x && stty size && echo \"<$x>\"")
    };
    let running = engine.start_in_session(&caller, &session, spec).await.unwrap();
    let (mut listener, mut text) = (running.listen(), String::new());
    while !text.contains("25 81") {
        let Some(Heard::Output(_, bytes)) = listener.next().await else { panic!("{text}") };
        text.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    running.control().resize(TerminalSize { columns: 100, rows: 40 }).unwrap();
    running.write(b"word\n".to_vec()).await.unwrap();
    let (text, outcome) = hear(&running).await;
    assert!(text.contains("40 100") && text.contains("<word>"), "{text}");
    assert_eq!(outcome, Outcome::Exited { code: 0 });
    let endless = engine.start_in_session(&caller, &session, shell("(setsid sleep 1002 &); sleep 1002")).await.unwrap();
    endless.control().kill().unwrap();
    assert_eq!(hear(&endless).await.1, Outcome::Cancelled);
    assert_eq!(out(&engine, &session, "cat /proc/[0-9]*/comm | grep -c sleep || true").await, "0\n");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
async fn an_interpreter_keeps_its_variables_over_a_pause_and_a_snapshot() {
    let engine = open(&scratch("docker-sessions"));
    let session = create(&engine).await;
    let caller = Caller::default();
    let run = async |code: &str| {
        let cell = CellSpec { code: code.to_owned(), ..CellSpec::default() };
        let result = engine.run_in_session(&caller, &session, cell).await.unwrap();
        assert!(result.run.ok, "{result:?}");
        result
    };
    run("kept = {'a': 1}; open('made', 'w').write('before')").await;
    session.pause(&caller).await.unwrap();
    let paused = session.files().unwrap().stat(&path("/work/made")).await.unwrap_err();
    assert!(paused.to_string().contains("paused"), "{paused}");
    assert!(session.info_with_usage().await.is_ok(), "who asks about a paused session does not wait");
    session.resume(&caller).await.unwrap();
    assert!(format!("{:?}", run("kept").await).contains("'a': 1"));
    let writes = engine.start_in_session(&caller, &session, shell("exec 3>> log; echo on; sleep 1003")).await.unwrap();
    assert!(matches!(writes.listen().next().await, Some(Heard::Output(..))));
    let refused = engine.snapshot_session(&caller, session.id(), SnapshotSpec::default()).await.unwrap_err();
    assert!(refused.to_string().contains("/work/log"), "{refused}");
    let spec = SnapshotSpec { kill: true, name: Some("one".to_owned()), ..SnapshotSpec::default() };
    let snapshot = engine.snapshot_session(&caller, session.id(), spec).await.unwrap();
    assert_eq!(snapshot.backend, BackendKind::Docker);
    assert!(format!("{:?}", run("kept").await).contains("'a': 1"), "it goes on with its variables");
    run("open('made', 'w').write('after'); import os; os.makedirs('new/er'); os.remove('log')").await;
    assert_eq!(out(&engine, &session, "cat made; ls").await, "aftermade\nnew\n");
    engine.rollback_session(&caller, session.id(), "one").await.unwrap();
    assert_eq!(out(&engine, &session, "cat made; ls; stat -c %u made").await, "beforelog\nmade\n1000\n");
    assert_eq!(containers(session.id()).await, 1, "that which it stood on is gone");
    let forks = engine.fork_session(&caller, session.id(), 2, false).await.unwrap();
    for fork in &forks {
        let copy = engine.session(&caller, &fork.id).unwrap();
        assert_eq!(out(&engine, &copy, "cat made; echo own > made; cat made").await, "beforeown\n");
    }
    assert_eq!(out(&engine, &session, "cat made").await, "before");
    let from = SessionSpec { from: Some("one".to_owned()), ..SessionSpec::default() };
    let again = engine.create_session(&caller, from).await.unwrap();
    assert_eq!(again.info().backend, BackendKind::Docker, "a snapshot brings its backend");
    let native = engine.create_session(&caller, SessionSpec::default()).await.unwrap();
    let other = engine.rollback_session(&caller, native.id(), "one").await.unwrap_err();
    assert_eq!(other.code(), ErrorCode::InvalidRequest);
    engine.end_sessions().await;
    let kept: BTreeMap<String, String> =
        engine.list_snapshots(&caller).unwrap().into_iter().map(|one| (one.id, one.state)).collect();
    assert_eq!(kept.len(), 2, "one was made by name, one by the fork");
    for (id, state) in kept {
        let image = state.rsplit('@').next().unwrap().to_owned();
        assert!(image_is_there(&image).await);
        engine.delete_snapshot(&caller, &id).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
async fn files_are_put_got_listed_moved_watched_and_archived() {
    let engine = open(&scratch("docker-sessions"));
    let session = create(&engine).await;
    let files = session.files().unwrap();
    let content: Vec<u8> = (0..=255_u8).cycle().take(1_000_003).collect();
    let put = files.write(&path("/work/a/b/data.bin"), GuestUser::User, 0o640, &mut &content[..]).await.unwrap();
    assert_eq!(put, 1_000_003);
    let mut stream = files.read(&path("/work/a/b/data.bin")).await.unwrap();
    let mut got = Vec::new();
    stream.content.read_to_end(&mut got).await.unwrap();
    assert!(stream.bytes == 1_000_003 && got == content);
    let entry = files.stat(&path("/work/a/b/data.bin")).await.unwrap();
    assert_eq!((entry.kind, entry.mode, entry.uid, entry.bytes), (FileKind::File, 0o640, 1000, 1_000_003));
    files.make_folder(&path("/work/empty"), GuestUser::User).await.unwrap();
    assert!(files.make_folder(&path("/work/empty"), GuestUser::User).await.is_err());
    files.rename(&path("/work/a/b/data.bin"), &path("/work/c/moved")).await.unwrap();
    let listed = files.list(&path("/work"), 3).await.unwrap();
    let names: Vec<&str> = listed.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(names, ["/work/a", "/work/a/b", "/work/c", "/work/c/moved", "/work/empty"]);
    files.remove(&path("/work/a")).await.unwrap();
    files.remove(&path("/work/a")).await.unwrap();
    for bad in ["/work/a", "/work/none"] {
        assert_eq!(files.stat(&path(bad)).await.unwrap_err().code(), ErrorCode::NotFound);
    }
    for refused in ["/etc/passwd", "/usr/bin/x", "/proc/self/environ"] {
        assert!(files.write(&path(refused), GuestUser::User, 0o644, &mut &b"x"[..]).await.is_err(), "{refused}");
    }
    assert!(files.read(&path("/proc/self/environ")).await.is_err(), "what the kernel tells is no file");
    // A link leads where it leads to inside.
    out(&engine, &session, "ln -s /etc/hostname link; ln -s ../../../../../../etc/passwd up; mkfifo pipe").await;
    let mut passwd = String::new();
    files.read(&path("/work/up")).await.unwrap().content.read_to_string(&mut passwd).await.unwrap();
    assert_eq!(passwd, out(&engine, &session, "cat /etc/passwd").await);
    assert!(files.read(&path("/work/pipe")).await.is_err());
    let mut tar = Vec::new();
    files.pack(&path("/work/c")).await.unwrap().read_to_end(&mut tar).await.unwrap();
    let unpacked = files.unpack(&path("/home/user/x"), GuestUser::User, 100, &mut &tar[..]).await.unwrap();
    assert_eq!((unpacked.entries, unpacked.bytes), (1, 1_000_003));
    let same = out(&engine, &session, "cmp c/moved ~/x/moved && echo same").await;
    assert_eq!(same, "same\n");
    assert!(files.unpack(&path("/work/y"), GuestUser::User, 100, &mut &tar[..700]).await.is_err());
    let mut watch = files.watch(&path("/work/c"), Reach::All).await.unwrap();
    // It is looked at from time to time: what comes is there when it was looked at.
    for (script, expected) in [
        ("mkdir c/d", vec![(FileChange::Create, "/work/c/d")]),
        ("echo 1 > c/d/f", vec![(FileChange::Create, "/work/c/d/f"), (FileChange::Write, "/work/c/d/f")]),
        ("mv c/d/f c/g", vec![(FileChange::Rename, "/work/c/d/f")]),
        ("rm c/g", vec![(FileChange::Remove, "/work/c/g")]),
    ] {
        out(&engine, &session, script).await;
        for wanted in expected {
            let event = tokio::time::timeout(Duration::from_secs(20), watch.recv()).await.unwrap().unwrap();
            assert_eq!((event.change, event.path.as_str()), wanted);
        }
    }
}

/// Paths and what happened to them.
fn told(found: &engine::Differences) -> Vec<(&str, Change)> {
    found.entries.iter().map(|one| (one.path.as_str(), one.change)).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
async fn snapshots_are_compared_exported_and_imported() {
    let engine = open(&scratch("docker-sessions"));
    let caller = Caller::default();
    let session = create(&engine).await;
    let make = "mkdir -p d/e; echo 1 > d/e/f; ln d/e/f hard; ln -s /etc/passwd link; echo x > ~/own; touch old; \
                chmod 600 old; echo secret > shut; chmod 000 shut; mkfifo pipe";
    out(&engine, &session, make).await;
    let named = |name: &str| SnapshotSpec { name: Some(name.to_owned()), ..SnapshotSpec::default() };
    let first = engine.snapshot_session(&caller, session.id(), named("first")).await.unwrap();
    out(&engine, &session, "echo 2 > d/e/f; rm old; mkdir new; chmod 755 ~/own; echo t > /tmp/t").await;
    let changes = [
        ("/home/user/own", Change::Changed),
        ("/tmp/t", Change::Added),
        ("/work/d/e/f", Change::Changed),
        ("/work/hard", Change::Changed),
        ("/work/new", Change::Added),
        ("/work/old", Change::Removed),
    ];
    let found = engine.diff(&caller, "first", session.id()).await.unwrap();
    assert_eq!(told(&found), changes, "a snapshot and a session as it is");
    let again = engine.diff(&caller, session.id(), session.id()).await.unwrap();
    assert!(told(&again).is_empty(), "nothing is changed by looking");
    let second = engine.snapshot_session(&caller, session.id(), named("second")).await.unwrap();
    assert_eq!(told(&engine.diff(&caller, "first", "second").await.unwrap()), changes);
    let native = SessionSpec { backend: Some(BackendKind::Native), ..SessionSpec::default() };
    let native = engine.create_session(&caller, native).await.unwrap();
    let mixed = engine.diff(&caller, "first", native.id()).await.unwrap_err();
    assert_eq!(mixed.code(), ErrorCode::InvalidRequest);

    let mut archive = engine.export_snapshot(&caller, "second").await.unwrap();
    let mut bytes = Vec::new();
    archive.content.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(archive.bytes, bytes.len() as u64);
    let onto = Onto { backend: Some(BackendKind::Docker), image: None };
    let layer = std::io::Cursor::new(bytes.clone());
    let back = engine.import_snapshot(&caller, named("back"), onto.clone(), layer).await.unwrap();
    assert_eq!(told(&engine.diff(&caller, "second", "back").await.unwrap()), [("/work/pipe", Change::Removed)]);
    let spec = SessionSpec { from: Some("back".to_owned()), ..SessionSpec::default() };
    let copy = engine.create_session(&caller, spec).await.unwrap();
    let seen = "cat d/e/f hard ~/own /tmp/t; readlink link; stat -c '%a %U' shut; ls";
    assert_eq!(out(&engine, &copy, seen).await, "2\n2\nx\nt\n/etc/passwd\n0 sandbox\nd\nhard\nlink\nnew\nshut\n");
    // The same layer stands on this host's own programs as well.
    let kept_here = Onto { backend: Some(BackendKind::Native), image: None };
    engine.import_snapshot(&caller, named("here"), kept_here, std::io::Cursor::new(bytes)).await.unwrap();
    let spec = SessionSpec { from: Some("here".to_owned()), ..SessionSpec::default() };
    let here = engine.create_session(&caller, spec).await.unwrap();
    assert_eq!(out(&engine, &here, "cat d/e/f ~/own; ls").await, "2\nx\nd\nhard\nlink\nnew\nshut\n");

    let broken = engine.import_snapshot(&caller, named("no"), onto.clone(), &b"no archive at all, but long"[..]).await;
    assert!(broken.is_err());
    // Only its header: nobody reads as far as what it speaks of.
    let mut header = tar::Header::new_gnu();
    header.set_path("work/large").unwrap();
    header.set_size(2 << 30);
    header.set_mode(0o644);
    header.set_cksum();
    let large = std::io::Cursor::new(header.as_bytes().to_vec());
    let full = engine.import_snapshot(&caller, named("no"), onto, large).await;
    assert_eq!(full.unwrap_err().code(), ErrorCode::ResourcesExhausted, "more than a session's disk may hold");
    assert!(engine.snapshot(&caller, "no").is_err());
    engine.end_sessions().await;
    for snapshot in [&first.id, &second.id, &back.id] {
        engine.delete_snapshot(&caller, snapshot).await.unwrap();
    }
}
