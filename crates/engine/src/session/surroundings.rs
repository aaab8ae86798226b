//! What the owner of the machine puts around a session, and no request can ask for.

use std::sync::Arc;

use types::Network;

use crate::admission;
use crate::engine::{Caller, Engine};
use crate::error::RunError;
use crate::image::Sources;
use crate::network::Rules;

/// Where packages come from, if nobody names an index.
const USUAL_INDEX: [&str; 2] = ["pypi.org", "files.pythonhosted.org"];

/// What a session sees beside the system's own folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Host trees, read-only and at their own paths, in place of the interpreters that every session sees.
    pub trees: Vec<String>,
    /// Its way out.
    pub way: Way,
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
                let (settings, names) = (self.settings.network.clone(), services(&self.settings.build));
                let rules = tokio::task::spawn_blocking(move || Rules::new(&settings).reaching(&names)).await;
                rules.map(|rules| Some(Arc::new(rules))).map_err(|_| RunError::NetworkClosed)
            }
        }
    }
}

/// Names and ports of whoever has packages.
fn services(sources: &Sources) -> Vec<(String, u16)> {
    let named: Vec<_> =
        [&sources.index_url, &sources.proxy].into_iter().flatten().filter_map(|url| service(url)).collect();
    let usual = USUAL_INDEX.map(|name| (name.to_owned(), 443));
    if sources.index_url.is_some() { named } else { named.into_iter().chain(usual).collect() }
}

/// The name and port of an address such as `https://user@host:8080/simple`.
fn service(url: &str) -> Option<(String, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let usual = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let place = rest.split(['/', '?', '#']).next()?;
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    if let Some(rest) = place.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        return Some((address.to_owned(), port.strip_prefix(':').map_or(Some(usual), |port| port.parse().ok())?));
    }
    match place.rsplit_once(':') {
        Some((name, port)) => Some((name.to_owned(), port.parse().ok()?)),
        None => Some((place.to_owned(), usual)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_service() {
        let cases = [
            ("https://packages.example/simple", Some(("packages.example", 443))),
            ("http://name:secret@packages.example:8080/simple", Some(("packages.example", 8080))),
            ("http://[fd00::1]:81/x", Some(("fd00::1", 81))),
            ("https://[fd00::1]/x", Some(("fd00::1", 443))),
            ("file:///srv/packages", None),
            ("packages.example", None),
            ("https://packages.example:many/", None),
        ];
        for (url, wanted) in cases {
            assert_eq!(service(url), wanted.map(|(name, port)| (name.to_owned(), port)), "{url}");
        }
    }
}
