//! The E2B-compatible door: its SDKs work unchanged when their two addresses name this server (docs/E2B.md).
//!
//! The control plane is ordinary routes, behind the guard like all others. What is meant for a sandbox is told by a header,
//! a host name, a token or a signature, and comes with that sandbox's own token in place of the server's key; so it is
//! taken out before the guard, and can reach that sandbox and nothing else.

mod connect;
mod contexts;
mod control;
mod dispatch;
mod entry;
mod envd;
mod execute;
mod expected;
mod fault;
mod files;
mod filesystem;
mod lifecycle;
mod list;
mod metrics;
mod multipart;
mod process;
mod proxy;
mod results;
mod sandbox;
mod shape;
mod signature;
mod snapshots;
mod stream;
mod template;
mod upload;
mod watchers;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

pub(crate) use control::routes;
pub(crate) use expected::at_start;
pub(crate) use sandbox::Sandboxes;

use crate::http::Shared;
use dispatch::Target;

/// Takes what is meant for a sandbox; everything else goes on.
pub(crate) async fn take(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    match dispatch::target(&shared.e2b, &request) {
        Target::Elsewhere if control::is_ours(&request) => fault::translated(next.run(request).await).await,
        Target::Elsewhere => next.run(request).await,
        Target::Gone(id) => fault::gone(&id),
        Target::Sandbox { sandbox, port } => {
            let _underway = shared.runs.begin();
            dispatch::serve(&shared, sandbox, port, request).await.unwrap_or_else(IntoResponse::into_response)
        }
    }
}
