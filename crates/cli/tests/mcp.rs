//! MCP: the official client calls every tool over every transport, and what is not the protocol is turned away.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{eventually, folder, processes_inside, sleeping_tree_code, text};
use serde_json::{Value, json};

/// A server with a state folder of its own.
struct Server {
    child: Child,
    home: PathBuf,
    address: String,
}

impl Server {
    fn start(name: &str) -> Self {
        let home = folder(name);
        let mut command = saggar(&home, &["serve", "--listen", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(' ').next());
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, home, address }
    }

    fn key(&self) -> String {
        fs::read_to_string(self.home.join("api-key")).unwrap().trim().to_owned()
    }

    /// Sends a message to `/mcp` with these headers on top of the usual ones.
    fn send(&self, headers: &str, message: &Value) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let body = message.to_string();
        let length = body.len();
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\n{headers}connection: close\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        stream
    }

    /// The whole answer to that.
    fn post(&self, headers: &str, message: &Value) -> String {
        let mut answer = String::new();
        self.send(headers, message).read_to_string(&mut answer).unwrap();
        answer
    }

    /// The usual headers of somebody with the first key.
    fn keyed(&self) -> String {
        self.keyed_by(&self.key())
    }

    fn keyed_by(&self, key: &str) -> String {
        format!("host: {}\r\nauthorization: Bearer {key}\r\n", self.address)
    }

    /// Begins a session of the protocol, as clients of older versions do; the headers by which it goes on.
    fn begin(&self, keyed: &str) -> String {
        let answer = self.post(keyed, &hello());
        let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        let named = format!("{keyed}mcp-session-id: {}\r\n", id.unwrap_or_else(|| panic!("{answer}")));
        let begun = self.post(&named, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert!(begun.starts_with("HTTP/1.1 202"), "{begun}");
        named
    }

    /// What a tool answers.
    fn call(&self, headers: &str, tool: &str, arguments: &Value) -> Value {
        let answer = self.post(headers, &call(1, tool, arguments));
        let mut told = answer
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .filter_map(|data| serde_json::from_str(data).ok());
        let told = told.rfind(|message: &Value| message["id"] == 1);
        told.unwrap_or_else(|| panic!("{answer}"))["result"]["structuredContent"].clone()
    }

    /// Makes a key for somebody else.
    fn new_key(&self, scope: &str) -> String {
        let made = saggar(&self.home, &["key", "create", "--scope", scope, "--json"]).output().unwrap();
        let made: Value = serde_json::from_slice(&made.stdout).unwrap_or_else(|_| panic!("{}", text(&made.stderr)));
        made["key"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn saggar(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_saggar"));
    command.args(args).env("SAGGAR_HOME", home).env_remove("SAGGAR_CONFIG").stdin(Stdio::null());
    command
}

fn hello() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}})
}

