//! `[server]` of the settings. The engine only reads it: where to listen is the server's affair.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::settings::milliseconds;

/// How the server is reached, and what it says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSettings {
    /// Where to listen, unless the command line says.
    pub listen: Option<SocketAddr>,
    /// Names by which clients reach it, beside those of the loopback. Without any, it listens on the loopback only.
    pub hosts: Vec<String>,
    /// Its certificate and key.
    pub tls: Option<TlsFiles>,
    /// That somebody else encrypts the way to it: then it may listen elsewhere than on the loopback without a
    /// certificate of its own.
    pub behind_proxy: bool,
    /// How long runs may go on when it is told to stop.
    #[serde(rename = "drain_ms", deserialize_with = "milliseconds")]
    pub drain: Duration,
    /// What it says of each request.
    pub log: LogForm,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            listen: None,
            hosts: Vec::new(),
            tls: None,
            behind_proxy: false,
            drain: Duration::from_secs(3),
            log: LogForm::Failures,
        }
    }
}

/// Files in PEM.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The certificate, and those above it.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// What is said of requests, on standard error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogForm {
    /// Those that failed for a fault of ours, as text.
    #[default]
    Failures,
    /// Every one, as a line of JSON.
    Json,
}

impl LogForm {
    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Failures => "failures",
            Self::Json => "json",
        }
    }
}
