//! The part of an address behind the question mark.

use axum::extract::Request;

/// Names and values, still as they were written.
pub(crate) struct Query(String);

impl Query {
    pub(crate) fn of(request: &Request) -> Self {
        Self(request.uri().query().unwrap_or_default().to_owned())
    }

    /// The first value of this name.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let pairs = self.0.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.into_iter().find(|(key, _)| decode(key) == name).map(|(_, value)| decode(value))
    }
}

/// Whether all of it is text. The guard lets nothing else in: what somebody meant by other bytes nobody can know.
pub(crate) fn is_text(query: &str) -> bool {
    std::str::from_utf8(&bytes(query)).is_ok()
}

pub(crate) fn decode(text: &str) -> String {
    String::from_utf8_lossy(&bytes(text)).into_owned()
}

fn bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        let escaped = after.get(..2).filter(|_| *first == b'%').and_then(hex);
        bytes.push(escaped.unwrap_or(if *first == b'+' { b' ' } else { *first }));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_passes() {
        assert!(is_text("") && is_text("path=%C3%A9&x=%zz+%00"));
        assert!(!is_text("path=a%ffb") && !is_text("%C3"));
    }

    #[test]
    fn values_are_decoded_once() {
        let query = Query("path=%2Fwork%2Fa%20b%2525&depth=3&empty&path=second&odd=%zz%4".to_owned());
        assert_eq!(query.get("path").as_deref(), Some("/work/a b%25"));
        assert_eq!(query.get("depth").as_deref(), Some("3"));
        assert_eq!(query.get("empty").as_deref(), Some(""));
        assert_eq!(query.get("odd").as_deref(), Some("%zz%4"));
        assert_eq!(query.get("none"), None);
    }
}
