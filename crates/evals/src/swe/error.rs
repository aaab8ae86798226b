//! Why patches could not be graded. A patch that does not resolve its instance is a result, never one of these.

use std::path::PathBuf;

use types::ErrorCode;

/// Why patches could not be graded.
#[derive(Debug, thiserror::Error)]
pub enum SweError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not what it should be.
    #[error("{path}{}: {why}", line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Content {
        /// Which.
        path: PathBuf,
        /// Where in it.
        line: Option<usize>,
        /// What is wrong.
        why: String,
    },
    /// Instances that the data set does not have.
    #[error("not in the data set: {}", .0.join(", "))]
    UnknownInstances(Vec<String>),
    /// A name that would leave its folder.
    #[error("`{0}` cannot be the name of a file")]
    Name(String),
    /// A folder of repositories does not have the project's.
    #[error("there is no repository of `{repo}` in {folder}")]
    NoRepository {
        /// Of which project.
        repo: String,
        /// Where.
        folder: PathBuf,
    },
    /// The commit of a row is none.
    #[error("`{0}` is no commit")]
    Commit(String),
    /// The commit could not be checked out.
    #[error("commit {commit} could not be checked out: {why}")]
    Checkout {
        /// Which.
        commit: String,
        /// What git said.
        why: String,
    },
    /// An address that projects cannot be cloned from.
    #[error("`{0}` is no address to clone projects from")]
    Origin(String),
    /// A project could not be cloned.
    #[error("{url} could not be cloned: {why}")]
    Clone {
        /// From where.
        url: String,
        /// What git said.
        why: String,
    },
    /// The daemon does not have an instance's image.
    #[error("the Docker daemon has no image `{image}`")]
    NoImage {
        /// Which.
        image: String,
    },
    /// An image does not have what instances need.
    #[error("`{image}` cannot be used for commit {commit}: {why}")]
    Image {
        /// Which.
        image: String,
        /// The instance's.
        commit: String,
        /// What was said.
        why: String,
    },
    /// A row whose images have another history.
    #[error("`{instance}` is a row of SWE-smith, whose tree cannot be made of its image")]
    Smith {
        /// Which instance.
        instance: String,
    },
    /// An image in which nobody can look on.
    #[error(
        "tests cannot be watched in `{image}`: its Python looks for packages in no folder that they could be put into"
    )]
    Unwatched {
        /// Which.
        image: String,
    },
    /// Nobody reads logs of this kind.
    #[error("the log of `{instance}` cannot be read: there is no parser `{name}`")]
    NoParser {
        /// Of which instance.
        instance: String,
        /// The one that the row names.
        name: String,
    },
    /// Neither the row nor the table of projects says how tests are run.
    #[error("it is not known how tests of `{instance}` are run")]
    NoRecipe {
        /// Of which instance.
        instance: String,
    },
    /// A network that nobody knows.
    #[error("`{0}` is no network that tests can have")]
    Network(String),
    /// The interpreter is not on this host.
    #[error("Python {major}.{minor} is not on this host")]
    NoPython {
        /// First number of its version.
        major: u8,
        /// Second number.
        minor: u8,
    },
    /// An environment could not be made.
    #[error("{what}: {why}")]
    Environment {
        /// What could not be done.
        what: &'static str,
        /// What was said, in short.
        why: String,
        /// All of it.
        log: std::sync::Arc<str>,
    },
    /// A worker ended by itself.
    #[error("a worker of the evaluation broke down")]
    Worker,
    /// The sandbox failed.
    #[error(transparent)]
    Sandbox(#[from] engine::SessionError),
}

impl SweError {
    /// What a program matches on.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Sandbox(error) => error.code(),
            Self::Environment { .. } | Self::Checkout { .. } | Self::Clone { .. } => ErrorCode::SandboxFailed,
            _ => ErrorCode::InvalidRequest,
        }
    }

    /// Whether the environment is at fault, and no patch.
    #[must_use]
    pub const fn is_environment(&self) -> bool {
        matches!(
            self,
            Self::NoPython { .. }
                | Self::Environment { .. }
                | Self::NoRecipe { .. }
                | Self::NoParser { .. }
                | Self::NoRepository { .. }
                | Self::Checkout { .. }
                | Self::Clone { .. }
                | Self::NoImage { .. }
                | Self::Image { .. }
                | Self::Smith { .. }
                | Self::Unwatched { .. }
        )
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> String {
        let hint = match self {
            Self::Sandbox(error) => return error.body().hint,
            other => other.own_hint(),
        };
        hint.to_owned()
    }

    const fn own_hint(&self) -> &'static str {
        match self {
            Self::File { .. } => "name a file that is there and may be read",
            Self::Content { .. } => "docs/SWE.md shows the shapes of data sets and predictions",
            Self::UnknownInstances(_) => "leave them out, or name the data set that they are from",
            Self::NoRepository { .. } => "put a clone or a bundle there, as OWNER__NAME or OWNER__NAME.bundle",
            Self::Commit(_) => "`base_commit` of a row is the whole hash of a commit",
            Self::Checkout { .. } => "the repository below --repos must have that commit: fetch it there",
            Self::Origin(_) => "`repositories` in [build] is like https://git.example/{owner}/{name}.git",
            Self::Clone { .. } => {
                "name a folder with --repos, or an address with `repositories` in [build] of the settings"
            }
            Self::NoImage { .. } => {
                "docker pull it, or name another with --image; without --backend docker no image is needed"
            }
            Self::Image { .. } => "an image has the project in /testbed, with that commit, and git",
            Self::Smith { .. } => "leave --backend docker away: its tree is made of the project's repository",
            Self::Unwatched { .. } => "--edits official believes the log alone",
            Self::NoParser { .. } => "`log_parser` of a row is a name that docs/SWE.md lists",
            Self::NoRecipe { .. } => "give the row a `recipe` or an `install_config`, or name a file with --env-file",
            Self::Network(_) => "`network` of a recipe is `none` or `blackhole`",
            Self::NoPython { .. } => {
                "install it with pyenv or uv, or name its program in [interpreters] of the settings"
            }
            Self::Environment { .. } => {
                "run_instance.log has all that was said; what a build wants of the system must be on this host, packages are \
                 named in a recipe, addresses in [build] and [network] of the settings"
            }
            Self::Worker => "that is a defect of saggar: please report it",
            Self::Sandbox(_) => "`saggar doctor` tells what this host can do",
            Self::Name(_) => {
                "ids and models are names of folders in the official layout: use letters, digits, - _ and ."
            }
        }
    }
}
