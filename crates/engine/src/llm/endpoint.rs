//! Where a model is served.

use std::net::IpAddr;

use hyper::Uri;

use super::error::ModelError;
use super::key::ApiKey;

/// Who serves when nobody else is named.
pub const OPENAI: &str = "https://api.openai.com/v1";

/// The server of a model: from a `base_url` as the OpenAI clients take it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: Tls,
    /// Path and query of the one call that is made.
    pub(super) path: String,
    /// As a `Host` header says it.
    pub(super) authority: String,
}

/// Whether a connection is sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tls {
    Yes,
    No,
}

impl Endpoint {
    /// Reads a `base_url` of an OpenAI-compatible server, for the one call that is made to a model.
    pub fn parse(base_url: &str) -> Result<Self, ModelError> {
        Self::with_call(base_url, "chat/completions")
    }

    /// The same for a call of another name.
    pub(super) fn with_call(base_url: &str, call: &str) -> Result<Self, ModelError> {
        let (base, query) = Self::read(base_url)?;
        Ok(Self { path: format!("{}/{call}{query}", base.path), ..base })
    }

    /// Reads an address below which many calls are made; it has no query.
    pub(crate) fn base(base_url: &str) -> Result<Self, ModelError> {
        match Self::read(base_url)? {
            (base, query) if query.is_empty() => Ok(base),
            _ => Err(ModelError::Address { why: "it must not have a query" }),
        }
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    fn read(base_url: &str) -> Result<(Self, String), ModelError> {
        let wrong = |why| ModelError::Address { why };
        let uri: Uri = base_url.trim().parse().map_err(|_| wrong("it is not a URL"))?;
        let tls = match uri.scheme_str() {
            Some("https") => Tls::Yes,
            Some("http") => Tls::No,
            _ => return Err(wrong("it must start with https:// or http://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("it must not hold a user or a password; a key comes from the environment"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(wrong("it names no host"));
        }
        let has_port = authority.as_str().len() > authority.host().len();
        let port = match (authority.port_u16(), tls) {
            (Some(port), _) => port,
            (None, _) if has_port => return Err(wrong("its port is no port")),
            (None, Tls::Yes) => 443,
            (None, Tls::No) => 80,
        };
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok((Self { host, port, tls, path, authority: authority.as_str().to_owned() }, query))
    }

    /// The same, if a key may be sent there: not where others could read it, over TLS or loopback only.
    pub(super) fn for_key(self, key: Option<&ApiKey>) -> Result<Self, ModelError> {
        if key.is_some() && !self.is_private() {
            return Err(ModelError::Address { why: "a key would be sent in the clear" });
        }
        Ok(self)
    }

    /// Whether nobody on the way can read along.
    pub(crate) fn is_private(&self) -> bool {
        let loopback = || self.host == "localhost" || self.host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        self.tls == Tls::Yes || loopback()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_read_as_the_usual_clients_read_it() {
        let endpoint = Endpoint::parse(OPENAI).unwrap();
        assert_eq!((endpoint.host.as_str(), endpoint.port, endpoint.tls), ("api.openai.com", 443, Tls::Yes));
        assert_eq!(endpoint.path, "/v1/chat/completions");
        let local = Endpoint::parse("http://[::1]:9000/v1/?api-version=2").unwrap();
        assert_eq!(
            (local.host.as_str(), local.port, local.path.as_str()),
            ("::1", 9000, "/v1/chat/completions?api-version=2")
        );
        assert!(local.is_private());
        assert!(!Endpoint::parse("http://10.0.0.5:8000/v1").unwrap().is_private());
        assert!(!Endpoint::parse("http://localhost.example.org/v1").unwrap().is_private());
    }

    #[test]
    fn what_cannot_be_called_is_refused() {
        for bad in [
            "",
            "api.openai.com/v1",
            "ftp://x/v1",
            "https://",
            "https://u:secret@host/v1",
            "/v1",
            "http://h:99999/v1",
            "http://h:x/",
        ] {
            let error = Endpoint::parse(bad).unwrap_err();
            assert!(matches!(error, ModelError::Address { .. }), "{bad}");
            assert!(!error.to_string().contains("secret"));
        }
    }
}
