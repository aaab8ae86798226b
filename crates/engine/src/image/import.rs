//! Making an image of what somebody has: a root file system as a folder or a tar, an OCI layout, a `docker save` archive.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::archive::{Parts, copy_within};
use super::budget::Budget;
use super::manifest::{self, Described, Part};
use super::tree::Tree;
use super::{Base, Image, ImageError, Images, check_name, compress, folder, now, unpack};
use crate::layers::{Draft, Held, LayerName, LayerRecord};

/// An image that was imported.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Imported {
    /// The image.
    #[serde(flatten)]
    pub image: Image,
    /// Devices, pipes and sockets that it goes without.
    pub left_out: u64,
}

/// One image on its way in.
struct Import<'a> {
    images: &'a Images,
    budget: Budget,
    left_out: u64,
    /// Held until the image refers to them.
    held: Vec<Held>,
    layers: Vec<(LayerName, LayerRecord)>,
}

impl Images {
    /// Imports `source` as `name`, or as what it calls itself. `progress` hears of bytes as they are read.
    pub fn import(
        &self,
        source: &Path,
        name: Option<&str>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Imported, ImageError> {
        name.map_or(Ok(()), check_name)?;
        let mut import =
            Import { images: self, budget: Budget::default(), left_out: 0, held: Vec::new(), layers: Vec::new() };
        let unreadable = |error| ImageError::Source { path: source.to_path_buf(), source: error };
        let meta = std::fs::metadata(source).map_err(unreadable)?;
        let described = if meta.is_dir() {
            let parts = Parts::of_folder(source)?;
            match manifest::describe(&parts)? {
                Some(described) => import.layered(&parts, described, progress)?,
                None => import.folder(source)?,
            }
        } else {
            let file = File::open(source).map_err(unreadable)?;
            import.archive(file, &self.store.draft()?, &source.display().to_string(), progress)?
        };
        let stem = source.file_name().and_then(|name| name.to_str()?.split('.').next());
        import.finish(described, name, stem, source.display().to_string())
    }

    /// Imports what somebody sends: a tar, whole on disk before anything is made of it, and gone after that.
    pub(crate) fn import_sent(
        &self,
        mut archive: impl Read,
        name: Option<&str>,
        default: Option<&str>,
    ) -> Result<Imported, ImageError> {
        name.map_or(Ok(()), check_name)?;
        let mut import =
            Import { images: self, budget: Budget::default(), left_out: 0, held: Vec::new(), layers: Vec::new() };
        let draft = self.store.draft()?;
        let mut file = draft.scratch("sent.tar")?;
        copy_within(&mut archive, &mut file, &mut Budget::default())?;
        file.rewind().map_err(ImageError::Archive)?;
        let described = import.archive(file, &draft, "sent", &mut |_| {})?;
        import.finish(described, name, default, "sent".to_owned())
    }
}

impl Images {
    /// Makes a layer of a tar.
    pub(crate) fn layer_of_tar(
        &self,
        stream: impl Read,
        note: &str,
        recipe: Option<String>,
    ) -> Result<(Held, LayerRecord), ImageError> {
        let mut import =
            Import { images: self, budget: Budget::default(), left_out: 0, held: Vec::new(), layers: Vec::new() };
        import.tar(self.store.draft()?, stream, note, recipe, &mut |_| {})?;
        match (import.held.pop(), import.layers.pop()) {
            (Some(held), Some((_, record))) => Ok((held, record)),
            _ => Err(ImageError::Manifest("the image has no layers".to_owned())),
        }
    }
}

impl Import<'_> {
    /// A tar: of an image that describes itself, or of one root.
    fn archive(
        &mut self,
        file: File,
        draft: &Draft,
        note: &str,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Described, ImageError> {
        let parts = Parts::of_tar(file, draft)?;
        if let Some(described) = manifest::describe(&parts)? {
            return self.layered(&parts, described, progress);
        }
        let Some(whole) = parts.whole() else { return Err(ImageError::Archive(io::ErrorKind::InvalidInput.into())) };
        self.tar(self.images.store.draft()?, whole, note, None, progress)?;
        Ok(Described::nameless())
    }

    /// The image itself, by the name that it was given, that it has, or that its file has.
    fn finish(
        self,
        described: Described,
        name: Option<&str>,
        stem: Option<&str>,
        source: String,
    ) -> Result<Imported, ImageError> {
        let own = described.name.filter(|own| check_name(own).is_ok());
        let name = name.map(str::to_owned).or(own).or_else(|| stem.map(str::to_owned)).unwrap_or_default();
        check_name(&name)?;
        let image = Image::new(&name, Base::Own, &self.layers, described.env, source);
        self.images.put(&image)?;
        Ok(Imported { image, left_out: self.left_out })
    }

    /// A root file system that lies in a folder.
    fn folder(&mut self, source: &Path) -> Result<Described, ImageError> {
        let draft = self.images.store.draft()?;
        let (bytes, entries) = (self.budget.bytes, self.budget.entries);
        let mut tree = Tree::new(draft.content()?, shift(), &mut self.budget);
        let hash = folder::copy(source, &mut tree)?;
        self.left_out += tree.finish()?;
        let name = LayerName::of_digest(&crate::id::hex(&hash.finalize()));
        self.seal(draft, name, &source.display().to_string(), None, (bytes, entries))?;
        Ok(Described::nameless())
    }

    /// An image that describes itself.
    fn layered(
        &mut self,
        parts: &Parts,
        mut described: Described,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Described, ImageError> {
        for part in std::mem::take(&mut described.layers) {
            self.part(parts, &part, progress)?;
        }
        Ok(described)
    }

    fn part(&mut self, parts: &Parts, part: &Part, progress: &mut dyn FnMut(u64)) -> Result<(), ImageError> {
        // A layer that is here already was checked when it came.
        if let Some(name) = part.unpacked.as_deref().map(LayerName::of_digest)
            && let (Ok(held), Some(record)) = (self.images.store.hold(&name), self.images.store.record(&name))
        {
            self.budget.take_bytes(record.bytes)?;
            self.held.push(held);
            self.layers.push((name, record));
            return Ok(());
        }
        let mut packed = Hashing::new(parts.read(&part.name)?, progress);
        let draft = self.images.store.draft()?;
        let (bytes, entries) = (self.budget.bytes, self.budget.entries);
        let digest = {
            let stream = compress::unpacked(&mut packed).map_err(ImageError::Archive)?;
            self.unpack(&draft, stream)?
        };
        packed.drain()?;
        let wrong = |digest: &str, wanted: &Option<String>| wanted.as_deref().is_some_and(|wanted| wanted != digest);
        if wrong(&packed.digest(), &part.packed) || wrong(&digest, &part.unpacked) {
            return Err(ImageError::Digest(super::tree::shown(part.name.as_bytes())));
        }
        self.seal(draft, LayerName::of_digest(&digest), &part.name, None, (bytes, entries))
    }

    /// A tar that is one layer.
    fn tar(
        &mut self,
        draft: Draft,
        stream: impl Read,
        note: &str,
        recipe: Option<String>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), ImageError> {
        let (bytes, entries) = (self.budget.bytes, self.budget.entries);
        let stream = compress::unpacked(Hashing::new(stream, progress)).map_err(ImageError::Archive)?;
        let digest = self.unpack(&draft, stream)?;
        self.seal(draft, LayerName::of_digest(&digest), note, recipe, (bytes, entries))
    }

    /// Unpacks a tar; the SHA-256 of all of it comes back.
    fn unpack(&mut self, draft: &Draft, stream: impl Read) -> Result<String, ImageError> {
        let mut ignored = |_| {};
        let mut hashing = Hashing::new(stream, &mut ignored);
        let mut tree = Tree::new(draft.content()?, shift(), &mut self.budget);
        unpack::unpack(&mut hashing, &mut tree)?;
        self.left_out += tree.finish()?;
        hashing.drain()?;
        Ok(hashing.digest())
    }

    fn seal(
        &mut self,
        draft: Draft,
        name: LayerName,
        note: &str,
        recipe: Option<String>,
        (bytes, entries): (u64, u64),
    ) -> Result<(), ImageError> {
        let record = LayerRecord {
            bytes: self.budget.bytes - bytes,
            entries: self.budget.entries - entries,
            made: now(),
            note: note.to_owned(),
            recipe,
            uncounted: false,
        };
        self.held.push(draft.seal(&name, &record)?);
        self.layers.push((name, record));
        Ok(())
    }
}

/// Unpacks a tar of at most a few megabytes and files: for the fuzz target.
pub(crate) fn unpack_small(folder: std::os::fd::OwnedFd, archive: &[u8]) -> Result<(), ImageError> {
    let mut budget = Budget::new(4 << 20, 1000);
    let mut tree = Tree::new(folder, shift(), &mut budget);
    unpack::unpack(compress::unpacked(archive).map_err(ImageError::Archive)?, &mut tree)?;
    tree.finish().map(drop)
}

/// Host id of an image's id 0, where files lie shifted.
fn shift() -> Option<u32> {
    jail::shifts_ids().then_some(jail::SHARED_FIRST)
}

/// A stream that is hashed as it is read.
struct Hashing<'a, R> {
    stream: R,
    hash: Sha256,
    progress: &'a mut dyn FnMut(u64),
}

/// Padding after the end of a tar; more than this is no padding.
const TAIL: u64 = 64 << 20;

impl<'a, R: Read> Hashing<'a, R> {
    fn new(stream: R, progress: &'a mut dyn FnMut(u64)) -> Self {
        Self { stream, hash: Sha256::new(), progress }
    }

    /// Reads what is left: the digest is of all of it.
    fn drain(&mut self) -> Result<(), ImageError> {
        let read = io::copy(&mut self.by_ref().take(TAIL + 1), &mut io::sink()).map_err(ImageError::Archive)?;
        if read > TAIL {
            return Err(ImageError::TooLarge { what: "bytes after its end", most: TAIL });
        }
        Ok(())
    }

    fn digest(self) -> String {
        crate::id::hex(&self.hash.finalize())
    }
}

impl<R: Read> Read for Hashing<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        self.hash.update(&buffer[..read]);
        (self.progress)(read as u64);
        Ok(read)
    }
}
