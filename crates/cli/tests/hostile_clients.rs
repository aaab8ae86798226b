//! Clients that mean harm, or are badly made: none of them holds a run, confuses the server, or is served for another.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use common::http::{Answer, Server, whole};
use common::{eventually, processes_inside, sleeping_tree_code};
use serde_json::json;

/// Sends bytes as they are and reads what comes back until the end.
fn raw(server: &Server, bytes: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    // It stays open to the end: a client that closes its side counts as gone, and gets no answer.
    let _ = stream.write_all(bytes);
    whole(stream)
}

fn works(server: &Server) {
    let answer = server.ask("POST /v1/runs", r#"{"code": "print(6 * 7)"}"#);
    assert_eq!((answer.status, answer.json()["stdout"].as_str()), (200, Some("42\n")), "{answer:?}");
}

#[test]
fn a_client_that_vanishes_frees_its_run_within_a_second() {
    let server = Server::start("vanish");
    works(&server);
    for (mark, headers) in [("mark-vanish-plain", ""), ("mark-vanish-events", "accept: text/event-stream\r\n")] {
        let body = json!({"code": sleeping_tree_code(mark), "limits": {"wall_ms": 600_000}}).to_string();
        let stream = server.send(&server.key(), "POST /v1/runs", headers, body.as_bytes());
        eventually(mark, || !processes_inside(mark).is_empty());
        let gone = Instant::now();
        drop(stream);
        eventually("its end", || processes_inside(mark).is_empty());
        // A second by the promise; what looks for processes on a loaded machine takes its time, too.
        assert!(gone.elapsed() < Duration::from_secs(3), "{mark}: {:?}", gone.elapsed());
    }
    eventually("free places", || server.metric("saggar_running") == 0);
    assert_eq!(
        server.metric("saggar_runs_total{outcome=\"gone\"}")
            + server.metric("saggar_runs_total{outcome=\"cancelled\"}"),
        2
    );
    assert_eq!(
        server
            .ask("GET /v1/runs", "")
            .json()
            .as_array()
            .unwrap()
            .iter()
            .filter(|run| run["state"] == "running")
            .count(),
        0
    );
}

#[test]
fn half_sent_requests_and_slow_readers_hold_nothing() {
    let server = Server::start("slow");
    let key = server.key();
    let host = &server.address;
    let half_head = format!("POST /v1/runs HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\n");
    let half_body = format!("{half_head}content-length: 1000\r\n\r\n{{\"code\"");
    let mut held: Vec<TcpStream> = Vec::new();
    for bytes in [half_head.as_str(), half_body.as_str(), "P", ""].into_iter().cycle().take(40) {
        let mut stream = TcpStream::connect(host).unwrap();
        stream.write_all(bytes.as_bytes()).unwrap();
        held.push(stream);
    }
    // Readers that take nothing of an endless output.
    let body = json!({"code": "while True: print('x' * 4000)", "limits": {"wall_ms": 600_000}}).to_string();
    let readers: Vec<TcpStream> =
        (0..4).map(|_| server.send(&key, "POST /v1/runs", "accept: text/event-stream\r\n", body.as_bytes())).collect();
    eventually("all four", || server.metric("saggar_running") == 4);
    let before = server.metric("saggar_memory_bytes");
    for _ in 0..20 {
        works(&server);
    }
    assert!(server.metric("saggar_memory_bytes") < before + (64 << 20), "what nobody reads is not kept");
    drop(readers);
    eventually("none", || server.metric("saggar_running") == 0);
    drop(held);
    works(&server);
}

#[test]
fn idle_connections_keep_nobody_out() {
    let server = Server::start("idle");
    works(&server);
    let key = server.key();
    let host = &server.address;
    // A client with a key keeps its connection, whatever strangers do.
    let mut friend = TcpStream::connect(host).unwrap();
    let asks = |stream: &mut TcpStream| {
        let head = format!("GET /v1/runs HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
    };
    asks(&mut friend);
    let half_head = format!("POST /v1/runs HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\n");
    let half_body = format!("{half_head}content-length: 1000\r\n\r\n{{\"code\"");
    for bytes in ["", "GET /healthz HT", half_head.as_str(), half_body.as_str()] {
        // More than there are places for.
        let held: Vec<TcpStream> = (0..1100)
            .filter_map(|_| {
                let mut stream = TcpStream::connect(host).ok()?;
                // One that made room for another cannot be written to any more.
                let _ = stream.write_all(bytes.as_bytes());
                Some(stream)
            })
            .collect();
        let start = Instant::now();
        works(&server);
        assert!(start.elapsed() < Duration::from_secs(10), "{bytes:?}: {:?}", start.elapsed());
        if !bytes.contains("content-length") {
            // What it has not read of its last answer is read first.
            let mut rest = vec![0; 1 << 16];
            friend.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            while friend.read(&mut rest).is_ok_and(|count| count > 0) {}
            friend.set_read_timeout(None).unwrap();
            asks(&mut friend);
        }
        drop(held);
    }
    assert!(server.metric("saggar_connections_closed_total{way=\"tcp\"}") > 0);
    assert_eq!(server.metric("saggar_connections_refused_total{way=\"tcp\"}"), 0);
}

#[test]
fn bodies_that_are_too_large_are_refused_before_they_are_read() {
    let server = Server::start("large");
    let key = server.key();
    for path in ["POST /v1/runs", "POST /v1/judge", "POST /v1/sessions"] {
        let head = format!(
            "{path} HTTP/1.1\r\nhost: {}\r\nx-api-key: {key}\r\ntransfer-encoding: chunked\r\n\r\n",
            server.address
        );
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let piece = [b"100000\r\n".as_slice(), &vec![b'x'; 1 << 20], b"\r\n"].concat();
        // It may close as soon as it has seen enough.
        let sent = (0..80).take_while(|_| stream.write_all(&piece).is_ok()).count();
        let answer = whole(stream);
        assert!(answer.status == 413 || (answer.status == 0 && sent < 80), "{path}: {answer:?}");
    }
    works(&server);
    assert!(server.metric("saggar_memory_bytes") < 512 << 20);
}

#[test]
fn requests_that_two_could_read_differently_are_not_read_at_all() {
    let server = Server::start("smuggle");
    let (host, key) = (&server.address, server.key());
    let inner = format!("GET /v1/audit HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\n\r\n");
    let start = format!("POST /v1/runs HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\n");
    for (name, headers, body) in [
        ("both lengths", "content-length: 5\r\ntransfer-encoding: chunked\r\n", format!("0\r\n\r\n{inner}")),
        ("two lengths", "content-length: 0\r\ncontent-length: 30\r\n", inner.clone()),
        ("a list of lengths", "content-length: 0, 30\r\n", inner.clone()),
        ("a length with a sign", "content-length: +0\r\n", inner.clone()),
        ("another coding", "transfer-encoding: xchunked\r\n", format!("0\r\n\r\n{inner}")),
        ("chunked, but not last", "transfer-encoding: chunked, identity\r\n", format!("0\r\n\r\n{inner}")),
        ("a name with a blank", "content-length : 0\r\n", inner.clone()),
        ("a folded line", "x: a\r\n content-length: 0\r\n", inner.clone()),
        ("a bare return", "x: a\rcontent-length: 0\r\n", inner.clone()),
        ("a null", "x: a\0b\r\n", inner.clone()),
    ] {
        let mut stream = TcpStream::connect(host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let _ = stream.write_all(format!("{start}{headers}\r\n{body}").as_bytes());
        let _ = stream.shutdown(Shutdown::Write);
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let answer = String::from_utf8_lossy(&all);
        assert!(!answer.contains("\"seq\""), "{name}: {answer}");
        assert!(!answer.contains("HTTP/1.1 200"), "{name}: {answer}");
        assert!(!answer.contains("HTTP/1.1 5"), "{name}: {answer}");
    }
    for hosts in ["host: localhost\r\nhost: evil.example\r\n", "host: localhost, evil.example\r\n", "host:\r\n", ""] {
        let answer = raw(&server, format!("GET /healthz HTTP/1.1\r\n{hosts}connection: close\r\n\r\n").as_bytes());
        assert_ne!(answer.status, 200, "{hosts}: {answer:?}");
    }
    let other = format!("GET http://evil.example/healthz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    assert_ne!(raw(&server, other.as_bytes()).status, 200);
    let page =
        format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\norigin: https://evil.example\r\nconnection: close\r\n\r\n");
    assert_eq!(raw(&server, page.as_bytes()).error(), "wrong_host");
    works(&server);
}

#[test]
fn nonsense_in_paths_headers_and_bodies_is_refused_in_one_form() {
    let server = Server::start("nonsense");
    let session = server.ask("POST /v1/sessions", "").json()["id"].as_str().unwrap().to_owned();
    for path in [
        "/v1/runs/..%2f..%2fapi-key",
        "/v1/runs/%00",
        "/v1/runs/run_%f0%9f%92%a9",
        "/v1/../api-key",
        "/v1/runs/../../keys.json",
        "//v1/runs/x",
        "/v1/sessions/..%2fkeys.json",
        "/v1/snapshots/..%2f..%2fkeys/archive",
        "/v1/snapshots/%2e%2e%2f%2e%2e%2fapi-key/archive",
    ] {
        let answer = server.ask(&format!("GET {path}"), "");
        assert!((400..405).contains(&answer.status), "{path}: {answer:?}");
        answer.error();
    }
    for path in ["%00", "/work/a%00b", "", "a%ffb", &"x".repeat(5000), &"a/".repeat(3000)] {
        for request in ["GET", "PUT"] {
            let answer = server.ask(&format!("{request} /v1/sessions/{session}/files?path={path}"), "");
            assert!((400..500).contains(&answer.status), "{request} {path}: {answer:?}");
            answer.error();
        }
    }
    let up = server.ask(&format!("GET /v1/sessions/{session}/files?path=/work/../../../../../etc/shadow"), "");
    assert!((400..500).contains(&up.status) || !up.body.contains("root:"), "{up:?}");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (body, status) in [
        (r#"{"code": "1", "files": [{"path": "../x", "text": ""}]}"#.to_owned(), 400),
        (r#"{"code": "1", "files": [{"path": "/etc/passwd", "text": ""}]}"#.to_owned(), 400),
        (r#"{"code": "1", "files": [{"path": "a\u0000b", "text": ""}]}"#.to_owned(), 400),
        (r#"{"code": "1", "args": ["a\u0000b"]}"#.to_owned(), 400),
        (r#"{"argv": ["a\u0000b"]}"#.to_owned(), 400),
        (r#"{"code": "1", "env": {"A\u0000": "b"}}"#.to_owned(), 400),
        (r#"{"code": "1", "env": {"A=B": "b"}}"#.to_owned(), 400),
        (r#"{"code": "\ud800"}"#.to_owned(), 400),
        (r#"{"code": 1e400}"#.to_owned(), 400),
        (r#"{"code": "1", "limits": {"wall_ms": -1}}"#.to_owned(), 422),
        (r#"{"code": "1", "limits": {"wall_ms": 1e300}}"#.to_owned(), 422),
        (r#"{"code": "1", "code": "2"}"#.to_owned(), 400),
        (format!(r#"{{"code": "1", "args": {deep}}}"#), 400),
        ("\u{feff}{}".to_owned(), 400),
        (String::new(), 400),
    ] {
        let answer = server.ask("POST /v1/runs", &body);
        assert_eq!(answer.status, status, "{}: {answer:?}", &body[..body.len().min(80)]);
        answer.error();
    }
    let answer =
        server.ask("POST /v1/runs", r#"{"code": "import sys\nprint('жук 🐞', sys.argv[1])", "args": ["ü\u202e"]}"#);
    assert_eq!(answer.json()["stdout"], "жук 🐞 ü\u{202e}\n");
    let invalid = server.send(&server.key(), "POST /v1/runs", "", b"{\"code\": \"\xff\xfe\"}");
    assert_eq!(whole(invalid).status, 400);
    let many = format!("x-filler: {}\r\n", "y".repeat(1000)).repeat(200);
    let long = raw(&server, format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{many}\r\n").as_bytes());
    assert!(long.status != 200, "{}", long.status);
    works(&server);
}

#[test]
fn a_thousand_refusals_leave_the_server_as_it_was() {
    let server = Server::start("refusals");
    works(&server);
    let before = server.metric("saggar_memory_bytes");
    for number in 0..1000 {
        let body = if number % 2 == 0 { "nonsense" } else { r#"{"code": "1", "limits": {"pids": 0}}"# };
        assert!(server.ask("POST /v1/runs", body).status >= 400);
    }
    assert!(server.metric("saggar_memory_bytes") < before + (32 << 20));
    let stream = server.send(&server.key(), "GET /healthz", "", b"");
    assert!(BufReader::new(stream).lines().next().unwrap().unwrap().contains("200"));
}
