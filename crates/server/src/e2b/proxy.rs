//! Ports of a sandbox: a request goes in as it came, without what was meant for this server.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::Session;
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::fault::{self, Fault};
use super::sandbox::Sandbox;
use crate::guard::Peer;
use crate::http::Shared;

/// Headers between a client and this server.
const OURS: [&str; 4] = ["e2b-sandbox-id", "e2b-sandbox-port", "e2b-traffic-access-token", "x-access-token"];
/// Headers of one connection, which is not the next one.
const OF_CONNECTION: [HeaderName; 5] =
    [header::CONNECTION, header::TRANSFER_ENCODING, header::TE, header::TRAILER, header::PROXY_AUTHORIZATION];

/// Passes a request on to whoever listens inside, and the answer back.
pub(super) async fn forward(
    shared: &Arc<Shared>,
    sandbox: &Sandbox,
    session: &Session,
    port: u16,
    mut request: Request,
) -> Result<Response, Fault> {
    let Some(inside) = session.open_port(&sandbox.owner, port).await? else {
        return Ok(fault::closed(&sandbox.id, port));
    };
    let failed = |_| Fault::new(StatusCode::BAD_GATEWAY, "the sandbox's answer is not HTTP, or broke off");
    let (mut sender, connection) = http1::handshake(TokioIo::new(inside)).await.map_err(failed)?;
    tokio::spawn(async move {
        // Whoever reads the answer is told by its end.
        let _ = connection.with_upgrades().await;
    });
    let asked = request.headers().contains_key(header::UPGRADE);
    let outer = request.extensions_mut().remove::<OnUpgrade>().filter(|_| asked);
    let peer = request.extensions().get::<Peer>().cloned();
    prepare(shared, &mut request);
    let mut response = sender.send_request(request).await.map_err(failed)?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS
        && let Some(outer) = outer
    {
        let inner = hyper::upgrade::on(&mut response);
        if let Some(peer) = &peer {
            peer.place.unhurried();
        }
        tokio::spawn(async move {
            // The connection counts for as long as it is used.
            let _held = peer;
            join(outer, inner).await;
        });
        return Ok(response.map(|_| Body::empty()).into_response());
    }
    // Nobody asked for another protocol, and whoever passes answers on would take what follows for one.
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Fault::new(StatusCode::BAD_GATEWAY, "the sandbox answers with another protocol"));
    }
    for name in &OF_CONNECTION {
        response.headers_mut().remove(name);
    }
    Ok(response.map(Body::new).into_response())
}

/// Both ends speak something else from now on.
async fn join(outer: OnUpgrade, inner: OnUpgrade) {
    if let (Ok(outer), Ok(inner)) = tokio::join!(outer, inner) {
        let (mut outer, mut inner) = (TokioIo::new(outer), TokioIo::new(inner));
        let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
    }
}

/// As the program inside is to see it: no key of this server goes into a sandbox.
fn prepare(shared: &Shared, request: &mut Request) {
    let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
    *request.uri_mut() = path.parse().unwrap_or(Uri::from_static("/"));
    let is_upgrade = request.headers().contains_key(header::UPGRADE);
    let headers = request.headers_mut();
    for name in OURS {
        headers.remove(name);
    }
    for name in OF_CONNECTION.iter().filter(|name| !(is_upgrade && **name == header::CONNECTION)) {
        headers.remove(name);
    }
    for name in [HeaderName::from_static("x-api-key"), header::AUTHORIZATION] {
        if is_key(shared, headers, &name) {
            headers.remove(name);
        }
    }
}

fn is_key(shared: &Shared, headers: &HeaderMap, name: &HeaderName) -> bool {
    // One of several values is enough: the program inside is sent all of them, or none.
    headers.get_all(name).iter().any(|words| keys_in(words.as_bytes()).any(|key| shared.keys.identify(&key).is_some()))
}

/// What could be a key in a header's value, as the guard would read it: all of it, or what follows the name of a scheme.
fn keys_in(words: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let words = words.trim_ascii();
    let after = |scheme: &str| {
        let (word, rest) = words.split_at_checked(scheme.len())?;
        word.eq_ignore_ascii_case(scheme.as_bytes()).then(|| rest.trim_ascii())
    };
    let pair = after("basic ").and_then(|pair| STANDARD.decode(pair).ok());
    let password =
        pair.and_then(|pair| Some(pair.split_at(pair.iter().position(|byte| *byte == b':')? + 1).1.to_vec()));
    [Some(words.into()), after("bearer ").map(Cow::from), password.map(Cow::from)].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_however_they_are_sent() {
        let basic = format!("bAsIc {}", STANDARD.encode("me:key"));
        for words in ["key", " key ", "Bearer key", "bearer  key", basic.as_str()] {
            assert!(keys_in(words.as_bytes()).any(|found| *found == *b"key"), "{words}");
        }
        assert!(!keys_in(b"Digest key").any(|found| *found == *b"key"));
    }
}
