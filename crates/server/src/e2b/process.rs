//! The service `process.Process`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::{CommandSpec, Heard, Listener, RunError, Running, Session, SessionError, Stream, TerminalSize};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use types::{LimitKind, LimitsSpec, Outcome};

use super::connect::{self, Code, Failure};
use super::envd::{Asked, home, user};
use super::stream::{Cut, Pieces};
use crate::activity::turned;

/// What one message carries of a program's output.
const PIECE: usize = 32 << 10;
/// Messages that wait for a slow reader; then the program waits.
const QUEUE: usize = 16;
/// How long a killed program may take to be gone.
const KILL_TIME: Duration = Duration::from_secs(5);
/// After so long without a word clients are told that nothing is wrong.
const QUIET: u64 = 90;

const SIGTERM: i32 = 15;

pub(super) async fn serve(asked: &Asked<'_>, method: &str, request: Request) -> Result<Response, Failure> {
    match method {
        "List" => Ok(list(&asked.session)),
        "Start" => Ok(start(asked, request).await.unwrap_or_else(|failure| refused(&failure))),
        "Connect" => Ok(attach(asked, request).await.unwrap_or_else(|failure| refused(&failure))),
        "Update" => update(&asked.session, connect::message(request).await?),
        "SendInput" => send_input(&asked.session, connect::message(request).await?).await,
        "StreamInput" => Ok(stream_input(&asked.session, request).await.unwrap_or_else(|failure| refused(&failure))),
        "SendSignal" => send_signal(&asked.session, connect::message(request).await?).await,
        "CloseStdin" => close_stdin(&asked.session, &connect::message(request).await?),
        _ => Err(Failure::new(Code::Unimplemented, "there is no such method")),
    }
}

/// A failure of a call that answers in frames is a frame too.
pub(super) fn refused(failure: &Failure) -> Response {
    in_frames(failure.last_frame())
}

fn in_frames(frames: Vec<u8>) -> Response {
    use axum::response::IntoResponse as _;
    ([(axum::http::header::CONTENT_TYPE, FRAMES)], frames).into_response()
}

pub(super) const FRAMES: &str = "application/connect+json";

fn list(session: &Session) -> Response {
    let running = session.processes().into_iter().filter(|process| process.outcome.is_none());
    let processes: Vec<Value> = running
        .map(|process| {
            let (cmd, args) = process.argv.split_first().map_or((String::new(), &[][..]), |(a, b)| (a.clone(), b));
            let config = json!({ "cmd": cmd, "args": args, "envs": {}, "cwd": process.cwd });
            let mut told = json!({ "config": config, "pid": process.pid });
            if let Some(tag) = process.tag {
                told["tag"] = tag.into();
            }
            told
        })
        .collect();
    connect::answer(&json!({ "processes": processes }))
}

#[derive(Deserialize)]
struct Start {
    process: Config,
    pty: Option<Pty>,
    tag: Option<String>,
    stdin: Option<bool>,
}

#[derive(Deserialize)]
struct Config {
    cmd: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    envs: BTreeMap<String, String>,
    cwd: Option<String>,
}

