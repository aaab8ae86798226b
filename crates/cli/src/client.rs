//! Asking the server in place of running by ourselves: one thread, no runtime.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use engine::{Caller, Executable, Inputs, Made, Output, OwnFiles, Receive, Received, Stream, TerminalSize};
use rustix::event::{PollFd, PollFlags, poll};
use server::{
    ATTACH_PATH, Ask, CHUNK, Decoder, Frame, InSession, Kind, MISMATCH, MOST_ASK, MadeFile, PROTOCOL, VERSION,
    VERSION_HEADER, encode, socket_path,
};
use types::{ErrorBody, ErrorCode, ExecRequest, ExecResult, FileContent, InputFile};

use crate::commands::run::Ends;
use crate::failure::Failure;
use crate::terminal::Live;
use crate::window::Window;

/// The longest answer to the upgrade that is read.
const MOST_HEAD: usize = 8 << 10;

/// Asks the server of a state folder. `None` if it could not be asked: nothing has run then.
pub(crate) fn execute(
    state: &Path,
    caller: &Caller,
    request: &ExecRequest,
    ends: &mut Ends,
) -> Option<Result<ExecResult, Failure>> {
    let why = match server::connect(state) {
        Ok(stream) => match Conversation::open(stream, &ask(caller, request, ends), request, ends) {
            Ok(conversation) => return Some(conversation.finish()),
            Err(why) => why,
        },
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return None,
        Err(error) => error,
    };
    Live::say(&format!("saggar: no server behind {} ({why}); running without it", socket_path(state).display()));
    None
}

/// Runs a command in a session of the server of a state folder.
pub(crate) fn exec_in_session(state: &Path, within: InSession, ends: &mut Ends) -> Result<ExecResult, Failure> {
    let stream = server::connect(state).map_err(|error| no_server(state, &error))?;
    let ask = Ask { session: Some(within), live: ends.live.is_some(), ..Ask::default() };
    let nothing = ExecRequest::default();
    Conversation::open(stream, &ask, &nothing, ends).map_err(|error| no_server(state, &error))?.finish()
}

/// What cannot be done without a server.
pub(crate) fn no_server(state: &Path, error: &io::Error) -> Failure {
    let message =
        format!("sessions are kept by a server, and none answers at {}: {error}", socket_path(state).display());
    let hint = "start one in another terminal, or in the background: saggar serve".to_owned();
    ErrorBody { code: ErrorCode::ServerGone, message, hint }.into()
}

/// One run that the server has taken on.
struct Conversation<'a> {
    line: Line<'a>,
    inputs: &'a [InputFile],
}

/// The connection, and what is sent into it while we wait: standard input and the caller's change of mind.
struct Line<'a> {
    stream: UnixStream,
    decoder: Decoder,
    ends: &'a mut Ends,
    /// The server has room for more of standard input.
    more: bool,
    cancelled: bool,
}

impl<'a> Conversation<'a> {
    /// Says everything at once and waits for the server to take it on.
    fn open(stream: UnixStream, ask: &Ask, request: &'a ExecRequest, ends: &'a mut Ends) -> io::Result<Self> {
        let mut hello = format!(
            "GET {ATTACH_PATH} HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: {PROTOCOL}\r\n\
             {VERSION_HEADER}: {VERSION}\r\n\r\n"
        )
        .into_bytes();
        if let Some(code) = &request.code {
            if code.0.len() > MOST_ASK {
                return Err(io::Error::other("the program is too large for it"));
            }
            encode(Kind::Code, &code.0, &mut hello).map_err(io::Error::other)?;
        }
        let ask = serde_json::to_vec(ask)?;
        encode(Kind::Ask, &ask, &mut hello).map_err(io::Error::other)?;
        if ends.stdin.is_none() {
            encode(Kind::StdinEnd, &[], &mut hello).map_err(io::Error::other)?;
        }
        let decoder = Decoder::new(u32::MAX as usize);
        let mut line = Line { stream, decoder, ends, more: false, cancelled: false };
        // A server that does not want it answers before it has read all of it.
        let _ = line.stream.write_all(&hello);
        line.taken_on()?;
        Ok(Self { line, inputs: &request.files })
    }

