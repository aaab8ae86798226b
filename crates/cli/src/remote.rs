//! Plain requests to a server, over its socket or to its address: one thread, no runtime, one connection for each.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConnection, StreamOwned};
use tungstenite::WebSocket;
use tungstenite::client::IntoClientRequest;
use types::{ErrorBody, ErrorCode};

use crate::client::no_server;
use crate::failure::Failure;
use crate::options::wrong;

/// The most bytes of an answer that is JSON.
const MOST_JSON: u64 = 256 << 20;
/// The longest line of an answer's head.
const MOST_LINE: u64 = 64 << 10;

/// How long a server elsewhere may take to answer the telephone.
const CONNECT: Duration = Duration::from_secs(10);

/// A server.
#[derive(Debug, Clone)]
pub(crate) enum Server {
    /// That of a state folder, by its socket.
    Own(PathBuf),
    /// One that was named.
    Named(Place),
}

/// Where a server is that was named, and what it wants to see.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Host and port, as in an address.
    authority: String,
    /// The name that its certificate must have; none where it has no certificate.
    certified: Option<ServerName<'static>>,
    key: String,
}

/// A connection to it.
pub(crate) enum Line {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Line {
    /// For sending while somebody reads; TLS does both in one place.
    fn try_clone(&self) -> Option<Self> {
        match self {
            Self::Unix(stream) => stream.try_clone().map(Self::Unix).ok(),
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp).ok(),
            Self::Tls(_) => None,
        }
    }
}

impl Line {
    /// Whether reading and writing wait for the other end.
    pub(crate) fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_nonblocking(on),
            Self::Tcp(stream) => stream.set_nonblocking(on),
            Self::Tls(stream) => stream.sock.set_nonblocking(on),
        }
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.sock.as_fd(),
        }
    }
}

impl Read for Line {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(into),
            Self::Tcp(stream) => stream.read(into),
            Self::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Unix(_) | Self::Tcp(_) => Ok(()),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// What goes along with a request.
pub(crate) enum Content<'a> {
    Nothing,
    Json(Vec<u8>),
    /// So many bytes of a file.
    File(u64, &'a mut dyn Read),
    /// Bytes whose number nobody knows yet.
    Stream(&'a mut dyn Read),
}

/// An answer that is not an error: how long it is, if that is known, and its bytes.
pub(crate) struct Answer {
    pub(crate) bytes: Option<u64>,
    pub(crate) body: Body,
}

/// The bytes of an answer.
pub(crate) enum Body {
    Measured(io::Take<BufReader<Line>>),
    /// In pieces, each with its length before it; how much is left of this one.
    Pieces(BufReader<Line>, Piece),
}

/// Where a reader of pieces stands.
pub(crate) enum Piece {
    First,
    Left(u64),
    Last,
}

impl Read for Body {
    /// An end that comes too early is an error: nobody takes a part for the whole.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (reader, piece) = match self {
            Self::Measured(reader) => return reader.read(into),
            Self::Pieces(reader, piece) => (reader, piece),
        };
        loop {
            match piece {
                Piece::Last => return Ok(0),
                Piece::Left(left) if *left > 0 => {
                    let n = reader.by_ref().take(*left).read(into)?;
                    *left -= n as u64;
                    return if n == 0 && !into.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(n) };
                }
                Piece::First | Piece::Left(_) => {
                    if let Piece::Left(_) = piece {
                        line(reader)?;
                    }
                    let length = u64::from_str_radix(line(reader)?.trim(), 16).map_err(io::Error::other)?;
                    *piece = if length == 0 { Piece::Last } else { Piece::Left(length) };
                }
            }
        }
    }
}

#[derive(Deserialize)]
struct Wire {
    error: ErrorBody,
}

