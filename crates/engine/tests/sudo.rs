//! `sudo` in a session: root inside, who is nobody outside, without a set-id bit anywhere.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use engine::{Caller, CommandSpec, Engine, GuestUser, Session, SessionSpec, Settings, Spoken};
use types::{ExecResult, LimitsSpec, Outcome};

fn scratch() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sudo-{}-{number}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    path
}

/// A session with an engine of its own; the tests run as root.
async fn open() -> (Engine, Arc<Session>) {
    let engine = Engine::open(Settings { state: scratch(), ..Settings::default() }).unwrap();
    let session = engine.create_session(&Caller::default(), SessionSpec::default()).await.unwrap();
    (engine, session)
}

fn bash(script: &str) -> CommandSpec {
    CommandSpec { argv: ["bash", "-c", script].map(str::to_owned).to_vec(), ..CommandSpec::default() }
}

async fn exec(engine: &Engine, session: &Arc<Session>, command: CommandSpec) -> ExecResult {
    engine.exec_in_session(&Caller::default(), session, command, Spoken::default()).await.unwrap()
}

async fn run(engine: &Engine, session: &Arc<Session>, script: &str) -> ExecResult {
    exec(engine, session, bash(script)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn root_is_for_the_asking_and_has_only_the_session() {
    let (engine, session) = open().await;
    let result = run(&engine, &session, "id -u; sudo id -u; sudo -u user id -u; echo text | sudo cat; sudo pwd").await;
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("1000\n0\n1000\ntext\n/work\n", ""));
    let owned =
        "touch a; sudo chown root a; stat -c %U a; rm -f a; stat -c %u /work; sudo stat -c %a /opt/saggar/bin/sudo";
    assert_eq!(run(&engine, &session, owned).await.stdout, "root\n1000\n755\n");
    // The rights of root inside, and no way to more.
    let rights = "sudo grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status | tr -s '\\t' ' '";
    let direct = CommandSpec { user: GuestUser::Root, ..bash(&rights.replace("sudo ", "")) };
    let direct = exec(&engine, &session, direct).await.stdout;
    assert_eq!(run(&engine, &session, rights).await.stdout, direct);
    assert!(direct.contains("NoNewPrivs: 1") && direct.contains("Seccomp: 2"), "{direct}");
    for denied in ["mount -t tmpfs x /mnt", "touch /usr/x", "cat /proc/1/environ", "unshare -n true", "chroot / true"] {
        let result = run(&engine, &session, &format!("sudo {denied}")).await;
        assert!(!result.ok, "{denied}: {result:?}");
    }
    engine.end_sessions().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_environment_and_flags_are_those_of_sudo() {
    let (engine, session) = open().await;
    for (script, said, code) in [
        ("sudo sh -c 'exit 7'", "", 7),
        ("sudo sh -c 'kill -TERM $$'", "", 143),
        ("sudo A=1 sh -c 'echo $A $HOME $USER $SUDO_USER'", "1 /root root user\n", 0),
        ("SECRET=x sudo sh -c 'echo $SECRET.'", ".\n", 0),
        ("SECRET=x sudo -E sh -c 'echo $SECRET.'", "x.\n", 0),
        ("sudo -s echo 'a  b' \"it's\"", "a  b it's\n", 0),
        ("sudo -i pwd", "/root\n", 0),
        ("sudo -v; sudo -n -H true; sudo -k", "", 0),
        ("sudo sudo sudo id -u", "0\n", 0),
        ("sudo sudo -u user id -un", "user\n", 0),
        ("cd /tmp; sudo -u '#1000' pwd", "/tmp\n", 0),
    ] {
        let result = run(&engine, &session, script).await;
        assert_eq!(
            (result.stdout.as_str(), &result.outcome),
            (said, &Outcome::Exited { code }),
            "{script}: {result:?}"
        );
    }
    for (script, why) in [
        ("sudo nothing-of-that-name", "sudo: command not found"),
        ("sudo -u nobody-here id", "sudo: unknown user nobody-here"),
        ("sudo -z id", "sudo: -z is not known here"),
        ("sudo", "sudo: usage: "),
    ] {
        let result = run(&engine, &session, script).await;
        assert_eq!(result.outcome, Outcome::Exited { code: 1 }, "{script}: {result:?}");
        assert!(result.stderr.starts_with(why), "{script}: {result:?}");
    }
    engine.end_sessions().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_started_ends_with_the_command_that_asked() {
    let (engine, session) = open().await;
    let script = "sudo sh -c 'sleep 1001 & sudo setsid sleep 1002 & echo started; wait' & \
                  (setsid sudo sleep 1003 &) ; wait; sleep 1004";
    let limits = LimitsSpec { wall_ms: Some(1500.0), ..LimitsSpec::default() };
    let result = exec(&engine, &session, CommandSpec { limits, ..bash(script) }).await;
    assert!(matches!(result.outcome, Outcome::LimitExceeded { .. }), "{result:?}");
    assert_eq!(result.stdout, "started\n");
    let left = run(&engine, &session, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'sleep 100[0-9]'; true").await;
    assert_eq!(left.stdout, "");
    // Who asks and is gone leaves nothing that waits for him.
    let gone = "sudo sh -c 'trap \"echo heard > /tmp/heard; exit\" HUP; echo ready; while :; do sleep 0.05; done' > /tmp/out & \
                until grep -q ready /tmp/out 2>/dev/null; do sleep 0.05; done; kill -9 $!; \
                until [ -e /tmp/heard ]; do sleep 0.05; done; sudo cat /tmp/heard";
    assert_eq!(run(&engine, &session, gone).await.stdout, "heard\n");
    let signal = "sudo sh -c 'trap \"echo term; exit 3\" TERM; echo ready > /tmp/ready; while :; do sleep 0.05; done' & \
                  until [ -e /tmp/ready ]; do sleep 0.05; done; kill $!; wait $!; echo $?";
    assert_eq!(run(&engine, &session, signal).await.stdout, "term\n3\n");
    engine.end_sessions().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_at_the_desk_harms_nobody() {
    let (engine, session) = open().await;
    let script = r"
import socket, subprocess
def connect():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(b'\0saggar-sudo')
    return s
kept = [connect() for _ in range(8)]
for bytes in (b'', b'\0', b'\xff' * 100, b'\0' * 60000, b'\1\x80\x80\x80\x80\x08'):
    s = connect()
    if bytes:
        s.send(bytes)
    s.close()
print(subprocess.run(['sudo', 'id', '-u'], capture_output=True, text=True).stdout, end='')
";
    let command = CommandSpec { argv: ["python3", "-c", script].map(str::to_owned).to_vec(), ..CommandSpec::default() };
    let result = exec(&engine, &session, command).await;
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("0\n", ""));
    engine.end_sessions().await;
}
