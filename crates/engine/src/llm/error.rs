//! Why a model gave no answer.

use std::io;
use std::time::Duration;

use super::TokenUsage;
use crate::usage::LedgerError;

/// Why a model gave no answer. No variant holds the key, and words of the server are kept only where it is not in them.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The variable that should hold the key is not set, or holds no key.
    #[error("the environment variable `{variable}` holds no API key")]
    Key {
        /// Its name.
        variable: String,
    },
    /// Not an address that can be called.
    #[error("the model's base_url is wrong: {why}")]
    Address {
        /// What is wrong with it.
        why: &'static str,
    },
    /// The host's list of authorities is empty, so no server could be trusted.
    #[error("no certificate authorities were found on this host")]
    NoAuthorities,
    /// Nobody is there, or TLS failed.
    #[error("cannot connect to the model's server `{host}`")]
    Connect {
        /// Whom.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// No whole answer in time.
    #[error("the model's server gave no answer within {} ms", after.as_millis())]
    Timeout {
        /// How long was waited.
        after: Duration,
    },
    /// The connection ended before the answer did.
    #[error("the model's server cut its answer short")]
    Cut,
    /// More than anybody would want to read.
    #[error("the model's answer is larger than {} KiB", super::wire::MAX_REPLY >> 10)]
    TooLarge,
    /// Too many calls, or no money left.
    #[error("the model's server is asked too much (429){said}")]
    RateLimited {
        /// When the server wants to be asked again.
        retry_after: Option<Duration>,
        /// Its own words, if any.
        said: Said,
    },
    /// The server failed.
    #[error("the model's server failed ({status}){said}")]
    Server {
        /// 5xx or 408.
        status: u16,
        /// When the server wants to be asked again.
        retry_after: Option<Duration>,
        /// Its own words, if any.
        said: Said,
    },
    /// The server will not do it, however often it is asked.
    #[error("the model's server refused the call ({status}){said}")]
    Refused {
        /// 3xx or 4xx.
        status: u16,
        /// Its own words, if any.
        said: Said,
    },
    /// Not JSON, or not the JSON of a chat.
    #[error("the model's server answered with something else than a chat completion: {why}")]
    Garbled {
        /// What is wrong with it.
        why: &'static str,
    },
    /// The model itself will not answer.
    #[error("the model declined to answer")]
    Declined {
        /// What that cost; `None` if the server does not tell.
        usage: Option<TokenUsage>,
    },
    /// Time for all tries together is over.
    #[error("the model gave no answer in {tries} tries: {last}")]
    GaveUp {
        /// How often it was asked.
        tries: u32,
        /// What the last try came to.
        #[source]
        last: Box<ModelError>,
    },
    /// A call whose cost cannot be written down.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Words of a server, made fit to be shown: short, one line, without the key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said(pub(crate) String);

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}

impl ModelError {
    /// The kind of trouble, as the books name it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Key { .. } => "key",
            Self::Address { .. } => "address",
            Self::NoAuthorities => "no_authorities",
            Self::Connect { .. } => "connect",
            Self::Timeout { .. } => "timeout",
            Self::Cut => "cut",
            Self::TooLarge => "too_large",
            Self::RateLimited { .. } => "rate_limited",
            Self::Server { .. } => "server",
            Self::Refused { .. } => "refused",
            Self::Garbled { .. } => "garbled",
            Self::Declined { .. } => "declined",
            Self::GaveUp { last, .. } => last.kind(),
            Self::Ledger(_) => "ledger",
        }
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Key { variable } => format!("set {variable}, or name another variable with `api_key_env`"),
            Self::Address { .. } => {
                "write it as \"https://host/v1\"; a key is sent over plain http to loopback only".to_owned()
            }
            Self::NoAuthorities => "install the package `ca-certificates`, or set SSL_CERT_FILE".to_owned(),
            Self::Connect { .. } => "check `base_url`, and that the server can be reached from here".to_owned(),
            Self::Timeout { .. } => "raise `timeout_ms`, or choose a faster model".to_owned(),
            Self::RateLimited { retry_after: Some(wait), .. } => format!("ask again in {} s", wait.as_secs().max(1)),
            Self::RateLimited { retry_after: None, .. } | Self::Server { .. } | Self::Cut => {
                "ask again later, or raise `retries` and `deadline_ms`".to_owned()
            }
            Self::Refused { status: 401 | 403, .. } => {
                "check the key in the variable that `api_key_env` names".to_owned()
            }
            Self::Refused { .. } => "check `model` and `base_url`".to_owned(),
            Self::TooLarge | Self::Garbled { .. } => {
                "check that `base_url` leads to an OpenAI-compatible server, usually with /v1 at its end".to_owned()
            }
            Self::Declined { .. } => "choose another model".to_owned(),
            Self::GaveUp { last, .. } => last.hint(),
            Self::Ledger(error) => error.hint().to_owned(),
        }
    }

    /// Whether this is a mistake in the settings or the environment, which no second try and no other model mends.
    #[must_use]
    pub fn is_setup(&self) -> bool {
        matches!(self, Self::Key { .. } | Self::Address { .. } | Self::NoAuthorities)
    }

    /// Whether the same call may come out better a moment later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Connect { .. }
            | Self::Timeout { .. }
            | Self::Cut
            | Self::RateLimited { .. }
            | Self::Server { .. }
            | Self::Garbled { .. } => true,
            Self::Key { .. }
            | Self::Address { .. }
            | Self::NoAuthorities
            | Self::TooLarge
            | Self::Refused { .. }
            | Self::Declined { .. }
            | Self::GaveUp { .. }
            | Self::Ledger(_) => false,
        }
    }

    /// Whether the server said no before a model wrote anything: such a call costs nothing.
    #[must_use]
    pub fn is_free(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::RateLimited { .. } | Self::Server { .. } | Self::Refused { .. })
            || self.is_setup()
    }

    /// When the server wants to be asked again.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Server { retry_after, .. } => *retry_after,
            Self::GaveUp { last, .. } => last.retry_after(),
            Self::Key { .. }
            | Self::Address { .. }
            | Self::NoAuthorities
            | Self::Connect { .. }
            | Self::Timeout { .. }
            | Self::Cut
            | Self::TooLarge
            | Self::Refused { .. }
            | Self::Garbled { .. }
            | Self::Declined { .. }
            | Self::Ledger(_) => None,
        }
    }
}