impl Server {
    /// The one at `url`, with the key of `SAGGAR_API_KEY`.
    pub(crate) fn at(url: &str) -> Result<Self, Failure> {
        let (rest, port) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(rest), _) => (rest, 80),
            (None, Some(rest)) => (rest, 443),
            (None, None) => {
                return Err(wrong(format!("`--server {url}`: an address begins with http:// or https://")));
            }
        };
        let authority = rest.trim_end_matches('/').to_owned();
        let with_port = authority.rsplit_once(':').filter(|_| !authority.ends_with(']'));
        let host = with_port.map_or(authority.as_str(), |(host, _)| host).trim_matches(['[', ']']).to_owned();
        let is_near = host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if authority.is_empty() || authority.contains(['/', '@', '?', '#', ' ']) || authority.contains(char::is_control)
        {
            return Err(wrong(format!("`--server {url}` is not an address such as http://127.0.0.1:7244")));
        }
        if !is_near && port == 80 {
            // Everybody on the way could read the key and use it.
            return Err(wrong(format!(
                "`--server {url}`: a key is sent in the clear to this machine only; use https://, or a tunnel"
            )));
        }
        let key = std::env::var("SAGGAR_API_KEY").ok().filter(|key| !key.is_empty() && !key.contains(char::is_control));
        let key =
            key.ok_or_else(|| wrong("`--server` takes the key from SAGGAR_API_KEY, which is not set".to_owned()))?;
        let authority = if with_port.is_none() { format!("{authority}:{port}") } else { authority.clone() };
        let certified = (port == 443).then(|| ServerName::try_from(host)).transpose();
        let certified = certified.map_err(|_| wrong(format!("`--server {url}`: no certificate can have this name")))?;
        Ok(Self::Named(Place { authority, certified, key }))
    }

    /// A WebSocket to a place of it.
    pub(crate) fn socket(&self, path: &str) -> Result<WebSocket<Line>, Failure> {
        let (host, key) = match self {
            Self::Own(_) => ("localhost", None),
            Self::Named(place) => (place.authority.as_str(), Some(format!("Bearer {}", place.key))),
        };
        let unclear = |error: tungstenite::Error| broken(io::Error::other(error));
        let mut request = format!("ws://{host}{path}").into_client_request().map_err(unclear)?;
        if let Some(key) = key {
            let key = key.parse().map_err(|_| wrong("SAGGAR_API_KEY is no key".to_owned()))?;
            request.headers_mut().insert("authorization", key);
        }
        let shaken = tungstenite::client(request, self.connect()?);
        shaken.map(|(socket, _)| socket).map_err(|error| broken(io::Error::other(error.to_string())))
    }

    fn connect(&self) -> Result<Line, Failure> {
        match self {
            Self::Own(state) => server::connect(state).map(Line::Unix).map_err(|error| no_server(state, &error)),
            Self::Named(place) => place.connect().map_err(|error| {
                let message = format!("no server answers at {}: {error}", place.authority);
                let hint = "check the address, and that the server runs".to_owned();
                ErrorBody { code: ErrorCode::ServerGone, message, hint }.into()
            }),
        }
    }

    /// What every request begins with, beside its own.
    fn headers(&self) -> String {
        match self {
            Self::Own(_) => "host: localhost\r\n".to_owned(),
            Self::Named(Place { authority, key, .. }) => {
                format!("host: {authority}\r\nauthorization: Bearer {key}\r\n")
            }
        }
    }

    /// Asks, and reads the answer as JSON.
    pub(crate) fn json<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        content: Content<'_>,
    ) -> Result<T, Failure> {
        let mut text = Vec::new();
        let mut answer = self.ask(method, path, content)?;
        answer.body.read_to_end(&mut text).map_err(broken)?;
        serde_json::from_slice(&text).map_err(|error| broken(error.into()))
    }

    /// Asks; an error of the server is an error here.
    pub(crate) fn ask(&self, method: &str, path: &str, content: Content<'_>) -> Result<Answer, Failure> {
        self.ask_for(method, path, "", content)
    }

    /// The same with more headers, each with its end.
    pub(crate) fn ask_for(
        &self,
        method: &str,
        path: &str,
        more: &str,
        content: Content<'_>,
    ) -> Result<Answer, Failure> {
        let mut stream = self.connect()?;
        let headers = format!("{}{more}", self.headers());
        // A server that refuses answers before it has read all of it.
        let sent = send(&mut stream, method, path, &headers, content);
        let heard = Self::hear(stream);
        match (heard, sent) {
            (Ok(answer), _) => Ok(answer),
            (Err(Heard::Refused(failure)), _) => Err(failure),
            (Err(Heard::Broken(_)), Err(Sent::Source(error))) => Err(ErrorBody {
                code: ErrorCode::InputUnreadable,
                message: format!("the file cannot be read: {error}"),
                hint: "check that it exists and that you may read it".to_owned(),
            }
            .into()),
            (Err(Heard::Broken(error)), _) => Err(broken(error)),
        }
    }

    /// Sends a body while its answer is read: neither has to wait for the other's end.
    pub(crate) fn exchange(&self, path: &str, mut body: Box<dyn Read + Send>) -> Result<Answer, Failure> {
        let stream = self.connect()?;
        let headers = self.headers();
        let Some(mut sending) = stream.try_clone() else {
            return self.ask("POST", path, Content::Stream(&mut body));
        };
        let path = path.to_owned();
        // What cannot be sent shows itself in the answer.
        std::thread::spawn(move || drop(send(&mut sending, "POST", &path, &headers, Content::Stream(&mut body))));
        Self::hear(stream).map_err(|heard| match heard {
            Heard::Refused(failure) => failure,
            Heard::Broken(error) => broken(error),
        })
    }

    fn hear(stream: Line) -> Result<Answer, Heard> {
        let mut reader = BufReader::new(stream);
        let status = line(&mut reader)?;
        let code = status.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse::<u16>().ok());
        let (mut bytes, mut in_pieces) = (None, false);
        loop {
            let header = line(&mut reader)?;
            if header.is_empty() {
                break;
            }
            if let Some((name, value)) = header.split_once(':') {
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => bytes = value.trim().parse().ok(),
                    "transfer-encoding" => in_pieces = value.trim().eq_ignore_ascii_case("chunked"),
                    _ => {}
                }
            }
        }
        let body = match bytes {
            Some(bytes) => Body::Measured(reader.take(bytes)),
            None if in_pieces => Body::Pieces(reader, Piece::First),
            None => return Err(Heard::Broken(io::ErrorKind::InvalidData.into())),
        };
        let mut answer = Answer { bytes, body };
        if code.is_some_and(|code| (200..300).contains(&code)) {
            return Ok(answer);
        }
        let mut text = Vec::new();
        answer.body.by_ref().take(MOST_JSON).read_to_end(&mut text).map_err(Heard::Broken)?;
        match serde_json::from_slice::<Wire>(&text) {
            Ok(wire) => Err(Heard::Refused(wire.error.into())),
            Err(error) => Err(Heard::Broken(error.into())),
        }
    }
}

