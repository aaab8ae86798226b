//! Why the Docker daemon could not be used.

use types::ErrorCode;

/// Why the Docker daemon could not be used. Nothing ever runs on the host instead.
#[derive(Debug, thiserror::Error)]
pub enum DockerError {
    /// Nobody listens, or not to us.
    #[error("the Docker daemon at `{address}` cannot be reached")]
    Unreachable {
        /// Where it should be.
        address: String,
        /// Why not.
        source: bollard::errors::Error,
    },
    /// Somebody listens and says nothing.
    #[error("the Docker daemon at `{0}` does not answer")]
    Silent(String),
    /// An address that means nothing to us.
    #[error("`{0}` is no address of a Docker daemon")]
    Address(String),
    /// A certificate that the settings speak of is not there.
    #[error("there is no certificate `{}` for the Docker daemon", .0.display())]
    Certificate(std::path::PathBuf),
    /// The daemon has no such image. Nothing is pulled behind anybody's back.
    #[error("the Docker daemon has no image `{0}`")]
    NoImage(String),
    /// An image for other machines.
    #[error("image `{image}` is for {found}, and this saggar brings its own process 1 for linux/{wanted}")]
    Foreign {
        /// Which.
        image: String,
        /// What it is for.
        found: String,
        /// What it should be for.
        wanted: &'static str,
    },
    /// No router could be started on this host.
    #[error("the network of a container cannot be routed")]
    Router(#[source] std::io::Error),
    /// The daemon refused a step.
    #[error("the Docker daemon refused to {step}")]
    Refused {
        /// What was tried.
        step: &'static str,
        /// Its answer.
        source: bollard::errors::Error,
    },
    /// The container ended, or its daemon, while it was needed.
    #[error("the container ended unexpectedly{}", .said.as_deref().map(|said| format!(": {said}")).unwrap_or_default())]
    Gone {
        /// What is known of it.
        said: Option<String>,
    },
    /// No thread for the talk with the daemon.
    #[error("no thread could be started for the Docker daemon")]
    Thread(#[source] std::io::Error),
}

impl DockerError {
    pub(crate) fn refused(step: &'static str) -> impl FnOnce(bollard::errors::Error) -> Self {
        move |source| Self::Refused { step, source }
    }

    /// What a program matches on.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::Unreachable { .. } | Self::Silent(_) => ErrorCode::IsolationUnavailable,
            Self::Address(_) | Self::Certificate(_) => ErrorCode::InvalidSettings,
            Self::NoImage(_) => ErrorCode::NotFound,
            Self::Foreign { .. } => ErrorCode::Unsupported,
            Self::Refused { .. } | Self::Gone { .. } | Self::Thread(_) | Self::Router(_) => ErrorCode::SandboxFailed,
        }
    }

    /// What to do next.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Unreachable { .. } => {
                "start it, let this user open its socket, or name another with DOCKER_HOST or `host` of [docker] in the \
                 settings; --backend native needs none"
                    .to_owned()
            }
            Self::Silent(_) => "restart it; --backend native needs none".to_owned(),
            Self::Address(_) => "use unix:///path/to/docker.sock, tcp://127.0.0.1:2375, or tcp://HOST:2376 with `certificates` of [docker]".to_owned(),
            Self::Certificate(_) => "`certificates` of [docker], or DOCKER_CERT_PATH, names a folder with ca.pem, cert.pem and key.pem".to_owned(),
            Self::NoImage(image) => format!("docker pull {image}, or docker import a root of your own"),
            Self::Foreign { .. } => "choose an image for that machine".to_owned(),
            Self::Refused { .. } => "the daemon's own log says more; docs/DOCKER.md has what is asked of it".to_owned(),
            Self::Gone { .. } => "the daemon's own log says more".to_owned(),
            Self::Thread(_) | Self::Router(_) => "raise `ulimit -u`".to_owned(),
        }
    }
}
