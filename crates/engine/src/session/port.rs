//! Connections to a port inside a session, whose network is its own.
//!
//! Nobody outside can enter that network. So a program inside connects, with its own rights and walls, and passes on what
//! it reads and what it is given: whatever listens there sees one of the session's own programs.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::Session;
use super::error::SessionError;
use super::spec::CommandSpec;
use crate::backend::{Connection, Process, Stream};
use crate::engine::Caller;
use crate::error::{BackendError, RunError};

/// Connects, says so by one byte, and then passes everything on. Nothing of it holds the output open but who writes to it.
const RELAY: &str = "exec 2>/dev/null; exec 3<>\"/dev/tcp/localhost/$0\" || exit 1; printf +; cat <&3 & exec cat >&3";

const PIECE: usize = 64 << 10;

impl Session {
    /// Connects to a port of the session's own network; none if nobody listens there.
    pub async fn open_port(&self, caller: &Caller, port: u16) -> Result<Option<DuplexStream>, SessionError> {
        let _pass = self.admit(caller, "port").await?;
        let argv = ["/bin/bash", "-c", RELAY].map(str::to_owned).into_iter().chain([port.to_string()]).collect();
        let command = CommandSpec { argv, cwd: Some("/".to_owned()), ..CommandSpec::default() };
        let mut process = self.launch(&command, Connection::Pipes, None).await?;
        // A first byte is the connection; the rest of the piece is what was said over it at once.
        let first = loop {
            match process.output.recv().await {
                Some((Stream::Out, bytes)) if !bytes.is_empty() => break bytes,
                Some(_) => {}
                None => return Ok(None),
            }
        };
        let Some(input) = process.input.take() else {
            return Err(RunError::from(BackendError::Lacks { what: "input" }).into());
        };
        let (ours, theirs) = duplex(PIECE);
        let (mut read, write) = tokio::io::split(theirs);
        tokio::spawn(async move {
            let mut buffer = vec![0; PIECE];
            while let Ok(n) = read.read(&mut buffer).await {
                if n == 0 || input.send(buffer[..n].to_vec()).await.is_err() {
                    return;
                }
            }
        });
        tokio::spawn(pass_on(process, first, write));
        Ok(Some(ours))
    }
}

/// What the program says goes to whoever asked, until either has enough; then the program ends.
async fn pass_on(mut process: Process, first: Vec<u8>, mut write: tokio::io::WriteHalf<DuplexStream>) {
    let mut told = write.write_all(&first[1..]).await;
    while told.is_ok()
        && let Some((_, bytes)) = process.output.recv().await
    {
        told = write.write_all(&bytes).await;
    }
    let _ = write.shutdown().await;
    // It may have ended meanwhile.
    let _ = process.control.kill();
}