impl Place {
    fn connect(&self) -> io::Result<Line> {
        let stream = self.dial()?;
        let Some(name) = &self.certified else { return Ok(Line::Tcp(stream)) };
        let trust = engine::llm::trust().map_err(io::Error::other)?;
        let session = ClientConnection::new(trust, name.clone()).map_err(io::Error::other)?;
        Ok(Line::Tls(Box::new(StreamOwned::new(session, stream))))
    }

    fn dial(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in std::net::ToSocketAddrs::to_socket_addrs(&self.authority)? {
            // A name of this machine may stand for more than one address, and a server listens on one of them.
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Why there is no answer.
enum Heard {
    Refused(Failure),
    Broken(io::Error),
}

impl From<io::Error> for Heard {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// Why not everything was sent.
enum Sent {
    Source(io::Error),
    Server,
}

fn line(reader: &mut BufReader<Line>) -> io::Result<String> {
    let mut text = String::new();
    reader.by_ref().take(MOST_LINE).read_line(&mut text)?;
    match text.strip_suffix('\n') {
        Some(text) => Ok(text.trim_end_matches('\r').to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn send(stream: &mut Line, method: &str, path: &str, headers: &str, content: Content<'_>) -> Result<(), Sent> {
    let length = match &content {
        Content::Nothing => "content-length: 0".to_owned(),
        Content::Json(json) => format!("content-type: application/json\r\ncontent-length: {}", json.len()),
        Content::File(bytes, _) => format!("content-length: {bytes}"),
        Content::Stream(_) => "transfer-encoding: chunked".to_owned(),
    };
    let head = format!("{method} {path} HTTP/1.1\r\n{headers}connection: close\r\n{length}\r\n\r\n");
    let mut put = |bytes: &[u8]| stream.write_all(bytes).map_err(|_| Sent::Server);
    put(head.as_bytes())?;
    match content {
        Content::Nothing => Ok(()),
        Content::Json(json) => put(&json),
        Content::File(bytes, file) => copy(&mut file.take(bytes), |piece| put(piece)),
        Content::Stream(from) => {
            copy(from, |piece| {
                put(format!("{:x}\r\n", piece.len()).as_bytes())?;
                put(piece)?;
                put(b"\r\n")
            })?;
            put(b"0\r\n\r\n")
        }
    }
}

fn copy(from: &mut dyn Read, mut put: impl FnMut(&[u8]) -> Result<(), Sent>) -> Result<(), Sent> {
    let mut buffer = vec![0; 256 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => put(&buffer[..n])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Sent::Source(error)),
        }
    }
}

/// The server went away, or says what we do not understand.
#[expect(clippy::needless_pass_by_value, reason = "used as a function in map_err")]
pub(crate) fn broken(error: io::Error) -> Failure {
    let message = format!("the server went away: {error}");
    let hint = "look at the server's own messages".to_owned();
    ErrorBody { code: ErrorCode::ServerGone, message, hint }.into()
}

/// Text as a part of an address.
pub(crate) fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// The part of an address behind the question mark, for those that are said.
pub(crate) fn query(pairs: &[(&str, Option<String>)]) -> String {
    let said = pairs.iter().filter_map(|(name, value)| Some(format!("{name}={}", encode(value.as_ref()?))));
    let said = said.collect::<Vec<_>>().join("&");
    if said.is_empty() { said } else { format!("?{said}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_to_this_machine_only() {
        for bad in [
            "",
            "127.0.0.1:7244",
            "http://",
            "http://10.0.0.1:7244",
            "http://example.org",
            "http://127.0.0.1:7244/v1",
            "http://u@localhost",
        ] {
            assert!(Server::at(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nothing_in_a_path_ends_the_address() {
        assert_eq!(encode("/work/a b&c=d#e?é%"), "/work/a%20b%26c%3Dd%23e%3F%C3%A9%25");
    }
}
