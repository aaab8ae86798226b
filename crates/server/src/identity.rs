//! Who asks, as the guard found out. Handlers take [`Identity`] as an argument, or `Option<Identity>` where a route is open.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::http::request::Parts;
use engine::{Caller, Standing};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use types::ErrorCode;

use crate::error::Refusal;

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Runs.
    Run,
    /// Judged tasks.
    Judge,
    /// Sessions and everything in them.
    Session,
    /// What tells of everybody: the audit trail, usage, metrics.
    Admin,
}

impl Scope {
    /// Every one of them.
    pub const ALL: [Self; 4] = [Self::Run, Self::Judge, Self::Session, Self::Admin];

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Judge => "judge",
            Self::Session => "session",
            Self::Admin => "admin",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// What somebody may ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// Whether `scope` is among them.
    #[must_use]
    pub const fn has(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// All there are.
    #[must_use]
    pub fn all() -> Self {
        Scope::ALL.into_iter().collect()
    }

    /// Those that it has, in the order of [`Scope::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.has(*scope))
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

impl FromStr for Scopes {
    type Err = UnknownScope;

    /// Names with commas between them.
    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        let scope = |name: &str| {
            let found = Scope::ALL.into_iter().find(|scope| scope.name() == name.trim());
            found.ok_or_else(|| UnknownScope(name.to_owned()))
        };
        text.split(',').map(scope).collect()
    }
}

/// A name that is no scope's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is none of run, judge, session and admin")]
pub struct UnknownScope(String);

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Scope::name))
    }
}

impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        names.join(",").parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(Scope::name).collect();
        f.write_str(&names.join(","))
    }
}

/// Somebody who has shown that he may ask.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// As the engine knows him: whose turn it is, what he owns, how often he may ask.
    pub(crate) caller: Caller,
    pub(crate) scopes: Scopes,
}

impl Identity {
    /// Whoever opened the socket, which only the owner can.
    pub(crate) fn owner() -> Self {
        Self { caller: Caller { name: "socket".to_owned(), ..Caller::default() }, scopes: Scopes::all() }
    }

    /// Whoever has the key of the first start.
    pub(crate) fn first_key() -> Self {
        let caller = Caller { name: "http".to_owned(), standing: Standing::FirstKey, ..Caller::default() };
        Self { caller, scopes: Scopes::all() }
    }

    /// Refuses whoever has not been given `scope`.
    pub(crate) fn must(&self, scope: Scope) -> Result<(), Refusal> {
        if self.scopes.has(scope) {
            return Ok(());
        }
        let (name, own) = (scope.name(), self.scopes);
        let message = format!("the key is not for this: it has `{own}`, and `{name}` is needed");
        Err(Refusal::new(ErrorCode::Forbidden, message, format!("ask for a key made with `--scope {name}`")))
    }
}

impl<S: Sync> FromRequestParts<S> for Identity {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        parts.extensions.get().cloned().ok_or_else(unknown)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for Identity {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get().cloned())
    }
}

/// What somebody is told who has shown nothing.
pub(crate) fn unknown() -> Refusal {
    Refusal::new(
        ErrorCode::Unauthorized,
        "the key is missing or wrong",
        "send `Authorization: Bearer KEY`, with the key in `api-key` of the server's state folder or one that its owner made",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_opens_what_it_names_and_nothing_else() {
        let scopes: Scopes = [Scope::Judge, Scope::Run].into_iter().collect();
        let identity = Identity { scopes, ..Identity::first_key() };
        let open: Vec<Scope> = Scope::ALL.into_iter().filter(|scope| identity.must(*scope).is_ok()).collect();
        assert_eq!((open, scopes.to_string().as_str()), (vec![Scope::Run, Scope::Judge], "run,judge"));
        assert!(Scope::ALL.into_iter().all(|scope| Identity::owner().must(scope).is_ok()));
    }
}
