//! Runs in containers of a real Docker daemon. `scripts/test` starts one; by hand:
//!
//!     scripts/docker-engine run cargo test -p saggar-engine --test docker -- --ignored
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail loudly")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bollard::query_parameters::ListContainersOptions;
use engine::{Caller, Delivery, DockerSettings, Engine, Made, Receive, Received, RunError, Settings, Standing, Stdin};
use tokio::sync::{mpsc, watch};
use types::{
    BackendKind, Change, ErrorCode, ExecRequest, ExecResult, FileContent, InputFile, Layer, LimitKind, LimitsSpec,
    Outcome, RelPath,
};

fn host() -> String {
    std::env::var("SAGGAR_TEST_DOCKER").expect("SAGGAR_TEST_DOCKER names a daemon: see scripts/docker-engine")
}

fn image() -> String {
    std::env::var("SAGGAR_TEST_IMAGE").unwrap_or_else(|_| "saggar-test:latest".to_owned())
}

fn settings() -> Settings {
    let docker = DockerSettings { host: Some(host()), image: Some(image()), ..DockerSettings::default() };
    Settings { docker, ..common::settings() }
}

fn engine() -> Engine {
    Engine::open(settings()).unwrap()
}

fn contained(request: ExecRequest) -> ExecRequest {
    ExecRequest { backend: Some(BackendKind::Docker), ..request }
}

fn python(code: &str) -> ExecRequest {
    contained(common::python(code))
}

fn bash(code: &str) -> ExecRequest {
    contained(common::bash(code))
}

fn limited(request: ExecRequest, limits: LimitsSpec) -> ExecRequest {
    ExecRequest { limits, ..request }
}

async fn run(engine: &Engine, request: ExecRequest) -> ExecResult {
    engine.execute(&Caller::default(), request, Delivery::default()).await.unwrap()
}

