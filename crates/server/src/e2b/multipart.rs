//! A body in parts (RFC 7578), read a piece at a time: file names are whole paths here, so nothing of them is cut off.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

const PIECE: usize = 64 << 10;
/// Bytes of all headers of one part.
const MOST_HEADERS: usize = 32 << 10;

/// What separates the parts of a body, if it has parts.
pub(super) fn boundary(kind: &str) -> Option<String> {
    let (kind, options) = kind.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let value = option(options, "boundary")?;
    (!value.is_empty() && value.len() <= 200).then_some(value)
}

/// One part, before its content.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) file_name: String,
}

/// The parts of a body, one after another.
pub(super) struct Multipart<R> {
    from: R,
    /// What has come and was not taken; it begins at `at`.
    buffer: Vec<u8>,
    at: usize,
    /// What ends a part.
    mark: Vec<u8>,
    /// Whether the end of the current part was reached: the mark is next.
    at_mark: bool,
}

impl<R: AsyncRead + Unpin> Multipart<R> {
    pub(super) fn new(from: R, boundary: &str) -> Self {
        // The first mark has no line before it.
        Self { from, buffer: b"\r\n".to_vec(), at: 0, mark: format!("\r\n--{boundary}").into_bytes(), at_mark: false }
    }

    /// The next part; what was left of the one before is passed over.
    pub(super) async fn next(&mut self) -> io::Result<Option<Part>> {
        let mut rest = [0; 4096];
        while self.content().read(&mut rest).await? > 0 {}
        self.at += self.mark.len();
        self.at_mark = false;
        self.fill_to(2).await?;
        let end = self.take(2);
        match &end[..] {
            b"--" => return Ok(None),
            b"\r\n" => {}
            _ => return Err(wrong("a mark is followed by something else than a line")),
        }
        let mut part = Part::default();
        let mut left = MOST_HEADERS;
        loop {
            let line = self.line(left).await?;
            left = left.checked_sub(line.len()).ok_or_else(|| wrong("the headers are too long"))?;
            if line.is_empty() {
                return Ok(Some(part));
            }
            let Some((name, value)) = line.split_once(':') else { continue };
            if name.trim().eq_ignore_ascii_case("content-disposition") {
                part.name = option(value, "name").unwrap_or_default();
                part.file_name = option(value, "filename").unwrap_or_default();
            }
        }
    }

    /// What is left of the current part.
    pub(super) fn content(&mut self) -> PartContent<'_, R> {
        PartContent(self)
    }

    fn take(&mut self, n: usize) -> Vec<u8> {
        let taken = self.buffer[self.at..self.at + n].to_vec();
        self.at += n;
        taken
    }

    async fn fill_to(&mut self, n: usize) -> io::Result<()> {
        while self.buffer.len() - self.at < n {
            if std::future::poll_fn(|cx| self.poll_fill(cx)).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    async fn line(&mut self, most: usize) -> io::Result<String> {
        let mut looked = 0;
        loop {
            let ready = &self.buffer[self.at..];
            if let Some(end) = find(&ready[looked..], b"\r\n") {
                let line = self.take(looked + end);
                self.at += 2;
                return String::from_utf8(line).map_err(|_| wrong("a header is no text"));
            }
            let length = ready.len();
            looked = length.saturating_sub(1);
            if looked > most {
                return Err(wrong("the headers are too long"));
            }
            self.fill_to(length + 1).await?;
        }
    }

    /// Reads some more; how much.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let length = self.buffer.len();
        self.buffer.resize(length + PIECE, 0);
        let mut into = ReadBuf::new(&mut self.buffer[length..]);
        let read = Pin::new(&mut self.from).poll_read(cx, &mut into);
        let n = into.filled().len();
        self.buffer.truncate(length + n);
        ready!(read)?;
        Poll::Ready(Ok(n))
    }
}

/// The content of one part.
pub(super) struct PartContent<'a, R>(&'a mut Multipart<R>);

