//! Disks that their backend keeps away from this host, as archives: compared, written as a layer, made from one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::ops::Bound;

use tar::{Archive, Builder, Entry, EntryType, Header};

use super::diff::{Change, Difference, Differences, MOST};
use super::transfer::{OPAQUE, WHITEOUT, joined, note, path_of};
use crate::backend::{DiskArchive, FileKind};

/// Entries of a disk that are looked at.
const MOST_ENTRIES: usize = 2_000_000;
/// Whose a session's files are where there is one user.
const USER: u64 = 1000;
/// Where they lie.
const FOLDERS: [&[u8]; 3] = [b"work", b"home", b"tmp"];

/// What is on a disk, by path.
pub(super) struct Listing(BTreeMap<Vec<u8>, Fact>);

#[derive(Clone, PartialEq, Eq)]
struct Fact {
    kind: FileKind,
    mode: u32,
    owner: (u64, u64),
    bytes: u64,
    /// Of a file what is in it, of a link where it leads.
    content: blake3::Hash,
}

impl Listing {
    /// Reads an archive to its end.
    pub(super) fn read(archive: DiskArchive) -> io::Result<Self> {
        let mut all: BTreeMap<Vec<u8>, Fact> = BTreeMap::new();
        for entry in every(&mut Archive::new(archive))? {
            let mut entry = entry?;
            if all.len() >= MOST_ENTRIES {
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the disk has too many files"));
            }
            let path = tidy(&entry.path_bytes())?;
            let fact = match entry.header().entry_type() {
                // Another name of what came before.
                EntryType::Link => all.get(&tidy(&entry.link_name_bytes().unwrap_or_default())?).cloned(),
                _ => Some(Fact::of(&mut entry)?),
            };
            all.extend(fact.map(|fact| (path, fact)));
        }
        Ok(Self(all))
    }

    /// What is not the same in another.
    pub(super) fn compare(&self, after: &Self) -> Differences {
        let paths: BTreeSet<&Vec<u8>> = self.0.keys().chain(after.0.keys()).collect();
        let mut entries: Vec<Difference> = Vec::new();
        for path in paths {
            let (change, fact) = match (self.0.get(path), after.0.get(path)) {
                (Some(old), Some(new)) if old == new => continue,
                (Some(_), Some(new)) => (Change::Changed, new),
                (None, Some(new)) => (Change::Added, new),
                (Some(old), None) => (Change::Removed, old),
                (None, None) => continue,
            };
            let path = format!("/{}", String::from_utf8_lossy(path));
            entries.push(Difference { path, change, kind: fact.kind, bytes: fact.bytes });
        }
        entries.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
        let truncated = entries.len() > MOST;
        entries.truncate(MOST);
        Differences { entries, truncated }
    }
}

impl Fact {
    fn of(entry: &mut Entry<'_, impl Read>) -> io::Result<Self> {
        let header = entry.header();
        let (mode, owner) = (header.mode()?, (header.uid()?, header.gid()?));
        let kind = match header.entry_type() {
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => FileKind::File,
            EntryType::Directory => FileKind::Folder,
            EntryType::Symlink => FileKind::Link,
            _ => FileKind::Other,
        };
        let mut hash = blake3::Hasher::new();
        let mut bytes = 0;
        if kind == FileKind::File {
            bytes = io::copy(entry, &mut hash)?;
        } else {
            hash.update(&entry.link_name_bytes().unwrap_or_default());
        }
        Ok(Self { kind, mode, owner, bytes, content: hash.finalize() })
    }
}

/// Writes what the user of a session has on a disk as one layer, which hides whatever an image has in its folders.
pub(super) fn pack_layer(archive: DiskArchive, into: &mut impl Write) -> io::Result<()> {
    let mut tar = Builder::new(into);
    note(&mut tar, b"tmp", OPAQUE)?;
    // The last folder that is the user's and in none of the user's.
    let mut top: Option<Vec<u8>> = None;
    for entry in every(&mut Archive::new(archive))? {
        let entry = entry?;
        let (old, path) = (entry.header().clone(), tidy(&entry.path_bytes())?);
        if old.uid()? != USER {
            continue;
        }
        let mut header = Header::new_ustar();
        header.set_mode(old.mode()? & 0o7777);
        header.set_uid(USER);
        header.set_gid(USER);
        header.set_mtime(old.mtime()?);
        header.set_size(0);
        let kind = old.entry_type();
        match kind {
            EntryType::Directory => {
                header.set_entry_type(kind);
                tar.append_data(&mut header, path_of(&joined(&path, b"")), io::empty())?;
                if !top.as_ref().is_some_and(|top| is_below(&path, top)) {
                    note(&mut tar, &path, OPAQUE)?;
                    top = Some(path);
                }
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                header.set_entry_type(EntryType::Regular);
                header.set_size(entry.size());
                tar.append_data(&mut header, path_of(&path), entry)?;
            }
            EntryType::Symlink | EntryType::Link => {
                header.set_entry_type(kind);
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                let target = if kind == EntryType::Link { tidy(&target)? } else { target };
                tar.append_link(&mut header, path_of(&path), path_of(&target))?;
            }
            // Pipes and sockets are nobody's once they are files of an archive.
            _ => {}
        }
    }
    tar.into_inner()?.flush()
}

