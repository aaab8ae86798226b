//! What `saggar doctor` says of the Docker daemon.

use serde::{Deserialize, Serialize};
use types::Layer;

use super::{Docker, DockerSettings};
use crate::backend::{Backend, SandboxSpec};
use crate::error::{BackendError, RunError};

/// The Docker daemon, as it was found.
#[derive(Debug, Serialize, Deserialize)]
pub struct DockerReport {
    /// Whether a run on it would be carried out, as far as could be tried.
    pub ok: bool,
    /// Where it should be.
    pub host: String,
    /// Its version.
    pub version: Option<String>,
    /// What starts its containers.
    pub runtime: Option<String>,
    /// What requests get that name no image.
    pub image: Option<String>,
    /// Layers that were not on in a container of that image.
    pub missing: Vec<Layer>,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Asks the daemon, and makes a container if the settings name an image.
pub(crate) async fn examine(settings: &DockerSettings, spec: SandboxSpec) -> DockerReport {
    let mut report = DockerReport {
        ok: false,
        host: settings.address().to_owned(),
        version: None,
        runtime: settings.runtime.clone(),
        image: settings.image.clone(),
        missing: Vec::new(),
        why: None,
        remedy: None,
    };
    match ask(settings, spec, &mut report).await {
        Ok(()) => report.ok = true,
        Err(error) => {
            let body = RunError::from(error).body();
            (report.why, report.remedy) = (Some(body.message), Some(body.hint));
        }
    }
    report
}

async fn ask(settings: &DockerSettings, spec: SandboxSpec, report: &mut DockerReport) -> Result<(), BackendError> {
    let docker = Docker::new(settings.clone())?;
    let info = docker.daemon.known().await?.info;
    report.version.clone_from(&info.server_version);
    report.runtime = report.runtime.take().or_else(|| info.default_runtime.clone());
    if let Some(image) = &settings.image {
        let digest = Some(docker.image(image).await?.digest);
        let found = docker.capabilities(&SandboxSpec { digest, ..spec }).await?;
        report.missing = found.missing.into_iter().map(|(layer, _)| layer).collect();
    }
    Ok(())
}