    /// To the last frame. A server that goes away on the way has the run's end to answer for; it is not started again.
    fn finish(mut self) -> Result<ExecResult, Failure> {
        loop {
            let frame = self.line.next().map_err(gone)?;
            match frame.kind {
                Kind::Stdout => self.line.show(Stream::Out, &frame.payload),
                Kind::Stderr => self.line.show(Stream::Err, &frame.payload),
                Kind::Want => self.send_input(&frame.payload)?,
                Kind::Made => self.line.take_file(&frame.payload)?,
                Kind::Result => return serde_json::from_slice(&frame.payload).map_err(|e| gone(e.into())),
                Kind::Error => {
                    let body: ErrorBody = serde_json::from_slice(&frame.payload).map_err(|e| gone(e.into()))?;
                    return Err(body.into());
                }
                // `More` is heard while waiting; the rest is ours to send.
                Kind::More
                | Kind::Data
                | Kind::DataEnd
                | Kind::Code
                | Kind::Ask
                | Kind::Stdin
                | Kind::StdinEnd
                | Kind::Cancel
                | Kind::Resize
                | Kind::Input
                | Kind::Taken
                | Kind::Refused => return Err(gone(io::ErrorKind::InvalidData.into())),
            }
        }
    }

    /// Sends a file of ours. Where the server no longer listens, its last frame says why.
    fn send_input(&mut self, number: &[u8]) -> Result<(), Failure> {
        let number: Option<[u8; 4]> = number.try_into().ok();
        let wanted = number.and_then(|number| self.inputs.get(u32::from_le_bytes(number) as usize));
        let Some(InputFile { content: FileContent::Host(path), .. }) = wanted else {
            return Err(gone(io::ErrorKind::InvalidData.into()));
        };
        let unreadable = |error| Failure::input(path, error);
        let mut files = OwnFiles;
        let mut input = files.open(0, path).map_err(unreadable)?;
        let mut heard = self.line.send(Kind::Input, &[u8::from(input.executable == Executable::Yes)]);
        let mut buffer = vec![0; CHUNK];
        while heard {
            match input.content.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => heard = self.line.send(Kind::Data, &buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(error)),
            }
        }
        self.line.send(Kind::DataEnd, &[]);
        Ok(())
    }
}