impl<R: AsyncRead + Unpin> AsyncRead for PartContent<'_, R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let parts = &mut *self.0;
        loop {
            if parts.at_mark {
                return Poll::Ready(Ok(()));
            }
            let ready = &parts.buffer[parts.at..];
            let found = find(ready, &parts.mark);
            // The end of what has come could be the beginning of a mark.
            let safe = found.unwrap_or_else(|| ready.len().saturating_sub(parts.mark.len() - 1));
            if safe == 0 && found.is_some() {
                parts.at_mark = true;
                continue;
            }
            if safe > 0 {
                let n = safe.min(into.remaining());
                into.put_slice(&ready[..n]);
                parts.at += n;
                return Poll::Ready(Ok(()));
            }
            if ready!(parts.poll_fill(cx))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

fn wrong(words: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words)
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    while let Some(next) = text[from..].iter().position(|byte| *byte == first) {
        let at = from + next;
        if text[at..].starts_with(wanted) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// `name="value"` or `name=value` among options that are separated by semicolons.
fn option(options: &str, wanted: &str) -> Option<String> {
    let mut rest = options;
    loop {
        rest = rest.trim_start_matches([';', ' ', '\t']);
        let (name, after) = rest.split_once('=')?;
        let (value, left) = match after.strip_prefix('"') {
            None => {
                let end = after.find(';').unwrap_or(after.len());
                (after[..end].trim().to_owned(), &after[end..])
            }
            Some(quoted) => unquoted(quoted)?,
        };
        // Words without a value may stand before a name.
        if name.rsplit(';').next().unwrap_or(name).trim().eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = left;
    }
}

/// Up to the closing mark; browsers and their like write the few characters that cannot stand there with a percent sign.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                let value = value.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n");
                return Some((value, &text[at + 1..]));
            }
            '\\' if text[at + 1..].starts_with(['"', '\\']) => value.push(chars.next()?.1),
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(body: &[u8], piece: usize) -> io::Result<Vec<(Part, Vec<u8>)>> {
        let (mut tell, from) = tokio::io::duplex(piece);
        let body = body.to_vec();
        tokio::spawn(async move {
            use tokio::io::AsyncWriteExt as _;
            let _ = tell.write_all(&body).await;
        });
        let mut parts = Multipart::new(from, "xx");
        let mut all = Vec::new();
        while let Some(part) = parts.next().await? {
            let mut content = Vec::new();
            parts.content().read_to_end(&mut content).await?;
            all.push((part, content));
        }
        Ok(all)
    }

    fn part(file_name: &str) -> Part {
        Part { name: "file".to_owned(), file_name: file_name.to_owned() }
    }

    #[tokio::test]
    async fn parts_are_whole_however_they_are_cut() {
        let body = b"--xx\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/a/b c\"\r\nContent-Type: x\r\n\r\n\
            one\r\n--x\r\n--xx\r\ncontent-disposition: form-data; filename=\"q%22\\\"\"; name=\"file\"\r\n\r\n\r\n--xx--\r\n";
        for piece in [1, 2, 3, 7, 4096] {
            let parts = read(body, piece).await.unwrap();
            assert_eq!(parts, [(part("/a/b c"), b"one\r\n--x".to_vec()), (part("q\"\""), Vec::new())], "{piece}");
        }
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_an_error() {
        for bad in [&b""[..], b"--xx", b"--xx\r\n", b"--xx\r\n\r\nabc", b"--xx\r\n\r\nabc\r\n--xx", b"--xxyy\r\n\r\n"] {
            assert!(read(bad, 64).await.is_err(), "{}", String::from_utf8_lossy(bad));
        }
        let long = [b"--xx\r\nA: ".to_vec(), vec![b'x'; MOST_HEADERS * 3]].concat();
        assert!(read(&long, 4096).await.is_err());
    }

    #[test]
    fn the_boundary_is_found() {
        assert_eq!(boundary("multipart/form-data; boundary=xx").as_deref(), Some("xx"));
        assert_eq!(boundary("Multipart/Form-Data; charset=x; boundary=\"a b\"").as_deref(), Some("a b"));
        assert_eq!(boundary("multipart/form-data"), None);
        assert_eq!(boundary("text/plain; boundary=xx"), None);
    }
}
