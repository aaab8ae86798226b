//! A server and plain requests to it over TCP, as a client in any language makes them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{folder, text};

/// A server with a state folder of its own.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) home: PathBuf,
    pub(crate) address: String,
}

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of an error in the form of the contract.
    pub(crate) fn error(&self) -> String {
        let error = &self.json()["error"];
        for field in ["message", "hint"] {
            assert!(error[field].as_str().unwrap().len() > 5, "{self:?}");
        }
        assert!(error["request_id"].as_str().unwrap().starts_with("req_"), "{self:?}");
        error["code"].as_str().unwrap().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let is_it = |line: &&str| line.to_ascii_lowercase().starts_with(&format!("{name}: "));
        self.head.lines().find(is_it).map(|line| &line[name.len() + 2..])
    }
}

impl Server {
    pub(crate) fn start(name: &str) -> Self {
        Self::start_in(&home(name), &[])
    }

    pub(crate) fn start_in(home: &Path, options: &[&str]) -> Self {
        let mut serve = saggar(home, &["serve", "--listen", "127.0.0.1:0"]);
        Self::of(serve.args(options).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap(), home)
    }

    /// One that was started, with its messages in a pipe; it may have something else to say first.
    pub(crate) fn of(mut child: Child, home: &Path) -> Self {
        let mut reader = BufReader::new(child.stderr.take().unwrap());
        let (mut line, mut said) = (String::new(), String::new());
        while !line.contains("listening") {
            line.clear();
            assert!(reader.read_line(&mut line).unwrap() > 0, "it does not listen: {said}");
            said.push_str(&line);
        }
        let address = line.split("://").nth(1).and_then(|rest| rest.split(' ').next());
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        // What it says later must find a reader.
        std::thread::spawn(move || drop(std::io::copy(&mut reader, &mut std::io::sink())));
        Self { child, home: home.to_path_buf(), address }
    }

    /// The first key.
    pub(crate) fn key(&self) -> String {
        fs::read_to_string(self.home.join("api-key")).unwrap().trim().to_owned()
    }

    pub(crate) fn saggar(&self, args: &[&str]) -> Command {
        saggar(&self.home, args)
    }

    /// Sends a request with a key of one's own, and more headers, such as `a: b\r\n`.
    pub(crate) fn send(&self, key: &str, request: &str, headers: &str, body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(2))).unwrap();
        let (host, length) = (&self.address, body.len());
        let head = format!(
            "{request} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        // A server that refuses may close before it has read all.
        let _ = stream.write_all(&[head.as_bytes(), body].concat());
        stream
    }

    pub(crate) fn ask_as(&self, key: &str, request: &str, body: &str) -> Answer {
        whole(self.send(key, request, "", body.as_bytes()))
    }

    /// With the first key.
    pub(crate) fn ask(&self, request: &str, body: &str) -> Answer {
        self.ask_as(&self.key(), request, body)
    }

    pub(crate) fn ask_with(&self, request: &str, headers: &str, body: &str) -> Answer {
        whole(self.send(&self.key(), request, headers, body.as_bytes()))
    }

    /// The value of one series that counts; 0 if it is not there.
    pub(crate) fn metric(&self, series: &str) -> u64 {
        let page = self.ask("GET /metrics", "").body;
        let found = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        found.map_or(0, |value| value.parse().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn home(name: &str) -> PathBuf {
    let home = folder(&format!("http-{name}"));
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    home
}

pub(crate) fn saggar(home: &Path, args: &[&str]) -> Command {
    let mut command = super::saggar(args);
    command.env("SAGGAR_HOME", home);
    command
}

/// Reads to the end of the connection.
pub(crate) fn whole(mut stream: TcpStream) -> Answer {
    let mut all = Vec::new();
    // A reset after the answer is no news.
    let _ = stream.read_to_end(&mut all);
    let all = text(&all);
    let (head, body) = all.split_once("\r\n\r\n").unwrap_or((&all, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body =
        if head.to_ascii_lowercase().contains("transfer-encoding: chunked") { unchunk(body) } else { body.to_owned() };
    Answer { status, head: head.to_owned(), body }
}

fn unchunk(mut body: &str) -> String {
    let mut all = Vec::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).unwrap_or(0);
        if length == 0 || rest.len() < length {
            break;
        }
        all.extend_from_slice(&rest.as_bytes()[..length]);
        body = rest.get(length + 2..).unwrap_or("");
    }
    text(&all)
}

/// The events of a stream: their number, name and data.
pub(crate) fn events(body: &str) -> Vec<(u64, String, Value)> {
    let field = |event: &str, name: &str| {
        event
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned))
            .unwrap_or_default()
    };
    let event = |event: &str| {
        let data = serde_json::from_str(&field(event, "data")).unwrap_or(Value::Null);
        (field(event, "id").parse().unwrap_or(0), field(event, "event"), data)
    };
    body.split("\n\n").filter(|event| event.contains("event: ")).map(event).collect()
}
