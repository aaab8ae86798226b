//! The audit trail from outside: `saggar audit`, two processes at once, and `kill -9` at any moment.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{folder, json, text};
use serde_json::Value;

fn home(name: &str) -> PathBuf {
    let home = folder(&format!("audit-{name}"));
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    home
}

fn saggar(home: &Path, args: &[&str]) -> Command {
    let mut command = common::saggar(args);
    command.env("SAGGAR_HOME", home);
    command
}

fn run(home: &Path, args: &[&str]) -> Output {
    saggar(home, args).output().unwrap()
}

/// Ids in the trail, which must be whole.
fn ids(home: &Path) -> BTreeSet<String> {
    let verdict = run(home, &["audit", "verify"]);
    assert_eq!(verdict.status.code(), Some(0), "{}", text(&verdict.stdout));
    let export = run(home, &["audit", "export"]);
    let entry = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
    text(&export.stdout).lines().map(entry).collect()
}

struct Server {
    child: Child,
    address: String,
    key: String,
}

impl Server {
    fn start(home: &Path, options: &[&str]) -> Self {
        let mut command = saggar(home, &["serve", "--listen", "127.0.0.1:0"]);
        let mut child = command.args(options).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
        let key = fs::read_to_string(home.join("api-key")).unwrap().trim().to_owned();
        Self { child, address, key }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Head and body of an answer, if one came whole.
fn post(address: &str, key: &str, body: &str) -> Option<(String, Value)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let length = body.len();
    write!(
        stream,
        "POST /v1/runs HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .ok()?;
    let mut all = String::new();
    stream.read_to_string(&mut all).ok()?;
    let (head, body) = all.split_once("\r\n\r\n")?;
    Some((head.to_owned(), serde_json::from_str(body).ok()?))
}

#[test]
fn the_log_stays_short_however_many_commands_there_were() {
    let home = home("short-log");
    for _ in 0..80 {
        let refused = run(&home, &["run", "--policy", "guard", "-l", "bash", "-c", "rm -rf /"]);
        assert_eq!(refused.status.code(), Some(126), "{}", text(&refused.stderr));
    }
    // Whoever comes next reads all of it. Eighty entries in the log would be 500 KB.
    let length = fs::metadata(home.join("audit.db-wal")).unwrap().len();
    assert!(length < 320 << 10, "{length} bytes");
    assert_eq!(run(&home, &["audit", "verify"]).status.code(), Some(0));
}

#[test]
fn entries_are_listed_shown_and_exported() {
    let home = home("commands");
    let first = json(&run(&home, &["run", "--json", "-c", "print(1)"]));
    run(&home, &["run", "-l", "cobol", "-c", "1"]);
    run(&home, &["exec", "--", "bash", "-c", "kill -9 $$"]);
    let listed = json(&run(&home, &["audit", "list", "--json"]));
    let column = |name: &str| -> Vec<Value> { listed.as_array().unwrap().iter().map(|e| e[name].clone()).collect() };
    assert_eq!(column("seq"), [3, 2, 1]);
    assert_eq!(column("kind"), ["run", "error", "run"]);
    assert_eq!(column("outcome"), ["signaled", "unknown_language", "exited"]);
    let id = first["id"].as_str().unwrap();
    for name in ["1", id] {
        let shown = json(&run(&home, &["audit", "show", name, "--json"]));
        assert_eq!(shown, listed[2]);
        let shown: Value = serde_json::from_slice(&run(&home, &["audit", "show", name]).stdout).unwrap();
        assert_eq!(shown, listed[2]);
    }
    assert_eq!(run(&home, &["audit", "show", "99"]).status.code(), Some(1));
    let table = text(&run(&home, &["audit", "list", "--limit", "1"]).stdout);
    assert!(table.lines().count() == 2 && table.contains("signaled"), "{table}");
    let file = home.join("export.jsonl");
    assert!(run(&home, &["audit", "export", "--out", file.to_str().unwrap()]).status.success());
    let exported: Vec<Value> =
        fs::read_to_string(&file).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(exported.iter().rev().cloned().collect::<Value>(), listed);
    assert_eq!(run(&home, &["audit", "export", "--out", file.to_str().unwrap()]).status.code(), Some(125));
}

#[test]
fn filters_leave_out_the_rest() {
    let home = home("filters");
    run(&home, &["run", "-c", "print(1)"]);
    run(&home, &["run", "-l", "cobol", "-c", "1"]);
    let time = json(&run(&home, &["audit", "show", "2", "--json"]))["time"].as_str().unwrap().to_owned();
    let count = |filters: &[&str]| {
        let listed = json(&run(&home, &[&["audit", "list", "--json"], filters].concat())).as_array().unwrap().len();
        let exported = text(&run(&home, &[&["audit", "export"], filters].concat()).stdout).lines().count();
        assert_eq!(listed, exported);
        listed
    };
    for (filters, left) in [
        (&["--since", "1h"][..], 2),
        (&["--until", "1h"], 0),
        (&["--since", &time], 1),
        (&["--until", &time], 1),
        (&["--since", "2020-01-01", "--until", "2020-01-02"], 0),
        (&["--caller", "local"], 2),
        (&["--caller", "http"], 0),
        (&["--outcome", "exited"], 1),
        (&["--kind", "error", "--since", "5m"], 1),
        (&["--kind", "error", "--outcome", "exited"], 0),
    ] {
        assert_eq!(count(filters), left, "{filters:?}");
    }
    assert_eq!(run(&home, &["audit", "list", "--since", "yesterday"]).status.code(), Some(2));
}

#[test]
fn verify_says_what_is_wrong_and_where() {
    let home = home("verify");
    for _ in 0..3 {
        run(&home, &["run", "-l", "bash", "-c", "true"]);
    }
    let good = run(&home, &["audit", "verify", "--json"]);
    let verdict = json(&good);
    assert_eq!(
        (good.status.code(), &verdict["entries"], &verdict["ok"]),
        (Some(0), &Value::from(3), &Value::from(true))
    );
    let head = fs::read_to_string(home.join("audit.head")).unwrap();
    assert!(head.contains(verdict["head_hash"].as_str().unwrap()));
    let database = rusqlite::Connection::open(home.join("audit.db")).unwrap();
    database
        .execute_batch("DROP TRIGGER entry_is_not_changed; UPDATE entry SET outcome = 'exitee' WHERE seq = 2")
        .unwrap();
    drop(database);
    let bad = run(&home, &["audit", "verify", "--json"]);
    let verdict = json(&bad);
    assert_eq!(
        (bad.status.code(), &verdict["first_bad"]["seq"], &verdict["ok"]),
        (Some(1), &Value::from(2), &Value::from(false))
    );
    let words = text(&run(&home, &["audit", "verify"]).stdout);
    assert!(words.starts_with("bad: entry 2 (run_") && words.contains("head: entry 3"), "{words}");
}

#[test]
fn a_trail_on_a_full_disk_lets_nothing_run() {
    let home = home("full");
    let command = format!(
        "mount -t tmpfs -o size=1m none {0} && {1} run -c 'print(0)' >/dev/null && \
         head -c 2M /dev/zero > {0}/filler 2>/dev/null; {1} run --json -c 'print(1)'",
        home.display(),
        env!("CARGO_BIN_EXE_saggar")
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "bash", "-c", &command]).env("SAGGAR_HOME", &home);
    let output = unshare.output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", text(&output.stderr));
    assert_eq!(json(&output)["error"]["code"], "audit_unavailable");
}

#[test]
fn who_asks_too_often_over_http_gets_429_and_a_time() {
    let home = home("rate");
    let config = home.join("saggar.toml");
    fs::write(&config, "[admission.first_key]\nper_minute = 1\n").unwrap();
    let server = Server::start(&home, &["--config", config.to_str().unwrap()]);
    let body = r#"{"language": "bash", "code": "true"}"#;
    let (head, _) = post(&server.address, &server.key, body).unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let (head, answer) = post(&server.address, &server.key, body).unwrap();
    assert!(head.starts_with("HTTP/1.1 429"), "{head}");
    let after = head.lines().find_map(|line| line.strip_prefix("retry-after: ")).unwrap();
    assert!((1..=60).contains(&after.parse::<u64>().unwrap()), "{after}");
    assert_eq!(answer["error"]["code"], "rate_limited");
    // The owner's own command line has no limit.
    for _ in 0..3 {
        assert!(run(&home, &["run", "-l", "bash", "-c", "true"]).status.success());
    }
    let rejected = json(&run(&home, &["audit", "list", "--kind", "rejected", "--json"]));
    assert_eq!((&rejected[0]["caller"], &rejected[0]["outcome"]), (&"http".into(), &"rate_limited".into()));
    assert!(!fs::read(home.join("audit.db")).unwrap().windows(40).any(|w| server.key.as_bytes().ends_with(w)));
}

#[test]
fn a_server_and_commands_write_one_trail() {
    let home = home("both");
    let server = Server::start(&home, &[]);
    let seen = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..8 {
                    let result = json(&run(&home, &["run", "--cold", "--json", "-l", "bash", "-c", "true"]));
                    seen.lock().unwrap().insert(result["id"].as_str().unwrap().to_owned());
                }
            });
            scope.spawn(|| {
                for _ in 0..30 {
                    let (_, result) =
                        post(&server.address, &server.key, r#"{"language": "bash", "code": "true"}"#).unwrap();
                    seen.lock().unwrap().insert(result["id"].as_str().unwrap().to_owned());
                }
            });
        }
    });
    assert_eq!(seen.into_inner().unwrap(), ids(&home));
}

