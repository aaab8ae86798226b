//! Sessions: a place that stays, its processes and its files.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use engine::{
    Caller, CommandSpec, Engine, GuestUser, Heard, Reader, Running, Session, SessionError, SessionSpec, Settings,
    SnapshotSpec, Spoken, Standing, Stream, TerminalSize,
};
use types::{ErrorCode, ExecResult, GuestPath, Layer, LimitKind, LimitsSpec, Outcome};

/// A state folder of its own.
fn scratch() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sessions-{}-{number}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    path
}

fn open(state: &Path) -> Engine {
    Engine::open(Settings { state: state.to_path_buf(), ..Settings::default() }).unwrap()
}

async fn create(engine: &Engine) -> Arc<Session> {
    engine.create_session(&Caller::default(), SessionSpec::default()).await.unwrap()
}

fn shell(script: &str) -> CommandSpec {
    CommandSpec { argv: ["bash", "-c", script].map(str::to_owned).to_vec(), ..CommandSpec::default() }
}

async fn exec(engine: &Engine, session: &Arc<Session>, command: CommandSpec) -> ExecResult {
    engine.exec_in_session(&Caller::default(), session, command, Spoken::default()).await.unwrap()
}

async fn out(engine: &Engine, session: &Arc<Session>, script: &str) -> String {
    let result = exec(engine, session, shell(script)).await;
    assert!(result.ok, "{script}: {result:?}");
    result.stdout
}

