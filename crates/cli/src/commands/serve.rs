//! `saggar serve`: the server.

use std::io::{self, Write};
use std::net::{AddrParseError, SocketAddr};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use engine::{Engine, Settings};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::Server;
use types::parse_duration;

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Serve runs over HTTP, and to `saggar run` and `exec`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar serve\n  saggar serve --listen 127.0.0.1:0 --idle-exit 10m\n  curl -H \"Authorization: Bearer $(cat ~/.local/share/saggar/api-key)\" \\\n    -d '{\"code\": \"print(1)\"}' http://127.0.0.1:7244/v1/runs\n\nWhile it runs, `saggar run` and `saggar exec` of the same user and state folder ask it, unless --cold, --config,\nSAGGAR_CONFIG or SAGGAR_CGROUP is given. Interpreters are then found on the server's PATH, and the settings are\nthose that it started with: start it again after a change of either.\n\nEnds with 0 on Ctrl-C, SIGTERM or --idle-exit: runs under way get a moment to end. A second signal ends it at once."
)]
pub(crate) struct Serve {
    /// Address for HTTP; port 0 takes a free one [default: by the settings, else 127.0.0.1:7244]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    listen: Option<SocketAddr>,
    /// End after no run for this long, such as 10m
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    idle_exit: Option<Duration>,
}

/// One for each processor of a small machine; what blocks is moved to threads beside them.
const WORKERS: usize = 2;
/// More than there can be connections: each could have a slow reader that blocks a thread.
const THREADS: usize = 1024;

impl Serve {
    pub(crate) fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        let engine = Engine::open(Settings::load(config)?)?;
        let interrupt = Interrupt::listen()?;
        let runtime = runtime()?;
        let options = server::Options { listen: self.listen, idle_exit: self.idle_exit };
        runtime.block_on(async {
            let server = Server::bind(engine.with_pool(), &options)?;
            let address = server.address().map_err(Failure::runtime)?;
            let (scheme, socket, key) = (server.scheme(), server.socket(), server.key_file());
            // Nobody may be there to read it.
            let _ = writeln!(
                io::stderr(),
                "saggar: listening on {scheme}://{address} and {}; key in {}",
                socket.display(),
                key.display()
            );
            server.run(interrupt.heard()?).await;
            Ok::<_, Failure>(())
        })?;
        runtime.shutdown_background();
        Ok(0)
    }
}

/// What many runs at once need.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    raise_descriptor_limit();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(WORKERS).max_blocking_threads(THREADS).enable_io().enable_time().build();
    runtime.map_err(Failure::runtime)
}

/// `127.0.0.1:7244`, `[::1]:7244`, or the same by the name `localhost`.
fn parse_address(text: &str) -> Result<SocketAddr, AddrParseError> {
    match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}").parse(),
        None => text.parse(),
    }
}

/// Each run holds about ten descriptors, and the usual limit of 1024 is for programs that use `select`.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
