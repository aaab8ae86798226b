//! Files by plain HTTP, on their way out.

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use engine::FileContentStream;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::{Body as HttpBody, Frame};
use tokio::io::{AsyncRead, ReadBuf};

use super::envd::{Asked, resolved, user_of_file};
use super::fault::Fault;
use crate::query::Query;
use crate::sessions::Outgoing;

const PIECE: usize = 64 << 10;

/// What tells one start of a machine from another. The kernel's own is the host's, and hidden.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The content of a file.
pub(super) async fn download(asked: &Asked<'_>, request: Request) -> Result<Response, Fault> {
    let query = Query::of(&request);
    let user = user_of_file(&query, request.headers())?;
    let gzip = wants_gzip(&request);
    drop(request);
    let path = resolved(&query.get("path").unwrap_or_default(), user)?;
    if path.as_str() == BOOT_ID {
        return Ok(format!("{}\n", asked.sandbox.state().boot).into_response());
    }
    let content = asked.session.files()?.read(&path).await?;
    let kind = (header::CONTENT_TYPE, "application/octet-stream".to_owned());
    if gzip {
        let headers = [kind, (header::CONTENT_ENCODING, "gzip".to_owned())];
        return Ok((headers, Body::new(Zipped::new(content))).into_response());
    }
    let headers = [kind, (header::CONTENT_LENGTH, content.bytes.to_string())];
    Ok((headers, Body::new(Outgoing::new(content))).into_response())
}

/// Only who takes nothing else: packing costs more than a loopback saves.
fn wants_gzip(request: &Request) -> bool {
    request.headers().get(header::ACCEPT_ENCODING).is_some_and(|value| value == "gzip")
}

/// A file's content, packed on its way.
struct Zipped {
    content: FileContentStream,
    packer: Option<GzEncoder<Vec<u8>>>,
}

impl Zipped {
    fn new(content: FileContentStream) -> Self {
        Self { content, packer: Some(GzEncoder::new(Vec::new(), Compression::fast())) }
    }
}

impl HttpBody for Zipped {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Self { content, packer } = &mut *self;
        loop {
            let Some(open) = packer.as_mut() else { return Poll::Ready(None) };
            let mut piece = vec![0; PIECE];
            let mut buffer = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut content.content).poll_read(cx, &mut buffer))?;
            let packed = match buffer.filled() {
                [] => packer.take().map(GzEncoder::finish).transpose()?.unwrap_or_default(),
                filled => {
                    open.write_all(filled)?;
                    std::mem::take(open.get_mut())
                }
            };
            if !packed.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(packed.into()))));
            }
        }
    }
}
