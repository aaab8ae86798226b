//! With the feature: a span for each request, and for each run with its steps below it.

use std::io::Write as _;
use std::time::{Instant, SystemTime};

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderValue, Method};
use axum::response::Response;
use engine::{Engine, Trace, Watched, Watcher};
use serde_json::Value;

use super::export::{Exporter, Outbox};
use super::span::{SERVER, Span, new_span, new_trace, of_header, of_run};
use super::target::Target;
use crate::log::Who;

/// Where spans go, if anybody wants them.
pub(crate) struct Traces(Option<Exporter>);

/// A request under way.
pub(crate) struct Open(Option<Pending>);

struct Pending {
    outbox: Outbox,
    own: Trace,
    parent: Option<u64>,
    method: Method,
    route: Option<MatchedPath>,
    begun: (SystemTime, Instant),
}

impl Traces {
    /// To the collector that the environment names; to be called inside a runtime.
    pub(crate) fn begin(engine: &Engine) -> Self {
        match Target::find(|name| std::env::var(name).ok()) {
            Ok(None) => Self(None),
            Ok(Some(target)) => {
                let exporter = Exporter::begin(target);
                engine.watch(Box::new(Runs(exporter.outbox())));
                Self(Some(exporter))
            }
            Err(error) => {
                // Nobody may be there to read it. The server serves without traces.
                let _ = writeln!(std::io::stderr(), "saggar: no traces are sent: {error}");
                Self(None)
            }
        }
    }

    /// Begins a span, unless the caller's own trace is not recorded. What is asked for below it becomes a part of it.
    pub(crate) fn request(&self, request: &mut Request) -> Open {
        let Some(exporter) = &self.0 else { return Open(None) };
        let header = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
        let (id, parent) = match header.and_then(of_header) {
            Some((_, false)) => return Open(None),
            Some((trace, true)) => (trace.id, Some(trace.span)),
            None => (new_trace(), None),
        };
        let own = Trace { id, span: new_span() };
        request.extensions_mut().insert(own);
        let route = request.extensions().get::<MatchedPath>().cloned();
        let begun = (SystemTime::now(), Instant::now());
        Open(Some(Pending { outbox: exporter.outbox(), own, parent, method: request.method().clone(), route, begun }))
    }

    /// Sends what is left, as far as the collector takes it.
    pub(crate) async fn finish(&self) {
        if let Some(exporter) = &self.0 {
            exporter.finish().await;
        }
    }
}

impl Open {
    /// The answer begins; events may go on after that.
    pub(crate) fn end(self, response: &Response) {
        let Some(Pending { outbox, own, parent, method, route, begun: (begun, since) }) = self.0 else { return };
        // A path has names of objects in it, and what is asked for where there is nothing may be anything: a route has neither.
        let route = route.as_ref().map_or("unknown", MatchedPath::as_str);
        let id = response.headers().get("x-request-id").map(HeaderValue::as_bytes).unwrap_or_default();
        let mut attributes: Vec<(&'static str, Value)> = vec![
            ("http.request.method", known(&method).into()),
            ("http.route", route.into()),
            ("http.response.status_code", response.status().as_u16().into()),
            ("saggar.request.id", String::from_utf8_lossy(id).into()),
        ];
        attributes.extend(response.extensions().get::<Who>().map(|who| ("enduser.id", who.0.as_str().into())));
        let name = format!("{} {route}", known(&method));
        let failed = response.status().is_server_error();
        outbox.put(vec![Span { own, parent, name, kind: SERVER, begun, took: since.elapsed(), attributes, failed }]);
    }
}

/// A method is a word of the client's own choosing.
fn known(method: &Method) -> &str {
    let usual = [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::HEAD, Method::OPTIONS, Method::PATCH];
    if usual.contains(method) { method.as_str() } else { "_OTHER" }
}

/// Hears of every run.
struct Runs(Outbox);

impl Watcher for Runs {
    fn over(&self, watched: Watched<'_>) {
        self.0.put(of_run(&watched));
    }
}
