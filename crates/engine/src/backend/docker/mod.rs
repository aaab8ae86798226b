//! Containers of a Docker daemon, here or elsewhere, with a process 1 of our own in each.
//!
//! The daemon builds the walls; `jail::contained` is the program inside that places files, runs and watches. All talk
//! goes over the container's attached streams, so that it makes no difference where the daemon is.

mod container;
mod daemon;
mod error;
mod link;
mod sandbox;
mod settings;
mod sweep;
mod tree;
mod volume;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bollard::query_parameters::{CreateContainerOptions, RemoveContainerOptions, StartContainerOptions};
use jail::contained::Report;
use tokio::sync::{OnceCell, oneshot};
use types::{BackendKind, Layer};

use super::{Backend, BoxFuture, Capabilities, ImageFacts, Sandbox, SandboxSpec};
use crate::error::BackendError;
use container::Plan;
use daemon::{Daemon, Known};
pub use error::DockerError;
use link::Link;
use sandbox::Container;
pub use settings::DockerSettings;
use tree::ContainerTree;

/// Namespaces that every container of ours has by its configuration.
const BY_CONFIGURATION: [Layer; 4] = [Layer::MountNs, Layer::NetNs, Layer::IpcNs, Layer::UtsNs];

/// How long process 1 may take to say that it is there.
const GREETING: Duration = Duration::from_secs(30);

/// The Docker backend.
pub(crate) struct Docker {
    daemon: Arc<Daemon>,
    /// The volume with our own program, once it is there.
    own: OnceCell<String>,
}

impl Docker {
    /// Speaks to nobody yet.
    pub(crate) fn new(settings: DockerSettings) -> Result<Self, DockerError> {
        Ok(Self { daemon: Daemon::new(settings)?, own: OnceCell::new() })
    }

    /// The volume with our own program in it; what others left behind is removed on the way.
    async fn own(&self, known: &Known, image: &str) -> Result<&str, DockerError> {
        let made = self.own.get_or_try_init(|| async {
            self.daemon.beside(sweep::sweep(known.client.clone()));
            let (client, image, name) = (known.client.clone(), image.to_owned(), volume::name());
            self.daemon
                .on_thread(async move {
                    volume::ensure(&client, &image, &name).await?;
                    Ok(name)
                })
                .await
        });
        made.await.map(String::as_str)
    }

    async fn make(&self, spec: &SandboxSpec) -> Result<Container, BackendError> {
        let image = spec.digest.as_deref().ok_or_else(|| DockerError::NoImage(String::new()))?;
        let known = self.daemon.known().await?;
        let (facts, volumes) = self.daemon.image(image).await?;
        let own = self.own(&known, &facts.digest).await?;
        let plan = Plan {
            settings: &self.daemon.settings,
            known: &known,
            image: &facts.digest,
            volumes: &volumes,
            own,
            limits: &spec.limits,
        };
        let mut link = match self.start(&known, &plan).await {
            // A volume that somebody left half filled has everything but our own program.
            Err(DockerError::Refused { step: STARTING, .. }) => {
                let (client, image, own) = (known.client.clone(), facts.digest.clone(), own.to_owned());
                self.daemon.on_thread(async move { volume::fill(&client, &image, &own).await }).await?;
                self.start(&known, &plan).await?
            }
            other => other?,
        };
        let greeting = tokio::time::timeout(GREETING, link.report()).await;
        let Ok(Ok(Report::Ready { layers: seen })) = greeting else {
            let said = link.inspect().await.ok().and_then(|found| found.state?.error).filter(|said| !said.is_empty());
            return Err(DockerError::Gone { said }.into());
        };
        let mut layers: Vec<Layer> = BY_CONFIGURATION.into_iter().chain(seen).chain(meters(&known)).collect();
        layers.sort_unstable();
        check_walls(&layers, &spec.accept)?;
        let metered = layers.contains(&Layer::CgroupMemory);
        Ok(Container { tree: ContainerTree(Mutex::new(link)), limits: spec.limits.clone(), layers, metered })
    }

    async fn start(&self, known: &Known, plan: &Plan<'_>) -> Result<Link, DockerError> {
        let (client, body) = (known.client.clone(), plan.body());
        let (reply, answer) = oneshot::channel();
        self.daemon.beside(async move {
            let made = client.create_container(None::<CreateContainerOptions>, body).await;
            // Whoever asked may have gone meanwhile.
            if let Err(Ok(made)) = reply.send(made) {
                let options = RemoveContainerOptions { force: true, v: true, ..RemoveContainerOptions::default() };
                drop(client.remove_container(&made.id, Some(options)).await);
            }
        });
        let made = answer.await.map_err(|_| DockerError::Gone { said: None })?;
        let id = made.map_err(DockerError::refused("make a container"))?.id;
        // From here on it is removed, whatever happens.
        let link = Link::attach(Arc::clone(&self.daemon), known.client.clone(), id).await?;
        let (client, id) = (known.client.clone(), link.id.clone());
        let started = self.daemon.on_thread(async move {
            let started = client.start_container(&id, None::<StartContainerOptions>).await;
            started.map_err(DockerError::refused(STARTING))
        });
        started.await?;
        Ok(link)
    }
}

const STARTING: &str = "start a container";

impl Backend for Docker {
    fn kind(&self) -> BackendKind {
        BackendKind::Docker
    }

    fn capabilities<'a>(&'a self, _spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        Box::pin(async {
            let known = self.daemon.known().await?;
            let available = meters(&known);
            let lacks = |layer: &Layer| !available.contains(layer);
            let missing = [Layer::CgroupMemory, Layer::CgroupPids, Layer::CgroupCpu]
                .into_iter()
                .filter(lacks)
                .map(|layer| (layer, "the Docker daemon says that its host lacks it".to_owned()));
            let remapped = known.info.security_options.iter().flatten().any(|option| option.contains("userns"));
            let user = (!remapped).then(|| (Layer::UserNs, "the Docker daemon runs without userns-remap".to_owned()));
            Ok(Capabilities { missing: missing.chain(user).collect(), available })
        })
    }

    fn create<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Box<dyn Sandbox>, BackendError>> {
        Box::pin(async { Ok(Box::new(self.make(spec).await?) as Box<dyn Sandbox>) })
    }

    fn image<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<ImageFacts, BackendError>> {
        Box::pin(async { Ok(self.daemon.image(reference).await?.0) })
    }
}

/// What the daemon's host counts and limits.
fn meters(known: &Known) -> Vec<Layer> {
    let info = &known.info;
    let meters = [
        (Layer::CgroupMemory, info.memory_limit),
        (Layer::CgroupPids, info.pids_limit),
        (Layer::CgroupCpu, info.cpu_cfs_quota),
        (Layer::DiskQuota, Some(true)),
    ];
    meters.into_iter().filter(|(_, has)| *has == Some(true)).map(|(layer, _)| layer).collect()
}

/// A wall that is not on is an error. User namespaces are the daemon's affair: whoever chooses Docker chooses that, and
/// their absence is named in every result.
fn check_walls(layers: &[Layer], accept: &[Layer]) -> Result<(), BackendError> {
    let lacks = |layer: &Layer| layer.is_wall() && *layer != Layer::UserNs && !layers.contains(layer);
    match Layer::ALL.into_iter().find(|layer| lacks(layer) && !accept.contains(layer)) {
        Some(layer) => {
            let source = io::Error::from(io::ErrorKind::Unsupported);
            Err(BackendError::Layer { layer, step: "closing the container".to_owned(), source })
        }
        None => Ok(()),
    }
}