/// What a layer says beside its files.
#[derive(Default)]
pub(super) struct Words {
    made: BTreeSet<Vec<u8>>,
    /// What it removes, unless it makes it anew.
    pub(super) removed: Vec<Vec<u8>>,
    /// Folders of which nothing stays but what it makes.
    pub(super) emptied: Vec<Vec<u8>>,
}

impl Words {
    /// Whether the layer has something there or below.
    pub(super) fn makes(&self, path: &[u8]) -> bool {
        let from_here = self.made.range::<[u8], _>((Bound::Included(path), Bound::Unbounded));
        // Names that go on without a `/` may come before what is below.
        let mut alike = from_here.take_while(|made| made.starts_with(path));
        alike.any(|made| made.as_slice() == path || is_below(made, path))
    }
}

/// Passes on those files of a layer that a session can have, and keeps what it says beside them. A layer that holds more
/// than these bytes is refused.
pub(super) fn sort_layer(layer: impl Read, most: u64, into: impl Write) -> io::Result<Words> {
    let (mut tar, mut words, mut bytes) = (Builder::new(into), Words::default(), 0_u64);
    let mut layer = Archive::new(layer);
    for entry in layer.entries()? {
        let mut entry = entry?;
        let path = tidy(&entry.path_bytes())?;
        let (folder, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&b""[..], &path[..]),
        };
        // The rest is the image's. Of these folders themselves only one is the user's.
        let is_of_disk = FOLDERS.iter().any(|top| is_below(&path, top)) || path == b"work";
        if !is_of_disk {
            continue;
        }
        if words.made.len() + words.removed.len() + words.emptied.len() >= MOST_ENTRIES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the archive has too many entries"));
        }
        if name == OPAQUE {
            words.emptied.push(folder.to_vec());
            continue;
        }
        if let Some(name) = name.strip_prefix(WHITEOUT) {
            words.removed.push(joined(folder, name));
            continue;
        }
        let mut header = entry.header().clone();
        bytes = bytes.saturating_add(entry.size());
        if bytes > most {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match header.entry_type() {
            kind @ (EntryType::Symlink | EntryType::Link) => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                let target = if kind == EntryType::Link { tidy(&target)? } else { target };
                header.set_size(0);
                tar.append_link(&mut header, path_of(&path), path_of(&target))?;
            }
            EntryType::Directory => tar.append_data(&mut header, path_of(&joined(&path, b"")), io::empty())?,
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                header.set_entry_type(EntryType::Regular);
                header.set_size(entry.size());
                tar.append_data(&mut header, path_of(&path), &mut entry)?;
            }
            _ => continue,
        }
        words.made.insert(path);
    }
    tar.into_inner()?.flush()?;
    Ok(words)
}

/// Entries of archives that follow each other.
fn every<R: Read>(archive: &mut Archive<R>) -> io::Result<tar::Entries<'_, R>> {
    archive.set_ignore_zeros(true);
    archive.entries()
}

