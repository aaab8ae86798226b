//! A `saggar serve` of our own, with a state folder of its own.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use super::http::Address;
use super::process::{Invocation, Minimal};

/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(20);

/// Ends with us, and its sandboxes with it.
pub(super) struct Daemon {
    child: Child,
    pub(super) address: Address,
}

impl Daemon {
    /// Starts a server and waits until it answers; says why if it does not.
    pub(super) fn start(program: &str, config: Option<&Path>, home: &Path) -> Result<Self, String> {
        let mut argv = [program, "serve", "--listen", "127.0.0.1:0"].map(str::to_owned).to_vec();
        if let Some(config) = config {
            argv.extend(["--config".to_owned(), config.display().to_string()]);
        }
        let words = home.join("serve.log");
        let started = File::create(&words).and_then(|log| Invocation::new(argv, Minimal::No).home(home).start(log));
        let child = started.map_err(|error| format!("`saggar serve` cannot be started: {error}"))?;
        let mut daemon = Self { child, address: Address { socket: home.join("saggar.sock"), key: None } };
        let start = Instant::now();
        while !daemon.answers() {
            if daemon.has_ended() || start.elapsed() > PATIENCE {
                let said = fs::read_to_string(&words).unwrap_or_default();
                return Err(format!("`saggar serve` does not answer: {}", said.lines().next().unwrap_or("no word")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        daemon.address.key = fs::read_to_string(home.join("api-key")).ok().map(|key| key.trim().to_owned());
        Ok(daemon)
    }

    /// Where it listens for clients that know no socket, as it says itself.
    pub(super) fn url(&self) -> Option<String> {
        let said = fs::read_to_string(self.address.socket.with_file_name("serve.log")).ok()?;
        let address = said.split("http://").nth(1)?.split_whitespace().next()?;
        Some(format!("http://{address}"))
    }

    fn answers(&self) -> bool {
        let asked: io::Result<_> = self.address.connect().and_then(|mut line| line.exchange("GET", "/healthz", b""));
        asked.is_ok_and(|(status, _)| status == 200)
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
