//! Containers of a Docker daemon, here or elsewhere, with a process 1 of our own in each.
//!
//! The daemon builds the walls; `jail::contained` is the program inside that places files, runs and watches. All talk
//! goes over the container's attached streams, so that it makes no difference where the daemon is.

mod archive;
mod close;
mod container;
mod daemon;
mod error;
mod held;
mod layers;
mod place;
mod report;
mod sandbox;
mod settings;
mod snapshots;
mod sockets;
mod sweep;
mod volume;
mod way_out;

use std::path::Path;
use std::sync::Arc;

use bollard::query_parameters::{StartContainerOptions, UploadToContainerOptions};
use tokio::sync::OnceCell;
use types::{BackendKind, Layer};

use super::contained::Link;
use super::{
    Backend, BoxFuture, Capabilities, DiskArchive, ImageFacts, LayerId, Place, PlaceSpec, Sandbox, SandboxSpec,
};
use crate::error::BackendError;
use container::{Plan, Stock};
use daemon::{Daemon, Known};
pub use error::DockerError;
use held::Held;
pub use report::DockerReport;
pub(crate) use report::examine;
use sandbox::Container;
pub use settings::DockerSettings;

/// The Docker backend.
pub(crate) struct Docker {
    daemon: Arc<Daemon>,
    /// The volume with our own program, once it is there.
    own: OnceCell<String>,
    /// What was on in a container, once one was made to see it.
    seen: OnceCell<Vec<Layer>>,
}

impl Docker {
    /// Speaks to nobody yet.
    pub(crate) fn new(settings: DockerSettings) -> Result<Self, DockerError> {
        Ok(Self { daemon: Daemon::new(settings)?, own: OnceCell::new(), seen: OnceCell::new() })
    }

    /// The volume with our own program in it; what others left behind is removed on the way.
    async fn own(&self, known: &Known, image: &str) -> Result<&str, DockerError> {
        let made = self.own.get_or_try_init(|| async {
            self.daemon.beside(sweep::sweep(known.client.clone(), volume::name()));
            let (client, image, name) = (known.client.clone(), image.to_owned(), volume::name());
            let under_way = self.daemon.under_way();
            self.daemon
                .on_thread(async move {
                    let _under_way = under_way;
                    volume::ensure(&client, &image, &name).await?;
                    Ok(name)
                })
                .await
        });
        made.await.map(String::as_str)
    }

    /// Everything that a container of an image takes.
    async fn stock(&self, image: &str) -> Result<Stock<'_>, DockerError> {
        let known = self.daemon.known().await?;
        let (facts, volumes) = self.daemon.image(image).await?;
        let own = self.own(&known, &facts.digest).await?;
        Ok(Stock { settings: &self.daemon.settings, known, image: facts.digest, volumes, own })
    }

    async fn make(&self, spec: &SandboxSpec) -> Result<Container, BackendError> {
        let image = spec.digest.as_deref().ok_or_else(|| DockerError::NoImage(String::new()))?;
        let stock = self.stock(image).await?;
        let (link, held) =
            self.start_whole(&stock.known, &stock.plan(&spec.limits, None, spec.network.as_ref()), None).await?;
        let mut container = Container::new(link, held, stock.known, spec);
        // One that is made ahead of need is closed when it is known what for.
        if !spec.ahead {
            container.close().await?;
        }
        Ok(container)
    }

    /// Starts a container with our own program in it, whatever became of the volume.
    async fn start_whole(
        &self,
        known: &Known,
        plan: &Plan<'_>,
        folders: Option<Vec<u8>>,
    ) -> Result<(Link, Arc<Held>), DockerError> {
        match self.start(known, plan, folders.clone()).await {
            // A volume that somebody left half filled has everything but our own program.
            Err(DockerError::Refused { step: STARTING, .. }) => {
                let (client, image, own) = (known.client.clone(), plan.image.to_owned(), plan.own.to_owned());
                self.daemon.on_thread(async move { volume::fill(&client, &image, &own).await }).await?;
                self.start(known, plan, folders).await
            }
            other => other,
        }
    }

    /// Starts a container, with folders of its own on its disk if it is to have some.
    async fn start(
        &self,
        known: &Known,
        plan: &Plan<'_>,
        folders: Option<Vec<u8>>,
    ) -> Result<(Link, Arc<Held>), DockerError> {
        let id = self.daemon.make(&known.client, plan.body()).await?.take();
        // From here on it is removed, whatever happens.
        let held = Held::new(Arc::clone(&self.daemon), known.client.clone(), id);
        let link = held.attach(plan.network).await?;
        let (client, id) = (known.client.clone(), held.id.clone());
        let started = self.daemon.on_thread(async move {
            if let Some(folders) = folders {
                let options = UploadToContainerOptions { path: "/".to_owned(), ..UploadToContainerOptions::default() };
                let placed = client.upload_to_container(&id, Some(options), bollard::body_full(folders.into())).await;
                placed.map_err(DockerError::refused("make folders in a container"))?;
            }
            let started = client.start_container(&id, None::<StartContainerOptions>).await;
            started.map_err(DockerError::refused(STARTING))
        });
        started.await?;
        Ok((link, held))
    }
}

const STARTING: &str = "start a container";

impl Backend for Docker {
    fn kind(&self) -> BackendKind {
        BackendKind::Docker
    }

    fn capabilities<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        Box::pin(async {
            let made = self.seen.get_or_try_init(|| async { self.make(spec).await.map(|container| container.layers) });
            let available = made.await?.clone();
            Ok(Capabilities { missing: layers::missing(&available), available })
        })
    }

    fn create<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Box<dyn Sandbox>, BackendError>> {
        Box::pin(async { Ok(Box::new(self.make(spec).await?) as Box<dyn Sandbox>) })
    }

    fn open<'a>(&'a self, spec: &'a PlaceSpec) -> BoxFuture<'a, Result<Arc<dyn Place>, BackendError>> {
        Box::pin(async { Ok(self.stay(spec).await? as Arc<dyn Place>) })
    }

    fn forget<'a>(&'a self, layer: &'a LayerId) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async { Ok(self.remove_snapshot(layer).await?) })
    }

    fn keep_only<'a>(&'a self, state: &'a Path, known: &'a [LayerId]) -> BoxFuture<'a, Result<usize, BackendError>> {
        Box::pin(async { Ok(self.tidy_snapshots(state, known).await?) })
    }

    fn archive<'a>(&'a self, layer: &'a LayerId) -> BoxFuture<'a, Result<DiskArchive, BackendError>> {
        Box::pin(self.archive_of_snapshot(layer))
    }

    fn image<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<ImageFacts, BackendError>> {
        Box::pin(async { Ok(self.daemon.image(reference).await?.0) })
    }
}
