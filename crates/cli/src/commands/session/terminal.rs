//! A terminal in a session of a server that was named: a WebSocket to a program that was started for it.

use std::io::{self, Write};
use std::os::fd::AsFd;

use engine::CommandSpec;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};
use types::{ErrorBody, ErrorCode, Outcome};

use super::{address, body};
use crate::commands::run::exit_code;
use crate::failure::Failure;
use crate::remote::{Line, Server, broken};
use crate::window::Window;

/// Starts a command and stays with it until its end.
pub(super) fn converse(server: &Server, id: &str, command: &CommandSpec, window: &Window) -> Result<u8, Failure> {
    let started: Value = server.json("POST", &address(id, "/processes"), body(command)?)?;
    let place = address(id, &format!("/processes/{}/terminal", started["pid"]));
    let mut socket = server.socket(&place)?;
    socket.get_ref().set_nonblocking(true).map_err(broken)?;
    let mut typing = true;
    loop {
        if let Some(ended) = hear(&mut socket)? {
            let outcome = serde_json::from_value::<Outcome>(ended["outcome"].clone());
            return outcome.map(|outcome| exit_code(&outcome)).map_err(|error| broken(error.into()));
        }
        let stdin = io::stdin();
        let mut ready = vec![
            PollFd::from_borrowed_fd(socket.get_ref().as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(window.as_fd(), PollFlags::IN),
        ];
        if typing {
            ready.push(PollFd::new(&stdin, PollFlags::IN));
        }
        match poll(&mut ready, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(broken(errno.into())),
        }
        let is_typed = ready.get(2).is_some_and(|fd| !fd.revents().is_empty());
        if let Some(size) = window.changed() {
            say(&mut socket, Message::Text(json!({"resize": size}).to_string().into()))?;
        }
        if is_typed {
            let mut keys = [0; 4096];
            // Not by the buffer of the standard library, in which keys would wait that `poll` does not see.
            let count = rustix::io::read(&stdin, &mut keys).map_err(|errno| broken(errno.into()))?;
            typing = count > 0;
            let message = match count {
                0 => Message::Text(json!("end_input").to_string().into()),
                count => Message::Binary(keys[..count].to_vec().into()),
            };
            say(&mut socket, message)?;
        }
    }
}

/// Shows what has come; the program's end, if that has.
fn hear(socket: &mut WebSocket<Line>) -> Result<Option<Value>, Failure> {
    let mut stdout = io::stdout().lock();
    loop {
        match socket.read() {
            // Who reads us no more has a program that ends by itself.
            Ok(Message::Binary(bytes)) => drop(stdout.write_all(&bytes).and_then(|()| stdout.flush())),
            Ok(Message::Text(text)) => {
                let mut words: Value = serde_json::from_str(&text).map_err(|error| broken(error.into()))?;
                if !words["ended"].is_null() {
                    return Ok(Some(words["ended"].take()));
                }
            }
            Ok(Message::Close(_)) => return Err(gone("it closed the connection")),
            Ok(_) => {}
            Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(gone(&error.to_string())),
        }
    }
}

/// Sends it whole, however long the server takes.
fn say(socket: &mut WebSocket<Line>, message: Message) -> Result<(), Failure> {
    let mut sent = socket.send(message);
    loop {
        match sent {
            Ok(()) => return Ok(()),
            Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                let wait = PollFd::from_borrowed_fd(socket.get_ref().as_fd(), PollFlags::OUT);
                poll(&mut [wait], None).map_err(|errno| broken(errno.into()))?;
                sent = socket.flush();
            }
            Err(error) => return Err(gone(&error.to_string())),
        }
    }
}

fn gone(why: &str) -> Failure {
    let message = format!("the server went away: {why}");
    ErrorBody { code: ErrorCode::ServerGone, message, hint: "look at the server's own messages".to_owned() }.into()
}
