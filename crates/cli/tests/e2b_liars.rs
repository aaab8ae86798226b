//! A server that speaks E2B's interface and lies: whoever sends a run there is harmed no further than that run.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start programs and fail loudly")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::{folder, json, text};

/// What the server does to its client.
#[derive(Clone, Copy, PartialEq)]
enum Lie {
    /// A message of four gigabytes is announced, and begins.
    HugeMessage,
    /// Our program's own frame is announced to be as long.
    HugeFrame,
    /// Output without an end, of a run that never ends.
    Endless,
    /// Names that are no names of files.
    Names,
    /// More of a file than was said, without an end.
    LongFile,
    /// Words that are no JSON.
    Garbage,
    /// Nothing at all, for ever.
    Silence,
}

/// Frames of our own program, as they go over its streams.
const MESSAGE: u8 = 0;
const OUT: u8 = 1;
const CONTENT: u8 = 3;
const END: u8 = 4;

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind][..], &u32::try_from(payload.len()).unwrap().to_le_bytes(), payload].concat()
}

/// One event with output of our program.
fn event(output: &[u8]) -> Vec<u8> {
    let message = format!(r#"{{"event":{{"data":{{"stdout":"{}"}}}}}}"#, STANDARD.encode(output));
    types::connect::frame(0, message.as_bytes())
}

struct Liar {
    address: String,
}

impl Liar {
    fn start(lie: Lie) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        // No more of a lie than the client takes.
        let (say, said) = sync_channel::<Vec<u8>>(64);
        let stage = Stage { said: std::sync::Mutex::new(Some(said)), started: AtomicBool::new(false) };
        let stage = Arc::new(stage);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (say, stage) = (say.clone(), Arc::clone(&stage));
                std::thread::spawn(move || serve(stream, lie, &say, &stage));
            }
        });
        Self { address }
    }

    fn run(&self, args: &[&str]) -> (Output, Duration, u64) {
        let url = format!("http://{}", self.address);
        let mut command = Command::new(env!("CARGO_BIN_EXE_saggar"));
        command.args(["run", "--backend", "e2b", "--json", "--timeout", "1s", "-c", "pass"]).args(args);
        command.env("SAGGAR_HOME", folder(&format!("e2b-liar-{}", self.address))).env_remove("SAGGAR_CONFIG");
        command.env("E2B_API_KEY", "e2b_none").env("E2B_API_URL", &url).env("E2B_SANDBOX_URL", &url);
        let begin = Instant::now();
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (output, peak) = watched(child);
        (output, begin.elapsed(), peak)
    }
}

/// Waits for the end; the most memory that was seen, in KiB.
fn watched(child: Child) -> (Output, u64) {
    let status = format!("/proc/{}/status", child.id());
    let (end, ended) = channel::<()>();
    let watcher = std::thread::spawn(move || {
        let mut peak = 0;
        while ended.recv_timeout(Duration::from_millis(20)).is_err() {
            let status = fs::read_to_string(&status).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
            let kib = line.trim().trim_end_matches(" kB").trim().parse().unwrap_or(0);
            peak = kib.max(peak);
        }
        peak
    });
    let output = child.wait_with_output().unwrap();
    let _ = end.send(());
    (output, watcher.join().unwrap())
}

/// What is to be said, and whether the program was started: what ends then is its input, and no file.
struct Stage {
    said: std::sync::Mutex<Option<Receiver<Vec<u8>>>>,
    started: AtomicBool,
}

fn serve(stream: TcpStream, lie: Lie, say: &SyncSender<Vec<u8>>, stage: &Stage) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let mut first = String::new();
        reader.read_line(&mut first).ok().filter(|n| *n > 0)?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let path = first.split(' ').nth(1)?;
        if path.ends_with("/Start") {
            write!(writer, "HTTP/1.1 200 OK\r\ncontent-type: application/connect+json\r\n\r\n").ok()?;
            return tell(&mut writer, lie, &stage.said.lock().unwrap().take()?);
        }
        let (status, answer) = match path {
            "/v2/sandboxes" => {
                ("201 Created", r#"{"sandboxID":"iliar","clientID":"x","templateID":"base","envdVersion":"0.6.7"}"#)
            }
            _ if path.starts_with("/files") => ("200 OK", "[]"),
            _ if path.ends_with("/SendInput") => {
                obey(&body, lie, say, stage);
                ("200 OK", "{}")
            }
            _ => ("204 No Content", ""),
        };
        write!(writer, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len()).ok()?;
    }
}

