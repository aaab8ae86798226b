//! What images say of themselves: OCI layouts, and what `docker save` writes.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::ImageError;
use super::archive::Parts;

/// More layers than any builder makes.
const MOST_LAYERS: usize = 128;
/// Variables of an image, and the bytes of each.
const MOST_VARIABLES: usize = 200;
const VARIABLE_BYTES: usize = 16 << 10;

/// One image among the parts.
#[derive(Debug)]
pub(super) struct Described {
    /// What it calls itself.
    pub(super) name: Option<String>,
    /// Parts that are layers, lowest first.
    pub(super) layers: Vec<Part>,
    pub(super) env: BTreeMap<String, String>,
}

impl Described {
    /// Of a root file system, which says nothing of itself.
    pub(super) fn nameless() -> Self {
        Self { name: None, layers: Vec::new(), env: BTreeMap::new() }
    }
}

/// A part, and what it must hash to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: String,
    /// SHA-256 as it lies there, in hex.
    pub(super) packed: Option<String>,
    /// SHA-256 of what it unpacks to.
    pub(super) unpacked: Option<String>,
}

/// Reads the description; `None` if the parts are no such image.
pub(super) fn describe(parts: &Parts) -> Result<Option<Described>, ImageError> {
    if parts.has("oci-layout") && parts.has("index.json") {
        return oci(parts).map(Some);
    }
    if parts.has("manifest.json") {
        return docker(parts);
    }
    Ok(None)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    platform: Option<Platform>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Platform {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
}

#[derive(Deserialize)]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    config: Option<Inner>,
    #[serde(default)]
    rootfs: RootFs,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct Inner {
    #[serde(default)]
    env: Option<Vec<String>>,
}

#[derive(Deserialize, Default)]
struct RootFs {
    #[serde(default)]
    diff_ids: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

fn oci(parts: &Parts) -> Result<Described, ImageError> {
    let index: Index = parts.json("index.json")?;
    let mut chosen = choose(index)?;
    let name = ["io.containerd.image.name", "org.opencontainers.image.ref.name"]
        .iter()
        .find_map(|key| chosen.annotations.get(*key).cloned());
    // An index of indexes: one for each platform.
    for _ in 0..2 {
        if !chosen.media_type.contains("index") && !chosen.media_type.contains("manifest.list") {
            break;
        }
        chosen = choose(parts.json(&blob(&chosen.digest)?)?)?;
    }
    let manifest: Manifest = parts.json(&blob(&chosen.digest)?)?;
    let config: Config = parts.json(&blob(&manifest.config.digest)?)?;
    check_count(manifest.layers.len())?;
    let diffs = diffs(&config, manifest.layers.len())?;
    let part = |(layer, diff): (Descriptor, Option<String>)| {
        Ok(Part { name: blob(&layer.digest)?, packed: Some(hex(&layer.digest)?), unpacked: diff })
    };
    let layers = manifest.layers.into_iter().zip(diffs).map(part).collect::<Result<_, ImageError>>()?;
    Ok(Described { name, layers, env: variables(config) })
}

fn docker(parts: &Parts) -> Result<Option<Described>, ImageError> {
    let saved: serde_json::Value = parts.json("manifest.json")?;
    // A root file system may have a file of this name too.
    let Ok(saved) = serde_json::from_value::<Vec<Saved>>(saved) else { return Ok(None) };
    let mut saved = saved.into_iter();
    let (Some(image), None) = (saved.next(), saved.next()) else {
        return Err(ImageError::Manifest("the archive holds more than one image, or none".to_owned()));
    };
    let config: Config = parts.json(&image.config)?;
    check_count(image.layers.len())?;
    let diffs = diffs(&config, image.layers.len())?;
    let part = |(name, unpacked)| Part { name, packed: None, unpacked };
    let layers = image.layers.into_iter().zip(diffs).map(part).collect();
    let name = image.repo_tags.unwrap_or_default().into_iter().next();
    Ok(Some(Described { name, layers, env: variables(config) }))
}

/// The manifest for this machine, or the only one.
fn choose(index: Index) -> Result<Descriptor, ImageError> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let mut fitting = Vec::new();
    let count = index.manifests.len();
    for manifest in index.manifests {
        let fits = match &manifest.platform {
            Some(platform) => platform.os == "linux" && platform.architecture == architecture,
            None => count == 1,
        };
        if fits {
            fitting.push(manifest);
        }
    }
    let mut fitting = fitting.into_iter();
    match (fitting.next(), fitting.next()) {
        (Some(manifest), None) => Ok(manifest),
        (None, _) => Err(ImageError::Manifest(format!("there is no image for linux/{architecture} in it"))),
        (Some(_), Some(_)) => Err(ImageError::Manifest("there is more than one image in it".to_owned())),
    }
}

fn check_count(layers: usize) -> Result<(), ImageError> {
    if layers == 0 {
        return Err(ImageError::Manifest("the image has no layers".to_owned()));
    }
    if layers > MOST_LAYERS {
        return Err(ImageError::TooLarge { what: "layers", most: MOST_LAYERS as u64 });
    }
    Ok(())
}

/// What each layer unpacks to. Old archives do not say.
fn diffs(config: &Config, layers: usize) -> Result<Vec<Option<String>>, ImageError> {
    let diffs = &config.rootfs.diff_ids;
    if diffs.is_empty() {
        return Ok((0..layers).map(|_| None).collect());
    }
    if diffs.len() != layers {
        return Err(ImageError::Manifest("it does not say what each layer unpacks to".to_owned()));
    }
    diffs.iter().map(|digest| hex(digest).map(Some)).collect()
}

fn variables(config: Config) -> BTreeMap<String, String> {
    let pairs = config.config.unwrap_or_default().env.unwrap_or_default();
    let pair = |pair: String| {
        let (name, value) = pair.split_once('=')?;
        let fits = !name.is_empty() && pair.len() <= VARIABLE_BYTES && !pair.contains('\0');
        fits.then(|| (name.to_owned(), value.to_owned()))
    };
    pairs.into_iter().take(MOST_VARIABLES).filter_map(pair).collect()
}

/// The digits of a SHA-256 digest: nothing that could lead elsewhere.
fn hex(digest: &str) -> Result<String, ImageError> {
    let digits = digest.strip_prefix("sha256:").filter(|digits| {
        digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    });
    let shown = || super::tree::shown(&digest.as_bytes()[..digest.len().min(80)]);
    digits.map(str::to_owned).ok_or_else(|| ImageError::Manifest(format!("`{}` is no SHA-256 digest", shown())))
}

fn blob(digest: &str) -> Result<String, ImageError> {
    Ok(format!("blobs/sha256/{}", hex(digest)?))
}
