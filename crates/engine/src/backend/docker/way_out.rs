//! The way out of a container: its packets go over the stream to process 1, and a router on this host sends them on.

use std::os::unix::net::UnixDatagram as Socket;
use std::sync::Arc;

use jail::contained::{FrameKind, MOST_CONTENT, frame};
use tokio::net::UnixDatagram;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::error::DockerError;
use crate::network::{Router, Rules};

/// A router, and our end of what leads to it.
pub(super) struct WayOut {
    packets: Socket,
    router: Router,
}

impl WayOut {
    /// Begins to route, by these rules.
    pub(super) fn open(rules: &Arc<Rules>) -> Result<Self, DockerError> {
        let (packets, theirs) = Socket::pair().map_err(DockerError::Router)?;
        for end in [&packets, &theirs] {
            end.set_nonblocking(true).map_err(DockerError::Router)?;
        }
        let router = Router::afar(theirs.into(), Arc::clone(rules)).map_err(DockerError::Router)?;
        Ok(Self { packets, router })
    }

    /// Carries packets to the container as long as somebody speaks to it. To be called where a runtime is.
    pub(super) fn carry(self, to: mpsc::WeakSender<Vec<u8>>) -> Result<Carried, DockerError> {
        let packets = Arc::new(UnixDatagram::from_std(self.packets).map_err(DockerError::Router)?);
        let delivery = tokio::spawn(deliver(Arc::clone(&packets), to)).abort_handle();
        Ok(Carried { packets, delivery, _router: self.router })
    }
}

/// The way out of a container that is attached to. With its end no connection is left.
pub(super) struct Carried {
    packets: Arc<UnixDatagram>,
    delivery: AbortHandle,
    _router: Router,
}

impl Drop for Carried {
    fn drop(&mut self) {
        // Nobody tells it that the router's end was closed.
        self.delivery.abort();
    }
}

impl Carried {
    /// A packet of the container. One that finds no room is lost, as packets are.
    pub(super) fn take(&self, packet: &[u8]) {
        let _ = self.packets.try_send(packet);
    }
}

async fn deliver(packets: Arc<UnixDatagram>, to: mpsc::WeakSender<Vec<u8>>) {
    let mut buffer = vec![0; MOST_CONTENT];
    while let Ok(read) = packets.recv(&mut buffer).await {
        let Some(to) = to.upgrade() else { return };
        if to.send(frame(FrameKind::Packet, &buffer[..read])).await.is_err() {
            return;
        }
    }
}