fn path(text: &str) -> GuestPath {
    GuestPath::new(text).unwrap()
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

fn is_root() -> bool {
    rustix_uid() == 0
}

fn rustix_uid() -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self").unwrap().uid()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_processes_of_one_command_are_there_for_the_next() {
    let state = scratch();
    let engine = open(&state);
    let session = create(&engine).await;
    assert_eq!(out(&engine, &session, "echo hi > a; sleep 1000 >/dev/null 2>&1 & pwd").await, "/work\n");
    assert_eq!(out(&engine, &session, "cat a; cat /proc/[0-9]*/comm | grep -c sleep").await, "hi\n1\n");
    let home = out(&engine, &session, "cd; pwd; echo x > b; cat ~/b; id -un; id -u; touch /tmp/t").await;
    assert_eq!(home, "/home/user\nx\nuser\n1000\n");
    let second = create(&engine).await;
    let alone = out(&engine, &second, "ls /work /home/user /tmp; cat /proc/[0-9]*/comm | grep -c sleep || true").await;
    assert_eq!(alone, "/home/user:\n\n/tmp:\n\n/work:\n0\n", "nothing of one session is in another");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_what_any_run_is() {
    let engine = open(&scratch());
    let session = create(&engine).await;
    let result = exec(&engine, &session, shell("echo out; echo err >&2; exit 3")).await;
    assert_eq!(
        (result.outcome, result.stdout, result.stderr),
        (Outcome::Exited { code: 3 }, "out\n".into(), "err\n".into())
    );
    for layer in [Layer::UserNs, Layer::NoNewPrivs, Layer::Seccomp, Layer::CapsDropped, Layer::MountNs, Layer::NetNs] {
        assert!(result.isolation.layers.contains(&layer), "{layer:?}");
    }
    assert!(result.isolation.missing.contains(&Layer::DiskQuota), "a watched disk is no quota");
    let killed = exec(&engine, &session, shell("kill -TERM $$")).await;
    assert_eq!(killed.outcome, Outcome::Signaled { signal: 15 });
    let spec =
        CommandSpec { stdin: "a\nb\n".into(), env: [("K".to_owned(), "v".to_owned())].into(), ..shell("cat; echo $K") };
    assert_eq!(exec(&engine, &session, spec).await.stdout, "a\nb\nv\n");
    let missing = CommandSpec { argv: vec!["no-such-program".to_owned()], ..CommandSpec::default() };
    let refused = engine.exec_in_session(&Caller::default(), &session, missing, Spoken::default()).await;
    assert_eq!(refused.unwrap_err().code(), ErrorCode::ProgramMissing);
    let nowhere = CommandSpec { cwd: Some("/nowhere".to_owned()), ..shell("true") };
    let refused = engine.exec_in_session(&Caller::default(), &session, nowhere, Spoken::default()).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.to_string()),
        (ErrorCode::InvalidRequest, "cwd `/nowhere` does not exist".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_command_is_killed_with_all_that_it_started_and_the_session_lives() {
    let engine = open(&scratch());
    let session = create(&engine).await;
    let script = "setsid bash -c 'trap \"\" TERM; exec sleep 1001' & (setsid sleep 1001 &) ; sleep 1001";
    let late = CommandSpec { limits: LimitsSpec { wall_ms: Some(700.0), ..LimitsSpec::default() }, ..shell(script) };
    let result = exec(&engine, &session, late).await;
    assert_eq!(result.outcome, Outcome::LimitExceeded { limit: LimitKind::Wall });
    assert_eq!(result.limits_hit, [LimitKind::Wall]);
    let left = out(&engine, &session, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 1001' || true").await;
    assert_eq!(left.lines().count(), 1, "{left}");
    let names = out(&engine, &session, "cat /proc/[0-9]*/comm | grep -c '^sleep$' || true").await;
    assert_eq!(names, "0\n", "even those who left its group and its session");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_in_the_background_is_listed_reconnected_written_to_and_killed() {
    let engine = open(&scratch());
    let session = create(&engine).await;
    let caller = Caller::default();
    let spec = CommandSpec {
        stdin_open: true,
        tag: Some("echo".to_owned()),
        ..shell("echo ready; while read line; do echo got $line; done; echo bye; exec sleep 1000")
    };
    let running = engine.start_in_session(&caller, &session, spec).await.unwrap();
    let listed = session.processes();
    assert_eq!((listed.len(), listed[0].pid, listed[0].background), (1, running.pid(), true));
    assert_eq!(out(&engine, &session, &format!("kill -0 {} && echo there", running.pid())).await, "there\n");
    running.write(b"one\n".to_vec()).await.unwrap();
    running.close_input();
    // Whoever comes later hears it from the beginning.
    let again = session.process("echo").unwrap();
    let (mut listener, mut text) = (again.listen(), String::new());
    while !text.ends_with("bye\n") {
        let Some(Heard::Output(Stream::Out, bytes)) = listener.next().await else { panic!("{text}") };
        text.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    assert_eq!(text, "ready\ngot one\nbye\n");
    running.control().kill().unwrap();
    assert_eq!(hear(&again).await, ("ready\ngot one\nbye\n".to_owned(), Outcome::Cancelled));
    assert!(matches!(running.write(b"x".to_vec()).await, Err(SessionError::NoInput)));
    assert!(matches!(session.process("nobody"), Err(SessionError::NoProcess(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_a_terminal() {
    let engine = open(&scratch());
    let session = create(&engine).await;
    let spec = CommandSpec {
        terminal: Some(TerminalSize { columns: 81, rows: 25 }),
        ..shell("test -t 0 && test -t 1 && stty size < /dev/tty && read x && stty size && echo \"<$x>\"")
    };
    let running = engine.start_in_session(&Caller::default(), &session, spec).await.unwrap();
    let mut listener = running.listen();
    let mut text = String::new();
    while !text.contains("25 81") {
        let Some(Heard::Output(_, bytes)) = listener.next().await else { panic!("{text}") };
        text.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    running.control().resize(TerminalSize { columns: 100, rows: 40 }).unwrap();
    running.write(b"word\n".to_vec()).await.unwrap();
    let (text, outcome) = hear(&running).await;
    assert!(text.contains("40 100") && text.contains("<word>"), "{text}");
    assert_eq!(outcome, Outcome::Exited { code: 0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn root_inside_may_own_what_the_user_may_not_change_and_is_nobody_outside() {
    if !is_root() {
        eprintln!("skipped: one user only, without root");
        return;
    }
    let engine = open(&scratch());
    let session = create(&engine).await;
    let root = |script: &str| CommandSpec { user: GuestUser::Root, ..shell(script) };
    let made = exec(&engine, &session, root("id -u; mkdir /tmp/r; echo x > /tmp/r/f; chmod 600 /tmp/r/f; grep Cap /proc/self/status | tail -2; chown 1000 /tmp/r")).await;
    assert!(made.stdout.starts_with("0\n"), "{made:?}");
    assert!(made.stdout.contains("CapAmb:\t0000000000000000"), "{made:?}");
    let denied = exec(&engine, &session, shell("cat /tmp/r/f")).await;
    assert_eq!(denied.outcome, Outcome::Exited { code: 1 });
    for script in [
        "mount -t tmpfs x /mnt",
        "echo 1 > /proc/sys/kernel/panic",
        "mknod /tmp/m b 8 0",
        "touch /usr/x",
        "kill -9 1; kill -0 1 && exit 9 || exit 1",
        "unshare -m true",
        "cat /proc/1/environ",
    ] {
        let result = exec(&engine, &session, root(script)).await;
        assert!(!result.ok || script.starts_with("kill"), "{script}: {result:?}");
    }
    assert_eq!(
        out(&engine, &session, "grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status").await,
        "CapEff:\t0000000000000000\nNoNewPrivs:\t1\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn files_go_in_and_out_and_no_link_leads_to_the_host() {
    let state = scratch();
    let engine = open(&state);
    let session = create(&engine).await;
    let files = session.files().unwrap();
    let bytes: Vec<u8> = (0..700_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let written = files.write(&path("/work/deep/er/x.bin"), GuestUser::User, 0o644, &mut &bytes[..]).await.unwrap();
    assert_eq!(written, 700_000);
    assert_eq!(
        out(&engine, &session, "cd deep/er; stat -c '%U %a %s' x.bin; stat -c %U ..").await,
        "user 644 700000\nuser\n"
    );
    let mut back = files.read(&path("/work/deep/er/x.bin")).await.unwrap();
    let mut content = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut back.content, &mut content).await.unwrap();
    assert!(content == bytes);

    let secret = state.join("secret");
    fs::write(&secret, "host").unwrap();
    let links = format!(
        "ln -s / up; ln -s {0} abs; ln -s ../../../../../../../../../../../../..{0} rel; ln -s /proc/1/root proc; mkfifo pipe; ln -s /dev/zero zero",
        secret.display()
    );
    out(&engine, &session, &links).await;
    for leak in ["/work/abs", "/work/rel", "/work/proc", "/work/pipe", "/work/zero", "/proc/1/environ"] {
        assert!(files.read(&path(leak)).await.is_err(), "{leak}");
    }
    let through = format!("/work/up{}", secret.display());
    assert!(files.read(&path(&through)).await.is_err());
    assert!(files.write(&path("/work/up/etc/passwd"), GuestUser::User, 0o644, &mut &b"x"[..]).await.is_err());
    assert!(files.write(&path("/work/abs"), GuestUser::User, 0o644, &mut &b"guest"[..]).await.is_err());
    assert_eq!(fs::read_to_string(&secret).unwrap(), "host");

    let listed = files.list(&path("/work"), 3).await.unwrap();
    let names: Vec<&str> = listed.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(names[..4], ["/work/abs", "/work/deep", "/work/deep/er", "/work/deep/er/x.bin"]);
    let stat = files.stat(&path("/work/deep/er/x.bin")).await.unwrap();
    assert_eq!((stat.bytes, stat.uid, stat.mode), (700_000, 1000, 0o644));
    files.rename(&path("/work/deep/er/x.bin"), &path("/work/new/y.bin")).await.unwrap();
    assert_eq!(
        files.make_folder(&path("/work/new"), GuestUser::User).await.unwrap_err().code(),
        ErrorCode::InvalidRequest
    );
    files.remove(&path("/work/deep")).await.unwrap();
    files.remove(&path("/work/deep")).await.unwrap();
    assert_eq!(files.stat(&path("/work/deep")).await.unwrap_err().code(), ErrorCode::NotFound);
    assert_eq!(out(&engine, &session, "ls new; ls -d deep 2>/dev/null || echo gone").await, "y.bin\ngone\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_runs_out_takes_the_program_and_not_the_session() {
    let engine = open(&scratch());
    let limits = LimitsSpec { memory_mb: Some(100.0), ..LimitsSpec::default() };
    let spec = SessionSpec { limits, ..SessionSpec::default() };
    let session = engine.create_session(&Caller::default(), spec).await.unwrap();
    if session.info().isolation.missing.contains(&Layer::CgroupMemory) {
        eprintln!("skipped: nobody counts memory here");
        return;
    }
    let greedy = exec(&engine, &session, shell("exec python3 -c 'x = bytearray(300 << 20)'")).await;
    assert_eq!(greedy.outcome, Outcome::LimitExceeded { limit: LimitKind::Memory }, "{greedy:?}");
    assert_eq!(out(&engine, &session, "echo alive").await, "alive\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_over_its_limit_stops_what_fills_it() {
    let engine = open(&scratch());
    let limits = LimitsSpec { disk_mb: Some(20.0), ..LimitsSpec::default() };
    let spec = SessionSpec { limits, ..SessionSpec::default() };
    let session = engine.create_session(&Caller::default(), spec).await.unwrap();
    let fill = "i=0; while true; do dd if=/dev/zero of=f$i bs=1M count=2 2>/dev/null; i=$((i+1)); sleep 0.02; done";
    let result = exec(&engine, &session, shell(fill)).await;
    assert_eq!(result.outcome, Outcome::LimitExceeded { limit: LimitKind::Disk }, "{result:?}");
    assert_eq!(session.files_to_write(&Caller::default()).await.err().unwrap().code(), ErrorCode::ResourcesExhausted);
    assert_eq!(out(&engine, &session, "rm -f f*; ls").await, "", "what makes room may run");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_left_running_fills_no_disk_either() {
    let engine = open(&scratch());
    let limits = LimitsSpec { disk_mb: Some(20.0), ..LimitsSpec::default() };
    let spec = SessionSpec { limits, ..SessionSpec::default() };
    let session = engine.create_session(&Caller::default(), spec).await.unwrap();
    let fill = "while true; do dd if=/dev/zero bs=1M count=2 2>/dev/null >> f; sleep 0.02; done";
    out(&engine, &session, &format!("setsid bash -c '{fill}' >/dev/null 2>&1 &")).await;
    // Nobody asks anything of the session meanwhile.
    let start = Instant::now();
    while session.files_to_write(&Caller::default()).await.is_ok() {
        assert!(start.elapsed() < Duration::from_secs(30), "nobody looks at its disk");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let left = async || out(&engine, &session, "ls -d /proc/[0-9]* | wc -l").await.trim().parse::<u32>().unwrap();
    // Init, the parent of this command, a shell and its two programs.
    while left().await > 5 {
        assert!(start.elapsed() < Duration::from_mins(1), "it goes on");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processor_time_is_the_sessions_and_its_end_is_told() {
    let engine = open(&scratch());
    let limits = LimitsSpec { cpu_ms: Some(700.0), ..LimitsSpec::default() };
    let spec = SessionSpec { limits, ..SessionSpec::default() };
    let session = engine.create_session(&Caller::default(), spec).await.unwrap();
    let burn = "(while :; do :; done) & (while :; do :; done) & wait";
    let result = exec(&engine, &session, shell(burn)).await;
    assert_eq!(result.outcome, Outcome::LimitExceeded { limit: LimitKind::Cpu }, "{result:?}");
    assert_eq!(session.info().state, engine::SessionState::Running, "the session itself stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_at_its_time_or_when_nobody_needs_it_and_leaves_nothing() {
    let state = scratch();
    let engine = open(&state);
    let caller = Caller::default();
    let short = SessionSpec { ttl_ms: Some(300), ..SessionSpec::default() };
    let idle = SessionSpec { idle_ms: Some(100), ..SessionSpec::default() };
    let killed = create(&engine).await;
    for spec in [short, idle] {
        let session = engine.create_session(&caller, spec).await.unwrap();
        let start = Instant::now();
        while engine.session(&caller, session.id()).is_ok() {
            assert!(start.elapsed() < Duration::from_secs(20), "it lives on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let error = engine.exec_in_session(&caller, &session, shell("true"), Spoken::default()).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::NotFound);
    }
    engine.kill_session(&caller, killed.id()).await.unwrap();
    assert!(engine.list_sessions(&caller).is_empty());
    let start = Instant::now();
    let left =
        || fs::read_dir(state.join("sessions")).unwrap().flatten().map(|entry| entry.file_name()).collect::<Vec<_>>();
    while left() != ["skeleton"] {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", left());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let trail = Reader::open(&state).unwrap();
    let acts: Vec<String> =
        trail.newest(&engine::Filter::default(), 20).unwrap().into_iter().map(|entry| entry.outcome).collect();
    for act in ["created", "expired", "idle", "killed"] {
        assert!(acts.iter().any(|known| known == act), "{act}: {acts:?}");
    }
}

/// Whether every process with `mark` in its command line is stopped, or in a group that is frozen.
fn stand_still(mark: &str) -> bool {
    let is_still = |pid: &Path| {
        let stat = fs::read_to_string(pid.join("stat")).unwrap_or_default();
        let stopped = stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'));
        let group = fs::read_to_string(pid.join("cgroup")).unwrap_or_default();
        let group = group.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default().to_owned();
        let events = fs::read_to_string(format!("/sys/fs/cgroup{group}/cgroup.events")).unwrap_or_default();
        stopped || events.lines().any(|line| line == "frozen 1")
    };
    let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let marked = |pid: &PathBuf| {
        fs::read(pid.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(&format!(": {mark}")))
    };
    let found: Vec<PathBuf> = all.filter(marked).collect();
    !found.is_empty() && found.iter().all(|pid| is_still(pid))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_session_stands_still_and_goes_on_with_its_memory() {
    let engine = open(&scratch());
    let session = create(&engine).await;
    let caller = Caller::default();
    let mark = format!("counting-{}", std::process::id());
    let counting = format!("i=0; while true; do i=$((i+1)); echo $i > n; sleep 0.01; done; : {mark}");
    engine.start_in_session(&caller, &session, shell(&counting)).await.unwrap();
    let files = session.files().unwrap();
    let count = async || {
        let mut text = String::new();
        let mut read = files.read(&path("/work/n")).await.ok()?;
        tokio::io::AsyncReadExt::read_to_string(&mut read.content, &mut text).await.ok()?;
        text.trim().parse::<u64>().ok()
    };
    let start = Instant::now();
    while count().await.is_none_or(|n| n < 3) {
        assert!(start.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    session.pause(&caller).await.unwrap();
    let refused = engine.exec_in_session(&caller, &session, shell("true"), Spoken::default()).await;
    assert!(matches!(refused, Err(SessionError::Paused)));
    // The signal may still be under way, but every process has it, or is frozen, before long.
    let start = Instant::now();
    while !stand_still(&mark) {
        assert!(start.elapsed() < Duration::from_secs(20), "somebody still runs");
        tokio::task::yield_now().await;
    }
    // Whoever stands still has no way to write.
    let before = count().await;
    session.resume(&caller).await.unwrap();
    let resumed = Instant::now();
    while count().await.unwrap_or(0) <= before.unwrap_or(0) {
        assert!(resumed.elapsed() < Duration::from_secs(20), "it stands still");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_sees_its_own_sessions_only() {
    let engine = open(&scratch());
    let key = |id: &str| Caller {
        name: "http".to_owned(),
        standing: Standing::Key { id: id.to_owned(), allowance: None },
        ..Caller::default()
    };
    let session = engine.create_session(&key("a"), SessionSpec::default()).await.unwrap();
    assert!(engine.session(&key("a"), session.id()).is_ok());
    assert!(matches!(engine.session(&key("b"), session.id()), Err(SessionError::Missing(_))));
    assert!(engine.list_sessions(&key("b")).is_empty());
    assert_eq!(engine.list_sessions(&Caller::default()).len(), 1, "the machine's owner sees all");
}

/// Every file of `/work` with its hash, and every link, as a program inside sees them.
async fn tree(engine: &Engine, session: &Arc<Session>) -> String {
    out(engine, session, "find . -type f -exec sha256sum {} + | sort; find . -printf '%p %m %u %l\\n' | sort").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_brings_every_byte_back_and_shares_them_with_forks() {
    let state = scratch();
    let engine = open(&state);
    let caller = Caller::default();
    let session = create(&engine).await;
    let make = "mkdir -p a/b; for i in $(seq 200); do echo $i > a/f$i; done; head -c 3000000 /dev/urandom > a/b/big; ln -s ../x a/link; chmod 700 a/b; echo keep > ~/h";
    out(&engine, &session, make).await;
    let before = tree(&engine, &session).await;
    let named = SnapshotSpec { name: Some("before".to_owned()), ..SnapshotSpec::default() };
    let snapshot = engine.snapshot_session(&caller, session.id(), named).await.unwrap();
    assert!(snapshot.bytes > Some(3_000_000), "{snapshot:?}");
    assert_eq!(tree(&engine, &session).await, before, "the session goes on with its files");
    out(
        &engine,
        &session,
        "rm -rf a/b a/f1; echo changed > a/f2; echo new > n; mv a/f3 a/moved; mkdir a/b; echo o > a/b/other",
    )
    .await;
    let after = tree(&engine, &session).await;
    assert_ne!(after, before);
    let copies = engine.fork_session(&caller, session.id(), 2, false).await.unwrap();
    engine.rollback_session(&caller, session.id(), "before").await.unwrap();
    assert_eq!(tree(&engine, &session).await, before, "byte by byte");
    assert_eq!(out(&engine, &session, "cat ~/h").await, "keep\n");
    for copy in copies {
        let copy = engine.session(&caller, &copy.id).unwrap();
        assert_eq!(tree(&engine, &copy).await, after);
        out(&engine, &copy, "echo mine > only-here").await;
    }
    assert_eq!(tree(&engine, &session).await, before, "what a fork writes is its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_outlive_their_session_and_their_server() {
    let state = scratch();
    let caller = Caller::default();
    let id = {
        let engine = open(&state);
        let session = create(&engine).await;
        for round in 0..12 {
            out(&engine, &session, &format!("echo {round} > r{round}; rm -f r{}", round - 3)).await;
            engine.snapshot_session(&caller, session.id(), SnapshotSpec::default()).await.unwrap();
        }
        let last = engine.list_snapshots(&caller).unwrap().pop().unwrap();
        engine.kill_session(&caller, session.id()).await.unwrap();
        last.id
    };
    let engine = open(&state);
    let spec = SessionSpec { from: Some(id.clone()), ..SessionSpec::default() };
    let session = engine.create_session(&caller, spec).await.unwrap();
    assert_eq!(out(&engine, &session, "ls; cat r11").await, "r10\nr11\nr9\n11\n");
    engine.prune(engine::Prune::Unused).unwrap();
    assert_eq!(out(&engine, &session, "cat r9").await, "9\n", "what is in use is not removed");
    engine.delete_snapshot(&caller, &id).await.unwrap();
    let missing = SessionSpec { from: Some(id), ..SessionSpec::default() };
    let Err(error) = engine.create_session(&caller, missing).await else { panic!("it is deleted") };
    assert_eq!(error.code(), ErrorCode::NotFound);
    let strange = Caller { standing: Standing::Key { id: "k".to_owned(), allowance: None }, ..Caller::default() };
    assert!(engine.list_snapshots(&strange).unwrap().is_empty(), "a key sees its own");
}
