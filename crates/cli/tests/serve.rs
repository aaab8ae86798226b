//! The server: who may ask it, that a run through it is the same run, and that nothing outlives it or its clients.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use common::{
    assert_taken_back, converse, eventually, folder, heeded_signals, json, keeper_of, processes_inside, send,
    sleeping_tree_code, text,
};
use rustix::process::Signal;
use serde_json::Value;

/// A server with a state folder of its own.
struct Server {
    child: Child,
    home: PathBuf,
    address: String,
}

impl Server {
    fn start(name: &str) -> Self {
        Self::start_with(&home(name), &[])
    }

    fn start_with(home: &Path, options: &[&str]) -> Self {
        let mut child = serve(home, options).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(' ').next());
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        assert!(line.contains("saggar.sock") && line.contains("api-key"), "{line}");
        Self { child, home: home.to_path_buf(), address }
    }

    /// A client of it.
    fn saggar(&self, args: &[&str]) -> Command {
        client(&self.home, args)
    }

    fn run(&self, args: &[&str]) -> Output {
        let output = self.saggar(args).output().unwrap();
        assert!(!text(&output.stderr).contains("running without it"), "{}", text(&output.stderr));
        output
    }

    fn socket(&self) -> PathBuf {
        self.home.join("saggar.sock")
    }

    fn key(&self) -> String {
        fs::read_to_string(self.home.join("api-key")).unwrap().trim().to_owned()
    }

    /// Sends a whole request over TCP.
    fn send(&self, head: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(stream, "{head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
        stream
    }

    /// Status and body of an answer over TCP; `head` has no `Host` yet.
    fn ask(&self, head: &str, body: &str) -> (u16, Value) {
        answer(self.send(&format!("{head}\r\nhost: {}", self.address), body))
    }

    fn post(&self, body: &str) -> (u16, Value) {
        self.ask(&format!("POST /v1/runs HTTP/1.1\r\nauthorization: Bearer {}", self.key()), body)
    }

    /// The most memory that it has ever held, in KiB.
    fn peak(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    fn stop(mut self, signal: Signal) -> Option<i32> {
        send(self.child.id(), signal);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn home(name: &str) -> PathBuf {
    let home = folder(&format!("serve-{name}"));
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    home
}

fn client(home: &Path, args: &[&str]) -> Command {
    let mut command = common::saggar(args);
    command.env("SAGGAR_HOME", home);
    command
}

fn serve(home: &Path, options: &[&str]) -> Command {
    let mut command = client(home, &["serve"]);
    if !options.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    command.args(options).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn answer(mut stream: TcpStream) -> (u16, Value) {
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    let (head, body) = all.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {all}")))
}

/// A run of the server's that sleeps, and its client.
fn sleeping(server: &Server, mark: &str, options: &[&str]) -> Child {
    let code = sleeping_tree_code(mark);
    let mut args = vec!["run", "-c", &code, "--timeout", "10m"];
    args.extend(options);
    let child = server.saggar(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the tree", || !processes_inside(mark).is_empty());
    assert_eq!(keeper_of(child.id()), None, "the client has a keeper of its own");
    child
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn a_run_through_the_server_is_the_same_run() {
    let server = Server::start("same");
    let inputs = folder("serve-same-inputs");
    fs::write(inputs.join("data.csv"), "a,b\n").unwrap();
    fs::write(inputs.join("latin.py"), b"# coding: latin-1\nprint('caf\xe9')").unwrap();
    fs::write(inputs.join("answer.h"), "#define ANSWER 42\n").unwrap();
    let cases: &[&[&str]] = &[
        &["run", "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"],
        &["run", "-c", "import os\nopen('made', 'w').write('x')\n1/0"],
        &["run", "-c", "import sys; print(sys.argv, open('data.csv').read())", "--file", "data.csv", "--", "a", "b"],
        &["run", "-c", "import os; os.kill(os.getpid(), 11)"],
        &["run", "-c", "import time; time.sleep(9)", "--timeout", "300ms"],
        &["run", "-c", "print('x' * 10000)", "--output-limit", "1K"],
        &["run", "latin.py"],
        &["run", "-l", "bash", "-c", "echo $K", "--env", "K=V"],
        &[
            "run",
            "-l",
            "c",
            "-c",
            "#include <stdio.h>\n#include \"answer.h\"\nint main(void) { return ANSWER; }",
            "--file",
            "answer.h",
        ],
        &["run", "-l", "c", "-c", "int main( { }"],
        &["exec", "--", "bash", "-c", "exit 3"],
        &["exec", "--", "no-such-program"],
        &["run", "-l", "nonsense", "-c", "1"],
        &["run", "-c", "1", "--memory", "900000T"],
        &["run", "-c", "1", "--cpus", "NaN"],
        &["run", "-c", "1", "--file", "not-there"],
        &["run", "-c", "1", "--file", "."],
    ];
    for case in cases {
        let both = |way: &[&str]| {
            let output = server.saggar(&[&case[..1], way, &case[1..]].concat()).current_dir(&inputs).output().unwrap();
            (text(&output.stdout), text(&output.stderr), output.status.code())
        };
        assert_eq!(both(&[]), both(&["--cold"]), "{case:?}");
        let whole = |way: &[&str]| {
            let output = server.saggar(&[&case[..1], way, &case[1..]].concat()).current_dir(&inputs).output().unwrap();
            let mut result = json(&output);
            for own in ["id", "usage", "start"] {
                result.as_object_mut().unwrap().remove(own);
            }
            if let Some(compile) = result["compile"].as_object_mut() {
                compile.remove("usage");
            }
            (result, output.status.code())
        };
        assert_eq!(whole(&["--json"]), whole(&["--json", "--cold"]), "{case:?}");
    }
    assert!(keeper_of(server.child.id()).is_some(), "the server has run nothing");
}

#[test]
fn what_only_the_caller_may_say_reaches_the_engine() {
    let server = Server::start("caller");
    // A layer that no host lacks and none has: the answer depends on the host, but it must be the same both ways.
    for layer in ["cgroup.memory", "cgroup.cpu", "landlock.scope", "disk_quota"] {
        let ways = [&["run", "-c", "1", "--require", layer][..], &["run", "--cold", "-c", "1", "--require", layer]];
        let codes = ways.map(|args| server.run(args).status.code());
        assert_eq!(codes[0], codes[1], "{layer}");
    }
    let body = r#"{"code": "1", "accept_missing": ["seccomp"]}"#;
    assert_eq!(server.post(body).0, 400);
}

#[test]
fn the_key_is_made_once_and_for_its_owner() {
    let home = home("key");
    let key = Server::start_with(&home, &[]).key();
    let digits = key.strip_prefix("e2b_").unwrap();
    assert!(digits.len() == 40 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
    assert_eq!(fs::read_to_string(home.join("api-key")).unwrap(), format!("{key}\n"));
    assert_eq!(fs::metadata(home.join("api-key")).unwrap().mode() & 0o7777, 0o600);
    let server = Server::start_with(&home, &[]);
    assert_eq!(server.key(), key);
    assert_eq!(fs::metadata(server.socket()).unwrap().mode() & 0o7777, 0o600);
    drop(server);
    fs::set_permissions(home.join("api-key"), fs::Permissions::from_mode(0o644)).unwrap();
    refuses(&mut serve(&home, &[]), "can be read by others", 125);
    fs::set_permissions(home.join("api-key"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(home.join("api-key"), "secret\n").unwrap();
    refuses(&mut serve(&home, &[]), "40 hex digits", 125);
}

fn refuses(command: &mut Command, why: &str, exit: i32) {
    let output = command.output().unwrap();
    let said = text(&output.stderr);
    assert!(said.starts_with("error: ") && said.contains(why) && said.contains("hint: "), "{said}");
    assert_eq!(output.status.code(), Some(exit), "{said}");
}

#[test]
fn over_tcp_only_a_key_opens() {
    let server = Server::start("tcp");
    let body = r#"{"code": "print(6 * 7)"}"#;
    assert_eq!(server.ask("GET /healthz HTTP/1.1", "").1, serde_json::json!({"ok": true, "version": "0.1.0"}));
    for way in [format!("authorization: Bearer {}", server.key()), format!("x-api-key: {}", server.key())] {
        let (status, result) = server.ask(&format!("POST /v1/runs HTTP/1.1\r\n{way}"), body);
        assert_eq!((status, &result["stdout"], &result["ok"]), (200, &"42\n".into(), &true.into()), "{result}");
    }
    let wrong = format!("e2b_{}", "0".repeat(40));
    for way in
        ["x-nothing: 1".to_owned(), format!("x-api-key: {wrong}"), format!("authorization: Basic {}", server.key())]
    {
        let (status, error) = server.ask(&format!("POST /v1/runs HTTP/1.1\r\n{way}"), body);
        assert_eq!((status, &error["error"]["code"]), (401, &"unauthorized".into()));
        assert!(error["error"]["request_id"].as_str().unwrap().starts_with("req_"), "{error}");
    }
    let key = server.key();
    for (host, status) in [
        ("127.0.0.1", 200),
        ("localhost:1", 200),
        ("[::1]", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example:7244", 403),
    ] {
        let head = format!("POST /v1/runs HTTP/1.1\r\nx-api-key: {key}\r\nhost: {host}");
        assert_eq!(answer(server.send(&head, body)).0, status, "{host}");
    }
    assert_eq!(answer(server.send("GET /healthz HTTP/1.1\r\nhost: evil.example", "")).0, 403);
    assert_eq!(answer(server.send("GET /healthz HTTP/1.1", "")).0, 403);
}

#[test]
fn wrong_requests_get_their_status() {
    let server = Server::start("status");
    let long = format!(r#"{{"code": "{}"}}"#, "x".repeat(65 << 20));
    for (body, status, code) in [
        ("not json", 400, "invalid_request"),
        (r#"{"code": "1", "nettwork": "open"}"#, 400, "invalid_request"),
        (r#"{"code": "1", "files": [{"path": "../x", "text": ""}]}"#, 400, "invalid_request"),
        (r#"{"code": "1", "files": [{"path": "x", "host": "/etc/shadow"}]}"#, 400, "invalid_request"),
        ("{}", 400, "invalid_request"),
        (r#"{"code": "1", "limits": {"pids": 0}}"#, 422, "invalid_limit"),
        (r#"{"code": "1", "language": "nonsense"}"#, 422, "unknown_language"),
        (r#"{"argv": ["no-such-program"]}"#, 422, "program_missing"),
        (r#"{"code": "1", "backend": "e2b"}"#, 400, "invalid_request"),
    ] {
        let (answered, error) = server.post(body);
        assert_eq!((answered, &error["error"]["code"]), (status, &code.into()), "{body}");
        assert!(error["error"]["hint"].as_str().unwrap().len() > 10, "{error}");
    }
    let key = format!("x-api-key: {}", server.key());
    let (status, error) = answer(server.send(&format!("POST /v1/runs HTTP/1.1\r\nhost: localhost\r\n{key}"), &long));
    assert_eq!((status, &error["error"]["code"]), (413, &"too_large".into()));
    for (head, status) in
        [("GET /v1/judge", 405), ("GET /v1/nothing", 404), ("GET /v1/attach", 404), ("DELETE /healthz", 405)]
    {
        assert_eq!(server.ask(&format!("{head} HTTP/1.1\r\n{key}"), "").0, status, "{head}");
    }
}

#[test]
fn events_come_as_they_happen() {
    let server = Server::start("events");
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nx-api-key: {}\r\nhost: localhost\r\naccept: text/event-stream",
        server.key()
    );
    let ask = |request: Value| server.send(&head, &request.to_string());
    let whole = |request| {
        let mut all = String::new();
        ask(request).read_to_string(&mut all).unwrap();
        all
    };
    let code = "import sys\nprint('one', flush=True)\nsys.stderr.write('two')\nsys.exit(3)";
    let all = whole(serde_json::json!({"code": code}));
    assert!(all.contains("content-type: text/event-stream"), "{all}");
    for event in ["event: stdout\ndata: {\"text\":\"one", "event: stderr\ndata: {\"text\":\"two"] {
        assert!(all.contains(event), "{event}: {all}");
    }
    let last = all.split("event: result\ndata: ").nth(1).unwrap();
    let result: Value = serde_json::from_str(last.lines().next().unwrap()).unwrap();
    assert_eq!((&result["outcome"]["code"], &result["stdout"]), (&3.into(), &"one\n".into()));
    let all = whole(serde_json::json!({"code": "import sys; sys.stdout.buffer.write(b'\\xff')"}));
    assert!(all.contains("event: stdout\ndata: {\"base64\":\"/w==\"}"), "{all}");
    let all = whole(serde_json::json!({"code": "1", "language": "nonsense"}));
    assert!(all.contains("event: error\ndata: {\"error\":{\"code\":\"unknown_language\""), "{all}");

    // Long before its end.
    let mut lines = BufReader::new(ask(serde_json::json!({"code": sleeping_tree_code("mark-events")}))).lines();
    assert!(lines.any(|line| line.unwrap().contains("ready")));
}

#[test]
fn a_client_that_goes_away_takes_its_run_with_it() {
    let server = Server::start("away");
    for (mark, accept) in [("mark-away-json", "*/*"), ("mark-away-events", "text/event-stream")] {
        let body = serde_json::json!({"code": sleeping_tree_code(mark), "limits": {"wall_ms": 600_000}}).to_string();
        let head =
            format!("POST /v1/runs HTTP/1.1\r\nx-api-key: {}\r\nhost: localhost\r\naccept: {accept}", server.key());
        let stream = server.send(&head, &body);
        eventually("the tree", || !processes_inside(mark).is_empty());
        drop(stream);
        eventually("the end of the tree", || processes_inside(mark).is_empty());
    }
}

#[test]
fn a_killed_client_takes_its_run_with_it() {
    let server = Server::start("client-killed");
    let mut child = sleeping(&server, "mark-away-killed", &[]);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the end of the tree", || processes_inside("mark-away-killed").is_empty());
    assert!(server.run(&["run", "-c", "pass"]).status.success());
}

#[test]
fn ctrl_c_takes_the_tree_and_keeps_the_evidence() {
    let server = Server::start("ctrl-c");
    for signal in heeded_signals() {
        let child = sleeping(&server, "mark-served-ctrl-c", &["--json"]);
        send(child.id(), signal);
        assert_taken_back(child);
        eventually("the end of the tree", || processes_inside("mark-served-ctrl-c").is_empty());
    }
}

#[test]
fn a_second_signal_ends_a_client_whose_reader_is_stuck() {
    let server = Server::start("stuck");
    let code = "import sys, subprocess\nsubprocess.Popen(['bash', '-c', 'sleep 600; : mark-stuck'])\n\
                while True: sys.stdout.write('x' * 60000)";
    let mut child = server
        .saggar(&["run", "-c", code, "--output-limit", "1G", "--timeout", "10m"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the tree", || !processes_inside("mark-stuck").is_empty());
    // The first is passed on though nothing is read; the second does not wait for that.
    send(child.id(), Signal::TERM);
    eventually("the end of the tree", || processes_inside("mark-stuck").is_empty() || is_blocked_in_write(child.id()));
    send(child.id(), Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    eventually("the end of the tree", || processes_inside("mark-stuck").is_empty());
    assert!(server.peak() < 200_000, "{} KiB", server.peak());
}

fn is_blocked_in_write(pid: u32) -> bool {
    // The number of `write` on x86_64 is 1, elsewhere 64.
    let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    call.starts_with("1 0x1 ") || call.starts_with("64 0x1 ")
}

#[test]
fn a_reader_that_goes_away_ends_the_run() {
    let server = Server::start("reader");
    let code = "while True: print('x' * 1000)";
    let mut child = server.saggar(&["run", "-c", code, "--output-limit", "1G"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn standard_input_streams_and_does_not_pile_up() {
    let server = Server::start("stdin");
    converse(server.saggar(&["run", "-c", "import sys\nfor line in sys.stdin: print(line.strip()[::-1], flush=True)"]));

    // More than anybody may hold, to one who reads and to one who does not.
    let sizes = if std::env::var_os("SAGGAR_TEST_LONG").is_some() { 1 << 30 } else { 200 << 20 };
    let big = folder("serve-stdin-big").join("big");
    fs::File::create(&big).unwrap().set_len(sizes).unwrap();
    let output = server.run(&["exec", "--stdin", big.to_str().unwrap(), "--", "wc", "-c"]);
    assert_eq!(text(&output.stdout), format!("{sizes}\n"));
    let child = sleeping(&server, "mark-served-stdin", &["--stdin", big.to_str().unwrap()]);
    send(child.id(), Signal::TERM);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert!(server.peak() < 100_000, "{} KiB", server.peak());

    // `-` is the code, and leaves nothing to read; a closed one is empty.
    let mut child =
        server.saggar(&["run", "-l", "bash", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"cat; echo end").unwrap();
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), "end\n");
}

#[test]
fn output_of_any_size_arrives_whole() {
    let server = Server::start("output");
    let code = "import sys\nfor i in range(20): sys.stdout.buffer.write(bytes([i]) * 1_000_003)\nsys.stderr.write('e' * 300_000)";
    let output = server.run(&["run", "-c", code, "--output-limit", "64M"]);
    let wanted: Vec<u8> = (0..20).flat_map(|i| vec![i; 1_000_003]).collect();
    assert!(output.stdout == wanted && output.stderr == vec![b'e'; 300_000], "{} bytes", output.stdout.len());
    let result = json(&server.run(&["run", "--json", "-c", "print('ä' * 5_000_000)", "--output-limit", "64M"]));
    assert_eq!(result["stdout"].as_str().unwrap().len(), 10_000_001);
}

#[test]
fn files_go_in_and_come_back() {
    let server = Server::start("files");
    let base = folder("serve-files-inputs");
    let (out, tool) = (base.join("out"), base.join("tool"));
    fs::write(&tool, "#!/bin/sh\necho tool").unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    fs::File::create(base.join("big")).unwrap().set_len(50 << 20).unwrap();
    fs::create_dir_all(out.join("taken")).unwrap();
    let code = "import os, shutil\nos.system('./tool')\nos.makedirs('a/b')\nopen('a/b/x.txt', 'w').write('data')\n\
                shutil.copy('big', 'copy')\nopen('run', 'w').write('x')\nos.chmod('run', 0o6755)\nopen('taken', 'w').write('x')\n\
                open('empty', 'w')";
    let (tool, big) = (tool.to_str().unwrap(), base.join("big"));
    let args = ["--file", tool, "--file", big.to_str().unwrap(), "--out", out.to_str().unwrap(), "--disk", "200M"];
    let result = json(&server.run(&[&["run", "--json", "-c", code], &args[..]].concat()));
    assert_eq!((&result["ok"], &result["stdout"]), (&true.into(), &"tool\n".into()), "{result}");
    assert_eq!(fs::read_to_string(out.join("a/b/x.txt")).unwrap(), "data");
    assert_eq!(fs::metadata(out.join("copy")).unwrap().len(), 50 << 20);
    assert_eq!(fs::metadata(out.join("run")).unwrap().mode() & 0o7777, 0o755);
    assert_eq!(fs::metadata(out.join("empty")).unwrap().len(), 0);
    assert!(result["feedback"][0]["message"].as_str().unwrap().contains("in the way"), "{result}");
    assert!(server.peak() < 100_000, "{} KiB", server.peak());

    // More than the run may hold: refused while the client still sends.
    let output = server.run(&["run", "--json", "-c", "1", "--file", big.to_str().unwrap(), "--disk", "1M"]);
    assert_eq!((&json(&output)["error"]["code"], output.status.code()), (&"invalid_request".into(), Some(2)));
    let output = server.run(&["run", "--json", "-c", "1", "--out", "/proc/nowhere"]);
    assert_eq!((&json(&output)["error"]["code"], output.status.code()), (&"output_unwritable".into(), Some(125)));
    // A folder that is full in the middle of a file; the server serves on.
    let full = folder("serve-full");
    let script = format!(
        "mount -t tmpfs -o size=1m none {0} && {1} run --json -c \"open('f', 'w').write('x' * 5000000)\" --out {0}",
        full.display(),
        env!("CARGO_BIN_EXE_saggar"),
    );
    let output =
        Command::new("unshare").args(["-m", "sh", "-c", &script]).env("SAGGAR_HOME", &server.home).output().unwrap();
    assert_eq!((&json(&output)["error"]["code"], output.status.code()), (&"output_unwritable".into(), Some(125)));
    assert!(server.run(&["run", "-c", "pass"]).status.success());
}

/// The client must have run by itself, and said so once.
fn runs_alone(home: &Path, why: &str) {
    let output = client(home, &["run", "-c", "print(1)"]).output().unwrap();
    let said = text(&output.stderr);
    let socket = home.join("saggar.sock");
    let start = format!("saggar: no server behind {} (", socket.display());
    assert!(said.starts_with(&start) && said.ends_with("); running without it\n"), "{said}");
    assert!(said.lines().count() == 1 && said.contains(why), "{said}");
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("1\n", Some(0)));
}

#[test]
fn a_client_runs_alone_where_no_server_answers() {
    let home = home("alone");
    let output = client(&home, &["run", "-c", "print(1)"]).output().unwrap();
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("1\n", ""));

    // What a killed server leaves behind.
    let mut server = Server::start_with(&home, &[]);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    assert!(server.socket().exists());
    runs_alone(&home, "refused");
    for way in [&["run", "--cold", "-c", "print(1)"][..], &["run", "--config", "/dev/null", "-c", "print(1)"]] {
        let output = client(&home, way).output().unwrap();
        assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("1\n", ""), "{way:?}");
    }
    let output = client(&home, &["run", "-c", "print(1)"]).env("SAGGAR_CONFIG", "/dev/null").output().unwrap();
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("1\n", ""));

    // The next server takes its place.
    let server = Server::start_with(&home, &[]);
    assert!(server.run(&["run", "-c", "pass"]).status.success());
    assert!(keeper_of(server.child.id()).is_some());
    drop(server);

    for (answer, why) in [
        ("HTTP/1.1 409 Conflict\r\ncontent-length: 0\r\n\r\n", "another version"),
        ("HTTP/1.1 500 Oh\r\n\r\n", "answered 500"),
        ("SSH-2.0-x\r\n\r\n", "does not speak HTTP"),
        ("", "end of file"),
    ] {
        fs::remove_file(home.join("saggar.sock")).unwrap();
        let listener = UnixListener::bind(home.join("saggar.sock")).unwrap();
        let fake = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 4096];
            let n = stream.read(&mut asked).unwrap();
            assert!(text(&asked[..n]).contains("x-saggar-version: 0.1.0"));
            stream.write_all(answer.as_bytes()).unwrap();
        });
        runs_alone(&home, why);
        fake.join().unwrap();
    }
}

#[test]
fn another_version_is_refused_before_anything_is_read() {
    let server = Server::start("version");
    let mut stream = UnixStream::connect(server.socket()).unwrap();
    stream
        .write_all(b"GET /v1/attach HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: saggar\r\nx-saggar-version: 9.9.9\r\n\r\n")
        .unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(text(&head), "HTTP/1.1 409");
    // The same socket answers HTTP without a key, for its owner.
    let mut stream = UnixStream::connect(server.socket()).unwrap();
    let body = r#"{"code": "print(1)"}"#;
    write!(
        stream,
        "POST /v1/runs HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    assert!(all.starts_with("HTTP/1.1 200") && all.contains(r#""stdout":"1\n""#), "{all}");
}

#[test]
fn other_users_are_strangers_on_the_socket() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "needs root to become somebody else");
        eprintln!("skipped: needs root to become somebody else");
        return;
    }
    let as_nobody = |script: &str, socket: &Path| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", script])
            .arg(socket);
        command
    };
    // Both doors of the folder stand wide open: only who asks is left to tell them apart.
    let server = Server::start_with(&std_temp("strangers"), &[]);
    for path in [server.home.as_path(), &server.socket()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let script = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
                  try:\n s.sendall(b'GET /healthz HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n'); print(s.recv(100))\n\
                  except (BrokenPipeError, ConnectionResetError): print(b'')";
    let output = as_nobody(script, &server.socket()).output().unwrap();
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("b''\n", ""));

    // And a stranger's server is asked nothing.
    let home = server.home.clone();
    assert_eq!(server.stop(Signal::TERM), Some(0));
    let script = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen()\nprint('ready', flush=True)\n\
                  c, _ = s.accept()\nprint(c.recv(100))";
    let mut stranger = as_nobody(script, &home.join("saggar.sock")).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(stranger.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    runs_alone(&home, "another user's server");
    line.clear();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "b''\n");
    stranger.wait().unwrap();
    fs::remove_dir_all(home).unwrap();
}

/// A folder that other users can reach, unlike the build's.
fn std_temp(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("saggar-test-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir(&path).unwrap();
    path
}

#[test]
fn a_server_that_nobody_asks_goes_away() {
    let home = home("idle");
    let mut server = Server::start_with(&home, &["--idle-exit", "1s"]);
    // A run that takes longer than that is no idleness; longer, too, than a server that ends would wait for it.
    let output = server.run(&["run", "-c", "import time; time.sleep(5); print('done')"]);
    assert_eq!(text(&output.stdout), "done\n");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert!(!server.socket().exists());
}

#[test]
fn where_it_cannot_listen_it_says_why() {
    let server = Server::start("first");
    refuses(&mut serve(&server.home, &[]), "already running", 125);
    assert!(server.run(&["run", "-c", "pass"]).status.success(), "the first was disturbed");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let other = home("second");
    refuses(&mut serve(&other, &["--listen", &address]), "in use", 125);
    assert!(!other.join("saggar.sock").exists());
    refuses(&mut serve(&other, &["--listen", "0.0.0.0:0"]), "loopback", 2);
    drop(Server::start_with(&other, &["--listen", "localhost:0"]));
    assert_eq!(serve(&other, &["--listen", "here"]).output().unwrap().status.code(), Some(2));
    fs::set_permissions(&other, fs::Permissions::from_mode(0o777)).unwrap();
    refuses(&mut serve(&other, &[]), "written by others", 125);
}

#[test]
fn strangers_on_tcp_cannot_keep_the_owner_out() {
    let server = Server::start("crowd");
    let crowd: Vec<TcpStream> = (0..400).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    assert_eq!(text(&server.run(&["run", "-c", "print(1)"]).stdout), "1\n");
    drop(crowd);
    assert_eq!(server.ask("GET /healthz HTTP/1.1", "").0, 200);
}

#[test]
fn a_long_path_to_the_state_folder_is_no_hindrance() {
    let home = home("long").join("x".repeat(120));
    let server = Server::start_with(&home, &[]);
    assert!(server.run(&["run", "-c", "pass"]).status.success());
    assert!(keeper_of(server.child.id()).is_some());
}

#[test]
fn a_server_killed_in_the_middle_is_an_error_and_no_second_run() {
    let server = Server::start("killed");
    let child = sleeping(&server, "mark-server-killed", &["--json"]);
    let keeper = keeper_of(server.child.id()).unwrap();
    send(server.child.id(), Signal::KILL);
    let output = child.wait_with_output().unwrap();
    assert_eq!((&json(&output)["error"]["code"], output.status.code()), (&"server_gone".into(), Some(125)));
    eventually("the end of the tree", || processes_inside("mark-server-killed").is_empty());
    eventually("the end of the keeper", || !is_alive(keeper));
}

#[test]
fn a_stopped_server_leaves_nothing_and_tells_its_clients() {
    let server = Server::start("stopped");
    let child = sleeping(&server, "mark-server-stopped", &["--json"]);
    let body =
        serde_json::json!({"code": sleeping_tree_code("mark-server-http"), "limits": {"wall_ms": 600_000}}).to_string();
    let head = format!("POST /v1/runs HTTP/1.1\r\nx-api-key: {}\r\nhost: localhost", server.key());
    let stream = server.send(&head, &body);
    eventually("the tree", || !processes_inside("mark-server-http").is_empty());
    let (keeper, socket) = (keeper_of(server.child.id()).unwrap(), server.socket());
    assert_eq!(server.stop(Signal::TERM), Some(0));
    assert!(!socket.exists());
    let output = child.wait_with_output().unwrap();
    assert_eq!((&json(&output)["outcome"]["kind"], output.status.code()), (&"cancelled".into(), Some(130)));
    assert_eq!(answer(stream).1["outcome"]["kind"], "cancelled");
    for mark in ["mark-server-stopped", "mark-server-http"] {
        eventually("the end of the tree", || processes_inside(mark).is_empty());
    }
    eventually("the end of the keeper", || !is_alive(keeper));
}

#[test]
fn a_run_that_is_about_to_end_may_end_before_the_server_does() {
    let server = Server::start("drain");
    let code = "import time\nprint('ready', flush=True)\ntime.sleep(1)\nprint('done')";
    let mut child = server.saggar(&["run", "-c", code]).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(server.stop(Signal::TERM), Some(0));
    line.clear();
    said.read_line(&mut line).unwrap();
    assert_eq!((line.as_str(), child.wait().unwrap().code()), ("done\n", Some(0)));
}
