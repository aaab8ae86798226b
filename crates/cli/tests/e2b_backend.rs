//! Runs on an E2B-compatible server: another saggar, spoken to as any such server is.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start programs and fail loudly")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use common::{eventually, folder, heeded_signals, json, processes_inside, send, sleeping_tree_code, text};
use serde_json::{Value, json};

/// A server elsewhere, and the state folder of whoever sends runs there.
struct Far {
    child: Child,
    address: String,
    home: PathBuf,
    here: PathBuf,
}

impl Far {
    fn start(name: &str) -> Self {
        let home = folder(&format!("e2b-far-{name}"));
        let settings = home.join("settings.toml");
        fs::write(&settings, "[e2b]\nbuild = false\n").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_saggar"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&settings).env("SAGGAR_HOME", &home);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(' ').next());
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, address, home, here: folder(&format!("e2b-here-{name}")) }
    }

    fn key(&self) -> String {
        fs::read_to_string(self.home.join("api-key")).unwrap().trim().to_owned()
    }

    /// `saggar` here, which knows of the server there by its environment alone.
    fn saggar(&self, args: &[&str]) -> Command {
        let url = format!("http://{}", self.address);
        let mut command = saggar(&self.here, args);
        command.env("E2B_API_KEY", self.key()).env("E2B_API_URL", &url).env("E2B_SANDBOX_URL", &url);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.saggar(&[&["run", "--backend", "e2b"], args].concat()).output().unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        json(&self.run(&[&["--json"], args].concat()))
    }

    /// Sandboxes that are there.
    fn sandboxes(&self) -> Vec<Value> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (host, key) = (&self.address, self.key());
        write!(stream, "GET /v2/sandboxes HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let body = &answer[answer.find('[').unwrap_or_else(|| panic!("{answer}"))..=answer.rfind(']').unwrap()];
        serde_json::from_str(body).unwrap()
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn saggar(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_saggar"));
    command.args(args).env("SAGGAR_HOME", home).stdin(Stdio::null());
    for name in ["E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL", "E2B_DOMAIN", "SAGGAR_CONFIG"] {
        command.env_remove(name);
    }
    command
}

fn names(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

#[test]
fn a_run_elsewhere_is_answered_like_any_other_and_leaves_nothing() {
    let far = Far::start("answer");
    let code = "import sys, os; print(sys.argv[1:], os.environ['WORD'], sys.stdin.read()); print('err', file=sys.stderr); sys.exit(3)";
    let mut command =
        far.saggar(&["run", "--backend", "e2b", "--json", "--env", "WORD=a b", "-c", code, "--", "x", "y z"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"in").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let result = json(&output);
    assert_eq!(result["stdout"], "['x', 'y z'] a b in\n");
    assert_eq!(result["stderr"], "err\n");
    assert_eq!(result["outcome"], json!({"kind": "exited", "code": 3}));
    assert_eq!((&result["backend"], &result["image"]), (&json!("e2b"), &json!("base")));
    assert!(
        result["usage"]["cpu_ms"].as_f64().unwrap() > 0.0 && result["usage"]["peak_memory_bytes"].as_u64().unwrap() > 0
    );
    let (on, off) = (names(&result["isolation"]["layers"]), names(&result["isolation"]["missing"]));
    for layer in ["no_new_privs", "seccomp", "caps_dropped"] {
        assert!(on.contains(&layer), "{on:?}");
    }
    // The server's limits are not the run's, and that is said.
    for layer in ["cgroup.memory", "cgroup.pids", "cgroup.cpu", "disk_quota"] {
        assert!(off.contains(&layer) && !on.contains(&layer), "{off:?}");
    }
    assert_eq!(far.sandboxes(), Vec::<Value>::new());
}

#[test]
fn files_go_there_and_come_back_as_they_are() {
    let far = Far::start("files");
    let (input, out) = (far.here.join("in.bin"), far.here.join("out"));
    let bytes: Vec<u8> = (0..=255_u8).cycle().take(300_000).collect();
    fs::write(&input, &bytes).unwrap();
    let code = "import os\n\
        data = open('deep/in.bin', 'rb').read()\n\
        os.makedirs('a/b'); open('a/b/turned.bin', 'wb').write(data[::-1]); open('deep/kept.txt', 'w').write('kept')\n\
        open('changed.txt', 'a').write('more')\n\
        os.symlink('/etc/passwd', 'link'); os.chmod('a/b/turned.bin', 0o755)";
    fs::write(far.here.join("changed.txt"), "first ").unwrap();
    let (source, changed) =
        (format!("{}:deep/in.bin", input.display()), format!("{}:changed.txt", far.here.join("changed.txt").display()));
    let result = far.json(&["--file", &source, "--file", &changed, "--out", out.to_str().unwrap(), "-c", code]);
    assert_eq!(result["ok"], true, "{result}");
    let files = result["files"].as_array().unwrap();
    let told: Vec<(&str, &str)> =
        files.iter().map(|file| (file["path"].as_str().unwrap(), file["change"].as_str().unwrap())).collect();
    assert_eq!(told, [("a/b/turned.bin", "created"), ("changed.txt", "modified"), ("deep/kept.txt", "created")]);
    let turned: Vec<u8> = bytes.iter().rev().copied().collect();
    assert_eq!(fs::read(out.join("a/b/turned.bin")).unwrap(), turned);
    assert_eq!(fs::read_to_string(out.join("changed.txt")).unwrap(), "first more");
    assert!(!out.join("link").exists() && !out.join("deep/in.bin").exists());
}

#[test]
fn exceptions_and_ends_are_told_by_our_own_drivers() {
    let far = Far::start("ends");
    let result = far.json(&["-c", "def f():\n    raise ValueError('no good')\nf()"]);
    let exception = &result["exception"];
    assert_eq!(
        (&exception["type"], &exception["message"], &exception["line"]),
        (&json!("ValueError"), &json!("no good"), &json!(2))
    );
    let result = far.json(&["-l", "node", "-c", "null.x"]);
    assert_eq!(result["exception"]["type"], "TypeError", "{result}");
    let result = far.json(&["-c", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"]);
    assert_eq!(result["outcome"], json!({"kind": "signaled", "signal": 11}));
    // Whoever kills all that he can reach kills himself at most.
    let result = far.json(&["-c", "import os; os.kill(-1, 9)"]);
    assert_ne!(result["outcome"]["kind"], "limit_exceeded", "{result}");
}

#[test]
fn compilers_and_commands_run_there_too() {
    let far = Far::start("compile");
    let result = far.json(&["-l", "c", "-c", "#include <stdio.h>\nint main(void) { puts(\"hi\"); return 4; }"]);
    assert_eq!(
        (&result["stdout"], &result["outcome"]["code"], &result["compile"]["ok"]),
        (&json!("hi\n"), &json!(4), &json!(true))
    );
    let result = far.json(&["-l", "c", "-c", "int main( {"]);
    assert_eq!((&result["ok"], &result["compile"]["ok"]), (&json!(false), &json!(false)));
    let output =
        far.saggar(&["exec", "--backend", "e2b", "--", "bash", "-c", "echo $((6 * 7)); pwd"]).output().unwrap();
    assert_eq!(text(&output.stdout), "42\n/work\n", "{}", text(&output.stderr));
}

#[test]
fn limits_of_the_request_hold_there() {
    let far = Far::start("limits");
    let limit = |args: &[&str]| far.json(args)["outcome"].clone();
    let hit = |name: &str| json!({"kind": "limit_exceeded", "limit": name});
    assert_eq!(limit(&["--timeout", "500ms", "-c", "import time; time.sleep(600)"]), hit("wall"));
    assert_eq!(limit(&["--cpu-time", "300ms", "-c", "while True: pass"]), hit("cpu"));
    // Several processes that are small enough each.
    let many = "import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n        x = bytearray(60 << 20); x[::4096] = b'x' * len(x[::4096]); time.sleep(600)\ntime.sleep(600)";
    assert_eq!(limit(&["--memory", "128M", "-c", many]), hit("memory"));
    let result = far.json(&["--output-limit", "1K", "-c", "print('a' * 500 + 'b' * 100_000 + 'c' * 500)"]);
    assert_eq!((&result["stdout_truncated"], &result["stdout_bytes"]), (&json!(true), &json!(101_001)));
    let stdout = result["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("aaa") && stdout.trim_end().ends_with("ccc") && stdout.len() < 3000, "{stdout}");
    let bomb = "import os\nn = 0\ntry:\n    while True:\n        if os.fork() == 0:\n            import time; time.sleep(600)\n        n += 1\nexcept OSError: print(n < 200)";
    assert_eq!(far.json(&["--pids", "32", "-c", bomb])["stdout"], "True\n");
    assert_eq!(far.sandboxes(), Vec::<Value>::new());
}

#[test]
fn a_run_that_is_taken_back_leaves_no_process_there() {
    let far = Far::start("cancel");
    let mark = format!("saggar-e2b-cancel-{}", std::process::id());
    let mut command = far.saggar(&["run", "--backend", "e2b", "--json", "-c", &sleeping_tree_code(&mark)]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the tree", || !processes_inside(&mark).is_empty());
    // Nobody would renew it for longer: what a crash leaves there ends soon.
    assert_eq!(far.sandboxes().len(), 1);
    send(child.id(), heeded_signals()[0]);
    common::assert_taken_back(child);
    eventually("the end of the tree", || processes_inside(&mark).is_empty());
    assert_eq!(far.sandboxes(), Vec::<Value>::new());
}

#[test]
fn after_a_crash_the_sandbox_has_no_more_than_a_minute() {
    let far = Far::start("crash");
    let mark = format!("saggar-e2b-crash-{}", std::process::id());
    let mut command = far.saggar(&["run", "--backend", "e2b", "--json", "-c", &sleeping_tree_code(&mark)]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the tree", || !processes_inside(&mark).is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    let sandboxes = far.sandboxes();
    let moment = |name: &str| sandboxes[0][name].as_str().unwrap().parse::<types::Timestamp>().unwrap();
    let (start, end) = (moment("startedAt"), moment("endAt"));
    // It was made for a minute, and renewed every twenty seconds.
    assert!(end > start && end.before(Duration::from_secs(150)) < start, "from {start} to {end}");
}

#[test]
fn code_is_judged_there() {
    let far = Far::start("judge");
    let task = far.here.join("task.json");
    let content = json!({"language": "python", "entry": "add", "code": "def add(a, b):\n    return a + b if a < 5 else 0", "cases": [
        {"name": "1+2", "args": [1, 2], "expected": 3},
        {"name": "7+2", "args": [7, 2], "expected": 9},
        {"name": "io", "args": ["a", 1], "expected_exception": "TypeError"},
        {"name": "asserts", "test": "assert add(2, 2) == 4"},
    ]});
    fs::write(&task, content.to_string()).unwrap();
    let output = far.saggar(&["judge", "--backend", "e2b", "--json", task.to_str().unwrap()]).output().unwrap();
    let result = json(&output);
    let verdicts: Vec<&str> =
        result["cases"].as_array().unwrap().iter().map(|case| case["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["pass", "wrong_answer", "pass", "pass"], "{result}");
    assert_eq!(far.sandboxes(), Vec::<Value>::new());
}

#[test]
fn what_is_missing_is_said_and_nothing_runs_here() {
    let far = Far::start("missing");
    let mark = far.here.join("ran");
    let code = format!("open({:?}, 'w')", mark.display().to_string());
    let refused = |mut command: Command, code: &str| {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(if code == "invalid_settings" { 2 } else { 125 }));
        let error = json(&output)["error"].clone();
        assert_eq!(error["code"], code, "{error}");
        assert!(!mark.exists());
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(!said.contains(&far.key()), "{said}");
        error["message"].as_str().unwrap().to_owned()
    };
    let args = ["run", "--backend", "e2b", "--json", "-c", &code];
    let message = refused(saggar(&far.here, &args), "isolation_unavailable");
    assert!(message.contains("E2B_API_KEY"), "{message}");
    // Nobody listens there.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = far.saggar(&args);
    command.env("E2B_API_URL", format!("http://{closed}"));
    refused(command, "isolation_unavailable");
    let mut command = far.saggar(&args);
    command.env("E2B_API_KEY", "e2b_0000000000000000000000000000000000000000");
    refused(command, "isolation_unavailable");
    // A key is not sent where others read along.
    let mut command = far.saggar(&args);
    command.env("E2B_API_URL", "http://192.0.2.1:7244");
    refused(command, "invalid_settings");
    refused(far.saggar(&[&args[..], &["--image", "no-such-template"]].concat()), "not_found");
    refused(far.saggar(&[&args[..], &["--require", "cgroup.memory"]].concat()), "isolation_unavailable");
    assert_eq!(far.sandboxes(), Vec::<Value>::new());
}
