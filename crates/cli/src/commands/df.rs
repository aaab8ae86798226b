//! `saggar df` and `saggar prune`: what is kept, and what of it nobody needs.

use std::path::Path;

use clap::Args;
use engine::{Engine, Kept, Settings};

use crate::failure::{Failure, print_json};
use crate::table::{bytes, print};

/// Show what saggar keeps on disk, and for how long
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar df --json")]
pub(crate) struct Df {
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Df {
    pub(crate) fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        let report = Engine::open(Settings::load(config)?)?.kept()?;
        if self.json {
            print_json(&report)?;
            return Ok(0);
        }
        let row = |kept: &Kept| {
            let name: String = kept.name.chars().take(32).collect();
            vec![kept.kind.to_owned(), name, bytes(kept.bytes), kept.used_by.join(", "), kept.kept.to_owned()]
        };
        let rows: Vec<_> = report.entries.iter().map(row).collect();
        let (total, free) = (bytes(report.total_bytes), bytes(report.reclaimable_bytes));
        let last = format!("\n{total} in {}, of which `saggar prune` frees {free}", report.state);
        print(&["what", "name", "size", "used by", "kept"], &rows, &last)?;
        Ok(0)
    }
}

/// Remove what nothing needs any more
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  saggar prune\n  saggar prune --images")]
pub(crate) struct Prune {
    /// Remove every image too
    #[arg(long)]
    images: bool,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Prune {
    pub(crate) fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        let what = if self.images { engine::Prune::ImagesToo } else { engine::Prune::Unused };
        let pruned = Engine::open(Settings::load(config)?)?.prune(what)?;
        if self.json {
            print_json(&pruned)?;
            return Ok(0);
        }
        let (images, layers) = (pruned.images.len(), pruned.layers.len());
        print(&[], &[], &format!("removed {images} images and {layers} layers, {}", bytes(pruned.bytes)))?;
        Ok(0)
    }
}
