//! What a session is made to stand on: nothing, an image or a snapshot, on one backend.

use std::sync::Arc;

use types::BackendKind;

use super::error::SessionError;
use super::spec::SessionSpec;
use super::surroundings::Surroundings;
use crate::admission;
use crate::backend::{ImageFacts, LayerId, Origin};
use crate::engine::{Caller, Engine};
use crate::error::{BackendError, RunError};
use crate::image::{Base, HeldImage};
use crate::language;
use crate::network::Rules;

/// What a session stands on.
pub(super) struct Ground {
    pub(super) backend: BackendKind,
    pub(super) origin: Origin,
    pub(super) image: Option<Arc<HeldImage>>,
    pub(super) digest: Option<String>,
    pub(super) extra_roots: Vec<String>,
    pub(super) network: Option<Arc<Rules>>,
    pub(super) shown: Vec<(String, String)>,
    /// Folders of programs beyond the usual ones.
    pub(super) path: Vec<String>,
}

impl Engine {
    /// Finds it, and writes into the request what it came to.
    pub(super) async fn ground(
        &self,
        caller: &Caller,
        spec: &mut SessionSpec,
        surroundings: Option<Surroundings>,
    ) -> Result<Ground, SessionError> {
        if spec.image.is_some() && spec.from.is_some() {
            return Err(RunError::Request("give `image` or `from`, not both").into());
        }
        let snapshot = spec.from.as_deref().map(|name| self.snapshot(caller, name)).transpose()?;
        // A snapshot can be had nowhere else.
        let kept_by = snapshot.as_ref().map(|snapshot| snapshot.backend);
        let backend = kept_by.or(spec.backend).unwrap_or(self.settings.backend);
        let layer = snapshot.as_ref().map(|snapshot| LayerId(snapshot.state.clone()));
        match backend {
            BackendKind::Native => {}
            BackendKind::Docker => return self.far_ground(caller, spec, backend, layer, surroundings).await,
            BackendKind::E2b => return Err(BackendError::NoSessions { backend }.into()),
        }
        if surroundings.as_ref().is_some_and(|surroundings| !surroundings.shown.is_empty()) {
            return Err(RunError::Unsupported { what: "folders in other places on backend `native`".to_owned() }.into());
        }
        let network = match surroundings.as_ref().map(|surroundings| surroundings.way) {
            None => admission::way_out(spec.network, &self.settings, caller)?,
            Some(way) => self.way_out(way, caller).await?,
        };
        let image = match (&spec.image, snapshot) {
            (Some(name), _) => Some(admission::hold(name, &self.settings)?),
            (None, Some(snapshot)) => {
                let again = |image| Ok::<_, RunError>(self.images()?.hold_again(image)?);
                snapshot.image.map(again).transpose()?.map(Arc::new)
            }
            (None, None) => None,
        };
        // A fork begins with the image of what it was forked from.
        spec.image = image.as_ref().map(|held| held.image.name.clone());
        let interpreters = match &image {
            Some(held) if held.image.base == Base::Own => Vec::new(),
            _ if surroundings.is_some() => Vec::new(),
            _ => language::visible_interpreters(&self.settings),
        };
        let mut extra_roots: Vec<String> = interpreters.iter().flat_map(|found| found.roots.iter().cloned()).collect();
        extra_roots.extend(surroundings.into_iter().flat_map(|surroundings| surroundings.trees));
        extra_roots.sort();
        extra_roots.dedup();
        let path = interpreters.iter().filter_map(|found| found.own_folder().map(str::to_owned)).collect();
        let origin = layer.map_or(Origin::Nothing, Origin::Snapshot);
        Ok(Ground { backend, origin, image, digest: None, extra_roots, network, shown: Vec::new(), path })
    }

    /// What a backend that keeps images itself knows of one that this caller may use.
    pub async fn image_facts(
        &self,
        caller: &Caller,
        backend: BackendKind,
        image: &str,
    ) -> Result<ImageFacts, SessionError> {
        let image = admission::offered(Some(image), &self.settings, caller)?;
        Ok(self.stations.get(backend, &self.settings)?.backend.image(&image).await?)
    }

    /// The same where the backend keeps images itself.
    async fn far_ground(
        &self,
        caller: &Caller,
        spec: &SessionSpec,
        kind: BackendKind,
        layer: Option<LayerId>,
        surroundings: Option<Surroundings>,
    ) -> Result<Ground, SessionError> {
        let backend = &self.stations.get(kind, &self.settings)?.backend;
        let name = kind.name();
        let network = match surroundings.as_ref().map(|surroundings| surroundings.way) {
            None => admission::way_out(spec.network, &self.settings, caller)?,
            Some(way) => self.way_out(way, caller).await?,
        };
        let around = surroundings.unwrap_or_default();
        if !around.trees.is_empty() {
            return Err(RunError::Unsupported { what: format!("host folders in sessions of backend `{name}`") }.into());
        }
        let reference = match &layer {
            Some(layer) => layer.0.rsplit('@').next().unwrap_or_default().to_owned(),
            None => admission::offered(spec.image.as_deref(), &self.settings, caller)?,
        };
        let facts = backend.image(&reference).await.map_err(|error| match (error, &layer) {
            // The daemon's owner has removed it.
            (BackendError::Docker(crate::backend::DockerError::NoImage(_)), Some(layer)) => {
                BackendError::NoLayer(layer.0.clone())
            }
            (other, _) => other,
        })?;
        if let Some(known) = self.snapshot_states() {
            // What a server left there that was killed between a snapshot and its record.
            let (tidying, state) = (Arc::clone(backend), self.settings.state.clone());
            tokio::spawn(async move { drop(tidying.keep_only(&state, &known).await) });
        }
        let origin = layer.map_or(Origin::Nothing, Origin::Snapshot);
        Ok(Ground {
            backend: kind,
            origin,
            image: None,
            digest: Some(facts.digest),
            extra_roots: Vec::new(),
            network,
            shown: around.shown,
            path: facts.path,
        })
    }
}
