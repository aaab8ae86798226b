//! Which E2B-compatible server runs go to.

use serde::Deserialize;

use crate::llm::{ApiKey, Endpoint};

use super::error::E2bError;

/// Where E2B's own service is, unless another domain is named.
const DOMAIN: &str = "e2b.app";

/// What a request gets that names no template, as E2B's own clients have it.
const TEMPLATE: &str = "base";

/// `[e2b.backend]` of the settings. The key is in none of them: it comes from the environment, and no request names a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct E2bBackendSettings {
    /// The control plane; `E2B_API_URL`, else that of `domain`, if absent.
    pub api_url: Option<String>,
    /// Where sandboxes are reached; `E2B_SANDBOX_URL` if absent, else the control plane's own, or that of `domain`.
    pub sandbox_url: Option<String>,
    /// The domain of E2B's service; `E2B_DOMAIN` if absent.
    pub domain: Option<String>,
    /// What a request gets that names no image.
    pub template: Option<String>,
    /// Where Python packages of a script come from; what the template's own pip says if absent.
    pub index_url: Option<String>,
    /// Templates that callers other than the owner of the machine may ask for: the account is the owner's.
    pub templates: Vec<String>,
}

impl E2bBackendSettings {
    /// What a request gets that names no image.
    pub(crate) fn template(&self) -> &str {
        self.template.as_deref().unwrap_or(TEMPLATE)
    }

    /// Whether somebody who does not own the machine may ask for a template.
    pub(crate) fn offers(&self, template: &str) -> bool {
        self.templates.iter().any(|offered| offered == template)
    }

    fn domain(&self) -> &str {
        self.domain.as_deref().unwrap_or(DOMAIN)
    }

    /// Where the control plane is, as it was written.
    pub(crate) fn api_address(&self) -> String {
        self.api_url.clone().unwrap_or_else(|| format!("https://api.{}", self.domain()))
    }

    fn sandbox_address(&self) -> String {
        match (&self.sandbox_url, &self.api_url) {
            (Some(url), _) | (None, Some(url)) => url.clone(),
            (None, None) => format!("https://sandbox.{}", self.domain()),
        }
    }

    /// The two servers to speak to, and the owner's key.
    pub(super) fn resolve(&self) -> Result<Known, E2bError> {
        let key = ApiKey::from_environment(KEY).ok().flatten().ok_or(E2bError::NoKey)?;
        let read = |name, address: String| {
            let endpoint = Endpoint::base(&address).map_err(|_| E2bError::Address { name })?;
            if endpoint.is_private() { Ok(endpoint) } else { Err(E2bError::Clear { name }) }
        };
        Ok(Known {
            api: read("api_url", self.api_address())?,
            sandbox: read("sandbox_url", self.sandbox_address())?,
            key,
        })
    }
}

/// The variable that holds the key.
pub(super) const KEY: &str = "E2B_API_KEY";

/// Whom to speak to.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) api: Endpoint,
    pub(super) sandbox: Endpoint,
    pub(super) key: ApiKey,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_from_the_settings_and_follow_each_other() {
        let none = E2bBackendSettings::default();
        assert_eq!(
            (none.api_address().as_str(), none.sandbox_address().as_str()),
            ("https://api.e2b.app", "https://sandbox.e2b.app")
        );
        let own = E2bBackendSettings { api_url: Some("http://127.0.0.1:7244".to_owned()), ..none };
        assert_eq!(own.sandbox_address(), "http://127.0.0.1:7244");
    }
}
