//! A backend with what is kept ready on it. An engine has one of each kind that it was asked for.

use std::sync::{Arc, OnceLock};

use types::{BackendKind, Limits};

use crate::backend::{Backend, Docker, E2b};
use crate::error::{BackendError, RunError};
use crate::pool::Pool;
use crate::settings::Settings;

/// A backend and its pool, if one is kept.
pub(crate) struct Station {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) pool: Option<Arc<Pool>>,
}

impl Station {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend, pool: None }
    }

    /// With sandboxes kept ready from now on; needs a runtime that lives as long.
    pub(crate) fn with_pool(backend: Arc<dyn Backend>, settings: &Settings) -> Self {
        let limits: Limits = settings.defaults.clone();
        let pool = Some(Pool::new(Arc::clone(&backend), settings.pool.clone(), limits));
        Self { backend, pool }
    }
}

/// Where runs can go. The choice is made here, once for each request.
pub(crate) struct Stations {
    pub(crate) native: Station,
    docker: OnceLock<Station>,
    e2b: OnceLock<Station>,
}

impl Stations {
    pub(crate) fn new(native: Station) -> Self {
        Self { native, docker: OnceLock::new(), e2b: OnceLock::new() }
    }

    /// The one of this kind, made when it is first asked for.
    pub(crate) fn get(&self, kind: BackendKind, settings: &Settings) -> Result<&Station, RunError> {
        match kind {
            BackendKind::Native => Ok(&self.native),
            BackendKind::Docker => self.docker(settings),
            BackendKind::E2b => self.e2b(settings),
        }
    }

    fn docker(&self, settings: &Settings) -> Result<&Station, RunError> {
        if let Some(station) = self.docker.get() {
            return Ok(station);
        }
        let backend = Arc::new(Docker::new(settings.docker.clone()).map_err(BackendError::from)?);
        // Whoever keeps native sandboxes ready keeps containers ready too.
        let station = match self.native.pool {
            Some(_) => Station::with_pool(backend, settings),
            None => Station::new(backend),
        };
        Ok(self.docker.get_or_init(|| station))
    }

    /// Whether runs went to another server.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.e2b.get().is_some()
    }

    /// Nothing is kept ready there: sandboxes of others cost by the second.
    fn e2b(&self, settings: &Settings) -> Result<&Station, RunError> {
        if let Some(station) = self.e2b.get() {
            return Ok(station);
        }
        let backend = Arc::new(E2b::new(settings.e2b.backend.clone()).map_err(BackendError::from)?);
        Ok(self.e2b.get_or_init(|| Station::new(backend)))
    }
}
