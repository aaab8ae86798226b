//! As much of HTTP/1.1 as one kept connection to our own server needs.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// No answer of ours is larger: outputs are cut far below.
const MOST: u64 = 16 << 20;

/// Where a server listens.
#[derive(Debug, Clone)]
pub(super) struct Address {
    pub(super) socket: PathBuf,
    pub(super) key: Option<String>,
}

impl Address {
    pub(super) fn connect(&self) -> io::Result<Connection> {
        let stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(Duration::from_mins(1)))?;
        Ok(Connection { stream: BufReader::new(stream), key: self.key.clone() })
    }
}

/// A connection that is kept open.
pub(super) struct Connection<S = UnixStream> {
    stream: BufReader<S>,
    key: Option<String>,
}

impl<S: Read + Write> Connection<S> {
    /// Sends one request in one write, and reads the status and the whole body.
    pub(super) fn exchange(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<(u16, Vec<u8>)> {
        let key = self.key.as_ref().map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: saggar\r\n{key}content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut message = head.into_bytes();
        message.extend_from_slice(body);
        self.stream.get_mut().write_all(&message)?;
        self.answer()
    }

    fn answer(&mut self) -> io::Result<(u16, Vec<u8>)> {
        let status = self.text_line()?;
        let status = status.split(' ').nth(1).and_then(|word| word.parse().ok()).ok_or_else(|| bad("status line"))?;
        let (mut length, mut chunked) = (0, false);
        loop {
            let header = self.text_line()?.to_ascii_lowercase();
            match header.split_once(':').map(|(name, value)| (name, value.trim())) {
                Some(("content-length", value)) => length = value.parse().map_err(|_| bad("content-length"))?,
                Some(("transfer-encoding", value)) => chunked = value.contains("chunked"),
                Some(_) => {}
                None if header.is_empty() => break,
                None => return Err(bad("header")),
            }
        }
        let body = if chunked { self.chunks()? } else { self.bytes(length)? };
        Ok((status, body))
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let size = self.text_line()?;
            let digits = size.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(digits, 16).map_err(|_| bad("chunk"))?;
            body.extend(self.bytes(size)?);
            self.text_line()?;
            if size == 0 {
                return Ok(body);
            }
            if u64::try_from(body.len()).is_ok_and(|length| length > MOST) {
                return Err(bad("length"));
            }
        }
    }

    fn bytes(&mut self, length: u64) -> io::Result<Vec<u8>> {
        if length > MOST {
            return Err(bad("length"));
        }
        let mut bytes = Vec::new();
        let read = self.stream.by_ref().take(length).read_to_end(&mut bytes)?;
        if u64::try_from(read).is_ok_and(|read| read == length) { Ok(bytes) } else { Err(gone()) }
    }

    fn text_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.by_ref().take(MOST).read_line(&mut line)? == 0 {
            return Err(gone());
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the answer's {what} is wrong"))
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server hung up")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &'static str) -> io::Result<(u16, Vec<u8>)> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(text.as_bytes()).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        Connection { stream: BufReader::new(ours), key: None }.exchange("GET", "/", b"")
    }

    #[test]
    fn bodies_with_a_length_and_in_chunks_are_read_whole() {
        let whole = answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap();
        assert_eq!(whole, (200, b"hello".to_vec()));
        let parts = "HTTP/1.1 503 No\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n";
        assert_eq!(answer(parts).unwrap(), (503, b"hello".to_vec()));
    }

    #[test]
    fn answers_that_are_cut_or_absurd_are_errors() {
        for text in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n",
            "no http\r\n\r\n",
        ] {
            assert!(answer(text).is_err(), "{text}");
        }
    }
}