/// How often something is killed: a look, or in full.
fn kills(short: usize) -> usize {
    if std::env::var_os("SAGGAR_TEST_LONG").is_some() { 100 } else { short }
}

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

#[test]
fn killing_the_server_loses_no_entry_whose_answer_was_given() {
    let home = home("kill-serve");
    let (mut dice, mut answered) = (Dice(1), BTreeSet::new());
    for round in 0..kills(12) {
        let mut server = Server::start(&home, &[]);
        let (count, got) = (AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
        let enough = usize::try_from(dice.roll(40)).unwrap();
        let (address, key) = (server.address.clone(), server.key.clone());
        std::thread::scope(|scope| {
            for _ in 0..6 {
                // Until the server is gone.
                scope.spawn(|| {
                    while let Some((_, result)) = post(&address, &key, r#"{"language": "bash", "code": "true"}"#) {
                        got.lock().unwrap().insert(result["id"].as_str().unwrap().to_owned());
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            common::eventually("enough answers", || count.load(Ordering::Relaxed) >= enough);
            server.child.kill().unwrap();
            server.child.wait().unwrap();
        });
        answered.extend(got.into_inner().unwrap());
        let lost: Vec<_> = answered.difference(&ids(&home)).cloned().collect();
        assert!(lost.is_empty(), "round {round} lost {lost:?}");
    }
    assert!(!answered.is_empty());
}

#[test]
fn killing_a_command_loses_no_entry_whose_answer_was_given() {
    let home = home("kill-run");
    // How long a whole one takes, right now.
    let whole = || {
        let start = Instant::now();
        assert!(run(&home, &["run", "-l", "bash", "-c", "true"]).status.success());
        u64::try_from(start.elapsed().as_micros()).unwrap()
    };
    let mut time = whole();
    let (mut dice, mut answered) = (Dice(2), BTreeSet::new());
    let mut killed = 0;
    for _ in 0..kills(40) {
        let start =
            || saggar(&home, &["run", "--json", "-l", "bash", "-c", "true"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut both = [start(), start()];
        let moment = Instant::now() + Duration::from_micros(dice.roll(time * 2));
        while Instant::now() < moment {
            std::thread::yield_now();
        }
        for child in &mut both {
            child.kill().unwrap();
            let mut out = String::new();
            child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
            killed += usize::from(child.wait().unwrap().code().is_none());
            if let Ok(result) = serde_json::from_str::<Value>(&out) {
                answered.insert(result["id"].as_str().unwrap().to_owned());
            }
        }
        // Whatever was left behind, the next run goes.
        time = whole();
    }
    let lost: Vec<_> = answered.difference(&ids(&home)).cloned().collect();
    assert!(lost.is_empty(), "lost {lost:?}");
    assert!(killed > 5 && !answered.is_empty(), "{killed} killed, {} answered", answered.len());
}