fn call(id: u32, tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

/// Lets the official client check everything.
fn check(home: &Path, words: &[&str]) {
    let python = std::env::var("SAGGAR_TEST_MCP")
        .unwrap_or_else(|_| format!("{}/.cache/saggar-test-tools/mcp/bin/python3", std::env::var("HOME").unwrap()));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/client.py");
    let output = Command::new(&python)
        .arg(script)
        .args(words)
        .env("SAGGAR_HOME", home)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{python}: {error}; scripts/test installs it"));
    assert!(output.status.success(), "{words:?}\n{}\n{}", text(&output.stdout), text(&output.stderr));
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_saggar");

#[test]
fn the_official_client_calls_every_tool_of_a_process_of_its_own() {
    check(&folder("mcp-alone"), &["auto", "stdio", PROGRAM, "mcp", "--alone"]);
}

#[test]
fn so_does_one_of_an_older_version() {
    check(&folder("mcp-alone-legacy"), &["legacy", "stdio", PROGRAM, "mcp"]);
}

#[test]
fn the_official_client_calls_every_tool_of_a_server_through_its_socket() {
    let server = Server::start("mcp-socket");
    check(&server.home, &["auto", "stdio", PROGRAM, "mcp"]);
    let sessions = saggar(&server.home, &["session", "list", "--json"]).output().unwrap();
    // It asked this server, which has kept nothing that was ended.
    assert_eq!(text(&sessions.stdout), "[]\n");
    let trail = saggar(&server.home, &["audit", "list", "--json"]).output().unwrap();
    assert!(text(&trail.stdout).contains("\"socket\""), "{}", text(&trail.stdout));
}

#[test]
fn the_official_client_calls_every_tool_over_http() {
    let server = Server::start("mcp-http");
    let url = format!("http://{}/mcp", server.address);
    check(&server.home, &["auto", "http", &url, &server.key()]);
}

#[test]
fn so_does_one_of_an_older_version_over_http() {
    let server = Server::start("mcp-http-legacy");
    let url = format!("http://{}/mcp", server.address);
    check(&server.home, &["legacy", "http", &url, &server.key()]);
}

#[test]
fn who_has_no_key_or_comes_from_a_page_elsewhere_is_turned_away() {
    let server = Server::start("mcp-guard");
    let (address, keyed) = (&server.address, server.keyed());
    let key = server.key();
    for (headers, status) in [
        (format!("host: {address}\r\n"), 401),
        (format!("host: {address}\r\nauthorization: Bearer {}\r\n", key.replace('e', "f")), 401),
        (format!("host: evil.example\r\nauthorization: Bearer {key}\r\n"), 403),
        (format!("{keyed}origin: https://evil.example\r\n"), 403),
        (format!("{keyed}origin: null\r\n"), 403),
        (format!("{keyed}mcp-session-id: {}\r\n", "0".repeat(36)), 404),
        (keyed.clone(), 200),
    ] {
        let answer = server.post(&headers, &hello());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{headers}\n{answer}");
    }
    // The door of the command line is not for those who come by TCP.
    let upgrade = format!("{keyed}upgrade: saggar-mcp\r\nx-saggar-version: 0.1.0\r\n");
    let answer = server.post(&upgrade, &hello());
    assert!(!answer.starts_with("HTTP/1.1 101"), "{answer}");
}

#[test]
fn a_client_that_vanishes_takes_what_it_called_with_it() {
    let server = Server::start("mcp-vanish");
    let mark = "mcp-vanish-7311";
    let named = server.begin(&server.keyed());
    let code = json!({"code": sleeping_tree_code(mark), "limits": {"wall_ms": 600_000}});
    let stream = server.send(&named, &call(1, "run", &code));
    eventually("the program runs", || !processes_inside(mark).is_empty());
    drop(stream);
    eventually("the program ends", || processes_inside(mark).is_empty());
}

#[test]
fn sessions_of_the_protocol_cannot_be_had_without_end() {
    let server = Server::start("mcp-many");
    let first = server.begin(&server.keyed());
    let mut refused = None;
    for count in 1..200 {
        let answer = server.post(&server.keyed(), &hello());
        if !answer.starts_with("HTTP/1.1 200") {
            refused = Some((count, answer));
            break;
        }
    }
    let (count, answer) = refused.unwrap();
    assert!(answer.starts_with("HTTP/1.1 429") && count == 100, "{count} {answer}");
    // Who has one goes on.
    assert_eq!(server.call(&first, "run", &json!({"code": "print(6 * 7)"}))["stdout"], "42\n");
    // And another key has its own.
    let other = server.begin(&server.keyed_by(&server.new_key("run")));
    assert_eq!(server.call(&other, "run", &json!({"code": "print(6 * 7)"}))["stdout"], "42\n");
}

#[test]
fn a_second_tenant_finds_nothing_of_the_first() {
    let server = Server::start("mcp-tenants");
    let keys = [server.new_key("run,judge,session"), server.new_key("run,judge,session")];
    let [one, two] = keys.map(|key| (server.keyed_by(&key), server.begin(&server.keyed_by(&key))));
    // The protocol's session of somebody else is none.
    let stolen = one.1.replace(&one.0, &two.0);
    let answer = server.post(&stolen, &call(1, "session_list", &json!({})));
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    let own = server.call(&one.1, "session_create", &json!({}))["id"].as_str().unwrap().to_owned();
    let kept = server.call(&one.1, "session_snapshot", &json!({"session": own, "name": "kept"}));
    assert_eq!(server.call(&two.1, "session_list", &json!({})), json!({"sessions": []}));
    for (tool, mut arguments) in [
        ("session_run", json!({"code": "1"})),
        ("session_exec", json!({"argv": ["id"]})),
        ("session_write_file", json!({"path": "x", "text": ""})),
        ("session_read_file", json!({"path": "x"})),
        ("session_ls", json!({})),
        ("session_snapshot", json!({})),
        ("session_rollback", json!({"snapshot": kept["id"]})),
        ("session_fork", json!({})),
        ("session_kill", json!({})),
    ] {
        arguments["session"] = own.clone().into();
        let answer = server.call(&two.1, tool, &arguments);
        // Nothing that one who guesses would not be told of a session that never was.
        arguments["session"] = format!("ses_{}", "0".repeat(32)).into();
        let nothing = server.call(&two.1, tool, &arguments);
        assert_eq!(answer["error"]["code"], "not_found", "{tool} {answer}");
        assert_eq!(answer["error"]["hint"], nothing["error"]["hint"], "{tool}");
    }
    let from = server.call(&two.1, "session_create", &json!({"from": kept["id"]}));
    assert_eq!(from["error"]["code"], "not_found", "{from}");
    assert_eq!(server.call(&one.1, "session_list", &json!({}))["sessions"][0]["id"], own);
    // A key opens the tools that it is for, and no others.
    let judge = server.begin(&server.keyed_by(&server.new_key("judge")));
    for (tool, arguments) in
        [("run", json!({"code": "1"})), ("check", json!({"code": "1"})), ("session_list", json!({}))]
    {
        assert_eq!(server.call(&judge, tool, &arguments)["error"]["code"], "forbidden", "{tool}");
    }
    let task = json!({"code": "def f(): return 1", "entry": "f", "cases": [{"args": [], "expected": 1}]});
    assert_eq!(server.call(&judge, "judge", &task)["all_passed"], true);
}

#[test]
fn standard_output_carries_the_protocol_and_nothing_else() {
    let home = folder("mcp-plain");
    let mut child = saggar(&home, &["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut say = |message: &str| writeln!(stdin, "{message}").unwrap();
    say(&hello().to_string());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(told["result"]["serverInfo"]["name"], "saggar", "{line}");
    say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
    for nonsense in ["", "not json", "{", "[1, 2]", "{\"jsonrpc\": \"2.0\"}", "\u{0}", "{\"id\": 5}"] {
        say(nonsense);
    }
    say(&call(7, "run", &json!({"code": "import os, sys\nos.write(1, b'out'); os.write(2, b'err')"})).to_string());
    // What was asked before the end is answered before the end.
    drop(stdin);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    let lines: Vec<Value> = rest.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answer = lines.iter().find(|line| line["id"] == 7).unwrap_or_else(|| panic!("{rest}"));
    assert_eq!(answer["result"]["structuredContent"]["stdout"], "out");
    assert!(lines.iter().all(|line| line["jsonrpc"] == "2.0"), "{rest}");
    assert!(child.wait().unwrap().success());
}

#[test]
fn calls_cannot_pile_up_without_end() {
    let home = folder("mcp-pile");
    let mut child = saggar(&home, &["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    writeln!(stdin, "{}", hello()).unwrap();
    lines.next().unwrap().unwrap();
    writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).unwrap();
    for id in 1..=300 {
        writeln!(stdin, "{}", call(id, "exec", &json!({"argv": ["sleep", "600"], "limits": {"wall_ms": 600_000}})))
            .unwrap();
    }
    // Those that had a place are still waited for.
    for _ in 0..44 {
        let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["result"]["structuredContent"]["error"]["code"], "busy", "{answer}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_killed_process_leaves_nothing_behind() {
    let home = folder("mcp-killed");
    let mark = "mcp-killed-9174";
    let mut child = saggar(&home, &["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    writeln!(stdin, "{}", hello()).unwrap();
    stdout.read_line(&mut String::new()).unwrap();
    writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).unwrap();
    writeln!(stdin, "{}", call(1, "run", &json!({"code": sleeping_tree_code(mark)}))).unwrap();
    eventually("the program runs", || !processes_inside(mark).is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the program ends", || processes_inside(mark).is_empty());
}
