//! Who asks, and who may: a loopback name in `Host` and `Origin`, and a key, for whoever comes by TCP.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::LogForm;
use types::ErrorCode;

use crate::error::{Refusal, request_id};
use crate::http::Shared;
use crate::identity::{Identity, Scope};
use crate::log::{Line, Who};
use crate::places::Place;
use crate::query::is_text;

/// How a request came in.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) way: Way,
    /// Its place among the connections, kept for as long as anybody needs it.
    pub(crate) place: Arc<Place>,
}

/// The two listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The socket that only the owner can open; the kernel has said who it is.
    Socket,
    /// A loopback port, which every user of the host and every web page can reach.
    Tcp,
}

/// Finds out who asks, and leaves it to the routes what he may; the body has not been read by then.
pub(crate) async fn identify(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    if !is_text(request.uri().query().unwrap_or_default()) {
        let hint = "what is behind the question mark must be UTF-8, with each byte that is not a letter as %XX";
        return Err(Refusal::new(ErrorCode::InvalidRequest, "the query is not text", hint));
    }
    let by_socket = request.extensions().get::<Peer>().is_some_and(|peer| peer.way == Way::Socket);
    let identity = if by_socket {
        Some(Identity::owner())
    } else {
        check_host(&request, &shared.hosts)?;
        check_origin(request.headers(), &shared.hosts)?;
        key_of(request.headers()).and_then(|key| shared.keys.identify(&key))
    };
    let Some(mut identity) = identity else { return Ok(next.run(request).await) };
    identity.caller.trace = request.extensions().get().copied();
    if let Some(peer) = request.extensions().get::<Peer>() {
        peer.place.known();
    }
    let who = Who(identity.caller.name.clone());
    request.extensions_mut().insert(identity);
    let mut response = next.run(request).await;
    response.extensions_mut().insert(who);
    Ok(response)
}

/// Gives every answer an id, and keeps browsers from seeing more in it than there is.
pub(crate) async fn mark(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let line = (shared.log == LogForm::Json).then(|| Line::begin(&request));
    let span = shared.traces.request(&mut request);
    let mut response = in_our_words(next.run(request).await);
    shared.answers.count(response.status());
    let headers = response.headers_mut();
    if !headers.contains_key("x-request-id")
        && let Ok(id) = HeaderValue::try_from(request_id())
    {
        headers.insert("x-request-id", id);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    span.end(&response);
    if let Some(line) = line {
        line.write(&response);
    }
    response
}

/// What the framework refuses by itself, such as a path that is no text, is an error like any other.
fn in_our_words(response: Response) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    if response.status() != StatusCode::BAD_REQUEST || !kind.is_some_and(|kind| kind.starts_with(b"text/plain")) {
        return response;
    }
    let hint = "/openapi.json lists paths and what they take";
    Refusal::new(ErrorCode::InvalidRequest, "the request cannot be read", hint).into_response()
}

/// Routes for those whose key is for `scope`.
pub(crate) fn only_for(scope: Scope, routes: Router<Arc<Shared>>) -> Router<Arc<Shared>> {
    routes.route_layer(from_fn(move |identity: Identity, request: Request, next: Next| async move {
        identity.must(scope)?;
        Ok::<_, Refusal>(next.run(request).await)
    }))
}

fn key_of(headers: &HeaderMap) -> Option<Cow<'_, [u8]>> {
    let Some(authorization) = headers.get(header::AUTHORIZATION) else {
        return headers.get("x-api-key").map(|key| key.as_bytes().into());
    };
    let mut words = authorization.as_bytes().splitn(2, |byte| *byte == b' ');
    let (scheme, rest) = (words.next()?, words.next()?);
    if scheme.eq_ignore_ascii_case(b"Bearer") {
        return Some(rest.into());
    }
    // Clients that take nothing but an address have the key in it, as a password.
    let pair = scheme.eq_ignore_ascii_case(b"Basic").then(|| STANDARD.decode(rest).ok()).flatten()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec().into())
}

