//! The description of the interface: `/openapi.json` for programs, `/docs` for people. Both need no key.

use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::http::Shared;

/// As it is committed; tests hold it against what the server does.
const DOCUMENT: &str = include_str!("openapi.json");
/// One page, with nothing from elsewhere.
const PAGE: &str = include_str!("docs.html");
/// The page may run its own script and ask this server, and nothing else.
const RULES: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
                     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/openapi.json", get(document)).route("/docs", get(docs))
}

async fn document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT).into_response()
}

async fn docs() -> Response {
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, RULES)];
    (headers, PAGE).into_response()
}
