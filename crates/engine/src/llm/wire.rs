//! One HTTP exchange: a POST over a connection of its own, and the whole answer, in bounds.
//!
//! No redirects (they would carry the key elsewhere), no proxies, no connection kept: a call takes seconds, a handshake
//! milliseconds.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::ChatReply;
use super::endpoint::{Endpoint, Tls};
use super::error::ModelError;
use super::key::{ApiKey, presentable};

/// The most that is read of an answer.
pub(super) const MAX_REPLY: usize = 4 << 20;

/// More than any call has: the books could not add up what a mad server may claim.
pub(super) const MOST_TOKENS: u64 = 1 << 32;

/// As long as for ever, and short enough to be added to a time of day.
const LONGEST_WAIT: Duration = Duration::from_hours(24);

/// An answer, whole.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Bytes,
}

impl Answer {
    /// What was told, or what is wrong: with the call, with the server, or with what it told.
    pub(super) fn read<T: DeserializeOwned>(&self, key: Option<&ApiKey>, why: &'static str) -> Result<T, ModelError> {
        let Self { status, retry_after, body } = self;
        let (status, retry_after) = (*status, *retry_after);
        if status == 200 {
            let value: Value =
                serde_json::from_slice(body).map_err(|_| ModelError::Garbled { why: "it is not JSON" })?;
            return serde_json::from_value(value).map_err(|_| ModelError::Garbled { why });
        }
        let text = match serde_json::from_slice(body) {
            Ok(Trouble { error: TroubleBody::Told { message: text } | TroubleBody::Plain(text) }) => text,
            Err(_) => String::new(),
        };
        let said = presentable(&text, key);
        Err(match status {
            429 => ModelError::RateLimited { retry_after, said },
            408 | 500.. => ModelError::Server { status, retry_after, said },
            _ => ModelError::Refused { status, said },
        })
    }
}

/// The error body of OpenAI, and in this much of all others.
#[derive(Deserialize)]
struct Trouble {
    error: TroubleBody,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TroubleBody {
    Told { message: String },
    Plain(String),
}

/// A reply with the key blacked out: only a server that means harm would send it back.
pub(super) fn without_key(reply: Result<ChatReply, ModelError>, key: Option<&ApiKey>) -> Result<ChatReply, ModelError> {
    let reply = reply?;
    Ok(match key {
        Some(key) => ChatReply { text: key.black_out(reply.text), ..reply },
        None => reply,
    })
}

/// Sends a JSON body and reads the whole answer. Dropping the future closes the connection.
pub(super) async fn post(
    endpoint: &Endpoint,
    headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
    body: &impl Serialize,
) -> Result<Answer, ModelError> {
    let body = serde_json::to_vec(body);
    let body = body.map_err(|_| ModelError::Garbled { why: "the question cannot be written as JSON" })?;
    let request = request(endpoint, headers, body)?;
    exchange(open(endpoint).await?, request).await
}

/// A connection, sealed or not.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Connection for S {}

/// Connects to a server, sealed where its address says so.
pub(crate) async fn open(endpoint: &Endpoint) -> Result<Box<dyn Connection>, ModelError> {
    let failed = |source| ModelError::Connect { host: endpoint.host.clone(), source };
    let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await.map_err(failed)?;
    // Small requests follow each other.
    stream.set_nodelay(true).map_err(failed)?;
    match endpoint.tls {
        Tls::No => Ok(Box::new(stream)),
        Tls::Yes => {
            let wrong = |_| ModelError::Address { why: "its host is no name that a certificate could have" };
            let name = ServerName::try_from(endpoint.host.clone()).map_err(wrong)?;
            Ok(Box::new(TlsConnector::from(trust()?).connect(name, stream).await.map_err(failed)?))
        }
    }
}

fn request(
    endpoint: &Endpoint,
    headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
    body: Vec<u8>,
) -> Result<Request<Full<Bytes>>, ModelError> {
    let wrong = |_| ModelError::Address { why: "its path cannot be asked for" };
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(&endpoint.path)
        .header(HOST, &endpoint.authority)
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, concat!("saggar/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(Bytes::from(body)))
        .map_err(wrong)?;
    request.headers_mut().extend(headers);
    Ok(request)
}

async fn exchange(stream: Box<dyn Connection>, request: Request<Full<Bytes>>) -> Result<Answer, ModelError> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // The set ends the connection's task with this future, however that ends.
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    let answer = sender.send_request(request).await.map_err(broken)?;
    let status = answer.status().as_u16();
    let retry_after = retry_after(answer.headers());
    let body = Limited::new(answer.into_body(), MAX_REPLY)
        .collect()
        .await
        .map_err(|error| if error.is::<LengthLimitError>() { ModelError::TooLarge } else { ModelError::Cut })?;
    Ok(Answer { status, retry_after, body: body.to_bytes() })
}

/// A connection that broke before the answer's head was whole.
#[expect(clippy::needless_pass_by_value, reason = "used as a function in map_err")]
fn broken(error: hyper::Error) -> ModelError {
    if error.is_parse() { ModelError::Garbled { why: "it is not HTTP" } } else { ModelError::Cut }
}

/// Whom the host trusts, read once.
pub fn trust() -> Result<Arc<ClientConfig>, ModelError> {
    static TRUST: OnceLock<Option<Arc<ClientConfig>>> = OnceLock::new();
    TRUST.get_or_init(|| load_trust().map(Arc::new)).clone().ok_or(ModelError::NoAuthorities)
}

fn load_trust() -> Option<ClientConfig> {
    let mut roots = RootCertStore::empty();
    // One that cannot be read is one that is not trusted.
    let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if added == 0 {
        return None;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().ok()?;
    Some(builder.with_root_certificates(roots).with_no_client_auth())
}

/// `Retry-After` in seconds or as a date; `retry-after-ms` where a server is that exact.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |value: &HeaderValue| value.to_str().ok().map(|text| text.trim().to_owned());
    if let Some(exact) = headers.get("retry-after-ms").and_then(text).and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(exact).min(LONGEST_WAIT));
    }
    let said = headers.get(RETRY_AFTER).and_then(text)?;
    if let Ok(seconds) = said.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds.min(LONGEST_WAIT.as_secs_f64())).ok();
    }
    let date = httpdate::parse_http_date(&said).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default().min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(name: &'static str, value: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::try_from(value).unwrap());
        retry_after(&headers)
    }

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        assert_eq!(wait("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(wait("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
        assert!((98..=100).contains(&wait("retry-after", &soon).unwrap().as_secs()));
        assert_eq!(wait("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        for endless in ["1e18", "1e300", "18446744073709551615", "Fri, 31 Dec 9999 23:59:59 GMT"] {
            assert_eq!(wait("retry-after", endless), Some(LONGEST_WAIT), "{endless}");
        }
        assert_eq!(wait("retry-after-ms", "18446744073709551615"), Some(LONGEST_WAIT));
        for nonsense in ["", "-1", "soon"] {
            assert_eq!(wait("retry-after", nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn this_host_has_authorities_or_says_so() {
        assert!(matches!(trust(), Ok(_) | Err(ModelError::NoAuthorities)));
    }
}
