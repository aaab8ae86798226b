//! Runs that a server carries out which was named: everything travels in the request, and output comes as events.

use std::io::{IsTerminal, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::{CommandSpec, Executable, Inputs, Made, Output, OwnFiles, Receive, Stream};
use rustix::event::{PollFd, PollFlags, poll};
use serde::Deserialize;
use types::{ErrorBody, ExecRequest, ExecResult, FileContent, InputFile};

use crate::commands::run::Ends;
use crate::events::Events;
use crate::failure::Failure;
use crate::options::wrong;
use crate::remote::{Content, Server, broken};

/// Carries out a run there. Files that it made are written here, if a folder was named.
pub(crate) fn execute(server: &Server, mut request: ExecRequest, ends: &mut Ends) -> Result<ExecResult, Failure> {
    must_be_text(&request)?;
    request.stdin = input(ends)?;
    request.files = request.files.into_iter().map(packed).collect::<Result<_, _>>()?;
    if ends.out.is_some() {
        request.collect = vec!["**".to_owned()];
    }
    let mut result = follow(server, "/v1/runs", &request, ends)?;
    if let Some(out) = &mut ends.out {
        for file in &mut result.files {
            let Some(content) = file.base64.take().and_then(|text| STANDARD.decode(text).ok()) else { continue };
            out.receive(Made { path: &file.path, executable: Executable::No, content: &mut &content[..] })?;
        }
    }
    Ok(result)
}

/// JSON has no form for a program in other bytes.
pub(crate) fn must_be_text(request: &ExecRequest) -> Result<(), Failure> {
    match &request.code {
        Some(code) if std::str::from_utf8(&code.0).is_err() => {
            Err(wrong("a program that goes to a server must be UTF-8 text".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Runs a command in a session there.
pub(crate) fn exec_in_session(
    server: &Server,
    path: &str,
    mut command: CommandSpec,
    ends: &mut Ends,
) -> Result<ExecResult, Failure> {
    command.stdin = input(ends)?;
    follow(server, path, &command, ends)
}

/// All of standard input, unless a person sits there.
fn input(ends: &mut Ends) -> Result<String, Failure> {
    let Some(stdin) = ends.stdin.take() else { return Ok(String::new()) };
    let mut file = std::fs::File::from(stdin);
    let mut bytes = Vec::new();
    if !file.is_terminal() {
        file.read_to_end(&mut bytes).map_err(|error| Failure::input("standard input".as_ref(), error))?;
    }
    String::from_utf8(bytes).map_err(|_| wrong("what goes to a server as standard input must be UTF-8 text".to_owned()))
}

/// A file of ours as the request carries it.
fn packed(file: InputFile) -> Result<InputFile, Failure> {
    let FileContent::Host(path) = &file.content else { return Ok(file) };
    let unreadable = |error| Failure::input(path, error);
    let mut bytes = Vec::new();
    OwnFiles.open(0, path).map_err(unreadable)?.content.read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(InputFile { path: file.path, content: FileContent::Base64(STANDARD.encode(bytes)) })
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Piece {
    Text(String),
    Base64(String),
}

#[derive(Deserialize)]
struct Wire {
    error: ErrorBody,
}

/// Asks, shows output as it comes, and reads how it ended. The first signal takes the run back there.
fn follow(server: &Server, path: &str, body: &impl serde::Serialize, ends: &mut Ends) -> Result<ExecResult, Failure> {
    let json = serde_json::to_vec(body).map_err(|error| broken(error.into()))?;
    let answer = server.ask_for("POST", path, "accept: text/event-stream\r\n", Content::Json(json))?;
    let run = Arc::new(OnceLock::new());
    if let Ok(signal) = ends.interrupt.as_fd().try_clone_to_owned() {
        cancel_on(signal, server.clone(), Arc::clone(&run));
    }
    let unclear = |error: serde_json::Error| broken(error.into());
    let told = Events::new(answer.body).each(|event| {
        let data = event.data;
        match event.name {
            "start" => match serde_json::from_str::<serde_json::Value>(data) {
                Ok(started) => drop(run.set(started["id"].as_str().unwrap_or_default().to_owned())),
                Err(error) => return Some(Err(unclear(error))),
            },
            "stdout" => show(ends, Stream::Out, data),
            "stderr" => show(ends, Stream::Err, data),
            "result" => return Some(serde_json::from_str(data).map_err(unclear)),
            "error" => return Some(Err(refused(data))),
            _ => {}
        }
        None
    });
    told.map_err(broken)?.unwrap_or_else(|| Err(broken(std::io::ErrorKind::UnexpectedEof.into())))
}

/// An error that came as an event.
pub(crate) fn refused(data: &str) -> Failure {
    serde_json::from_str::<Wire>(data).map_or_else(|error| broken(error.into()), |wire| wire.error.into())
}

/// Output that came as an event.
pub(crate) fn piece(data: &str) -> Vec<u8> {
    match serde_json::from_str(data) {
        Ok(Piece::Text(text)) => text.into_bytes(),
        Ok(Piece::Base64(text)) => STANDARD.decode(text).unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

fn show(ends: &mut Ends, stream: Stream, data: &str) {
    if let Some(live) = &mut ends.live {
        // Who reads us no more has a run that ends by itself.
        let _ = live.write(stream, &piece(data));
    }
}

/// Waits for a signal beside everything else. Where nothing was named that could be taken back, it goes with us.
fn cancel_on(signal: OwnedFd, server: Server, run: Arc<OnceLock<String>>) {
    std::thread::spawn(move || {
        let heard = poll(&mut [PollFd::from_borrowed_fd(signal.as_fd(), PollFlags::IN)], None);
        match (heard, run.get()) {
            (Ok(_), Some(id)) => {
                // How it ended is told to whoever follows it.
                drop(server.json::<serde_json::Value>("DELETE", &format!("/v1/runs/{id}"), Content::Nothing));
            }
            (Ok(_), None) => std::process::exit(130),
            (Err(_), _) => {}
        }
    });
}
