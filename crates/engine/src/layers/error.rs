//! Why a layer could not be made, used or removed.

use std::io;

use types::ErrorCode;

use super::LayerName;

/// Why a layer could not be made, used or removed.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// The name is none that a layer has.
    #[error("`{0}` is no name of a layer")]
    Name(String),
    /// There is none.
    #[error("the layer `{0}` is not there")]
    Missing(LayerName),
    /// The folder of layers cannot be used.
    #[error("the folder of layers cannot be used")]
    Folder {
        /// Why.
        source: io::Error,
    },
    /// A layer could not be put on disk.
    #[error("a layer cannot be written")]
    Write {
        /// Why.
        source: io::Error,
    },
    /// A layer could not be removed.
    #[error("the layer `{name}` cannot be removed")]
    Remove {
        /// Which.
        name: LayerName,
        /// Why.
        source: io::Error,
    },
}

impl LayerError {
    /// What a program matches on.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Name(_) => ErrorCode::InvalidRequest,
            Self::Missing(_) => ErrorCode::NotFound,
            Self::Folder { .. } | Self::Write { .. } | Self::Remove { .. } => ErrorCode::StateUnwritable,
        }
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Name(_) => "`saggar df` lists what is kept",
            Self::Missing(_) => "import or build the image again",
            Self::Folder { .. } | Self::Write { .. } | Self::Remove { .. } => {
                "check the state folder's permissions and free space; `saggar df` shows what is kept, `saggar prune` makes room"
            }
        }
    }
}
