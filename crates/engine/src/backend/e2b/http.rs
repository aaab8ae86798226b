//! HTTP to one server: requests one after the other over a connection that is kept, answers in bounds.
//!
//! No redirects and no proxies: either would carry a token elsewhere.

use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::Response;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{HOST, USER_AGENT};
use hyper::http::request::Builder;
use hyper_util::rt::TokioIo;
use tokio::task::AbortHandle;

use super::error::E2bError;
use crate::llm::{Endpoint, ModelError, open};

/// How long a server may take for one step.
const PATIENCE: Duration = Duration::from_mins(1);

/// How long it may take to be there.
const GREETING: Duration = Duration::from_secs(20);

/// The most that is read of an answer which is no stream.
const MOST_ANSWER: usize = 1 << 20;

/// An answer, whole.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

/// A way to one server.
pub(super) struct Line {
    endpoint: Endpoint,
    patience: Duration,
    open: Option<(SendRequest<Full<Bytes>>, AbortHandle)>,
}

impl Line {
    /// Nothing is opened yet.
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, patience: PATIENCE, open: None }
    }

    /// For steps that take longer than most.
    pub(super) fn patient(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Asks and reads the whole answer.
    pub(super) async fn ask(
        &mut self,
        step: &'static str,
        request: Builder,
        body: Vec<u8>,
    ) -> Result<Answer, E2bError> {
        let patience = self.patience;
        let asked = async {
            let answer = self.send(step, request, body).await?;
            let status = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), MOST_ANSWER).collect().await;
            let body = body.map_err(|_| E2bError::Silent { step })?.to_bytes();
            Ok(Answer { status, body })
        };
        let answer = tokio::time::timeout(patience, asked).await.unwrap_or(Err(E2bError::Silent { step }));
        if answer.is_err() {
            // What comes late must not be taken for the next answer.
            self.close();
        }
        answer
    }

    /// Asks and leaves the answer to be read as it comes; the way ends with it.
    pub(super) async fn stream(
        mut self,
        step: &'static str,
        request: Builder,
        body: Vec<u8>,
    ) -> Result<(Response<Incoming>, Self), E2bError> {
        let asked = tokio::time::timeout(PATIENCE, self.send(step, request, body)).await;
        Ok((asked.unwrap_or(Err(E2bError::Silent { step }))?, self))
    }

    async fn send(
        &mut self,
        step: &'static str,
        request: Builder,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, E2bError> {
        let path = request.uri_ref().map(|uri| format!("{}{uri}", self.endpoint.path())).unwrap_or_default();
        let request = request
            .uri(path)
            .header(HOST, self.endpoint.authority())
            .header(USER_AGENT, concat!("saggar/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(Bytes::from(body)))
            .map_err(|_| E2bError::Garbled { step })?;
        self.sender().await?.send_request(request).await.map_err(|_| E2bError::Silent { step })
    }

    /// The connection, opened anew if the server has closed it: nothing was asked over it then.
    async fn sender(&mut self) -> Result<&mut SendRequest<Full<Bytes>>, E2bError> {
        let alive = match &mut self.open {
            Some((sender, _)) => sender.ready().await.is_ok(),
            None => false,
        };
        if !alive {
            self.close();
            self.open = Some(self.connect().await?);
        }
        match &mut self.open {
            Some((sender, _)) => Ok(sender),
            None => Err(E2bError::Gone { said: None }),
        }
    }

    async fn connect(&self) -> Result<(SendRequest<Full<Bytes>>, AbortHandle), E2bError> {
        let unreachable = |source| E2bError::Unreachable { host: self.endpoint.host().to_owned(), source };
        let failed = |error: ModelError| match error {
            ModelError::Connect { source, .. } => unreachable(source),
            other => unreachable(std::io::Error::other(other)),
        };
        let opened = tokio::time::timeout(GREETING, open(&self.endpoint)).await;
        let stream = opened.map_err(|_| unreachable(std::io::ErrorKind::TimedOut.into()))?.map_err(failed)?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|_| E2bError::Silent { step: "speak HTTP" })?;
        let task = tokio::spawn(async move { drop(connection.await) });
        Ok((sender, task.abort_handle()))
    }

    fn close(&mut self) {
        if let Some((_, task)) = self.open.take() {
            task.abort();
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.close();
    }
}
