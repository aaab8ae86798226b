//! What lies in the state folder, what it is kept for, and what of it nobody needs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;

use crate::engine::Engine;
use crate::error::RunError;
use crate::image::{Image, ImageError};
use crate::layers::{LayerName, LayerRecord};

/// Something that saggar keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// `layer`, or what it is in the state folder.
    pub kind: &'static str,
    /// Its name there.
    pub name: String,
    /// Bytes of its files.
    pub bytes: u64,
    /// Images that need it.
    pub used_by: Vec<String>,
    /// For how long.
    pub kept: &'static str,
}

/// Everything that saggar keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeptReport {
    /// The state folder.
    pub state: String,
    /// What is in it.
    pub entries: Vec<Kept>,
    /// Bytes of all of it.
    pub total_bytes: u64,
    /// Bytes that `prune` would free.
    pub reclaimable_bytes: u64,
}

/// What was removed because nobody needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Images, by name.
    pub images: Vec<String>,
    /// Layers.
    pub layers: Vec<LayerName>,
    /// Bytes of those layers.
    pub bytes: u64,
}

/// What else is in the state folder, and for how long.
const KNOWN: &[(&str, &str, &str)] = &[
    ("audit", "audit trail", "for ever"),
    ("usage", "cost of models", "for ever"),
    ("review", "answers of the model review", "until removed"),
    ("snapshots", "snapshots of sessions", "until removed"),
    ("sessions", "disks of sessions", "as long as their session"),
    ("api-key", "key of the server", "until removed"),
    ("keys.", "keys that were made for others", "until removed"),
    ("saggar.sock", "socket of the server", "as long as the server"),
    ("serve.lock", "lock of the server", "until removed"),
    ("background", "runs in the background", "the last 1,000 of each key"),
    ("jobs", "jobs of the server", "the last 100 of each key"),
    ("evolve", "histories of evolutions", "until removed"),
    ("version", "version of this folder", "for ever"),
    ("images", "records of images", "as long as their image"),
];

impl Engine {
    /// What lies in the state folder.
    pub fn kept(&self) -> Result<KeptReport, RunError> {
        let images = self.images()?;
        let mut users: BTreeMap<LayerName, Vec<String>> = BTreeMap::new();
        for image in images.list()? {
            for layer in image.layers {
                users.entry(layer).or_default().push(image.name.clone());
            }
        }
        let wanted = images.references()?;
        let mut entries = Vec::new();
        let mut reclaimable_bytes = 0;
        for (name, record) in images.store().list().map_err(ImageError::from)? {
            let is_wanted = wanted.contains(&name);
            if !is_wanted {
                reclaimable_bytes += record.bytes;
            }
            entries.push(Kept {
                kind: "layer",
                used_by: users.remove(&name).unwrap_or_default(),
                name: name.to_string(),
                bytes: record.bytes,
                kept: if is_wanted { "as long as what uses it" } else { "until `saggar prune`" },
            });
        }
        let folder = fs::read_dir(self.state());
        let folder = folder.map_err(|source| RunError::State { path: self.state().to_path_buf(), source })?;
        for entry in folder.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "layers" {
                continue;
            }
            let known = KNOWN.iter().find(|(start, ..)| name.starts_with(start));
            let (kind, kept) = known.map_or(("other", "until removed"), |(_, kind, kept)| (*kind, *kept));
            entries.push(Kept { kind, bytes: bytes_below(&entry.path()), name, used_by: Vec::new(), kept });
        }
        entries.sort_by(|a, b| (a.kind != "layer", &a.name).cmp(&(b.kind != "layer", &b.name)));
        let total_bytes = entries.iter().map(|entry| entry.bytes).sum();
        Ok(KeptReport { state: self.state().display().to_string(), entries, total_bytes, reclaimable_bytes })
    }

    /// Removes layers that nothing refers to, and first, if asked, every image.
    pub fn prune(&self, what: Prune) -> Result<Pruned, RunError> {
        let images = self.images()?;
        let mut pruned = Pruned::default();
        if what == Prune::ImagesToo {
            let before = images.store().list().map_err(ImageError::from)?;
            for Image { name, .. } in images.list()? {
                images.remove(&name)?;
                pruned.images.push(name);
            }
            let after = images.store().list().map_err(ImageError::from)?;
            pruned.count(before.into_iter().filter(|layer| !after.contains(layer)).collect());
        }
        pruned.count(images.collect()?);
        Ok(pruned)
    }
}

/// What [`Engine::prune`] removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prune {
    /// Only what nothing refers to.
    Unused,
    /// Images as well.
    ImagesToo,
}

impl Pruned {
    fn count(&mut self, layers: Vec<(LayerName, LayerRecord)>) {
        for (name, record) in layers {
            self.bytes += record.bytes;
            self.layers.push(name);
        }
    }
}

/// Bytes of a file, or of all files below a folder; links are not followed.
fn bytes_below(path: &Path) -> u64 {
    let mut sum = 0;
    let mut left = vec![path.to_path_buf()];
    while let Some(path) = left.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if meta.is_dir() {
            left.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        } else if meta.is_file() {
            // As much as it takes on disk: files may have holes.
            sum += meta.blocks() * 512;
        }
    }
    sum
}