/// A page of somebody else's can point a name of its own at 127.0.0.1, but not make a browser hide that name.
fn check_host(request: &Request, own: &[String]) -> Result<(), Refusal> {
    let mut named = request.headers().get_all(header::HOST).iter();
    let host = named.next().and_then(|host| host.to_str().ok()).filter(|_| named.next().is_none());
    let other = request.uri().host().is_some_and(|host| !is_ours(host, own));
    if host.is_some_and(|host| is_ours(host, own)) && !other {
        return Ok(());
    }
    let hint = "use http://127.0.0.1 or http://localhost with the server's port, or a name in `hosts` of its [server] settings";
    Err(Refusal::new(ErrorCode::WrongHost, "the Host header must name this server", hint))
}

/// A browser says which page asks. Programs say nothing, and pages from elsewhere have no business here.
fn check_origin(headers: &HeaderMap, own: &[String]) -> Result<(), Refusal> {
    let is_own = |origin: &HeaderValue| {
        let host = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
        host.is_some_and(|host| is_ours(host, own))
    };
    if headers.get_all(header::ORIGIN).iter().all(is_own) {
        return Ok(());
    }
    let hint = "ask from a page of this machine, or from a program, which sends no Origin";
    Err(Refusal::new(ErrorCode::WrongHost, "pages from elsewhere may not ask", hint))
}

/// A name of the loopback, or one that the owner gave it.
fn is_ours(host: &str, own: &[String]) -> bool {
    let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let name = name.map_or(host, |(name, _)| name);
    is_loopback(host) || own.iter().any(|own| own.eq_ignore_ascii_case(name))
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, port)) if port.is_empty() || is_port(port) => name,
        Some(_) => return false,
        None => match host.split_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            Some(_) => return false,
            None => host,
        },
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_loopback_pass() {
        for good in ["localhost", "LOCALHOST:7244", "127.0.0.1", "127.0.0.1:7244", "127.9.9.9", "[::1]", "[::1]:80"] {
            assert!(is_loopback(good), "{good}");
        }
        for bad in
            ["", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:7244", "[::1].evil", "10.0.0.1"]
        {
            assert!(!is_loopback(bad), "{bad}");
        }
        for bad in ["localhost:80:evil", "[::1]:x", "0.0.0.0", "[::]", "localhost@evil"] {
            assert!(!is_loopback(bad), "{bad}");
        }
    }

    #[test]
    fn a_name_of_ones_own_passes_with_and_without_a_port() {
        let own = ["box.example".to_owned()];
        for good in ["box.example", "BOX.example:7244", "localhost", "[::1]:7244"] {
            assert!(is_ours(good, &own), "{good}");
        }
        for bad in ["", "box.example.evil", "evil.box.example", "box.example:x", "other"] {
            assert!(!is_ours(bad, &own), "{bad}");
        }
    }

    #[test]
    fn pages_from_elsewhere_are_turned_away() {
        let from = |origin: &str| HeaderMap::from_iter([(header::ORIGIN, HeaderValue::from_str(origin).unwrap())]);
        for good in ["http://localhost:7244", "https://127.0.0.1", "http://[::1]:80"] {
            assert!(check_origin(&from(good), &[]).is_ok(), "{good}");
        }
        for bad in ["null", "", "https://evil.example", "http://localhost.evil.example", "file://", "localhost"] {
            assert!(check_origin(&from(bad), &[]).is_err(), "{bad}");
        }
        assert!(check_origin(&HeaderMap::new(), &[]).is_ok());
    }

    #[test]
    fn a_key_comes_in_either_header() {
        let headers =
            |name: &'static str, value: &str| HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]);
        let key = |name, value: &str| key_of(&headers(name, value)).map(|key| String::from_utf8(key.to_vec()).unwrap());
        for (name, value) in [
            ("authorization", "Bearer k"),
            ("authorization", "bearer k"),
            ("x-api-key", "k"),
            // Anybody, and the key as his password.
            ("authorization", "Basic dXNlcjpr"),
        ] {
            assert_eq!(key(name, value).as_deref(), Some("k"), "{value}");
        }
        for value in ["Basic k", "Basic ", "Basic aw==", "Digest k", "k", ""] {
            assert_eq!(key("authorization", value), None, "{value}");
        }
        assert_eq!(key_of(&HeaderMap::new()), None);
    }
}