fn is_below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// A path without what says nothing; one that leads upwards is refused.
fn tidy(path: &[u8]) -> io::Result<Vec<u8>> {
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    if parts.contains(&&b".."[..]) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a path in the archive has `..`"));
    }
    Ok(parts.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tar of files; a name that ends in `/` is a folder, a content that begins with `->` a link.
    fn tar_of(files: &[(&str, u64, &str)]) -> Vec<u8> {
        let mut tar = Builder::new(Vec::new());
        for (name, uid, text) in files {
            let mut header = Header::new_ustar();
            header.set_mode(0o644);
            header.set_uid(*uid);
            header.set_gid(*uid);
            header.set_mtime(1);
            header.set_size(0);
            if let Some(target) = text.strip_prefix("->") {
                header.set_entry_type(EntryType::Symlink);
                tar.append_link(&mut header, name, target).unwrap();
            } else if name.ends_with('/') {
                header.set_entry_type(EntryType::Directory);
                tar.append_data(&mut header, name, io::empty()).unwrap();
            } else {
                header.set_size(text.len() as u64);
                tar.append_data(&mut header, name, text.as_bytes()).unwrap();
            }
        }
        tar.into_inner().unwrap()
    }

    fn names(tar: &[u8]) -> Vec<String> {
        let entry =
            |entry: io::Result<Entry<'_, &[u8]>>| String::from_utf8(entry.unwrap().path_bytes().into_owned()).unwrap();
        Archive::new(tar).entries().unwrap().map(entry).collect()
    }

    fn disk(tars: &[Vec<u8>]) -> DiskArchive {
        Box::new(io::Cursor::new(tars.concat()))
    }

    #[test]
    fn archives_that_follow_each_other_are_one_disk_and_are_compared_by_what_is_in_them() {
        let before = Listing::read(disk(&[
            tar_of(&[("work/", 1000, ""), ("work/same", 1000, "x"), ("work/gone", 1000, "x")]),
            tar_of(&[("home/user/a", 1000, "1"), ("home/user/l", 1000, "->a")]),
        ]));
        let after = Listing::read(disk(&[
            tar_of(&[("work/", 1000, ""), ("work/same", 1000, "x"), ("work/new/", 1000, "")]),
            tar_of(&[("home/user/a", 1000, "2"), ("home/user/l", 1000, "->b")]),
        ]));
        let found = before.unwrap().compare(&after.unwrap());
        let told: Vec<_> = found.entries.iter().map(|one| (one.path.as_str(), one.change)).collect();
        assert_eq!(
            told,
            [
                ("/home/user/a", Change::Changed),
                ("/home/user/l", Change::Changed),
                ("/work/gone", Change::Removed),
                ("/work/new", Change::Added)
            ]
        );
        assert!(Listing::read(disk(&[b"half a header".to_vec()])).is_err());
    }

    #[test]
    fn a_layer_has_what_is_the_users_and_hides_the_rest() {
        let source = [
            tar_of(&[("work/", 1000, ""), ("work/d/", 1000, ""), ("work/d/f", 1000, "x"), ("work/l", 1000, "->/etc")]),
            tar_of(&[
                ("home/", 0, ""),
                ("home/of-image", 0, "x"),
                ("home/user/", 1000, ""),
                ("home/user/f", 1000, "y"),
            ]),
            tar_of(&[("tmp/", 0, ""), ("tmp/t", 1000, "z")]),
        ];
        let mut layer = Vec::new();
        pack_layer(disk(&source), &mut layer).unwrap();
        let told = [
            "tmp/.wh..wh..opq",
            "work/",
            "work/.wh..wh..opq",
            "work/d/",
            "work/d/f",
            "work/l",
            "home/user/",
            "home/user/.wh..wh..opq",
            "home/user/f",
            "tmp/t",
        ];
        assert_eq!(names(&layer), told);
        let mut back = Vec::new();
        let words = sort_layer(&layer[..], 3, &mut back).unwrap();
        assert_eq!(names(&back), ["work/", "work/d/", "work/d/f", "work/l", "home/user/", "home/user/f", "tmp/t"]);
        assert_eq!(words.emptied, [&b"tmp"[..], b"work", b"home/user"]);
        assert!(words.makes(b"work/d") && words.makes(b"home") && !words.makes(b"work/dd"));
        assert!(sort_layer(&layer[..], 2, io::sink()).is_err(), "more than there is room for");
    }

    #[test]
    fn a_layer_brings_nothing_from_or_to_elsewhere() {
        let layer = tar_of(&[
            ("etc/passwd", 0, "root"),
            ("home/", 0, ""),
            ("work/.wh.old", 0, ""),
            ("work/.wh.d", 0, ""),
            ("work/d-more", 0, "x"),
            ("work/d/kept", 0, "x"),
            ("workshop/x", 0, "x"),
        ]);
        let mut back = Vec::new();
        let words = sort_layer(&layer[..], 1 << 20, &mut back).unwrap();
        assert_eq!(names(&back), ["work/d-more", "work/d/kept"]);
        assert_eq!(words.removed, [&b"work/old"[..], b"work/d"]);
        assert!(words.makes(b"work/d") && !words.makes(b"work/old"));
        assert!(tidy(b"work/../etc").is_err());
    }
}
