//! Why an image could not be made, found or removed.

use std::io;
use std::path::PathBuf;

use types::ErrorCode;

use crate::layers::LayerError;

/// Why an image could not be made, found or removed.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The name is none that an image can have.
    #[error("`{0}` cannot be the name of an image")]
    Name(String),
    /// There is none of this name.
    #[error("there is no image `{0}`")]
    Missing(String),
    /// What is to be imported cannot be read.
    #[error("cannot read `{}`", path.display())]
    Source {
        /// As the caller gave it.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The archive is cut short, or none at all.
    #[error("the archive cannot be read")]
    Archive(#[source] io::Error),
    /// The archive holds something that no honest one does.
    #[error("the archive holds `{path}`, which is refused: {why}")]
    Entry {
        /// As far as it can be shown.
        path: String,
        /// Why.
        why: &'static str,
    },
    /// The description of the image is wrong.
    #[error("the image's description is wrong: {0}")]
    Manifest(String),
    /// A part is not what its name says.
    #[error("`{0}` in the image does not have the content that its digest promises")]
    Digest(String),
    /// More than an image may have.
    #[error("the image has more than {most} {what}")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// How many are taken.
        most: u64,
    },
    /// A file of the image cannot be written.
    #[error("`{path}` of the image cannot be written")]
    Write {
        /// Inside the image.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// What to build cannot be meant so.
    #[error("the image cannot be built: {0}")]
    Order(String),
    /// The packages cannot be had.
    #[error("the image cannot be built: {0}")]
    Build(String),
    /// The same at the server of the backend `e2b`.
    #[error("the script's packages cannot be had at the E2B server: {0}")]
    Elsewhere(String),
    /// The records of images cannot be read or written.
    #[error("the records of images cannot be used")]
    Records(#[source] io::Error),
    /// The store of layers failed.
    #[error(transparent)]
    Layer(#[from] LayerError),
}

impl ImageError {
    /// What a program matches on.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Name(_) | Self::Order(_) => ErrorCode::InvalidRequest,
            Self::Missing(_) => ErrorCode::NotFound,
            Self::Source { .. }
            | Self::Archive(_)
            | Self::Entry { .. }
            | Self::Manifest(_)
            | Self::Digest(_)
            | Self::TooLarge { .. } => ErrorCode::InputUnreadable,
            Self::Build(_) | Self::Elsewhere(_) => ErrorCode::BuildFailed,
            Self::Write { .. } | Self::Records(_) => ErrorCode::StateUnwritable,
            Self::Layer(error) => error.code(),
        }
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Name(_) => "names have letters, digits and `.`, `_`, `-`, `/`, `:`, and begin with a letter or digit",
            Self::Missing(_) => {
                "`saggar image list` shows those that are here; `saggar image import` and `saggar image build` make one"
            }
            Self::Source { .. } => "check that it exists and that you may read it",
            Self::Archive(_) | Self::Manifest(_) => {
                "give a folder with a root file system, a tar of one, an OCI layout, or what `docker save` writes"
            }
            Self::Entry { .. } | Self::Digest(_) => "do not use this archive: it is damaged, or made to harm",
            Self::TooLarge { .. } => "make the image smaller: sandboxes need programs, not data",
            Self::Write { .. } | Self::Records(_) => {
                "check the state folder's permissions and free space; `saggar prune` makes room"
            }
            Self::Order(_) | Self::Build(_) => {
                "`saggar image build --help` has examples; --from names an image, --index-url, --proxy and --ca-bundle say \
                 where packages come from"
            }
            Self::Elsewhere(_) => {
                "the template needs python3 with pip, and its sandboxes a way out (another saggar: `network = \"open\"` in [e2b] of \
                 its settings); `index_url` of [e2b.backend] names another index; a template that has the packages needs none"
            }
            Self::Layer(error) => error.hint(),
        }
    }
}
