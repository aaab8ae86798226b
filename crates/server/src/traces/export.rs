//! Spans on their way to a collector: in bounded numbers, in parts, and never in anybody's way.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Method, Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::span::{Span, attribute};
use super::target::Target;

/// Requests and runs that wait to be sent; what comes then is counted and lost.
const QUEUE: usize = 4096;
/// Spans in one part.
const PART: usize = 512;
/// How long a part gathers.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a collector may take for a part.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the server's end waits for what is left.
const FAREWELL: Duration = Duration::from_secs(2);
/// Of an answer that nobody needs.
const MOST_ANSWER: usize = 64 << 10;

/// Where spans are left.
#[derive(Clone)]
pub(super) struct Outbox {
    queue: mpsc::Sender<Vec<Span>>,
    lost: Arc<AtomicU64>,
}

impl Outbox {
    /// Does not wait.
    pub(super) fn put(&self, spans: Vec<Span>) {
        let count = spans.len() as u64;
        if self.queue.try_send(spans).is_err() {
            self.lost.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// Sends what is left in its outbox.
pub(super) struct Exporter {
    outbox: Outbox,
    /// Asks for everything to be sent now, and hears when it was.
    flush: mpsc::Sender<oneshot::Sender<()>>,
}

impl Exporter {
    pub(super) fn begin(target: Target) -> Self {
        let (queue, spans) = mpsc::channel(QUEUE);
        let (flush, asked) = mpsc::channel(1);
        let lost = Arc::new(AtomicU64::new(0));
        let sender = Sender { target, lost: Arc::clone(&lost), is_told: AtomicBool::new(false) };
        tokio::spawn(sender.go_on(spans, asked));
        Self { outbox: Outbox { queue, lost }, flush }
    }

    pub(super) fn outbox(&self) -> Outbox {
        self.outbox.clone()
    }

    pub(super) async fn finish(&self) {
        let (tell, told) = oneshot::channel();
        let sent = async {
            if self.flush.send(tell).await.is_ok() {
                let _ = told.await;
            }
        };
        // A collector that does not answer keeps nobody here.
        let _ = tokio::time::timeout(FAREWELL, sent).await;
    }
}

struct Sender {
    target: Target,
    lost: Arc<AtomicU64>,
    /// Whether somebody was told that it does not work.
    is_told: AtomicBool,
}

impl Sender {
    async fn go_on(self, mut spans: mpsc::Receiver<Vec<Span>>, mut asked: mpsc::Receiver<oneshot::Sender<()>>) {
        let mut part: Vec<Span> = Vec::new();
        loop {
            let gathered = tokio::time::sleep(PAUSE);
            tokio::pin!(gathered);
            let mut waiting = None;
            while part.len() < PART {
                tokio::select! {
                    more = spans.recv() => match more {
                        Some(more) => part.extend(more),
                        None => return,
                    },
                    asked = asked.recv() => {
                        waiting = asked;
                        while let Ok(more) = spans.try_recv() {
                            part.extend(more);
                        }
                        break;
                    }
                    () = &mut gathered => break,
                }
            }
            while !part.is_empty() {
                let rest = part.split_off(part.len().min(PART));
                self.send(&std::mem::replace(&mut part, rest)).await;
            }
            if let Some(waiting) = waiting {
                let _ = waiting.send(());
            }
        }
    }

    async fn send(&self, spans: &[Span]) {
        let body = self.body(spans);
        let sent = tokio::time::timeout(PATIENCE, self.post(body)).await;
        let why = match sent {
            Ok(Ok(())) => {
                self.is_told.store(false, Ordering::Relaxed);
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it does not answer".to_owned(),
        };
        let lost = self.lost.fetch_add(spans.len() as u64, Ordering::Relaxed) + spans.len() as u64;
        // Once, until it works again: a collector may be away for hours.
        if !self.is_told.swap(true, Ordering::Relaxed) {
            let address = self.target.authority();
            let _ = writeln!(
                io::stderr(),
                "saggar: {lost} spans are lost: the collector at {address}: {}",
                why.escape_debug()
            );
        }
    }

    fn body(&self, spans: &[Span]) -> Vec<u8> {
        let resource: Vec<Value> =
            self.target.resource.iter().map(|(name, value)| attribute(name, &value.as_str().into())).collect();
        let spans: Vec<Value> = spans.iter().map(Span::json).collect();
        let scope = json!({ "name": "saggar", "version": crate::VERSION });
        let whole = json!({ "resourceSpans": [{
            "resource": { "attributes": resource },
            "scopeSpans": [{ "scope": scope, "spans": spans }],
        }] });
        whole.to_string().into_bytes()
    }

    async fn post(&self, body: Vec<u8>) -> io::Result<()> {
        let stream = TcpStream::connect(self.target.authority()).await?;
        if !self.target.is_encrypted() {
            return self.converse(stream, body).await;
        }
        let trust = engine::llm::trust().map_err(io::Error::other)?;
        let host = self.target.address.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host).map_err(io::Error::other)?;
        self.converse(TlsConnector::from(trust).connect(name, stream).await?, body).await
    }

    async fn converse(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        body: Vec<u8>,
    ) -> io::Result<()> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        let path = self.target.address.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::builder().method(Method::POST).uri(path);
        if let Some(headers) = request.headers_mut() {
            headers.clone_from(&self.target.headers);
        }
        let request = request
            .header(header::HOST, self.target.authority())
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(io::Error::other)?;
        let answered = async {
            let response = sender.send_request(request).await.map_err(io::Error::other)?;
            let status = response.status();
            // Read to its end, so that it is closed in order.
            let _ = Limited::new(response.into_body(), MOST_ANSWER).collect().await;
            if status.is_success() { Ok(()) } else { Err(io::Error::other(format!("it answers {status}"))) }
        };
        tokio::select! {
            answered = answered => answered,
            // The answer may be there when the connection is gone.
            Err(error) = connection => Err(io::Error::other(error)),
        }
    }
}
