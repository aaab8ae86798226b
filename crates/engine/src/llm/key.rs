//! The API key: read from the environment, sent in one header, shown nowhere.

use std::env;

use hyper::header::HeaderValue;

use super::error::{ModelError, Said};

/// Parts of a key this long are as good as the key: servers like to quote it with its middle cut out.
const TELLING: usize = 6;
/// The most that is kept of a server's own words.
const MAX_SAID: usize = 300;

/// An API key. `Debug` does not show it, and there is no `Display`.
#[derive(Clone)]
pub struct ApiKey(String);

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

impl ApiKey {
    /// The key that an environment variable holds; `None` if the variable is unset or empty.
    pub fn from_environment(variable: &str) -> Result<Option<Self>, ModelError> {
        let wrong = || ModelError::Key { variable: variable.to_owned() };
        match env::var(variable) {
            Ok(value) if value.trim().is_empty() => Ok(None),
            Ok(value) => Self::new(value.trim()).map(Some).ok_or_else(wrong),
            Err(env::VarError::NotPresent) => Ok(None),
            Err(env::VarError::NotUnicode(_)) => Err(wrong()),
        }
    }

    /// A key as it is; `None` if no header could carry it.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        HeaderValue::try_from(text).is_ok().then(|| Self(text.to_owned()))
    }

    /// As it is, for servers that want it so.
    pub(crate) fn plain_header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::try_from(&self.0).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    pub(super) fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::try_from(format!("Bearer {}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// As servers want it that have a header of their own for keys.
    pub(super) fn plain(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::try_from(&self.0).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Whether the text tells the key or a good part of it.
    fn is_told_by(&self, text: &str) -> bool {
        let key = self.0.as_bytes();
        key.windows(TELLING.min(key.len())).any(|part| text.as_bytes().windows(part.len()).any(|seen| seen == part))
    }

    /// The text with the key blacked out.
    pub(super) fn black_out(&self, text: String) -> String {
        if text.contains(&self.0) { text.replace(&self.0, "[key]") } else { text }
    }
}

/// A server's own words, made fit to be shown; none at all if they tell of the key.
pub(crate) fn presentable(text: &str, key: Option<&ApiKey>) -> Said {
    if key.is_some_and(|key| key.is_told_by(text)) {
        return Said::default();
    }
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_SAID).collect();
    Said(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_debug_nor_a_servers_words_show_a_key() {
        let key = ApiKey::new("sk-test-0123456789abcdef").unwrap();
        assert_eq!(format!("{key:?}"), "ApiKey(..)");
        for text in ["bad key sk-test-0123456789abcdef", "bad key sk-tes***", "key ending in 9abcdef"] {
            assert_eq!(presentable(text, Some(&key)).0, "", "{text}");
        }
        assert_eq!(presentable("no such model\nhere", Some(&key)).0, "no such model here");
        assert_eq!(key.black_out("x sk-test-0123456789abcdef y".to_owned()), "x [key] y");
        assert!(!format!("{:?}", key.header().unwrap()).contains("0123"));
    }

    #[test]
    fn what_no_header_can_carry_is_no_key() {
        assert!(ApiKey::new("a\nb").is_none());
        assert!(ApiKey::new("plain").is_some());
    }
}
