//! The private door: the command line attaches to the server for one run.
//!
//! An HTTP upgrade on the Unix socket, then frames both ways. Unlike a request body, `Ask` may give up walls or insist on
//! layers: who can open the socket could as well run saggar by themselves.

mod remote;
mod session;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::CommandSpec;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use types::{ErrorCode, ExecRequest, Layer, RelPath};

use crate::error::Refusal;
use crate::guard::{Peer, Way};
use crate::http::{Shared, nothing_here};

/// Where the command line asks for the upgrade.
pub const ATTACH_PATH: &str = "/v1/attach";
/// What it upgrades to.
pub const PROTOCOL: &str = "saggar";
/// Carries the client's version.
pub const VERSION_HEADER: &str = "x-saggar-version";
/// The answer to a client of another version; nothing of what it sent was read.
pub const MISMATCH: u16 = 409;

/// The most bytes of a frame that the server takes: a program, or everything else about a run.
pub const MOST_ASK: usize = 64 << 20;

/// A run, as the command line asks for it. The program and its input files follow as bytes.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// Without `code` and `files`.
    pub request: ExecRequest,
    /// Where the input files go, and what messages call them; the server asks for each by its number.
    pub files: Vec<(RelPath, String)>,
    /// Walls that the caller gives up by name.
    pub accept_missing: Vec<Layer>,
    /// Layers that the caller insists on.
    pub require: Vec<Layer>,
    /// Whether output is wanted as it comes; it is then left out of the result.
    pub live: bool,
    /// Whether the files that the run makes are wanted.
    pub out: bool,
    /// A command in a session, in place of `request`.
    pub session: Option<InSession>,
}

/// A command in a session.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InSession {
    /// The session.
    pub id: String,
    /// The command.
    pub command: CommandSpec,
}

/// A file that the run made, before its content.
#[derive(Debug, Serialize, Deserialize)]
pub struct MadeFile {
    /// Below `/work`.
    pub path: RelPath,
    /// Whether it may be executed.
    pub executable: bool,
}

pub(crate) async fn attach(State(shared): State<Arc<Shared>>, mut request: Request) -> Result<Response, Refusal> {
    let peer = request.extensions().get::<Peer>().filter(|peer| peer.way == Way::Socket).cloned();
    let Some(peer) = peer else { return Err(nothing_here(request.extensions().get().cloned()).await) };
    let upgrade = request.headers().get(header::UPGRADE).map(HeaderValue::as_bytes);
    if upgrade != Some(PROTOCOL.as_bytes()) {
        let hint = "this is the door of the command line; use `POST /v1/runs`";
        return Err(Refusal::new(ErrorCode::InvalidRequest, "an upgrade is needed here", hint));
    }
    if request.headers().get(VERSION_HEADER).map(HeaderValue::as_bytes) != Some(crate::VERSION.as_bytes()) {
        let words = format!("the server has version {}", crate::VERSION);
        return Ok((StatusCode::from_u16(MISMATCH).unwrap_or(StatusCode::CONFLICT), words).into_response());
    }
    let underway = shared.runs.begin();
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let _held = (underway, peer.place);
        let Ok(upgraded) = upgraded.await else { return };
        if let Ok(parts) = upgraded.downcast::<TokioIo<UnixStream>>() {
            session::serve(&shared, parts.io.into_inner(), &parts.read_buf).await;
        }
    });
    let headers = [(header::CONNECTION, "upgrade"), (header::UPGRADE, PROTOCOL)];
    Ok((StatusCode::SWITCHING_PROTOCOLS, headers, Body::empty()).into_response())
}
