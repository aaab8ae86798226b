//! Why an E2B-compatible server could not be used.

use std::io;

use types::ErrorCode;

use super::settings::KEY;
use crate::llm::Said;

/// Why an E2B-compatible server could not be used. Nothing ever runs on the host instead.
#[derive(Debug, thiserror::Error)]
pub enum E2bError {
    /// The owner's environment has no key.
    #[error("the environment variable `{KEY}` holds no API key")]
    NoKey,
    /// An address that cannot be called.
    #[error("`{name}` of [e2b.backend] is no address of a server")]
    Address {
        /// Which.
        name: &'static str,
    },
    /// An address at which others could read the key.
    #[error("`{name}` of [e2b.backend] would send the key in the clear")]
    Clear {
        /// Which.
        name: &'static str,
    },
    /// Nobody is there.
    #[error("the E2B server `{host}` cannot be reached")]
    Unreachable {
        /// Whom.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// Somebody is there and does not finish what he says.
    #[error("the E2B server gave no whole answer when asked to {step}")]
    Silent {
        /// What was asked.
        step: &'static str,
    },
    /// The server refused a step.
    #[error("the E2B server refused to {step} ({status}){said}")]
    Refused {
        /// What was asked.
        step: &'static str,
        /// Its answer.
        status: u16,
        /// Its own words, if any.
        said: Said,
    },
    /// The server has no such template.
    #[error("the E2B server has no template `{0}`")]
    NoTemplate(String),
    /// An answer that is none.
    #[error("the E2B server said what it should not say when asked to {step}")]
    Garbled {
        /// What was asked.
        step: &'static str,
    },
    /// The sandbox cannot take our program.
    #[error("the template cannot take a run: {why}")]
    Unfit {
        /// What it lacks.
        why: &'static str,
    },
    /// The sandbox, or our program in it, ended while it was needed.
    #[error("the E2B sandbox ended unexpectedly{}", .said.as_deref().map(|said| format!(": {said}")).unwrap_or_default())]
    Gone {
        /// What is known of it.
        said: Option<String>,
    },
    /// No thread for the talk with the server.
    #[error("no thread could be started for the E2B server")]
    Thread(#[source] io::Error),
}

impl E2bError {
    /// What a program matches on.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::NoKey
            | Self::Unreachable { .. }
            | Self::Silent { .. }
            | Self::Refused { status: 401 | 403 | 502.., .. } => ErrorCode::IsolationUnavailable,
            Self::Address { .. } | Self::Clear { .. } => ErrorCode::InvalidSettings,
            Self::NoTemplate(_) => ErrorCode::NotFound,
            Self::Refused { status: 429, .. } => ErrorCode::ResourcesExhausted,
            Self::Unfit { .. } => ErrorCode::Unsupported,
            Self::Refused { .. } | Self::Garbled { .. } | Self::Gone { .. } | Self::Thread(_) => {
                ErrorCode::SandboxFailed
            }
        }
    }

    /// What to do next.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::NoKey => format!(
                "export {KEY}=e2b_... in the environment of this program (for another saggar: the line in its api-key \
                 file); --backend native needs none"
            ),
            Self::Address { .. } => "use https://api.e2b.app or http://127.0.0.1:7244".to_owned(),
            Self::Clear { .. } => "use https://, or an address of the loopback".to_owned(),
            Self::Unreachable { .. } | Self::Silent { .. } => {
                "name another with E2B_API_URL and E2B_SANDBOX_URL, or in [e2b.backend] of the settings; --backend \
                 native needs none"
                    .to_owned()
            }
            Self::Refused { status: 401 | 403, .. } => format!("check the key in {KEY}"),
            Self::Refused { status: 429, .. } => "run fewer programs at once, or ask for a higher quota".to_owned(),
            Self::NoTemplate(_) => {
                "name one that is there: --image TEMPLATE, or `template` of [e2b.backend] in the settings".to_owned()
            }
            Self::Unfit { .. } => "docs/E2B.md has what is asked of a template".to_owned(),
            Self::Refused { .. } | Self::Garbled { .. } | Self::Gone { .. } => {
                "the server's own log says more".to_owned()
            }
            Self::Thread(_) => "raise `ulimit -u`".to_owned(),
        }
    }
}
