//! Addresses of files that carry their own right: a hash over the path, the act, the user and the sandbox's token.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest, Sha256};

use super::fault::Fault;
use super::sandbox::same;
use crate::query::Query;

/// What an address says of itself.
pub(super) struct Signed {
    path: String,
    user: String,
    signature: String,
    expires: Option<String>,
}

impl Signed {
    pub(super) fn of(query: &Query) -> Option<Self> {
        Some(Self {
            signature: query.get("signature")?,
            path: query.get("path").unwrap_or_default(),
            user: query.get("username").unwrap_or_default(),
            expires: query.get("signature_expiration"),
        })
    }

    /// Whether it was made with this token, whenever that was.
    pub(super) fn is_by(&self, token: &str, act: &str) -> bool {
        let mut text = format!("{}:{act}:{}:{token}", self.path, self.user);
        if let Some(expires) = &self.expires {
            text = format!("{text}:{expires}");
        }
        let whole = format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(text)));
        same(whole.as_bytes(), self.signature.trim_end_matches('=').as_bytes())
    }

    /// Whether it still holds.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let Some(expires) = &self.expires else { return Ok(()) };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        match expires.parse::<i64>() {
            Ok(then) if u64::try_from(then).is_ok_and(|then| then >= now) => Ok(()),
            Ok(_) => Err(Fault::unauthorized("signature is already expired")),
            Err(_) => Err(Fault::unauthorized("invalid signature expiration")),
        }
    }
}

/// By which name the two acts are signed.
pub(super) fn act(method: &axum::http::Method) -> &'static str {
    if method == axum::http::Method::POST { "write" } else { "read" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(expires: Option<&str>, signature: &str) -> Signed {
        let (path, user) = ("/a b".to_owned(), "user".to_owned());
        Signed { path, user, signature: signature.to_owned(), expires: expires.map(str::to_owned) }
    }

    #[test]
    fn a_signature_holds_for_its_token_act_and_time() {
        let hash = |text: &str| format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(text)));
        let plain = hash("/a b:read:user:token");
        assert!(signed(None, &plain).is_by("token", "read"));
        assert!(!signed(None, &plain).is_by("token", "write"));
        assert!(!signed(None, &plain).is_by("other", "read"));
        assert!(!signed(Some("1"), &plain).is_by("token", "read"), "a time that was not signed");
        let old = signed(Some("-5"), &hash("/a b:read:user:token:-5"));
        assert!(old.is_by("token", "read"));
        assert_eq!(old.check().unwrap_err().message, "signature is already expired");
        assert!(signed(Some("99999999999"), "").check().is_ok());
        assert!(signed(Some("x"), "").check().is_err());
    }
}