#[derive(Deserialize)]
struct Pty {
    size: Option<Size>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Size {
    cols: u16,
    rows: u16,
}

impl Pty {
    fn size(&self) -> TerminalSize {
        let size = self.size.as_ref();
        let known = |value: Option<u16>, usual| value.filter(|value| *value > 0).unwrap_or(usual);
        TerminalSize { columns: known(size.map(|size| size.cols), 80), rows: known(size.map(|size| size.rows), 24) }
    }
}

async fn start(asked: &Asked<'_>, request: Request) -> Result<Response, Failure> {
    let headers = request.headers().clone();
    let user = user(&headers)?;
    let Start { process, pty, tag, stdin } = connect::first(request).await?;
    let longest = asked.shared.engine.longest();
    // What the client waits for is also how long it lives; more than any may is as much as any may.
    let wall = connect::timeout(&headers).map(|ms| Duration::from_millis(ms).min(longest).as_secs_f64() * 1e3);
    let command = CommandSpec {
        argv: std::iter::once(process.cmd).chain(process.args).collect(),
        env: process.envs,
        cwd: Some(super::envd::resolved(process.cwd.as_deref().unwrap_or(home(user)), user)?.as_str().to_owned()),
        user,
        limits: LimitsSpec { wall_ms: wall, ..LimitsSpec::default() },
        stdin_open: stdin.unwrap_or(true),
        terminal: pty.as_ref().map(Pty::size),
        tag,
        ..CommandSpec::default()
    };
    let running = asked.shared.engine.start_in_session(&asked.sandbox.owner, &asked.session, command).await?;
    let listener = running.listen().hold();
    Ok(events(asked, running, listener, pty.is_some(), &headers))
}

async fn attach(asked: &Asked<'_>, request: Request) -> Result<Response, Failure> {
    let headers = request.headers().clone();
    let Named { process } = connect::first(request).await?;
    let running = asked.session.process(&process.name()).map_err(|_| process.missing())?;
    let listener = running.listen_from_now().hold();
    let is_terminal = running.has_terminal();
    Ok(events(asked, running, listener, is_terminal, &headers))
}

fn events(
    asked: &Asked<'_>,
    running: Arc<Running>,
    listener: Listener,
    is_terminal: bool,
    headers: &HeaderMap,
) -> Response {
    let (queue, pieces) = mpsc::channel(QUEUE);
    let (gone, left) = watch::channel(false);
    let cut = Cut::default();
    let quiet = headers.get("keepalive-ping-interval").and_then(|value| value.to_str().ok()?.parse().ok());
    let teller = Teller {
        running,
        listener,
        is_terminal,
        session: Arc::clone(&asked.session),
        quiet: Duration::from_secs(quiet.unwrap_or(QUIET).max(1)),
        queue,
        cut: cut.clone(),
    };
    tokio::spawn(teller.tell(left));
    Pieces { queue: pieces, cut, gone }.answer(FRAMES)
}

/// Tells one client what a program says.
struct Teller {
    running: Arc<Running>,
    listener: Listener,
    is_terminal: bool,
    session: Arc<Session>,
    quiet: Duration,
    queue: mpsc::Sender<Vec<u8>>,
    cut: Cut,
}

impl Teller {
    /// Until the program ends, or the client goes away: that leaves the program alone.
    async fn tell(mut self, mut left: watch::Receiver<bool>) {
        let ended = self.session.ended();
        tokio::select! {
            () = self.speak() => {}
            () = ended => self.cut.set(),
            () = turned(&mut left) => {}
        }
    }

    async fn speak(&mut self) {
        let mut told = self.say(&json!({ "event": { "start": { "pid": self.running.pid() } } })).await;
        while told {
            let Ok(heard) = tokio::time::timeout(self.quiet, self.listener.next()).await else {
                told = self.say(&json!({ "event": { "keepalive": {} } })).await;
                continue;
            };
            match heard {
                Some(Heard::Output(stream, bytes)) => {
                    let name = match stream {
                        _ if self.is_terminal => "pty",
                        Stream::Out => "stdout",
                        Stream::Err => "stderr",
                    };
                    for piece in bytes.chunks(PIECE) {
                        told &= self.say(&json!({ "event": { "data": { name: STANDARD.encode(piece) } } })).await;
                    }
                }
                Some(Heard::Lost(_)) => {}
                Some(Heard::Ended(_)) if self.running.is_lost() => return self.cut.set(),
                Some(Heard::Ended(outcome)) => return self.end(&outcome).await,
                None => return self.cut.set(),
            }
        }
    }

    async fn say(&self, message: &Value) -> bool {
        self.queue.send(connect::framed(message)).await.is_ok()
    }

    async fn end(&self, outcome: &Outcome) {
        let last = match ending(outcome) {
            Ok(end) => {
                self.say(&json!({ "event": { "end": end } })).await;
                connect::last()
            }
            Err(failure) => failure.last_frame(),
        };
        let _ = self.queue.send(last).await;
    }
}

/// How a program ended, in E2B's words.
fn ending(outcome: &Outcome) -> Result<Value, Failure> {
    let signaled = |name: &str| {
        let status = format!("signal: {name}");
        json!({ "exitCode": -1, "exited": false, "status": status, "error": status })
    };
    match outcome {
        Outcome::Exited { code: 0 } => Ok(json!({ "exitCode": 0, "exited": true, "status": "exit status 0" })),
        Outcome::Exited { code } => {
            let status = format!("exit status {code}");
            Ok(json!({ "exitCode": code, "exited": true, "status": status, "error": status }))
        }
        Outcome::Signaled { signal } => Ok(signaled(signal_name(*signal))),
        Outcome::LimitExceeded { limit: LimitKind::Wall } => {
            Err(Failure::new(Code::DeadlineExceeded, "the command has reached its timeout and was killed"))
        }
        Outcome::LimitExceeded { limit } => Ok(signaled(&format!("killed ({} limit)", limit.name()))),
        Outcome::Cancelled | Outcome::Refused { .. } => Ok(signaled("killed")),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        6 => "aborted",
        7 => "bus error",
        8 => "floating point exception",
        9 => "killed",
        11 => "segmentation fault",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        _ => "unknown",
    }
}

/// A program by its number or its name.
#[derive(Deserialize)]
struct Selector {
    pid: Option<u32>,
    tag: Option<String>,
}

impl Selector {
    fn name(&self) -> String {
        self.pid.map(|pid| pid.to_string()).or_else(|| self.tag.clone()).unwrap_or_default()
    }

