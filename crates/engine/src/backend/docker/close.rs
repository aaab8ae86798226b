//! From a container that only runs our process 1 to one that is closed and may take a program.

use std::sync::Arc;
use std::time::Duration;

use bollard::models::ContainerUpdateBody;
use jail::contained::{Order, Report};
use types::{Layer, Limits};

use super::container::{nano_cpus, pids, signed};
use super::daemon::Known;
use super::error::DockerError;
use super::held::Held;
use super::sandbox::Container;
use super::{layers, sockets};
use crate::backend::contained::{ContainedTree, Link, check_walls};
use crate::backend::{SandboxSpec, wire};
use crate::error::BackendError;

/// How long process 1 may take to close everything.
const PATIENCE: Duration = Duration::from_secs(30);

impl Container {
    pub(super) fn new(link: Link, held: Arc<Held>, known: Known, spec: &SandboxSpec) -> Self {
        let (limits, accept) = (spec.limits.clone(), spec.accept.clone());
        let way_out = spec.network.is_some();
        Self { tree: ContainedTree::new(link), held, known, limits, way_out, accept, layers: Vec::new() }
    }

    /// Lets process 1 furnish and close it. What is on then was seen by process 1.
    pub(super) async fn close(&mut self) -> Result<(), BackendError> {
        let (limits, known) = (self.limits.clone(), self.known.clone());
        let held = Arc::clone(&self.held);
        if known.is_first_version() {
            let pid = held.inspect().await?.state.and_then(|state| state.pid).unwrap_or_default();
            sockets::limit(pid, &held.id, limits.memory);
        }
        let way_out = self.way_out;
        let link = self.tree.link_mut();
        link.order(&Order::Close { limits: wire(&limits), way_out }).await?;
        let greeting = tokio::time::timeout(PATIENCE, link.report()).await;
        if let Ok(Ok(Report::Failed { errno })) = greeting {
            return Err(no_way_out(errno));
        }
        let Ok(Ok(Report::Ready { layers: seen })) = greeting else {
            let said = held.inspect().await.ok().and_then(|found| found.state?.error).filter(|said| !said.is_empty());
            return Err(DockerError::Gone { said }.into());
        };
        self.layers = layers::all(&known, seen);
        // User namespaces are the daemon's affair: whoever chooses Docker chooses that, and their absence is named in every
        // result.
        check_walls(&self.layers, &[Layer::UserNs], &self.accept, "closing the container")
    }

    /// Gives one that was made ahead of need its own limits, and closes it.
    pub(super) async fn close_for(&mut self, limits: &Limits) -> Result<(), BackendError> {
        let (old, new) = (wire(&self.limits), wire(limits));
        if (old.memory, old.pids, old.millicpus) != (new.memory, new.pids, new.millicpus) {
            self.limit(limits).await?;
        }
        self.limits = limits.clone();
        self.close().await?;
        // Disks that the daemon has made have the size that they were made with.
        if !self.layers.contains(&Layer::DiskQuota) && (old.disk, old.inodes) != (new.disk, new.inodes) {
            return Err(BackendError::NoWorker);
        }
        Ok(())
    }

    async fn limit(&mut self, limits: &Limits) -> Result<(), DockerError> {
        let memory = signed(limits.memory);
        let update = ContainerUpdateBody {
            memory: Some(memory),
            memory_swap: Some(memory),
            nano_cpus: Some(nano_cpus(limits, &self.known)),
            pids_limit: Some(pids(limits)),
            ..ContainerUpdateBody::default()
        };
        let (client, id) = (self.held.client(), self.held.id.clone());
        let asked = async move {
            client.update_container(&id, update).await.map_err(DockerError::refused("change a container's limits"))
        };
        self.held.on_thread(asked).await
    }
}

/// Process 1 could not make a network of its own.
pub(super) fn no_way_out(errno: i32) -> BackendError {
    let source = std::io::Error::from_raw_os_error(errno);
    BackendError::Layer { layer: Layer::NetNs, step: "making a network in the container".to_owned(), source }
}