/// The stream of what our program says, as the server makes it up.
fn tell(writer: &mut TcpStream, lie: Lie, said: &Receiver<Vec<u8>>) -> Option<()> {
    let start = types::connect::frame(0, br#"{"event":{"start":{"pid":7}}}"#);
    writer.write_all(&start).ok()?;
    let path = format!(r#"{{"event":{{"data":{{"stderr":"{}"}}}}}}"#, STANDARD.encode("/usr/bin\n"));
    writer.write_all(&types::connect::frame(0, path.as_bytes())).ok()?;
    match lie {
        Lie::HugeMessage => {
            writer.write_all(&[0, 255, 255, 255, 255]).ok()?;
            loop {
                writer.write_all(&vec![b'x'; 65536]).ok()?;
            }
        }
        Lie::HugeFrame => writer.write_all(&event(&[OUT, 255, 255, 255, 255])).ok()?,
        Lie::Garbage => writer.write_all(&types::connect::frame(0, b"<html>")).ok()?,
        Lie::Silence | Lie::Endless | Lie::Names | Lie::LongFile => {}
    }
    for bytes in said {
        writer.write_all(&event(&bytes)).ok()?;
    }
    None
}

/// Answers an order of the engine as our program would, and worse.
fn obey(body: &[u8], lie: Lie, say: &SyncSender<Vec<u8>>, stage: &Stage) {
    let message: serde_json::Value = serde_json::from_slice(body).unwrap();
    let bytes = STANDARD.decode(message["input"]["stdin"].as_str().unwrap()).unwrap();
    let report = |payload: &[u8]| drop(say.send(frame(MESSAGE, payload)));
    if lie == Lie::Silence {
        return;
    }
    match (bytes[0], bytes.get(5)) {
        // Close: ready, with the three walls that a process can build.
        (MESSAGE, Some(0)) => report(&[0, 3, 7, 8, 9]),
        // Start: started, and ended well.
        (MESSAGE, Some(2)) => {
            stage.started.store(true, Ordering::SeqCst);
            report(&[3]);
            if lie == Lie::Endless {
                let (say, piece) = (say.clone(), frame(OUT, &vec![b'y'; 60_000]));
                std::thread::spawn(move || while say.send(piece.clone()).is_ok() {});
            } else {
                report(&[5, 0, 0, 1, 1, 1, 0]);
            }
        }
        // List.
        (MESSAGE, Some(4)) => {
            let names: &[&str] = match (lie, bytes.get(6)) {
                (Lie::Names, Some(0)) => {
                    &["../escaped", "..", ".", "", "/tmp/escaped-e2b", "a/../../escaped", "fine.txt"]
                }
                (Lie::LongFile, Some(0)) => &["long.txt"],
                _ => &[],
            };
            let mut entries = vec![6, u8::try_from(names.len()).unwrap()];
            for name in names {
                entries.push(u8::try_from(name.len()).unwrap());
                entries.extend(name.bytes());
                entries.push(1);
            }
            report(&entries);
            report(&[1]);
        }
        // Stat: five bytes.
        (MESSAGE, Some(5)) => report(&[7, 5, 0]),
        // Read.
        (MESSAGE, Some(6)) => {
            drop(say.send(frame(CONTENT, b"hello")));
            if lie == Lie::LongFile {
                let (say, piece) = (say.clone(), frame(CONTENT, &vec![b'z'; 60_000]));
                std::thread::spawn(move || while say.send(piece.clone()).is_ok() {});
            } else {
                drop(say.send(frame(END, &[])));
            }
        }
        // Room: nothing is full.
        (MESSAGE, Some(7)) => report(&[8, 0]),
        // Placed files end with a frame of their own.
        (END, _) if !stage.started.load(Ordering::SeqCst) => report(&[1]),
        _ => {}
    }
}

const MOST_KIB: u64 = 150 << 10;

#[test]
fn messages_and_frames_without_measure_are_errors_and_take_no_memory() {
    for lie in [Lie::HugeMessage, Lie::HugeFrame, Lie::Garbage] {
        let (output, took, peak) = Liar::start(lie).run(&[]);
        assert_eq!(output.status.code(), Some(125), "{}", text(&output.stdout));
        assert_eq!(json(&output)["error"]["code"], "sandbox_failed");
        assert!(took < Duration::from_mins(1) && peak < MOST_KIB, "{took:?}, {peak} KiB");
    }
}

#[test]
fn output_without_an_end_is_ended_here() {
    let (output, took, peak) = Liar::start(Lie::Endless).run(&[]);
    assert_eq!(output.status.code(), Some(124), "{}", text(&output.stdout));
    assert!(took < Duration::from_secs(90) && peak < MOST_KIB, "{took:?}, {peak} KiB");
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for_for_ever() {
    let (output, took, _) = Liar::start(Lie::Silence).run(&[]);
    assert_eq!(output.status.code(), Some(125), "{}", text(&output.stdout));
    assert!(took < Duration::from_mins(2), "{took:?}");
}

#[test]
fn names_that_lead_elsewhere_are_left_out() {
    let out: PathBuf = folder("e2b-liar-out").join("a/b");
    let (output, ..) = Liar::start(Lie::Names).run(&["--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let files: Vec<String> = json(&output)["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(files, ["fine.txt"]);
    assert_eq!(fs::read_to_string(out.join("fine.txt")).unwrap(), "hello");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
    assert_eq!(fs::read_dir(out.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn a_file_is_no_longer_than_it_was_said_to_be() {
    let out = folder("e2b-liar-long");
    let (output, took, peak) = Liar::start(Lie::LongFile).run(&["--out", out.to_str().unwrap()]);
    assert!(took < Duration::from_mins(1) && peak < MOST_KIB, "{took:?}, {peak} KiB");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "{}", text(&output.stdout));
}
