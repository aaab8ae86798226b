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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use engine::{Allowance, Build, CellSpec, CommandSpec, SessionSpec, SnapshotSpec};
    use evals::jobs::{EvolveOrder, Order, SweOrder};
    use serde::Serialize;
    use serde_json::Value;
    use types::{ExecRequest, LimitsSpec};

    use super::*;
    use crate::KeySpec;

    fn fields(value: &Value) -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn requests_have_the_fields_of_their_types() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let hold = |name: &str, value: Value| {
            let schema = &document["components"]["schemas"][name];
            assert_eq!(fields(&schema["properties"]), fields(&value), "{name}");
            assert_eq!(schema["additionalProperties"], false, "{name}");
        };
        hold("ExecRequest", written(&ExecRequest::default()));
        hold("Limits", written(&LimitsSpec::default()));
        hold("SessionSpec", written(&SessionSpec::default()));
        hold("CommandSpec", written(&CommandSpec::default()));
        hold("CellSpec", written(&CellSpec::default()));
        hold("SnapshotSpec", written(&SnapshotSpec::default()));
        hold("KeySpec", written(&KeySpec::default()));
        hold("Allowance", written(&Allowance::default()));
        let orders = [Order::Evolve(EvolveOrder::default()), Order::Swe(SweOrder::default())];
        for (order, schema) in
            orders.iter().zip(document["components"]["schemas"]["JobOrder"]["oneOf"].as_array().unwrap())
        {
            assert_eq!(fields(&schema["properties"]), fields(&written(order)), "{}", order.kind());
            assert_eq!(schema["additionalProperties"], false, "{}", order.kind());
        }
    }

    /// Its written form is for a hash and lacks some: so each property must be one that is read.
    #[test]
    fn an_image_is_built_from_what_is_described_and_from_no_address() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let whole = serde_json::json!({"name": "n", "from": null, "system": {"node": "22"}, "apt": ["a"], "pip": [], "npm": [],
            "fresh": true});
        assert_eq!(fields(&document["components"]["schemas"]["Build"]["properties"]), fields(&whole));
        assert!(serde_json::from_value::<Build>(whole).is_ok());
        for address in ["sources", "index_url", "proxy", "ca_bundle"] {
            let asked = serde_json::json!({"name": "n", "pip": ["a"], address: {"index_url": "http://10.0.0.1"}});
            assert!(serde_json::from_value::<Build>(asked).is_err(), "{address}");
        }
    }

    fn written(value: &impl Serialize) -> Value {
        serde_json::to_value(value).unwrap()
    }

    #[test]
    fn what_is_referred_to_exists() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        for part in DOCUMENT.split("\"#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
        }
        assert_eq!(document["info"]["version"], crate::VERSION);
    }
}