/// Tests look at what is left at the daemon: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Containers of this process that are there, in whatever state.
async fn containers() -> usize {
    let address = host();
    let path = address.strip_prefix("unix://").unwrap();
    let client = bollard::Docker::connect_with_unix(path, 10, bollard::API_DEFAULT_VERSION).unwrap();
    let client = client.negotiate_version().await.unwrap();
    let filters = std::collections::HashMap::from([("label".to_owned(), vec!["dev.saggar".to_owned()])]);
    let options = ListContainersOptions { all: true, filters: Some(filters), ..ListContainersOptions::default() };
    let own = format!("{} ", std::process::id());
    let all = client.list_containers(Some(options)).await.unwrap();
    all.iter().filter(|container| container.labels.as_ref().unwrap()["dev.saggar.process"].starts_with(&own)).count()
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn a_run_in_a_container_is_answered_like_any_other_and_leaves_nothing() {
    let _alone = alone();
    block(async {
        let engine = engine();
        let result = run(&engine, python("import sys; print('out'); print('err', file=sys.stderr)")).await;
        assert_eq!((result.outcome, result.backend), (Outcome::Exited { code: 0 }, BackendKind::Docker));
        assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("out\n", "err\n"));
        assert!(result.image.unwrap().starts_with("sha256:"));
        assert!(result.usage.cpu_ms > 0.0 && result.usage.peak_memory_bytes > 0, "{:?}", result.usage);
        let walls = Layer::ALL.into_iter().filter(|layer| layer.is_wall());
        for layer in walls.chain([Layer::DiskQuota, Layer::CgroupMemory, Layer::CgroupPids, Layer::CgroupCpu]) {
            assert!(result.isolation.layers.contains(&layer), "{layer} is missing");
        }
        drop(engine);
        assert_eq!(containers().await, 0);
    });
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn the_walls_hold_from_inside() {
    let _alone = alone();
    let code = r#"
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
tell("mem", lambda: open("/proc/1/mem", "rb"))
tell("fd", lambda: os.listdir("/proc/1/fd"))
tell("env", lambda: open("/proc/1/environ", "rb").read())
tell("kill", lambda: os.kill(1, 9))
tell("unshare", lambda: os.unshare(0x10000000) if hasattr(os, "unshare") else (_ for _ in ()).throw(PermissionError))
tell("docker", lambda: os.stat("/var/run/docker.sock"))
print("alive", open("/proc/1/comm").read().strip())
"#;
    block(async {
        let result = run(&engine(), python(code)).await;
        let expected = "ids 1000 1000 [1000]\n\
            caps {'0000000000000000'}\n\
            nnp 1 seccomp 2\n\
            net ['lo']\n\
            / OSError\n/usr OSError\n/etc OSError\n/opt/saggar OSError\n/opt/saggar/init OSError\n";
        let denied = |text: &str| text.replace("PermissionError", "OSError").replace("[]", "[1000]");
        let stdout = denied(&result.stdout);
        assert!(stdout.starts_with(expected), "{}{}", result.stdout, result.stderr);
        for line in
            ["mem OSError", "fd OSError", "env OSError", "unshare OSError", "docker FileNotFoundError", "alive init"]
        {
            assert!(stdout.contains(line), "{line}: {stdout}");
        }
    });
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn an_exit_code_is_no_signal_and_an_exception_is_told() {
    let _alone = alone();
    block(async {
        let engine = engine();
        for (code, outcome) in [
            ("exit 139", Outcome::Exited { code: 139 }),
            ("kill -SEGV $$", Outcome::Signaled { signal: 11 }),
            ("exit 137", Outcome::Exited { code: 137 }),
            ("kill -9 $$", Outcome::Signaled { signal: 9 }),
        ] {
            let result = run(&engine, bash(code)).await;
            assert_eq!(result.outcome, outcome, "{code}: {}", result.stderr);
        }
        let result = run(&engine, python("x = 1\nraise ValueError('no')")).await;
        let exception = result.exception.unwrap();
        assert_eq!((exception.kind.as_str(), exception.line), ("ValueError", Some(2)));
    });
}

/// Takes files into memory.
#[derive(Default)]
struct Taken(BTreeMap<String, Vec<u8>>);

impl Receive for Taken {
    fn receive(&mut self, made: Made<'_>) -> Result<Received, RunError> {
        let mut content = Vec::new();
        made.content.read_to_end(&mut content).unwrap();
        self.0.insert(made.path.to_owned(), content);
        Ok(Received::Taken)
    }
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn files_go_in_and_come_back() {
    let _alone = alone();
    let file = |path: &str, content| InputFile { path: RelPath::new(path).unwrap(), content };
    let code = "import os\nassert open('a/in.bin', 'rb').read() == bytes(range(256))\n\
                open('text.txt', 'a').write('more')\nos.makedirs('deep/er')\n\
                open('deep/er/big', 'wb').write(b'x' * 5_000_000)\nos.symlink('/etc/passwd', 'link')\nos.mkfifo('pipe')";
    block(async {
        use base64::Engine as _;
        let bytes: Vec<u8> = (0..=255).collect();
        let base64 = base64::engine::general_purpose::STANDARD.encode(&bytes);
        let request = ExecRequest {
            files: vec![
                file("a/in.bin", FileContent::Base64(base64)),
                file("text.txt", FileContent::Text("some ".to_owned())),
            ],
            collect: vec!["*.txt".to_owned()],
            ..python(code)
        };
        let mut taken = Taken::default();
        let delivery = Delivery { out: Some(&mut taken), ..Delivery::default() };
        let result = engine().execute(&Caller::default(), request, delivery).await.unwrap();
        assert!(result.ok, "{}", result.stderr);
        let seen: Vec<_> = result.files.iter().map(|f| (f.path.as_str(), f.bytes, f.change)).collect();
        assert_eq!(seen, [("deep/er/big", 5_000_000, Change::Created), ("text.txt", 9, Change::Modified)]);
        assert_eq!(result.files[1].base64.as_deref(), Some("c29tZSBtb3Jl"));
        assert_eq!(taken.0.len(), 2);
        assert_eq!(taken.0["text.txt"], b"some more");
        assert!(taken.0["deep/er/big"].len() == 5_000_000 && taken.0["deep/er/big"].iter().all(|byte| *byte == b'x'));
    });
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn limits_kill_or_deny_and_the_evidence_is_kept() {
    let _alone = alone();
    let limits = LimitsSpec { wall_ms: Some(20_000.0), memory_mb: Some(128.0), ..LimitsSpec::default() };
    let exceeded = |limit| Outcome::LimitExceeded { limit };
    block(async {
        let engine = engine();
        let wall = LimitsSpec { wall_ms: Some(1500.0), ..limits.clone() };
        let code =
            "open('left', 'w').write('x')\nprint('so far', flush=True)\nimport time, os\nos.fork()\ntime.sleep(60)";
        let begun = Instant::now();
        let result = run(&engine, limited(python(code), wall)).await;
        assert_eq!((result.outcome, result.stdout.as_str()), (exceeded(LimitKind::Wall), "so far\n"));
        assert_eq!(result.files[0].path, "left");
        assert!(begun.elapsed() < Duration::from_secs(20));

        let cpu = LimitsSpec { cpu_ms: Some(500.0), ..limits.clone() };
        let result = run(&engine, limited(python("while True: pass"), cpu)).await;
        assert_eq!(result.outcome, exceeded(LimitKind::Cpu));

        let result = run(
            &engine,
            limited(python("x = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): x[i] = 1"), limits.clone()),
        )
        .await;
        assert_eq!(result.outcome, exceeded(LimitKind::Memory), "{}", result.stderr);

        let pids = LimitsSpec { pids: Some(8), ..limits.clone() };
        let code = "import os, time\nn = 0\ntry:\n    while n < 50:\n        if os.fork() == 0: time.sleep(60)\n        n += 1\nexcept OSError: pass\nprint(n)";
        let result = run(&engine, limited(python(code), pids)).await;
        assert_eq!(
            (result.stdout.as_str(), result.limits_hit.as_slice()),
            ("7\n", &[LimitKind::Pids][..]),
            "{}",
            result.stderr
        );

        // So little that the daemon's own runtime would not fit.
        let little = LimitsSpec { pids: Some(1), memory_mb: Some(16.0), ..limits.clone() };
        let result = run(&engine, limited(bash("echo here"), little)).await;
        assert_eq!((result.outcome, result.stdout.as_str()), (Outcome::Exited { code: 0 }, "here\n"));

        // The program itself takes a page.
        let disk = LimitsSpec { disk_mb: Some(8.0), ..limits.clone() };
        let result = run(&engine, limited(bash("head -c 20M /dev/zero > big; stat -c %s big"), disk)).await;
        assert_eq!(
            (result.stdout.as_str(), result.limits_hit.as_slice()),
            ("8384512\n", &[LimitKind::Disk][..]),
            "{}",
            result.stderr
        );

        let inodes = LimitsSpec { inodes: Some(50), ..limits.clone() };
        let result = run(
            &engine,
            limited(bash("for i in $(seq 100); do : > $i || break; done 2>/dev/null; ls | wc -l"), inodes),
        )
        .await;
        assert_eq!(result.limits_hit, [LimitKind::Inodes], "{} {}", result.stdout, result.stderr);

        let output = LimitsSpec { output_kb: Some(4.0), ..limits.clone() };
        let result = run(&engine, limited(bash("head -c 3000000 /dev/zero"), output)).await;
        assert_eq!((result.stdout_bytes, result.stdout_truncated), (3_000_000, true));
        assert!(result.stdout.len() < 8192);
    });
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn input_is_streamed_and_need_not_be_read() {
    let _alone = alone();
    block(async {
        let engine = engine();
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            for _ in 0..100 {
                sender.send(vec![b'a'; 50_000]).await.ok();
            }
        });
        let delivery = Delivery { stdin: Some(Stdin::Stream(receiver)), ..Delivery::default() };
        let result = engine.execute(&Caller::default(), bash("wc -c"), delivery).await.unwrap();
        assert_eq!(result.stdout.trim(), "5000000");
        let request = ExecRequest { stdin: "x".repeat(3_000_000), ..bash("head -c 1; exec 0<&-; echo done") };
        assert_eq!(run(&engine, request).await.stdout, "xdone\n");
        assert_eq!(run(&engine, bash("cat; echo end")).await.stdout, "end\n");
    });
}

/// Takes the run back as soon as it says something.
struct Told(watch::Sender<bool>);

impl engine::Output for Told {
    fn write(&mut self, _: engine::Stream, _: &[u8]) -> std::ops::ControlFlow<()> {
        self.0.send_replace(true);
        std::ops::ControlFlow::Continue(())
    }
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn a_run_is_taken_back() {
    let _alone = alone();
    block(async {
        let engine = engine();
        let (take_back, cancel) = watch::channel(false);
        let mut live = Told(take_back);
        let delivery = Delivery { live: Some(&mut live), cancel: Some(cancel), ..Delivery::default() };
        let result = engine.execute(&Caller::default(), bash("echo here; sleep 60"), delivery).await.unwrap();
        assert_eq!((result.outcome, result.stdout.as_str()), (Outcome::Cancelled, "here\n"));
    });
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn a_compiled_program_runs_in_a_container_of_its_own() {
    let _alone = alone();
    block(async {
        let code = "#include <stdio.h>\nint main(int n, char **v) { printf(\"%d %s\\n\", n, v[1]); return 3; }";
        let request = ExecRequest { language: Some("c".to_owned()), args: vec!["one".to_owned()], ..python(code) };
        let result = run(&engine(), request).await;
        assert_eq!((result.outcome, result.stdout.as_str()), (Outcome::Exited { code: 3 }, "2 one\n"));
        assert!(result.compile.unwrap().ok);
    });
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn what_is_missing_is_said_and_nothing_runs_on_the_host() {
    let _alone = alone();
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("made-on-the-host");
    let code = format!("open({made:?}, 'w')");
    let refused = |settings: Settings, caller: Caller, request: ExecRequest| {
        block(async {
            let engine = Engine::open(settings).unwrap();
            engine.execute(&caller, request, Delivery::default()).await.unwrap_err().body()
        })
    };
    let with = |change: fn(&mut DockerSettings)| {
        let mut settings = settings();
        change(&mut settings.docker);
        settings
    };
    let dead = with(|docker| docker.host = Some("unix:///nowhere/docker.sock".to_owned()));
    let body = refused(dead, Caller::default(), python(&code));
    assert_eq!(body.code, ErrorCode::IsolationUnavailable);
    assert!(body.message.contains("/nowhere/docker.sock") && body.hint.contains("DOCKER_HOST"), "{body:?}");

    let none = ExecRequest { image: Some("no/such:image".to_owned()), ..python(&code) };
    let body = refused(settings(), Caller::default(), none.clone());
    assert!(body.message.contains("no/such:image") && body.hint.contains("docker pull"), "{body:?}");

    let nameless = with(|docker| docker.image = None);
    assert_eq!(refused(nameless, Caller::default(), python(&code)).code, ErrorCode::InvalidRequest);

    let runtime = with(|docker| docker.runtime = Some("no-such-runtime".to_owned()));
    assert_eq!(refused(runtime, Caller::default(), python(&code)).code, ErrorCode::SandboxFailed);

    // Whoever has a key may use what the owner offers.
    let stranger = Caller { standing: Standing::FirstKey, ..Caller::default() };
    assert!(refused(settings(), stranger, none).message.contains("not among those"));
    let ruby = ExecRequest { language: Some("ruby".to_owned()), ..python("puts 1") };
    assert_eq!(refused(settings(), Caller::default(), ruby).code, ErrorCode::InterpreterMissing);
    assert!(!made.exists());
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn all_writable_folders_share_one_disk() {
    let _alone = alone();
    block(async {
        let limits = LimitsSpec { disk_mb: Some(8.0), inodes: Some(100), ..LimitsSpec::default() };
        let code = "for d in /work /tmp /dev/shm; do head -c 3M /dev/zero > $d/big; done; du -cb /work/big /tmp/big \
                    /dev/shm/big | tail -1; rm /work/big /tmp/big /dev/shm/big; \
                    for d in /work /tmp /dev/shm; do for i in $(seq 60); do : > $d/$i; done; done 2>/dev/null; \
                    ls /work /tmp /dev/shm | grep -c '^[0-9]'";
        let require = Caller { require: vec![Layer::DiskQuota, Layer::CgroupMemory], ..Caller::default() };
        let result = engine().execute(&require, limited(bash(code), limits), Delivery::default()).await.unwrap();
        let numbers: Vec<u64> = result.stdout.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [bytes, files] = numbers[..] else { panic!("{}{}", result.stdout, result.stderr) };
        assert!((7 << 20..=8 << 20).contains(&bytes) && (90..=100).contains(&files), "{bytes} bytes, {files} files");
    });
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn containers_are_kept_ready_and_used_once() {
    let _alone = alone();
    block(async {
        let engine = engine().with_pool();
        let mut starts = Vec::new();
        for _ in 0..4 {
            let result = run(&engine, bash("ls -A /work /tmp; touch /work/left /tmp/left")).await;
            assert_eq!(result.files.len(), 1);
            assert!(!result.stdout.contains("left"), "{}", result.stdout);
            starts.push(result.start);
            tokio::time::timeout(Duration::from_secs(30), async { while containers().await < 2 {} }).await.unwrap();
        }
        assert!(starts.contains(&types::Start::Warm), "{starts:?}");
        drop(engine);
    });
    block(async { assert_eq!(containers().await, 0) });
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn a_daemon_behind_tls_is_reached_with_its_certificates_and_with_no_others() {
    let _alone = alone();
    let said = |name: &str| std::env::var(name).expect("see scripts/docker-engine");
    let (host, folder) = (said("SAGGAR_TEST_DOCKER_TLS"), std::path::PathBuf::from(said("SAGGAR_TEST_DOCKER_CERTS")));
    let with = |certificates: Option<std::path::PathBuf>| {
        let docker = DockerSettings {
            host: Some(host.clone()),
            image: Some(image()),
            certificates,
            ..DockerSettings::default()
        };
        Engine::open(Settings { docker, ..common::settings() }).unwrap()
    };
    let refused = async |certificates: Option<std::path::PathBuf>| {
        let engine = with(certificates);
        engine.execute(&Caller::default(), bash("echo no"), Delivery::default()).await.unwrap_err().code()
    };
    block(async {
        assert_eq!(run(&with(Some(folder.clone())), bash("echo over tls")).await.stdout, "over tls\n");
        assert_eq!(refused(None).await, ErrorCode::IsolationUnavailable, "it does not speak without");
        assert_eq!(refused(Some(folder.join("strangers"))).await, ErrorCode::IsolationUnavailable);
        assert_eq!(refused(Some(folder.join("nowhere"))).await, ErrorCode::InvalidSettings);
    });
}
