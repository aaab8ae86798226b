//! Which sandbox a request is meant for, and who may make it.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;

use super::fault::{self, Fault};
use super::sandbox::{Sandbox, Sandboxes, same};
use super::signature::{self, Signed};
use super::{contexts, control, envd, lifecycle, proxy};
use crate::http::Shared;
use crate::query::{Query, is_text};

/// Where E2B's own programs listen in its sandboxes.
const ENVD: u16 = 49983;
const INTERPRETER: u16 = 49999;

/// Whom a request is meant for.
pub(super) enum Target {
    Sandbox {
        sandbox: Arc<Sandbox>,
        port: u16,
    },
    /// A sandbox that is not there.
    Gone(String),
    /// None of ours.
    Elsewhere,
}

/// By header, by host name, by token, by signature.
pub(super) fn target(sandboxes: &Sandboxes, request: &Request) -> Target {
    let headers = request.headers();
    // Clients up to 2.2x name the sandbox in a header of the control plane too; its own program there has no such paths.
    if by_header(headers).is_some_and(|(_, port)| port == ENVD) && control::is_ours(request) {
        return Target::Elsewhere;
    }
    let named = by_header(headers).or_else(|| by_host(headers));
    if let Some((id, port)) = named {
        return match sandboxes.get(&id) {
            Some(sandbox) => Target::Sandbox { sandbox, port },
            None => Target::Gone(id),
        };
    }
    let path = request.uri().path();
    let found = if let Some(token) = headers.get(TOKEN) {
        sandboxes.find(|sandbox| same(sandbox.token.as_bytes(), token.as_bytes()))
    } else if path == "/files" {
        let (signed, act) = (Signed::of(&Query::of(request)), signature::act(request.method()));
        signed.and_then(|signed| sandboxes.find(|sandbox| signed.is_by(&sandbox.token, act)))
    } else {
        None
    };
    match found {
        Some(sandbox) => Target::Sandbox { sandbox, port: if is_interpreters(path) { INTERPRETER } else { ENVD } },
        None => Target::Elsewhere,
    }
}

const TOKEN: &str = "x-access-token";

fn by_header(headers: &HeaderMap) -> Option<(String, u16)> {
    let id = headers.get("e2b-sandbox-id")?.to_str().ok()?;
    let port = headers.get("e2b-sandbox-port").and_then(|port| port.to_str().ok()?.parse().ok());
    Some((short(id), port.unwrap_or(ENVD)))
}

/// `PORT-ID.domain`.
fn by_host(headers: &HeaderMap) -> Option<(String, u16)> {
    let host = headers.get(header::HOST)?.to_str().ok()?;
    let (label, _) = host.split_once('.')?;
    let (port, id) = label.split_once('-')?;
    let is_id = id.starts_with('i') && id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    Some((id.to_owned(), port.parse().ok()?)).filter(|_| is_id)
}

fn short(id: &str) -> String {
    id.chars().take(100).collect()
}

fn is_interpreters(path: &str) -> bool {
    path == "/execute" || path == "/contexts" || path.starts_with("/contexts/")
}

/// Answers a request that is meant for a sandbox.
pub(super) async fn serve(
    shared: &Arc<Shared>,
    sandbox: Arc<Sandbox>,
    port: u16,
    request: Request,
) -> Result<Response, Fault> {
    if !request.uri().query().is_none_or(is_text) {
        return Err(Fault::bad("the query is no text"));
    }
    check(&sandbox, port, &request)?;
    if sandbox.is_paused() && sandbox.wanted.auto_resume {
        lifecycle::wake(shared, &sandbox).await?;
    }
    let Some(session) = sandbox.session() else { return Ok(fault::gone(&sandbox.id)) };
    match port {
        ENVD => envd::serve(shared, &sandbox, session, request).await,
        INTERPRETER => contexts::serve(shared, &sandbox, session, request).await,
        port => proxy::forward(shared, &sandbox, &session, port, request).await,
    }
}

/// Whether the request brings what it needs. That of the interpreter brings nothing but the name of the sandbox.
fn check(sandbox: &Sandbox, port: u16, request: &Request) -> Result<(), Fault> {
    let headers = request.headers();
    let given = headers.get(TOKEN).map(|token| same(sandbox.token.as_bytes(), token.as_bytes()));
    if given == Some(false) {
        return Err(Fault::unauthorized("the access token is wrong"));
    }
    if port == ENVD {
        let is_free = request.uri().path() == "/health" || !sandbox.wanted.secure || given == Some(true);
        return if is_free { Ok(()) } else { check_signature(sandbox, request) };
    }
    let Some(wanted) = &sandbox.traffic_token else { return Ok(()) };
    let traffic = headers.get("e2b-traffic-access-token").map(header::HeaderValue::as_bytes);
    if traffic.is_some_and(|given| same(wanted.as_bytes(), given)) {
        return Ok(());
    }
    let words =
        if traffic.is_some() { "the traffic access token is wrong" } else { "a traffic access token is needed" };
    Err(Fault::new(StatusCode::FORBIDDEN, words))
}

fn check_signature(sandbox: &Sandbox, request: &Request) -> Result<(), Fault> {
    let signed = Signed::of(&Query::of(request)).filter(|_| request.uri().path() == "/files");
    let Some(signed) = signed else { return Err(Fault::unauthorized("an access token is needed")) };
    if !signed.is_by(&sandbox.token, signature::act(request.method())) {
        return Err(Fault::unauthorized("invalid signature"));
    }
    signed.check()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_is_found_by_its_host_name() {
        let id = format!("i{}", "0123456789abcdef".repeat(2).split_at(31).0);
        let named = |host: &str| by_host(&HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]));
        assert_eq!(named(&format!("8000-{id}.localhost:7244")), Some((id.clone(), 8000)));
        assert_eq!(named(&format!("49983-{id}.e2b.app")), Some((id.clone(), 49983)));
        for other in ["localhost:7244", "127.0.0.1:80", "8000-x.localhost", &format!("x-{id}.y"), &format!("8000-{id}")]
        {
            assert_eq!(named(other), None, "{other}");
        }
    }
}
