//! What the owner of the machine puts around a session, and no request can ask for.

use std::sync::Arc;

use types::Network;

use crate::admission;
use crate::engine::{Caller, Engine};
use crate::error::RunError;
use crate::network::Rules;

/// What a session sees beside the system's own folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Host trees, read-only and at their own paths, in place of the interpreters that every session sees.
    pub trees: Vec<String>,
    /// Its way out.
    pub way: Way,
    /// Folders of its disk, each with one of its image in whose place it shows as well; where a daemon keeps the image.
    pub shown: Vec<(String, String)>,
}

/// A way out of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Way {
    /// None.
    #[default]
    Closed,
    /// A network on which nobody answers: whoever connects waits.
    Silent,
    /// To the public internet and the index of packages, which may have a private address.
    Index,
}

impl Engine {
    pub(super) async fn way_out(&self, way: Way, caller: &Caller) -> Result<Option<Arc<Rules>>, RunError> {
        match way {
            Way::Closed => Ok(None),
            Way::Silent => Ok(Some(Arc::new(Rules::silent()))),
            Way::Index => {
                // Who may not go out may not go there either.
                admission::way_out(Network::Open, &self.settings, caller)?;
                let (settings, names) = (self.settings.network.clone(), self.settings.build.services());
                let rules = tokio::task::spawn_blocking(move || Rules::new(&settings).reaching(&names)).await;
                rules.map(|rules| Some(Arc::new(rules))).map_err(|_| RunError::NetworkClosed)
            }
        }
    }
}
