//! `[server]` in the settings: where it listens, by which names, with which certificate, what it says, how it stops.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::http::{Server, home, saggar, whole};
use common::{eventually, json, send, text};
use rustix::process::Signal;
use serde_json::Value;

fn settings(home: &Path, content: &str) -> String {
    let path = home.join("saggar.toml");
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

fn started(name: &str, content: &str) -> Server {
    let home = home(name);
    let config = settings(&home, content);
    Server::start_in(&home, &["--config", &config])
}

fn certificates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls")
}

#[test]
fn a_certificate_makes_it_speak_tls_and_nothing_else() {
    let folder = certificates();
    let content = format!(
        "[server.tls]\ncertificate = '{}'\nkey = '{}'\n",
        folder.join("certificate.pem").display(),
        folder.join("key.pem").display()
    );
    let server = started("tls", &content);
    let port = server.address.rsplit(':').next().unwrap();
    let url = format!("https://localhost:{port}");
    let run = |authority: &str| {
        let mut command = saggar(&home("tls-client"), &["run", "--server", &url, "-c", "print(6 * 7)"]);
        command
            .env("SAGGAR_API_KEY", server.key())
            .env("SSL_CERT_FILE", folder.join(authority))
            .env_remove("SSL_CERT_DIR");
        command.output().unwrap()
    };
    let output = run("authority.pem");
    assert_eq!(text(&output.stdout), "42\n", "{}", text(&output.stderr));
    // Who does not trust it does not talk to it, and nobody is served in the clear.
    assert_eq!(run("certificate.pem").status.code(), Some(125));
    assert_eq!(whole(server.send(&server.key(), "GET /healthz", "", b"")).status, 0);
    let output = saggar(&server.home, &["run", "-c", "print(1)"]).output().unwrap();
    assert_eq!(text(&output.stdout), "1\n", "the socket is as it was");
}

#[test]
fn it_listens_elsewhere_only_where_somebody_said_how() {
    let home = home("elsewhere");
    for (content, why) in [
        ("", "hosts"),
        ("[server]\nlisten = '0.0.0.0:0'", "hosts"),
        ("[server]\nhosts = ['box.example']", "in the clear"),
        ("[server]\nbehind_proxy = true", "hosts"),
        ("[server]\nhosts = ['box.example']\n[server.tls]\ncertificate = '/nowhere'\nkey = '/nowhere'", "/nowhere"),
        ("[server]\nhost = 'box.example'", "unknown field"),
    ] {
        let config = settings(&home, content);
        let output = saggar(&home, &["--config", &config, "serve", "--listen", "0.0.0.0:0"]).output().unwrap();
        let said = text(&output.stderr);
        assert!(said.starts_with("error: ") && said.contains(why) && said.contains("hint: "), "{content}: {said}");
        assert_eq!(output.status.code(), Some(2), "{content}: {said}");
    }
    let server =
        started("elsewhere-named", "[server]\nlisten = '0.0.0.0:0'\nhosts = ['box.example']\nbehind_proxy = true\n");
    // `--listen` goes over the settings, so this one is on the loopback; its name is as they say.
    for (host, status) in [("box.example", 200), ("BOX.example:443", 200), ("localhost", 200), ("evil.example", 403)] {
        let stream = std::net::TcpStream::connect(&server.address).unwrap();
        write!(&stream, "GET /healthz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
        assert_eq!(whole(stream).status, status, "{host}");
    }
}

#[test]
fn every_request_is_a_line_of_json_without_secrets() {
    let home = home("log");
    let config = settings(&home, "[server]\nlog = 'json'\n");
    let mut serve = saggar(&home, &["--config", &config, "serve", "--listen", "127.0.0.1:0"]);
    let mut child = serve.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let address = first.split("http://").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let server = Server { child, home, address };
    let answer = server.ask("GET /v1/runs/nothing?secret=hidden", "");
    let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(
        (&line["method"], &line["path"], &line["status"]),
        (&"GET".into(), &"/v1/runs/nothing".into(), &404.into())
    );
    assert_eq!((line["request_id"].as_str(), &line["caller"]), (answer.header("x-request-id"), &"http".into()));
    assert!(line["ms"].is_number() && !line.to_string().contains("hidden"), "{line}");
    assert!(!line.to_string().contains(&server.key()));
}

#[test]
fn runs_may_end_before_the_server_does_for_as_long_as_it_says() {
    let mut server = started("drain", "[server]\ndrain_ms = 60000\n");
    let body = r#"{"code": "import sys, time\nprint('on', flush=True)\ntime.sleep(2)\nprint('over')"}"#;
    let run = server.send(&server.key(), "POST /v1/runs", "accept: text/event-stream\r\n", body.as_bytes());
    eventually("it to run", || server.metric("saggar_running") == 1);
    send(server.child.id(), Signal::TERM);
    let told = whole(run).body;
    assert!(told.contains("over") && told.contains("\"code\":0"), "{told}");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn settings_are_shown_as_a_file_would_have_them() {
    let home = home("config");
    let config =
        settings(&home, "[server]\nhosts = ['box.example']\n[limits]\nwall_ms = 1234\n[admission.keys]\nper_day = 7\n");
    let show = |config: &str, more: &[&str]| {
        saggar(&home, &[&["--config", config, "config", "show"], more].concat()).output().unwrap()
    };
    let first = json(&show(&config, &["--json"]));
    assert_eq!((&first["limits"]["wall_ms"], &first["server"]["hosts"][0]), (&1234.0.into(), &"box.example".into()));
    assert_eq!(first["admission"]["keys"]["per_day"], 7);
    let again = settings(&home, &text(&show(&config, &[]).stdout));
    assert_eq!(json(&show(&again, &["--json"])), first);
}
