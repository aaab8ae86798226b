//! `SandboxFusion`'s clients are served by our address alone, and only those who may ask.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{eventually, folder, processes_inside, sleeping_tree_code, text};
use serde_json::json;

/// A server with a state folder and settings of its own.
struct Server {
    child: Child,
    home: PathBuf,
    address: String,
}

impl Server {
    fn start(name: &str, settings: &str) -> Self {
        let home = folder(name);
        let config = home.join("saggar.toml");
        fs::write(&config, settings).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_saggar"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&config).env("SAGGAR_HOME", &home);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(' ').next());
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, home, address }
    }

    fn key(&self) -> String {
        fs::read_to_string(self.home.join("api-key")).unwrap().trim().to_owned()
    }

    fn send(&self, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\n{headers}connection: close\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        stream
    }

    fn status(&self, path: &str, headers: &str, body: &str) -> u16 {
        let mut answer = String::new();
        self.send(path, headers, body).read_to_string(&mut answer).unwrap();
        answer
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3)?.parse().ok())
            .unwrap_or_else(|| panic!("{answer}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const OPEN: &str = "[fusion]\nwithout_key = true\n";

/// Lets `SandboxFusion`'s own client check everything.
fn check(url: &str) {
    let python = std::env::var("SAGGAR_TEST_MCP")
        .unwrap_or_else(|_| format!("{}/.cache/saggar-test-tools/mcp/bin/python3", std::env::var("HOME").unwrap()));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fusion/client.py");
    let output = Command::new(&python)
        .arg(script)
        .arg(url)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{python}: {error}; scripts/test installs it"));
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn its_own_client_and_verls_requests_are_served_by_url_alone() {
    let server = Server::start("fusion-client", OPEN);
    check(&format!("http://{}", server.address));
}

#[test]
fn a_key_in_the_url_opens_a_server_that_asks_for_one() {
    let server = Server::start("fusion-key", "");
    let body = json!({"code": "print(1)", "language": "python"}).to_string();
    let host = format!("host: {}\r\n", server.address);
    for path in ["/run_code", "/run_jupyter", "/submit"] {
        assert_eq!(server.status(path, &host, &body), 401, "{path}");
    }
    check(&format!("http://key:{}@{}", server.key(), server.address));
}

#[test]
fn pages_from_elsewhere_may_not_ask_though_nobody_needs_a_key() {
    let server = Server::start("fusion-pages", OPEN);
    let body = json!({"code": "print(1)", "language": "python"}).to_string();
    let host = format!("host: {}\r\n", server.address);
    for (headers, status) in [
        (host.clone(), 200),
        ("host: evil.example\r\n".to_owned(), 403),
        (format!("{host}origin: https://evil.example\r\n"), 403),
        (format!("{host}origin: null\r\n"), 403),
    ] {
        assert_eq!(server.status("/run_code", &headers, &body), status, "{headers}");
    }
    // Nothing else is open to him.
    for path in ["/v1/runs", "/v1/sessions", "/mcp"] {
        assert_eq!(server.status(path, &host, &body), 401, "{path}");
    }
}

#[test]
fn notebooks_cannot_have_every_session() {
    let server = Server::start("fusion-notebooks", OPEN);
    let host = format!("host: {}\r\n", server.address);
    let mark = "fusion-notebooks-8120";
    let body = json!({"cells": [sleeping_tree_code(mark)], "total_timeout": 600}).to_string();
    let asking: Vec<TcpStream> = (0..40).map(|_| server.send("/run_jupyter", &host, &body)).collect();
    let sessions = || {
        let listed = Command::new(env!("CARGO_BIN_EXE_saggar"))
            .args(["session", "list", "--json"])
            .env("SAGGAR_HOME", &server.home)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        serde_json::from_slice::<serde_json::Value>(&listed.stdout).unwrap().as_array().unwrap().len()
    };
    eventually("as many as may run do", || processes_inside(mark).len() >= 32 && sessions() >= 32);
    assert_eq!(sessions(), 32);
    drop(asking);
    eventually("all end with their clients", || processes_inside(mark).is_empty() && sessions() == 0);
}

#[test]
fn a_client_that_vanishes_takes_its_run_with_it() {
    let server = Server::start("fusion-vanish", OPEN);
    let host = format!("host: {}\r\n", server.address);
    for (path, mark) in [("/run_code", "fusion-vanish-5511"), ("/run_jupyter", "fusion-vanish-5512")] {
        let code = sleeping_tree_code(mark);
        let body =
            json!({"code": code, "cells": [code], "language": "python", "run_timeout": 600, "total_timeout": 600});
        let stream = server.send(path, &host, &body.to_string());
        eventually("the program runs", || !processes_inside(mark).is_empty());
        drop(stream);
        eventually("the program ends", || processes_inside(mark).is_empty());
    }
}
