//! The talk with process 1 of one container, carried by the streams that the daemon attached us to.

use std::pin::Pin;
use std::sync::Arc;

use bollard::container::LogOutput;
use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::AttachContainerOptions;
use futures_util::StreamExt;
use jail::contained::{FrameKind, Frames, Order, Report};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::daemon::Daemon;
use super::error::DockerError;

/// Frames that wait for a reader; the daemon waits behind them.
const WAITING: usize = 8;

/// The longest that process 1 may say on its standard error, which it never does.
const MOST_SAID: usize = 1000;

/// One container, attached to.
pub(super) struct Link {
    pub(super) daemon: Arc<Daemon>,
    pub(super) client: bollard::Docker,
    pub(super) id: String,
    to: mpsc::Sender<Vec<u8>>,
    from: mpsc::Receiver<(FrameKind, Vec<u8>)>,
}

impl Link {
    /// Attaches to a container that was not started yet, so that nothing it says is lost.
    pub(super) async fn attach(daemon: Arc<Daemon>, client: bollard::Docker, id: String) -> Result<Self, DockerError> {
        let (to, orders) = mpsc::channel(WAITING);
        let (frames, from) = mpsc::channel(WAITING);
        let link = Self { daemon, client, id, to, from };
        let (client, id) = (link.client.clone(), link.id.clone());
        link.daemon
            .on_thread(async move {
                let options = AttachContainerOptions {
                    stream: true,
                    stdin: true,
                    stdout: true,
                    stderr: true,
                    ..Default::default()
                };
                let attached = client.attach_container(&id, Some(options)).await;
                let attached = attached.map_err(DockerError::refused("attach to a container"))?;
                tokio::spawn(send(orders, attached.input));
                tokio::spawn(receive(attached.output, frames));
                Ok(())
            })
            .await?;
        Ok(link)
    }

    /// Whether its container is there, as far as anybody has heard.
    pub(super) fn is_alive(&self) -> bool {
        !self.to.is_closed() && !self.from.is_closed()
    }

    pub(super) async fn order(&self, order: &Order) -> Result<(), DockerError> {
        self.send(order.frame()).await
    }

    pub(super) async fn send(&self, frame: Vec<u8>) -> Result<(), DockerError> {
        self.to.send(frame).await.map_err(|_| DockerError::Gone { said: None })
    }

    /// The next frame; an error when the container is gone.
    pub(super) async fn next(&mut self) -> Result<(FrameKind, Vec<u8>), DockerError> {
        self.from.recv().await.ok_or(DockerError::Gone { said: None })
    }

    /// The next report, where nothing else can come.
    pub(super) async fn report(&mut self) -> Result<Report, DockerError> {
        match self.next().await? {
            (FrameKind::Message, payload) => read(&payload),
            _ => Err(garbled()),
        }
    }

    /// What the daemon knows of the container.
    pub(super) async fn inspect(&self) -> Result<ContainerInspectResponse, DockerError> {
        let (client, id) = (self.client.clone(), self.id.clone());
        let asked = async move {
            client.inspect_container(&id, None).await.map_err(DockerError::refused("tell of a container"))
        };
        self.daemon.on_thread(asked).await
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.daemon.remove(&self.client, std::mem::take(&mut self.id));
    }
}

pub(super) fn read(payload: &[u8]) -> Result<Report, DockerError> {
    Report::read(payload).ok_or_else(garbled)
}

pub(super) fn garbled() -> DockerError {
    DockerError::Gone { said: Some("it said what it should not say".to_owned()) }
}

async fn send(mut orders: mpsc::Receiver<Vec<u8>>, mut input: Pin<Box<dyn AsyncWrite + Send>>) {
    while let Some(frame) = orders.recv().await {
        if input.write_all(&frame).await.is_err() || input.flush().await.is_err() {
            return;
        }
    }
}

type Outputs = Pin<Box<dyn futures_util::Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>;

async fn receive(mut output: Outputs, into: mpsc::Sender<(FrameKind, Vec<u8>)>) {
    let mut frames = Frames::default();
    let mut said = 0;
    while let Some(Ok(piece)) = output.next().await {
        match piece {
            LogOutput::StdOut { message } => frames.push(&message),
            // Only the runtime speaks there, when it cannot start process 1; the daemon's refusal says it too.
            other => said += other.into_bytes().len(),
        }
        if said > MOST_SAID {
            return;
        }
        loop {
            match frames.next_frame() {
                Ok(Some(frame)) => {
                    if into.send(frame).await.is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}