impl Line<'_> {
    /// Reads the answer to the upgrade.
    fn taken_on(&mut self) -> io::Result<()> {
        let mut head = Vec::new();
        let rest = loop {
            if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
                break head.split_off(end + 4);
            }
            let bytes = self.wait()?;
            head.extend_from_slice(&bytes);
            if head.len() > MOST_HEAD {
                return Err(io::Error::other("it does not speak HTTP"));
            }
        };
        let head = String::from_utf8_lossy(&head);
        match head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|code| code.parse::<u16>().ok()) {
            Some(101) => {
                self.decoder.push(&rest);
                Ok(())
            }
            Some(MISMATCH) => Err(io::Error::other("it has another version")),
            Some(status) => Err(io::Error::other(format!("it answered {status}"))),
            None => Err(io::Error::other("it does not speak HTTP")),
        }
    }

    /// The next frame that needs more than to be noted.
    fn next(&mut self) -> io::Result<Frame> {
        loop {
            match self.decoder.frame().map_err(io::Error::other)? {
                Some(Frame { kind: Kind::More, .. }) => self.more = true,
                Some(frame) => return Ok(frame),
                None => {
                    let bytes = self.wait()?;
                    self.decoder.push(&bytes);
                }
            }
        }
    }

    /// Waits for bytes from the server, and meanwhile hears signals and passes standard input on.
    fn wait(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let ready = self.ready()?;
            if ready.signal {
                self.cancel();
            }
            if ready.stdin {
                self.pass_stdin();
            }
            if ready.resized {
                self.tell_size();
            }
            if ready.server {
                let mut bytes = vec![0; CHUNK];
                match self.stream.read(&mut bytes) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(n) => {
                        bytes.truncate(n);
                        return Ok(bytes);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    fn ready(&self) -> io::Result<Ready> {
        let stdin = self.ends.stdin.as_ref().filter(|_| self.more);
        let signal = Some(&self.ends.interrupt).filter(|_| !self.cancelled);
        let mut fds = vec![PollFd::new(&self.stream, PollFlags::IN)];
        fds.extend(signal.map(|signal| PollFd::from_borrowed_fd(signal.as_fd(), PollFlags::IN)));
        fds.extend(stdin.map(|stdin| PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)));
        let window = self.ends.window.as_ref();
        fds.extend(window.map(|window| PollFd::from_borrowed_fd(window.as_fd(), PollFlags::IN)));
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let server = ready.next() == Some(true);
        let signal = signal.is_some() && ready.next() == Some(true);
        let stdin = stdin.is_some() && ready.next() == Some(true);
        let resized = window.is_some() && ready.next() == Some(true);
        Ok(Ready { server, signal, stdin, resized })
    }

    /// Tells the new size of our terminal.
    fn tell_size(&mut self) {
        let size = self.ends.window.as_ref().and_then(Window::changed);
        if let Some(TerminalSize { columns, rows }) = size {
            let [a, b] = columns.to_le_bytes();
            let [c, d] = rows.to_le_bytes();
            self.send(Kind::Resize, &[a, b, c, d]);
        }
    }

    /// Takes the run back; the server still says how it ended.
    fn cancel(&mut self) {
        if !self.cancelled {
            self.cancelled = true;
            self.send(Kind::Cancel, &[]);
        }
    }

    /// One piece of standard input, or its end.
    fn pass_stdin(&mut self) {
        let Some(stdin) = &self.ends.stdin else { return };
        let mut bytes = vec![0; CHUNK];
        match rustix::io::read(stdin, &mut bytes[..]) {
            Ok(n) if n > 0 => {
                self.more = false;
                self.send(Kind::Stdin, &bytes[..n]);
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Ok(_) | Err(_) => {
                self.ends.stdin = None;
                self.send(Kind::StdinEnd, &[]);
            }
        }
    }

    /// Whether the server could take it; if not, what it said last is still to be read.
    fn send(&mut self, kind: Kind, payload: &[u8]) -> bool {
        let mut frame = Vec::new();
        encode(kind, payload, &mut frame).is_ok() && self.stream.write_all(&frame).is_ok()
    }

    fn show(&mut self, stream: Stream, bytes: &[u8]) {
        if self.ends.live.as_mut().is_some_and(|live| live.write(stream, bytes).is_break()) {
            self.cancel();
        }
    }

    /// Writes a file that the run made where our caller wants it.
    fn take_file(&mut self, head: &[u8]) -> Result<(), Failure> {
        let MadeFile { path, executable } = serde_json::from_slice(head).map_err(|e| gone(e.into()))?;
        let executable = if executable { Executable::Yes } else { Executable::No };
        // Away for a moment, because reading the content needs the whole line.
        let Some(mut out) = self.ends.out.take() else { return Err(gone(io::ErrorKind::InvalidData.into())) };
        let mut content = Content { line: self, rest: Vec::new(), end: false };
        let received = out.receive(Made { path: path.as_str(), executable, content: &mut content })?;
        io::copy(&mut content, &mut io::sink()).map_err(gone)?;
        self.ends.out = Some(out);
        self.send(if received == Received::Taken { Kind::Taken } else { Kind::Refused }, &[]);
        Ok(())
    }
}

/// What can go on.
#[expect(clippy::struct_excessive_bools, reason = "which of four descriptors can be read")]
struct Ready {
    server: bool,
    signal: bool,
    stdin: bool,
    resized: bool,
}

/// What is left of one file that the run made.
struct Content<'a, 'b> {
    line: &'a mut Line<'b>,
    rest: Vec<u8>,
    end: bool,
}

impl Read for Content<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() && !self.end {
            let frame = self.line.next()?;
            match frame.kind {
                Kind::Data => self.rest = frame.payload,
                Kind::DataEnd => self.end = true,
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        let n = buffer.len().min(self.rest.len());
        buffer[..n].copy_from_slice(&self.rest[..n]);
        self.rest.drain(..n);
        Ok(n)
    }
}

/// The request without what travels as bytes.
fn ask(caller: &Caller, request: &ExecRequest, ends: &Ends) -> Ask {
    let shown = |file: &InputFile| match &file.content {
        FileContent::Host(path) => path.to_string_lossy().into_owned(),
        FileContent::Text(_) | FileContent::Base64(_) => String::new(),
    };
    let files = request.files.iter().map(|file| (file.path.clone(), shown(file))).collect();
    Ask {
        request: ExecRequest { code: None, files: Vec::new(), ..request.clone() },
        files,
        accept_missing: caller.accept_missing.clone(),
        require: caller.require.clone(),
        live: ends.live.is_some(),
        out: ends.out.is_some(),
        session: None,
    }
}

#[expect(clippy::needless_pass_by_value, reason = "used as a function in map_err")]
fn gone(error: io::Error) -> Failure {
    let message = format!("the server went away during the run: {error}");
    let hint = "the run was ended with it; look at the server's own messages, or use --cold".to_owned();
    ErrorBody { code: ErrorCode::ServerGone, message, hint }.into()
}
