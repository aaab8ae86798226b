//! One container that we hold: attached to, asked about, removed when nobody has it any more.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::container::LogOutput;
use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::{AttachContainerOptions, KillContainerOptions};
use futures_util::StreamExt;
use jail::contained::{FrameKind, Frames};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use types::LimitKind;

use super::daemon::Daemon;
use super::error::DockerError;
use super::way_out::{Carried, WayOut};
use crate::backend::BoxFuture;
use crate::backend::contained::{Host, Link, WAITING};
use crate::error::BackendError;
use crate::network::Rules;

/// The longest that process 1 may say on its standard error, which it never does.
const MOST_SAID: usize = 1000;

/// How long the daemon may take to notice why a container ended.
const POST_MORTEM: Duration = Duration::from_secs(2);

/// One container.
pub(super) struct Held {
    pub(super) daemon: Arc<Daemon>,
    client: bollard::Docker,
    pub(super) id: String,
}

impl Held {
    pub(super) fn new(daemon: Arc<Daemon>, client: bollard::Docker, id: String) -> Arc<Self> {
        Arc::new(Self { daemon, client, id })
    }

    /// Attaches to the container, which was not started yet, so that nothing it says is lost.
    pub(super) async fn attach(self: &Arc<Self>, network: Option<&Arc<Rules>>) -> Result<Link, DockerError> {
        let way = network.map(WayOut::open).transpose()?;
        let (to, orders) = mpsc::channel(WAITING);
        let (frames, from) = mpsc::channel(WAITING);
        // Packets alone keep no conversation up.
        let last: mpsc::WeakSender<Vec<u8>> = mpsc::Sender::downgrade(&to);
        let (client, id) = (self.client.clone(), self.id.clone());
        self.daemon
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
                let way = way.map(|way| way.carry(last)).transpose()?;
                tokio::spawn(receive(attached.output, frames, way));
                Ok(())
            })
            .await?;
        Ok(Link::new(Arc::clone(self) as Arc<dyn Host>, to, from))
    }

    /// What the daemon knows of it.
    pub(super) async fn inspect(&self) -> Result<ContainerInspectResponse, DockerError> {
        let (client, id) = (self.client.clone(), self.id.clone());
        let asked = async move {
            client.inspect_container(&id, None).await.map_err(DockerError::refused("tell of a container"))
        };
        self.on_thread(asked).await
    }

    /// Does something on the daemon's own thread.
    pub(super) async fn on_thread<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, DockerError>> + Send + 'static,
    ) -> Result<T, DockerError> {
        self.daemon.on_thread(work).await
    }

    pub(super) fn client(&self) -> bollard::Docker {
        self.client.clone()
    }

    async fn why(&self) -> Result<LimitKind, DockerError> {
        let patience = Instant::now() + POST_MORTEM;
        loop {
            let state = self.inspect().await?.state.unwrap_or_default();
            if state.oom_killed == Some(true) {
                return Ok(LimitKind::Memory);
            }
            if Instant::now() > patience {
                let said = state.error.filter(|error| !error.is_empty());
                return Err(DockerError::Gone { said });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Host for Held {
    fn kill(&self) -> BoxFuture<'_, ()> {
        let (client, id) = (self.client.clone(), self.id.clone());
        let asked = async move {
            let options = KillContainerOptions { signal: "SIGKILL".to_owned() };
            client.kill_container(&id, Some(options)).await.map_err(DockerError::refused("kill a container"))
        };
        Box::pin(async { drop(self.on_thread(asked).await) })
    }

    fn cause(&self) -> BoxFuture<'_, Result<LimitKind, BackendError>> {
        Box::pin(async { Ok(self.why().await?) })
    }

    fn gone(&self, said: Option<&str>) -> BackendError {
        DockerError::Gone { said: said.map(str::to_owned) }.into()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.daemon.remove(&self.client, std::mem::take(&mut self.id));
    }
}

async fn send(mut orders: mpsc::Receiver<Vec<u8>>, mut input: Pin<Box<dyn AsyncWrite + Send>>) {
    while let Some(frame) = orders.recv().await {
        if input.write_all(&frame).await.is_err() || input.flush().await.is_err() {
            return;
        }
    }
}

type Outputs = Pin<Box<dyn futures_util::Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>;

async fn receive(mut output: Outputs, into: mpsc::Sender<(FrameKind, Vec<u8>)>, way: Option<Carried>) {
    let mut frames = Frames::default();
    let mut said = 0;
    while let Some(Ok(piece)) = output.next().await {
        match piece {
            LogOutput::StdOut { message } => {
                if pass(&mut frames, &message, &into, way.as_ref()).await.is_none() {
                    return;
                }
            }
            // Only the runtime speaks there, when it cannot start process 1; the daemon's refusal says it too.
            other => said += other.into_bytes().len(),
        }
        if said > MOST_SAID {
            return;
        }
    }
}

/// Cuts what has come into frames: packets go their own way. Nothing if nobody takes them or they are none.
async fn pass(
    frames: &mut Frames,
    piece: &[u8],
    into: &mpsc::Sender<(FrameKind, Vec<u8>)>,
    way: Option<&Carried>,
) -> Option<()> {
    frames.push(piece);
    while let Some((kind, payload)) = frames.next_frame().ok()? {
        if kind == FrameKind::Packet {
            way?.take(&payload);
        } else {
            into.send((kind, payload)).await.ok()?;
        }
    }
    Some(())
}
