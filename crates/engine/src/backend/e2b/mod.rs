//! Sandboxes of an E2B-compatible server, with one program of ours sent into each.
//!
//! The server builds the walls and is trusted to; our program closes what a process can close, places files, runs and
//! watches. What was seen to be on is named, and nothing else. ADR 0039 has the reasons.

mod api;
mod error;
mod held;
mod http;
mod settings;

use std::time::Duration;

use jail::contained::{Order, Report};
use tokio::sync::OnceCell;
use types::{BackendKind, Layer, Limits};

use super::contained::{self, ContainedTree, Errands, Watched, check_walls};
use super::{
    Backend, BoxFuture, Cancel, Capabilities, Command, Ended, ImageFacts, Output, Sandbox, SandboxSpec, Stdin, wire,
};
use crate::error::BackendError;
use crate::files::Tree;
pub use error::E2bError;
use held::{FOLDER, Held, OWN_FOLDER, PACKAGES};
pub use settings::E2bBackendSettings;

/// How long files may take on their way, beside the time that the program has.
const TRANSFERS: Duration = Duration::from_mins(10);

/// How long our program may take to close everything.
const CLOSING: Duration = Duration::from_secs(30);

/// Where the one that a process cannot make for itself is the server's affair: whoever names a server chooses its walls, and
/// those that cannot be seen from inside are named in every result.
const OF_THE_SERVER: [Layer; 7] =
    [Layer::UserNs, Layer::MountNs, Layer::PidNs, Layer::NetNs, Layer::IpcNs, Layer::UtsNs, Layer::CgroupNs];

/// The E2B backend.
pub(crate) struct E2b {
    settings: E2bBackendSettings,
    errands: Errands,
    /// What was on in a sandbox, once one was made to see it.
    seen: OnceCell<Vec<Layer>>,
}

impl E2b {
    /// Speaks to nobody yet.
    pub(crate) fn new(settings: E2bBackendSettings) -> Result<Self, E2bError> {
        let errands = Errands::new("e2b").map_err(E2bError::Thread)?;
        Ok(Self { settings, errands, seen: OnceCell::new() })
    }

    async fn make(&self, spec: &SandboxSpec) -> Result<Remote, BackendError> {
        let known = self.settings.resolve()?;
        let template = spec.digest.as_deref().unwrap_or_else(|| self.settings.template());
        let held = Held::make(&self.errands, &known, template, spec.network.is_some()).await?;
        let (mut link, path) = held.enter(spec.limits.wall + TRANSFERS, spec.packages.as_ref()).await?;
        link.order(&Order::Close { limits: wire(&spec.limits), way_out: false }).await?;
        let Ok(Ok(Report::Ready { layers })) = tokio::time::timeout(CLOSING, link.report()).await else {
            return Err(E2bError::Gone { said: Some("our program in it did not begin".to_owned()) }.into());
        };
        let mut layers: Vec<Layer> = Layer::ALL.into_iter().filter(|layer| layers.contains(layer)).collect();
        layers.sort_unstable();
        check_walls(&layers, &OF_THE_SERVER, &spec.accept, "closing the E2B sandbox")?;
        let has_packages = spec.packages.is_some();
        Ok(Remote { tree: ContainedTree::new(link), limits: spec.limits.clone(), layers, path, has_packages })
    }
}

impl Backend for E2b {
    fn kind(&self) -> BackendKind {
        BackendKind::E2b
    }

    fn capabilities<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        Box::pin(async {
            let made = self.seen.get_or_try_init(|| async { self.make(spec).await.map(|remote| remote.layers) });
            let available = made.await?.clone();
            Ok(Capabilities { missing: missing(&available), available })
        })
    }

    fn create<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Box<dyn Sandbox>, BackendError>> {
        Box::pin(async { Ok(Box::new(self.make(spec).await?) as Box<dyn Sandbox>) })
    }

    /// A template's name is all that the server tells of it; its folders are known once a sandbox is there.
    fn image<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<ImageFacts, BackendError>> {
        Box::pin(async { Ok(ImageFacts { digest: reference.to_owned(), path: Vec::new() }) })
    }
}

fn missing(on: &[Layer]) -> Vec<(Layer, String)> {
    let why = |layer: Layer| match layer {
        _ if OF_THE_SERVER.contains(&layer) => "it cannot be seen from inside the E2B server's sandbox",
        Layer::CgroupMemory | Layer::CgroupPids | Layer::CgroupCpu | Layer::DiskQuota => {
            "the E2B server's own limits are not the run's"
        }
        _ => "the kernel of the E2B server's sandbox did not let our program have it",
    };
    let off = Layer::ALL.into_iter().filter(|layer| !on.contains(layer));
    off.map(|layer| (layer, why(layer).to_owned())).collect()
}

/// A sandbox at the server, with our program in it.
struct Remote {
    tree: ContainedTree,
    limits: Limits,
    layers: Vec<Layer>,
    /// Where the sandbox's own shell looks for programs.
    path: Vec<String>,
    /// Whether packages were brought there for the run.
    has_packages: bool,
}

impl Remote {
    /// The same command where drivers lie elsewhere and programs may too.
    fn there(&self, mut command: Command) -> Command {
        let moved = |word: &mut String| {
            if let Some(name) = word.strip_prefix(OWN_FOLDER) {
                *word = format!("{FOLDER}{name}");
            }
        };
        command.argv.iter_mut().for_each(moved);
        for pair in &mut command.env {
            if let Some(path) = pair.strip_prefix("PATH=") {
                let known: Vec<&str> = path.split(':').collect();
                let more = self.path.iter().filter(|folder| !known.contains(&folder.as_str()));
                let all: Vec<&str> = known.iter().copied().chain(more.map(String::as_str)).collect();
                *pair = format!("PATH={}", all.join(":"));
            }
        }
        // As of an image: below what the request says.
        if self.has_packages && !command.env.iter().any(|pair| pair.starts_with("PYTHONPATH=")) {
            command.env.push(format!("PYTHONPATH={PACKAGES}"));
        }
        let mut names: Vec<&str> = Vec::new();
        for program in &command.programs {
            let looked_for =
                program.rsplit_once('/').filter(|(folder, _)| USUAL.contains(folder)).map(|(_, name)| name);
            names.extend(looked_for.filter(|name| !names.contains(name)));
        }
        let elsewhere = names.iter().flat_map(|name| self.path.iter().map(move |folder| format!("{folder}/{name}")));
        let elsewhere: Vec<String> = elsewhere.filter(|program| !command.programs.contains(program)).collect();
        command.programs.extend(elsewhere);
        command
    }
}

/// Where programs are looked for without an image that says otherwise.
const USUAL: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

impl Sandbox for Remote {
    fn tree(&self) -> &dyn Tree {
        &self.tree
    }

    fn is_alive(&self) -> bool {
        self.tree.is_alive()
    }

    fn lease<'a>(&'a mut self, limits: &'a Limits) -> BoxFuture<'a, Result<(), BackendError>> {
        self.limits = limits.clone();
        Box::pin(async { Ok(()) })
    }

    fn run<'a>(
        &'a mut self,
        command: Command,
        stdin: Stdin,
        output: &'a mut dyn Output,
        cancel: Cancel<'a>,
    ) -> BoxFuture<'a, Result<Ended, BackendError>> {
        let command = self.there(command);
        let Self { tree, limits, layers, .. } = self;
        Box::pin(contained::run(Watched { link: tree.link_mut(), limits, layers }, command, stdin, output, cancel))
    }
}
