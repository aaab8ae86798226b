//! Images: what the root of a sandbox is made from. A name, a stack of layers and a few words on how programs find
//! their way in it, kept as a small record in `images` of the state folder.

mod acts;
mod archive;
mod budget;
mod build;
mod compress;
mod elsewhere;
mod error;
mod folder;
mod import;
mod manifest;
mod script;
mod sources;
mod tree;
mod unpack;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::layers::{Held, LayerName, LayerRecord, Store};
pub use build::{Build, System};
pub(crate) use compress::unpacked;
pub use error::ImageError;
pub use import::Imported;
pub(crate) use import::unpack_small;
pub use sources::Sources;

/// What the layers of an image stand on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// Nothing: they are the whole root.
    #[default]
    Own,
    /// The host's system folders, as for a run without an image.
    Host,
}

/// An image as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// As it is asked for.
    pub name: String,
    /// Hash of what it consists of: two images with the same id are the same.
    pub id: String,
    /// What its layers stand on.
    #[serde(default)]
    pub base: Base,
    /// Lowest first.
    pub layers: Vec<LayerName>,
    /// Folders with programs, before those of `PATH`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
    /// Variables that its programs expect.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Seconds since 1970.
    pub made: u64,
    /// Bytes of all its layers.
    pub bytes: u64,
    /// What it was made from, for people.
    pub source: String,
}

impl Image {
    /// Of these layers.
    pub(crate) fn new(
        name: &str,
        base: Base,
        layers: &[(LayerName, LayerRecord)],
        env: BTreeMap<String, String>,
        source: String,
    ) -> Self {
        let bytes = layers.iter().map(|(_, record)| record.bytes).sum();
        let layers: Vec<LayerName> = layers.iter().map(|(name, _)| name.clone()).collect();
        let mut hash = blake3::Hasher::new();
        hash.update(&serde_json::to_vec(&(base, &layers, &env)).unwrap_or_default());
        let id = hash.finalize().to_hex().to_string();
        Self { name: name.to_owned(), id, base, layers, path: Vec::new(), env, made: now(), bytes, source }
    }
}

impl Image {
    /// What its layers are called.
    pub(crate) fn layer_names(&self) -> impl Iterator<Item = String> + use<> {
        self.layers.clone().into_iter().map(String::from)
    }
}

/// An image in use: its layers stay while this lives.
#[derive(Debug)]
pub struct HeldImage {
    /// Which.
    pub image: Image,
    /// Its layers, lowest first.
    pub layers: Vec<Held>,
}

/// Every image of a state folder.
#[derive(Debug, Clone)]
pub struct Images {
    records: PathBuf,
    /// Records of other kinds whose `layers` are wanted too.
    others: PathBuf,
    store: Store,
}

/// The most that a record of ours has.
const RECORD_BYTES: u64 = 4 << 20;

impl Images {
    /// Opens the folder, making it if it is not there.
    pub fn open(state: &Path) -> Result<Self, ImageError> {
        let store = Store::open(state)?;
        let records = state.join("images");
        if !records.is_dir() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&records).map_err(ImageError::Records)?;
        }
        Ok(Self { records, others: state.join("snapshots"), store })
    }

    /// The store of layers behind it.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Every image, by name.
    pub fn list(&self) -> Result<Vec<Image>, ImageError> {
        let mut images: Vec<Image> = records_in(&self.records).map_err(ImageError::Records)?;
        images.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(images)
    }

    /// The image called `name`, or whose id begins so, with at least eight digits.
    pub fn get(&self, name: &str) -> Result<Image, ImageError> {
        if let Some(image) = file_name(name).ok().and_then(|file| read_record(&self.records.join(file))) {
            return Ok(image);
        }
        let missing = || ImageError::Missing(name.chars().take(100).collect());
        let digits = name.len() >= 8 && name.bytes().all(|c| c.is_ascii_hexdigit());
        let mut found = self.list()?.into_iter().filter(|image| digits && image.id.starts_with(name));
        found.next().ok_or_else(missing)
    }

    /// The image called `name`, with all its layers held.
    pub fn hold(&self, name: &str) -> Result<HeldImage, ImageError> {
        self.hold_again(self.get(name)?)
    }

    /// An image as a record elsewhere has it, whatever became of its own.
    pub(crate) fn hold_again(&self, image: Image) -> Result<HeldImage, ImageError> {
        let layers = image.layers.iter().map(|layer| self.store.hold(layer)).collect::<Result<_, _>>()?;
        Ok(HeldImage { image, layers })
    }

    /// Removes an image, and those of its layers that nothing else refers to.
    pub fn remove(&self, name: &str) -> Result<Image, ImageError> {
        let image = self.get(name)?;
        fs::remove_file(self.records.join(file_name(&image.name)?)).map_err(ImageError::Records)?;
        self.collect()?;
        Ok(image)
    }

    /// Removes every layer that no image and no snapshot refers to, and that nobody uses.
    pub fn collect(&self) -> Result<Vec<(LayerName, LayerRecord)>, ImageError> {
        Ok(self.store.collect(&self.references()?)?)
    }

    /// Layers that images and snapshots refer to.
    pub fn references(&self) -> Result<BTreeSet<LayerName>, ImageError> {
        /// What every record that refers to layers has.
        #[derive(Deserialize)]
        struct Stack {
            layers: Vec<LayerName>,
        }
        let mut wanted = BTreeSet::new();
        for folder in [&self.records, &self.others] {
            let stacks: Vec<Stack> = records_in(folder).map_err(ImageError::Records)?;
            wanted.extend(stacks.into_iter().flat_map(|stack| stack.layers));
        }
        Ok(wanted)
    }

    /// Writes the record of an image; one of the same name is replaced.
    pub(crate) fn put(&self, image: &Image) -> Result<(), ImageError> {
        let into = self.records.join(file_name(&image.name)?);
        let text = serde_json::to_vec(image).map_err(|error| ImageError::Records(error.into()))?;
        let temporary = self.records.join(format!(".{}", crate::id::random_hex()));
        let written =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).and_then(|mut file| {
                file.write_all(&text)?;
                file.sync_all()?;
                fs::rename(&temporary, &into)
            });
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written.map_err(ImageError::Records)
    }
}

/// Every record of a folder. One that cannot be read is an error: its layers would be taken for rubbish.
fn records_in<T: serde::de::DeserializeOwned>(folder: &Path) -> io::Result<Vec<T>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut records = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "json") {
            records.push(serde_json::from_slice(&fs::read(path)?)?);
        }
    }
    Ok(records)
}

fn read_record(path: &Path) -> Option<Image> {
    let fits = fs::metadata(path).ok()?.len() <= RECORD_BYTES;
    serde_json::from_slice(&fs::read(path).ok().filter(|_| fits)?).ok()
}

/// The file of an image's record. No two names have the same.
fn file_name(name: &str) -> Result<String, ImageError> {
    check_name(name)?;
    Ok(format!("{}.json", name.replace('/', "%2f").replace(':', "%3a")))
}

/// Whether an image can be called so.
pub(crate) fn check_name(name: &str) -> Result<(), ImageError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':' | '@');
    let fits = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= 200
        && name.chars().all(plain)
        && !name.split('/').any(|part| matches!(part, "" | "." | ".."));
    if fits { Ok(()) } else { Err(ImageError::Name(name.chars().take(100).collect())) }
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
