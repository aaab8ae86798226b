//! Which Docker daemon, and what of it.

use std::path::PathBuf;

use serde::Deserialize;

/// The `[docker]` part of the settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DockerSettings {
    /// `unix:///path` or `tcp://host:port`; `DOCKER_HOST`, else the usual socket, if absent.
    pub host: Option<String>,
    /// A folder with `ca.pem`, `cert.pem` and `key.pem`, as Docker's own client has it: `tcp://` is TLS then, and the daemon
    /// must have a certificate for its name. With `DOCKER_HOST` it is `DOCKER_CERT_PATH`, if absent.
    pub certificates: Option<PathBuf>,
    /// The runtime of its containers, such as `runc`, `runsc` or `kata`; the daemon's own choice if absent.
    pub runtime: Option<String>,
    /// What a request gets that names no image.
    pub image: Option<String>,
    /// Images that callers other than the owner of the machine may ask for, beside that one.
    pub images: Vec<String>,
}

impl DockerSettings {
    /// Where the daemon listens.
    pub(crate) fn address(&self) -> &str {
        self.host.as_deref().unwrap_or("unix:///var/run/docker.sock")
    }

    /// Whether somebody who does not own the machine may ask for an image.
    pub(crate) fn offers(&self, image: &str) -> bool {
        self.image.iter().chain(&self.images).any(|offered| offered == image)
    }
}
