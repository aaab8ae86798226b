//! Files by plain HTTP, on their way in: one as it is, or several in parts; packed or not.

use std::collections::HashSet;
use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use engine::{GuestUser, Marks};
use flate2::write::GzDecoder;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use types::GuestPath;

use super::entry::PREFIX;
use super::envd::{Asked, json as answer, resolved, user_of_file};
use super::fault::Fault;
use super::multipart::{Multipart, boundary};
use crate::query::Query;
use crate::sessions::Incoming;

/// What is read of a body after its answer is known.
const MOST_REST: u64 = 16 << 20;
const REST_TIME: Duration = Duration::from_secs(2);
/// Bytes of all metadata of one file.
const MOST_METADATA: usize = 4096;
const METADATA: &str = "x-metadata-";

type Content = Box<dyn AsyncRead + Send + Unpin>;

pub(super) async fn upload(asked: &Asked<'_>, request: Request) -> Result<Response, Fault> {
    let query = Query::of(&request);
    let user = user_of_file(&query, request.headers())?;
    let (path, marks) = (query.get("path"), metadata(request.headers())?);
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let boundary = boundary(kind);
    let is_raw = kind.starts_with("application/octet-stream");
    let upload = Upload { asked, user, marks };
    let mut content = content(request, asked.session.room().0)?;
    let written = match (boundary, path) {
        (Some(boundary), path) => upload.parts(path, Multipart::new(&mut content, &boundary)).await,
        (None, Some(path)) if is_raw => upload.file(&path, &mut content).await.map(|file| vec![file]),
        (None, None) if is_raw => Err(Fault::bad("`path` is missing")),
        (None, _) => Err(Fault::bad("send multipart/form-data or application/octet-stream")),
    };
    drain(content).await;
    written.map(|written| answer(&written))
}

/// Reads what is left of a body, if that is little: who still sends would not hear the answer.
async fn drain(content: Content) {
    let (mut rest, mut nowhere) = (content.take(MOST_REST), tokio::io::sink());
    let _ = tokio::time::timeout(REST_TIME, tokio::io::copy(&mut rest, &mut nowhere)).await;
}

/// What the body holds once it is unpacked, and never more than there is room for.
fn content(request: Request, room: u64) -> Result<Content, Fault> {
    let encoding = request.headers().get(header::CONTENT_ENCODING).map(|value| value.as_bytes().to_vec());
    let body = Incoming::new(request.into_body(), room);
    match encoding.as_deref() {
        None | Some(b"" | b"identity") => Ok(Box::new(body)),
        Some(b"gzip") => {
            Ok(Box::new(Unzipped { body, room, unpacker: GzDecoder::new(Vec::new()), at: 0, ended: false }))
        }
        Some(_) => Err(Fault::bad("the body is packed in a way that is not understood; gzip is")),
    }
}

/// Words that are to be attached to each file.
fn metadata(headers: &HeaderMap) -> Result<Marks, Fault> {
    let mut marks = Marks::new();
    for (name, value) in headers {
        let Some(name) = name.as_str().strip_prefix(METADATA) else { continue };
        let printable = |text: &&str| !name.is_empty() && text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        let value = value.to_str().ok().filter(printable);
        let value = value.ok_or_else(|| Fault::bad(format!("metadata `{name}` is not printable ASCII")))?;
        marks.insert(name.to_owned(), value.to_owned());
    }
    if marks.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > MOST_METADATA {
        return Err(Fault::bad(format!("metadata is more than {MOST_METADATA} bytes")));
    }
    Ok(marks)
}

struct Upload<'a> {
    asked: &'a Asked<'a>,
    user: GuestUser,
    marks: Marks,
}

impl Upload<'_> {
    async fn parts(&self, path: Option<String>, mut parts: Multipart<&mut Content>) -> Result<Vec<Value>, Fault> {
        let wrong = |error: io::Error| match error.kind() {
            io::ErrorKind::StorageFull => full(),
            _ => Fault::bad(format!("the parts of the body: {error}")),
        };
        let (mut written, mut seen) = (Vec::new(), HashSet::new());
        while let Some(part) = parts.next().await.map_err(wrong)? {
            if part.name != "file" {
                continue;
            }
            let to = path.clone().unwrap_or(part.file_name);
            if to.is_empty() {
                return Err(Fault::bad("a part has no file name, and there is no `path`"));
            }
            if !seen.insert(resolved(&to, self.user)?.as_str().to_owned()) {
                return Err(Fault::bad(format!("you cannot upload to the path '{to}' twice in one request")));
            }
            written.push(self.file(&to, &mut parts.content()).await?);
        }
        Ok(written)
    }

    async fn file(&self, path: &str, content: &mut (dyn AsyncRead + Send + Unpin)) -> Result<Value, Fault> {
        let (session, owner) = (&self.asked.session, &self.asked.sandbox.owner);
        let path: GuestPath = resolved(path, self.user)?;
        let (files, _pass) = session.files_to_write(owner).await?;
        files.write(&path, self.user, 0o644, content).await?;
        files.mark(&path, PREFIX, self.marks.clone()).await?;
        session.record_act(owner, "put", &path).await?;
        let name = path.as_str().rsplit('/').next().unwrap_or_default();
        let mut told = json!({ "name": name, "path": path.as_str(), "type": "file" });
        if !self.marks.is_empty() {
            told["metadata"] = json!(self.marks);
        }
        Ok(told)
    }
}

fn full() -> Fault {
    Fault::new(axum::http::StatusCode::INSUFFICIENT_STORAGE, "not enough disk space")
}

/// A packed body as it was before.
struct Unzipped {
    body: Incoming,
    /// What may still come out of it.
    room: u64,
    unpacker: GzDecoder<Vec<u8>>,
    /// How much of what is unpacked was taken.
    at: usize,
    ended: bool,
}

impl AsyncRead for Unzipped {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.at == this.unpacker.get_ref().len() && !this.ended {
            this.unpacker.get_mut().clear();
            this.at = 0;
            let mut piece = [0; 8 << 10];
            let mut buffer = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut this.body).poll_read(cx, &mut buffer))?;
            if buffer.filled().is_empty() {
                this.unpacker.try_finish()?;
                this.ended = true;
            } else {
                this.unpacker.write_all(buffer.filled())?;
            }
        }
        let ready = &this.unpacker.get_ref()[this.at..];
        let n = ready.len().min(into.remaining());
        let Some(room) = this.room.checked_sub(n as u64) else {
            return Poll::Ready(Err(io::ErrorKind::StorageFull.into()));
        };
        this.room = room;
        into.put_slice(&ready[..n]);
        this.at += n;
        Poll::Ready(Ok(()))
    }
}
