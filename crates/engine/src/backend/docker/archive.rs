//! The disk of a session as the daemon gives it away: of a container that runs, or of an image that is a snapshot.

use std::io::{self, Read};
use std::sync::Arc;

use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::DownloadFromContainerOptions;
use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use tokio::sync::mpsc;

use super::Docker;
use super::daemon::labels;
use super::held::Held;
use super::place::kept;
use crate::backend::{DiskArchive, LayerId};
use crate::error::BackendError;

/// What a session's disk is made of.
const FOLDERS: [&str; 3] = ["/work", "/home", "/tmp"];
/// Pieces that wait for a reader.
const QUEUE: usize = 16;

impl Docker {
    /// The disk of a snapshot, by way of a container that is never started.
    pub(super) async fn archive_of_snapshot(&self, layer: &LayerId) -> Result<DiskArchive, BackendError> {
        let (_, digest) = kept(layer).ok_or_else(|| BackendError::NoLayer(layer.0.clone()))?;
        // One that the daemon's owner has removed is told as such.
        let client = self.daemon.known().await?.client;
        self.daemon.image(digest).await?;
        let id = self.daemon.make(&client, unstarted(digest)).await?.take();
        Ok(archive_of(Held::new(Arc::clone(&self.daemon), client, id)))
    }
}

fn unstarted(image: &str) -> ContainerCreateBody {
    let host = HostConfig { network_mode: Some("none".to_owned()), ..HostConfig::default() };
    ContainerCreateBody {
        image: Some(image.to_owned()),
        entrypoint: Some(vec![jail::contained::NAME.to_owned()]),
        network_disabled: Some(true),
        labels: Some(labels()),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
}

/// The disk of a container. The daemon lets nobody else near it while a folder is on its way, so one comes after the other.
pub(super) fn archive_of(held: Arc<Held>) -> DiskArchive {
    let (tell, queue) = mpsc::channel(QUEUE);
    let (client, id) = (held.client(), held.id.clone());
    held.daemon.beside(async move {
        for folder in FOLDERS {
            let options = DownloadFromContainerOptions { path: folder.to_owned() };
            let mut stream = std::pin::pin!(client.download_from_container(&id, Some(options)));
            while let Some(piece) = stream.next().await {
                if piece.as_ref().is_ok_and(Bytes::is_empty) {
                    continue;
                }
                let is_last = piece.is_err();
                if tell.send(piece.map_err(io::Error::other)).await.is_err() || is_last {
                    return;
                }
            }
        }
        // The end is said: whoever reads must not take a part for the whole.
        drop(tell.send(Ok(Bytes::new())).await);
    });
    Box::new(Pieces { queue, rest: Bytes::new(), over: false, _held: held })
}

/// What comes from the daemon's thread, for somebody who may wait.
struct Pieces {
    queue: mpsc::Receiver<io::Result<Bytes>>,
    rest: Bytes,
    over: bool,
    /// Its end may remove the container, and is not for the daemon's own thread.
    _held: Arc<Held>,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() && !self.over {
            self.rest = self.queue.blocking_recv().ok_or(io::ErrorKind::UnexpectedEof)??;
            self.over = self.rest.is_empty();
        }
        let n = buffer.len().min(self.rest.len());
        self.rest.copy_to_slice(&mut buffer[..n]);
        Ok(n)
    }
}
