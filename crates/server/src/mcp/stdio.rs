//! MCP over a pair of streams, a message a line: `saggar mcp` by itself, or as a go-between to a server by its socket.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::Engine;
use hyper_util::rt::TokioIo;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, watch};

use super::tools::{MOST_CALLS, Tools};
use crate::activity::{Activity, turned};
use crate::attach::{MISMATCH, VERSION_HEADER};
use crate::guard::Peer;
use crate::http::{MOST_BODY, Shared};
use crate::identity::Identity;

/// Where HTTP clients speak MCP, and where the command line asks for the upgrade.
pub const MCP_PATH: &str = "/mcp";
/// What it upgrades to.
pub const MCP_PROTOCOL: &str = "saggar-mcp";

/// Serves whoever is at the other end of standard input and output, until it goes away or `stop` comes true.
pub async fn serve_stdio(engine: Arc<Engine>, stop: impl Future<Output = ()>) {
    let (end, give_up) = watch::channel(false);
    let tools = Tools {
        engine: Arc::clone(&engine),
        runs: Activity::new(),
        give_up,
        owner: Some(Identity::owner()),
        places: Arc::new(Semaphore::new(MOST_CALLS)),
    };
    let mut conversation = pin!(converse(tools, tokio::io::stdin(), tokio::io::stdout()));
    tokio::select! {
        () = &mut conversation => {}
        () = stop => {}
    }
    end.send_replace(true);
    engine.end_sessions().await;
}

/// From the first message to the last. What is under way when the client closes gets a moment to answer, and is then
/// taken back.
async fn converse<R, W>(tools: Tools, read: R, write: W)
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let read = Lines { read, length: 0 };
    let transport = AsyncRwTransport::new_server(read, write).with_max_line_length(usize::MAX);
    if let Ok(service) = rmcp::serve_server(tools, transport).await {
        // Nobody is left to be told how it ended.
        drop(service.waiting().await);
    }
}

/// Whether the command line wants to pass on a conversation.
pub(super) fn is_upgrade(request: &Request) -> bool {
    request.headers().get(header::UPGRADE).map(HeaderValue::as_bytes) == Some(MCP_PROTOCOL.as_bytes())
}

/// Takes over a connection by the socket.
pub(super) fn upgrade(shared: &Arc<Shared>, identity: Identity, peer: Peer, mut request: Request) -> Response {
    if request.headers().get(VERSION_HEADER).map(HeaderValue::as_bytes) != Some(crate::VERSION.as_bytes()) {
        let words = format!("the server has version {}", crate::VERSION);
        return (StatusCode::from_u16(MISMATCH).unwrap_or(StatusCode::CONFLICT), words).into_response();
    }
    let underway = shared.runs.begin();
    let upgraded = hyper::upgrade::on(&mut request);
    let mut give_up = shared.give_up.subscribe();
    let tools = Tools {
        engine: Arc::clone(&shared.engine),
        runs: shared.runs.clone(),
        give_up: give_up.clone(),
        owner: Some(identity),
        places: Arc::new(Semaphore::new(MOST_CALLS)),
    };
    tokio::spawn(async move {
        let _held = (underway, peer.place);
        let Ok(upgraded) = upgraded.await else { return };
        let Ok(parts) = upgraded.downcast::<TokioIo<UnixStream>>() else { return };
        let (read, write) = parts.io.into_inner().into_split();
        let read = io::Cursor::new(parts.read_buf).chain(read);
        tokio::select! {
            () = converse(tools, read, write) => {}
            () = turned(&mut give_up) => {}
        }
    });
    let headers = [(header::CONNECTION, "upgrade"), (header::UPGRADE, MCP_PROTOCOL)];
    (StatusCode::SWITCHING_PROTOCOLS, headers, Body::empty()).into_response()
}

/// Ends the stream at a line that is too long: a client that is told nothing would wait for its answer for ever.
struct Lines<R> {
    read: R,
    /// Of the line so far.
    length: usize,
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let polled = Pin::new(&mut self.read).poll_read(cx, into);
        let new = &into.filled()[before..];
        self.length = match new.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => new.len() - at - 1,
            None => self.length + new.len(),
        };
        if self.length > MOST_BODY {
            return Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()));
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn a_line_without_an_end_ends_the_conversation() {
        let lines = vec![b'x'; MOST_BODY / 2];
        let mut short = Lines { read: lines.chain(&b"\n"[..]).chain(&lines[..]), length: 0 };
        assert!(tokio::io::copy(&mut short, &mut tokio::io::sink()).await.is_ok());
        let mut long = Lines { read: tokio::io::repeat(b'x'), length: 0 };
        assert!(tokio::io::copy(&mut long, &mut tokio::io::sink()).await.is_err());
    }
}
