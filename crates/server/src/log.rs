//! A line of JSON for each request, where the settings ask for it. No query, header or body is in it: they may hold secrets.

use std::io::{self, Write};
use std::time::{Instant, SystemTime};

use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use serde::Serialize;
use types::Timestamp;

/// Who asked, on an answer.
#[derive(Debug, Clone)]
pub(crate) struct Who(pub(crate) String);

/// A request under way.
pub(crate) struct Line {
    method: Method,
    path: String,
    asked: Instant,
}

#[derive(Serialize)]
struct Written<'a> {
    time: Timestamp,
    request_id: &'a str,
    method: &'a str,
    path: &'a str,
    status: u16,
    caller: Option<&'a str>,
    /// Until the answer began; events go on after that.
    ms: f64,
}

impl Line {
    pub(crate) fn begin(request: &Request) -> Self {
        Self { method: request.method().clone(), path: request.uri().path().to_owned(), asked: Instant::now() }
    }

    pub(crate) fn write(&self, response: &Response) {
        let id = response.headers().get("x-request-id").and_then(|id| id.to_str().ok());
        let written = Written {
            time: SystemTime::now().into(),
            request_id: id.unwrap_or_default(),
            method: self.method.as_str(),
            path: &self.path,
            status: response.status().as_u16(),
            caller: response.extensions().get::<Who>().map(|who| who.0.as_str()),
            ms: self.asked.elapsed().as_secs_f64() * 1000.0,
        };
        let mut line = serde_json::to_vec(&written).unwrap_or_default();
        line.push(b'\n');
        // Nobody may be there to read it, and that must not end the server.
        let _ = io::stderr().write_all(&line);
    }
}
