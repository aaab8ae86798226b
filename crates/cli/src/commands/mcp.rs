//! `saggar mcp`: MCP on standard input and output, by the server if there is one, else in this process.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use engine::{Engine, Settings};
use server::{MCP_PATH, MCP_PROTOCOL, MISMATCH, VERSION, VERSION_HEADER, socket_path};
use types::{ErrorBody, ErrorCode};

use super::serve::runtime;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal::Live;

/// The longest answer to the upgrade that is read.
const MOST_HEAD: usize = 8 << 10;

/// Serve the tools of MCP on standard input and output
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  claude mcp add saggar -- saggar mcp\n  {\"mcpServers\": {\"saggar\": {\"command\": \"saggar\", \"args\": [\"mcp\"]}}}\n\nIt asks the server of the state folder, if one runs: sessions then outlive this process, and `saggar session list` shows\nthem. Without one it runs programs by itself, and its sessions end with it. docs/MCP.md has the tools and more hosts."
)]
pub(crate) struct Mcp {
    /// Run programs in this process, though there is a server
    #[arg(long)]
    alone: bool,
}

impl Mcp {
    pub(crate) fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        let state = Settings::common_state(config).filter(|_| !self.alone);
        if let Some(state) = state {
            match server::connect(&state).and_then(taken_on) {
                Ok((stream, first)) => return pass_on(stream, &first),
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(error) => {
                    let socket = socket_path(&state);
                    Live::say(&format!("saggar: no server behind {} ({error}); running without it", socket.display()));
                }
            }
        }
        let interrupt = Interrupt::listen()?;
        let engine = Engine::open(Settings::load(config)?)?;
        let runtime = runtime()?;
        runtime.block_on(async {
            let engine = Arc::new(engine.with_pool());
            server::serve_stdio(engine, interrupt.heard()?).await;
            Ok::<_, Failure>(())
        })?;
        // A thread may still be reading standard input.
        runtime.shutdown_background();
        Ok(0)
    }
}

/// Asks the server to take the conversation; returns what it said after it had agreed.
fn taken_on(mut stream: UnixStream) -> io::Result<(UnixStream, Vec<u8>)> {
    write!(
        stream,
        "GET {MCP_PATH} HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: {MCP_PROTOCOL}\r\n\
         {VERSION_HEADER}: {VERSION}\r\n\r\n"
    )?;
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    let rest = loop {
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break head.split_off(end + 4);
        }
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => head.extend_from_slice(&piece[..n]),
        }
        if head.len() > MOST_HEAD {
            return Err(io::Error::other("it does not speak HTTP"));
        }
    };
    let head = String::from_utf8_lossy(&head);
    match head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|code| code.parse::<u16>().ok()) {
        Some(101) => Ok((stream, rest)),
        Some(MISMATCH) => Err(io::Error::other("it has another version")),
        Some(status) => Err(io::Error::other(format!("it answered {status}"))),
        None => Err(io::Error::other("it does not speak HTTP")),
    }
}

/// Passes every byte on, both ways, until one side has ended.
fn pass_on(stream: UnixStream, first: &[u8]) -> Result<u8, Failure> {
    let mut to_server = stream.try_clone().map_err(Failure::runtime)?;
    // It ends with standard input, or with this process.
    let asking = std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let mut stdout = io::stdout().lock();
    let mut from_server = first.chain(stream);
    let mut piece = vec![0; 64 << 10];
    loop {
        let told = match from_server.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(n) => stdout.write_all(&piece[..n]).and_then(|()| stdout.flush()),
        };
        if told.is_err() {
            // Nobody reads what is answered.
            return Ok(0);
        }
    }
    if asking.is_finished() {
        return Ok(0);
    }
    let message = "the server went away".to_owned();
    let hint = "start it again with `saggar serve`, or use `saggar mcp --alone`".to_owned();
    Err(ErrorBody { code: ErrorCode::ServerGone, message, hint }.into())
}