    fn missing(&self) -> Failure {
        let words = match (self.pid, &self.tag) {
            (Some(pid), _) => format!("process with pid {pid} not found"),
            (None, tag) => format!("process with tag {} not found", tag.as_deref().unwrap_or_default()),
        };
        Failure::new(Code::NotFound, words)
    }

    /// One that runs.
    fn running(&self, session: &Session) -> Result<Arc<Running>, Failure> {
        let found = session.process(&self.name()).map_err(|_| self.missing())?;
        if found.info().outcome.is_some() { Err(self.missing()) } else { Ok(found) }
    }
}

#[derive(Deserialize)]
struct Named {
    process: Selector,
}

#[derive(Deserialize)]
struct Update {
    process: Selector,
    pty: Option<Pty>,
}

fn update(session: &Session, message: Update) -> Result<Response, Failure> {
    let running = message.process.running(session)?;
    if let Some(pty) = message.pty {
        running.control().resize(pty.size()).map_err(failed)?;
    }
    Ok(connect::answer(&json!({})))
}

fn failed(error: engine::BackendError) -> Failure {
    SessionError::Run(RunError::Backend(error)).into()
}

#[derive(Deserialize)]
struct SendInput {
    process: Selector,
    input: Input,
}

#[derive(Deserialize)]
struct Input {
    stdin: Option<String>,
    pty: Option<String>,
}

impl Input {
    fn bytes(&self) -> Result<Vec<u8>, Failure> {
        let text = self.stdin.as_ref().or(self.pty.as_ref()).map_or("", String::as_str);
        STANDARD.decode(text).map_err(|_| Failure::new(Code::InvalidArgument, "the input is not base64"))
    }
}

async fn send_input(session: &Session, message: SendInput) -> Result<Response, Failure> {
    message.process.running(session)?.write(message.input.bytes()?).await?;
    Ok(connect::answer(&json!({})))
}

/// One message of a client that sends input piece by piece.
#[derive(Deserialize)]
struct Piece {
    start: Option<Named>,
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    input: Input,
}

async fn stream_input(session: &Session, request: Request) -> Result<Response, Failure> {
    let mut running: Option<Arc<Running>> = None;
    for piece in connect::all::<Piece>(request).await? {
        if let Some(Named { process }) = piece.start {
            running = Some(process.running(session)?);
        }
        if let Some(data) = piece.data {
            let into = running.as_ref().ok_or_else(|| Failure::new(Code::InvalidArgument, "no process is named"))?;
            into.write(data.input.bytes()?).await?;
        }
    }
    Ok(in_frames([connect::framed(&json!({})), connect::last()].concat()))
}

#[derive(Deserialize)]
struct SendSignal {
    process: Selector,
    signal: String,
}

async fn send_signal(session: &Session, message: SendSignal) -> Result<Response, Failure> {
    let running = message.process.running(session)?;
    let missing = |_| message.process.missing();
    match message.signal.as_str() {
        "SIGNAL_SIGTERM" => running.control().signal(SIGTERM).map_err(missing)?,
        "SIGNAL_SIGKILL" => {
            let mut listener = running.listen_from_now();
            running.control().kill().map_err(missing)?;
            // Who asks next must not find it any more.
            let gone = async { while listener.next().await.is_some() {} };
            let _ = tokio::time::timeout(KILL_TIME, gone).await;
        }
        _ => return Err(Failure::new(Code::InvalidArgument, "the signal is neither SIGTERM nor SIGKILL")),
    }
    Ok(connect::answer(&json!({})))
}

fn close_stdin(session: &Session, message: &Named) -> Result<Response, Failure> {
    let running = message.process.running(session)?;
    if running.has_terminal() {
        return Err(Failure::new(Code::FailedPrecondition, "the input of a terminal cannot be closed"));
    }
    running.close_input();
    Ok(connect::answer(&json!({})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_as_envd_tells_it() {
        let told = |outcome| ending(&outcome).unwrap().to_string();
        assert_eq!(told(Outcome::Exited { code: 0 }), r#"{"exitCode":0,"exited":true,"status":"exit status 0"}"#);
        assert_eq!(
            told(Outcome::Exited { code: 3 }),
            r#"{"error":"exit status 3","exitCode":3,"exited":true,"status":"exit status 3"}"#
        );
        assert_eq!(
            told(Outcome::Cancelled),
            r#"{"error":"signal: killed","exitCode":-1,"exited":false,"status":"signal: killed"}"#
        );
        let limit = Outcome::LimitExceeded { limit: LimitKind::Wall };
        assert_eq!(ending(&limit).unwrap_err().code, Code::DeadlineExceeded);
    }
}
