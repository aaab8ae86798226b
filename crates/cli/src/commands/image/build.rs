//! `saggar image build`.

use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use engine::{Build as Order, Output, Sources, Stream, System};
use indicatif::ProgressBar;

use super::{Place, away, caller, short};
use crate::failure::{Failure, print_json, visible};
use crate::in_runtime;
use crate::table::{bytes, print};

/// Make an image with packages in it, so that runs need no network
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar image build data --pip numpy,pandas,matplotlib,ipython\n  saggar image build tools --from debian --apt git,jq --npm typescript\n  saggar image build debian --system --apt python3,git --node 22\n  saggar run --image data -c 'import pandas; print(pandas.__version__)'\n\nPackages are installed in a sandbox with network `open`. What was built before from the same things is not built\nagain. Debian packages are unpacked without their own scripts, and need --system, or --from with a Debian image."
)]
pub(super) struct Build {
    /// What to call it
    #[arg(value_name = "NAME")]
    name: String,
    /// The image to begin with [default: the host's own programs]
    #[arg(long, value_name = "IMAGE")]
    from: Option<String>,
    /// Begin with a whole root of this host's own distribution (Debian, Ubuntu)
    #[arg(long, conflicts_with_all = ["from", "pip", "npm"])]
    system: bool,
    /// With --system: a Node of this major version
    #[arg(long, value_name = "VERSION", requires = "system")]
    node: Option<String>,
    /// Debian packages, with commas between them (repeatable)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    apt: Vec<String>,
    /// Python packages, as pip takes them (repeatable)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pip: Vec<String>,
    /// Node packages, as npm takes them (repeatable)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    npm: Vec<String>,
    /// Index of Python packages in place of pip's own
    #[arg(long, value_name = "URL")]
    index_url: Option<String>,
    /// Registry of Node packages in place of npm's own
    #[arg(long, value_name = "URL")]
    npm_registry: Option<String>,
    /// Mirror of this host's own distribution in place of its usual one
    #[arg(long, value_name = "URL")]
    apt_mirror: Option<String>,
    /// Proxy for all of them
    #[arg(long, value_name = "URL")]
    proxy: Option<String>,
    /// Certificates of authorities to trust, as PEM
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<PathBuf>,
    /// Install again what was built before
    #[arg(long)]
    fresh: bool,
    /// Print the image as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl Build {
    pub(super) fn execute(self, place: &Place) -> Result<u8, Failure> {
        let Self { name, from, system, node, apt, pip, npm, index_url, npm_registry, apt_mirror, proxy, .. } = self;
        let Self { ca_bundle, fresh, json, .. } = self;
        let sources = Sources { index_url, npm_registry, apt_mirror, proxy, ca_bundle, repositories: None };
        let system = system.then_some(System { node });
        let order = Order { name, from, system, apt, pip, npm, sources, fresh };
        let mut said = Said::new();
        let built = match place {
            Place::Here(engine) => {
                in_runtime(async { Ok(engine.build_image(&caller(), order, Some(&mut said)).await?) })
            }
            Place::Elsewhere(server) => away::build(server, &order, &mut said),
        };
        said.bar.finish_and_clear();
        let image = built?;
        if json {
            print_json(&image)?;
        } else {
            let size = bytes(image.bytes);
            print(&[], &[], &format!("{}  {}  {} layers, {size}", image.name, short(&image.id), image.layers.len()))?;
        }
        Ok(0)
    }
}

/// What installers say: the last line beside a spinner on a terminal, all of it elsewhere.
pub(crate) struct Said {
    pub(crate) bar: ProgressBar,
    is_terminal: bool,
}

impl Said {
    pub(crate) fn new() -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let bar = if is_terminal { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar, is_terminal }
    }
}

impl Output for Said {
    fn write(&mut self, _: Stream, bytes: &[u8]) -> ControlFlow<()> {
        let text: String = String::from_utf8_lossy(bytes).chars().map(visible).collect();
        if !self.is_terminal {
            // Nobody may be there to read it.
            let _ = std::io::stderr().write_all(text.as_bytes());
        } else if let Some(line) = text.lines().rev().find(|line| !line.trim().is_empty()) {
            self.bar.set_message(line.chars().take(100).collect::<String>());
        }
        ControlFlow::Continue(())
    }
}
