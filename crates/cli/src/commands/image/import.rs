//! `saggar image import`.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use engine::Imported;
use indicatif::ProgressBar;

use super::{Place, away, caller, short};
use crate::failure::{Failure, print_json};
use crate::in_runtime;
use crate::table::{bytes, print};

/// Make an image of a root file system, an OCI layout or a `docker save` archive
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar image import ./rootfs debian\n  docker save python:3.12-slim | gzip > python.tar.gz && saggar image import python.tar.gz\n  saggar image import ./oci-layout --name tools --json\n\nDevice nodes and set-id bits are left out; an archive that reaches outside itself is refused."
)]
pub(super) struct Import {
    /// A folder or a tar (plain, gzip or zstd)
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// What to call it [default: what the image calls itself, else the file's name]
    #[arg(value_name = "NAME", conflicts_with = "named")]
    name: Option<String>,
    /// The same as an option
    #[arg(long = "name", value_name = "NAME")]
    named: Option<String>,
    /// Print the image as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl Import {
    pub(super) fn execute(self, place: &Place) -> Result<u8, Failure> {
        let name = self.name.or(self.named);
        let engine = match place {
            Place::Here(engine) => engine,
            Place::Elsewhere(server) => return told(&away::import(server, &self.source, name)?, self.json),
        };
        let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let mut read = 0;
        let mut progress = |more: u64| {
            read += more;
            bar.set_message(format!("{} read", bytes(read)));
            bar.tick();
        };
        let imported = in_runtime(async {
            Ok(engine.import_image(&caller(), &self.source, name.as_deref(), &mut progress).await?)
        });
        bar.finish_and_clear();
        told(&imported?, self.json)
    }
}

fn told(imported: &Imported, json: bool) -> Result<u8, Failure> {
    if json {
        print_json(imported)?;
        return Ok(0);
    }
    let image = &imported.image;
    let size = bytes(image.bytes);
    print(&[], &[], &format!("{}  {}  {} layers, {size}", image.name, short(&image.id), image.layers.len()))?;
    if imported.left_out > 0 {
        eprintln!("saggar: {} device nodes, pipes and sockets were left out", imported.left_out);
    }
    Ok(0)
}
