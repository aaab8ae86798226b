//! A scripted OpenAI-compatible server on loopback: does what it is told, call by call, and remembers what it was sent.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]
#![allow(dead_code, reason = "each test file uses its share")]

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// What the server does with one call.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Answers as a model would, with 100 tokens read, 40 of them cached, and 20 written.
    Say(String),
    /// The same without a count of tokens.
    SayUncounted(String),
    /// Claims this many tokens.
    SayCounted(String, u64),
    /// Answers as a model that will not.
    Decline,
    /// A status, one header and a body.
    Status(u16, &'static str, String),
    /// Promises more than it sends.
    Cut,
    /// Closes without a word.
    CutAtOnce,
    /// 200, and this body.
    Body(String),
    /// More than anybody reads.
    Flood,
    /// Not HTTP.
    Noise,
    /// Says nothing until the caller is gone.
    Hang,
}

/// What the server was sent.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) target: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

impl Received {
    /// What was said, by role.
    pub(crate) fn messages(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let messages = self.body["messages"].as_array().unwrap();
        messages.iter().map(|message| (text(&message["role"]), text(&message["content"]))).collect()
    }
}

/// The server. Its threads end with the test's process.
pub(crate) struct ModelServer {
    pub(crate) base_url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl ModelServer {
    /// Does one act for each call, and the last of them ever after.
    pub(crate) fn start(acts: impl IntoIterator<Item = Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let acts = Arc::new(Mutex::new(acts.into_iter().collect::<VecDeque<_>>()));
        let seen = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, acts, seen) = (stream.unwrap(), Arc::clone(&acts), Arc::clone(&seen));
                thread::spawn(move || serve(stream, &acts, &seen));
            }
        });
        Self { base_url, received }
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    pub(crate) fn calls(&self) -> usize {
        self.received.lock().unwrap().len()
    }
}

fn serve(stream: TcpStream, acts: &Mutex<VecDeque<Act>>, received: &Mutex<Vec<Received>>) {
    let mut reader = BufReader::new(stream);
    let Some(request) = read_request(&mut reader) else { return };
    // What it does is settled before anybody can see that it was asked.
    let act = {
        let mut acts = acts.lock().unwrap();
        if acts.len() > 1 { acts.pop_front() } else { acts.front().cloned() }
    };
    received.lock().unwrap().push(request);
    // A caller may be gone before it has heard everything.
    let _ = perform(act.unwrap(), &mut reader);
}

fn read_request(reader: &mut impl BufRead) -> Option<Received> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let target = line.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Received { target, headers, body: serde_json::from_slice(&body).ok()? })
}

fn perform(act: Act, reader: &mut BufReader<TcpStream>) -> std::io::Result<()> {
    let mut stream = reader.get_ref().try_clone()?;
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 40}});
    let message = |text: &str| json!({"role": "assistant", "content": text});
    match act {
        Act::Say(text) => answer(&mut stream, &completion(&message(&text), Some(&usage))),
        Act::SayUncounted(text) => answer(&mut stream, &completion(&message(&text), None)),
        Act::SayCounted(text, count) => {
            let usage = json!({"prompt_tokens": count, "completion_tokens": count});
            answer(&mut stream, &completion(&message(&text), Some(&usage)))
        }
        Act::Decline => answer(
            &mut stream,
            &completion(&json!({"content": null, "refusal": "I cannot help with that."}), Some(&usage)),
        ),
        Act::Body(body) => answer(&mut stream, &body),
        Act::Flood => answer(&mut stream, &" ".repeat(8 << 20)),
        Act::Status(status, header, body) => {
            let header = if header.is_empty() { String::new() } else { format!("{header}\r\n") };
            let length = body.len();
            write!(stream, "HTTP/1.1 {status} X\r\n{header}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
        }
        Act::Cut => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{\"choices\": [{\"message\""),
        Act::CutAtOnce => Ok(()),
        Act::Noise => stream.write_all(b"220 mail.example.org ESMTP\r\n"),
        Act::Hang => reader.read_to_end(&mut Vec::new()).map(drop),
    }
}

fn completion(message: &Value, usage: Option<&Value>) -> String {
    let mut body =
        json!({"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
    if let Some(usage) = usage {
        body["usage"] = usage.clone();
    }
    body.to_string()
}

fn answer(stream: &mut TcpStream, body: &str) -> std::io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
    write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// A model that is content.
pub(crate) fn approve() -> Act {
    Act::Say(r#"{"verdict": "approve", "confidence": 0.95, "findings": []}"#.to_owned())
}

/// A model that is not.
pub(crate) fn reject() -> Act {
    let finding = r#"{"line": 2, "severity": "critical", "message": "sends a key away"}"#;
    Act::Say(format!(r#"{{"verdict": "reject", "confidence": 0.9, "findings": [{finding}]}}"#))
}
