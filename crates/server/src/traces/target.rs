//! Where traces go, by the variables that OpenTelemetry gives every program.

use std::fmt::Write as _;

use axum::http::uri::Scheme;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};

use crate::query::decode;

/// A collector, and what it is told of this program.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) address: Uri,
    pub(super) headers: HeaderMap,
    /// Names and values: which program this is.
    pub(super) resource: Vec<(String, String)>,
}

/// Why nothing can be sent, though somebody wanted it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TargetError {
    #[error("`{0}` is no address such as http://127.0.0.1:4318")]
    Address(&'static str),
    #[error("`{0}` is not a list such as name=value,other=value")]
    List(&'static str),
    #[error("OTEL_EXPORTER_OTLP_PROTOCOL must be http/json: nothing else is spoken here")]
    Protocol,
}

impl Target {
    /// By variables; `None` where nobody names a collector.
    pub(super) fn find(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, TargetError> {
        let said = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
        if said("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let (name, text) = match (said(TRACES), said(ALL)) {
            (Some(whole), _) => (TRACES, whole),
            (None, Some(base)) => (ALL, format!("{}/v1/traces", base.trim_end_matches('/'))),
            (None, None) => return Ok(None),
        };
        let protocols = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
        if protocols.into_iter().find_map(said).is_some_and(|text| text != "http/json") {
            return Err(TargetError::Protocol);
        }
        let address: Uri = text.parse().map_err(|_| TargetError::Address(name))?;
        let is_known = [Some(&Scheme::HTTP), Some(&Scheme::HTTPS)].contains(&address.scheme());
        if !is_known || address.host().is_none() {
            return Err(TargetError::Address(name));
        }
        let mut headers = HeaderMap::new();
        let named = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
        if let Some((variable, text)) = named.into_iter().find_map(|name| Some((name, said(name)?))) {
            for (name, value) in pairs(&text).ok_or(TargetError::List(variable))? {
                let name = HeaderName::try_from(name).map_err(|_| TargetError::List(variable))?;
                let mut value = HeaderValue::try_from(value).map_err(|_| TargetError::List(variable))?;
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
        let mut resource =
            said(RESOURCE).map_or(Some(Vec::new()), |text| pairs(&text)).ok_or(TargetError::List(RESOURCE))?;
        let mut set = |name: &str, value: String| {
            resource.retain(|(other, _)| other != name);
            resource.push((name.to_owned(), value));
        };
        set("service.version", crate::VERSION.to_owned());
        if let Some(name) = said("OTEL_SERVICE_NAME") {
            set("service.name", name);
        } else if !resource.iter().any(|(name, _)| name == "service.name") {
            resource.push(("service.name".to_owned(), "saggar".to_owned()));
        }
        Ok(Some(Self { address, headers, resource }))
    }

    /// As in a `Host` header, and to connect to.
    pub(super) fn authority(&self) -> String {
        let mut authority = self.address.host().unwrap_or_default().to_owned();
        // Writing into a text cannot fail.
        let _ = write!(authority, ":{}", self.address.port_u16().unwrap_or(if self.is_encrypted() { 443 } else { 80 }));
        authority
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.address.scheme() == Some(&Scheme::HTTPS)
    }
}

const ALL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// `name=value` with commas between them; values may have `%XX` in them.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let pair = |text: &str| {
        let (name, value) = text.split_once('=')?;
        // A plus is a plus here.
        Some((name.trim().to_owned(), decode(&value.trim().replace('+', "%2B"))))
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(variables: &[(&str, &str)]) -> Result<Option<Target>, TargetError> {
        Target::find(|name| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn variables_say_where_and_as_whom() {
        assert!(find(&[]).unwrap().is_none() && find(&[(ALL, "")]).unwrap().is_none());
        assert!(find(&[(ALL, "http://c:1"), ("OTEL_SDK_DISABLED", "true")]).unwrap().is_none());
        let target = find(&[
            (ALL, "http://collector:4318/"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%2Cb+c,x=y"),
            (RESOURCE, "deployment.environment=test,service.name=other"),
        ]);
        let target = target.unwrap().unwrap();
        assert_eq!(target.address.to_string(), "http://collector:4318/v1/traces");
        assert_eq!((target.authority().as_str(), target.is_encrypted()), ("collector:4318", false));
        assert_eq!(target.headers["api-key"], "a,b+c");
        assert!(!format!("{target:?}").contains("a,b+c"), "a key is not for logs");
        assert!(target.resource.contains(&("service.name".to_owned(), "other".to_owned())));
        let whole = find(&[(TRACES, "https://c/own/path"), (ALL, "http://other")]).unwrap().unwrap();
        assert_eq!((whole.address.path(), whole.authority().as_str()), ("/own/path", "c:443"));
        assert!(whole.resource.contains(&("service.name".to_owned(), "saggar".to_owned())));
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        for address in ["collector:4318", "ftp://c", "http://", "grpc://c:4317"] {
            assert_eq!(find(&[(ALL, address)]).unwrap_err(), TargetError::Address(ALL), "{address}");
        }
        let with = |name, value| find(&[(ALL, "http://c"), (name, value)]).unwrap_err();
        assert_eq!(with("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), TargetError::Protocol);
        assert_eq!(with(RESOURCE, "nothing"), TargetError::List(RESOURCE));
        for headers in ["a", "a b=c", "a=b%0d%0ac"] {
            assert_eq!(with("OTEL_EXPORTER_OTLP_HEADERS", headers), TargetError::List("OTEL_EXPORTER_OTLP_HEADERS"));
        }
    }
}
