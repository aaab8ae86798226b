//! Finding what a run left in `/work`.

use std::io::{self, Read};
use std::ops::ControlFlow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jail::contained::EntryKind;
use sha2::{Digest, Sha256};
use types::{Change, FileRecord, RelPath};

use super::glob::Glob;
use super::place::{Executable, Placed};
use super::tree::{Opened, Tree};
use crate::error::{BackendError, RunError};

/// The most files that are reported.
const MOST_FILES: usize = 10_000;
/// The most entries that are looked at: links and folders cost time too.
const MOST_ENTRIES: usize = 100_000;
/// The most content that travels inside a result.
const MOST_INLINE: u64 = 32 << 20;

/// What to do with what is found.
pub(crate) struct Collection<'a, 'r> {
    /// What was placed before the run.
    pub(crate) placed: &'a Placed,
    /// Which files travel inside the result.
    pub(crate) inline: &'a [Glob],
    /// Who gets all of them, if anybody.
    pub(crate) receiver: Option<&'a mut (dyn Receive + 'r)>,
    /// The most bytes that are read; holes of sparse files count.
    pub(crate) most_bytes: u64,
}

/// Takes files as they are found.
pub trait Receive: Send {
    /// Takes one of them; content that is left unread is passed over.
    fn receive(&mut self, made: Made<'_>) -> Result<Received, RunError>;
}

/// A regular file that a run made or changed.
pub struct Made<'a> {
    /// Below `/work`.
    pub path: &'a str,
    /// Whether its owner may execute it.
    pub executable: Executable,
    /// From its start to its end.
    pub content: &'a mut dyn Read,
}

/// What a receiver did with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// It has all of it.
    Taken,
    /// Something stands in its place.
    Refused,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) files: Vec<FileRecord>,
    /// What was left out and why, for people.
    pub(crate) remarks: Vec<String>,
}

#[derive(Default)]
struct Left {
    links: usize,
    special: usize,
    names: usize,
    deep: usize,
    unreadable: usize,
    beyond: usize,
    not_inline: usize,
    in_the_way: usize,
}

struct Walk<'a, 'r> {
    collection: Collection<'a, 'r>,
    tree: &'a dyn Tree,
    found: Collected,
    left: Left,
    entries: usize,
    bytes: u64,
    inline_bytes: u64,
}

impl dyn Tree + '_ {
    /// Walks `/work` and reports every regular file that was made or changed. Nothing of the run may be alive.
    pub(crate) fn collect(&self, collection: Collection<'_, '_>) -> Result<Collected, RunError> {
        let mut walk = Walk {
            collection,
            tree: self,
            found: Collected::default(),
            left: Left::default(),
            entries: 0,
            bytes: 0,
            inline_bytes: 0,
        };
        // A stack of paths, not of calls: the run decides how deep its folders are.
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            walk.folder(&folder, &mut folders)?;
        }
        walk.found.files.sort_by(|a, b| a.path.cmp(&b.path));
        walk.found.remarks = walk.left.remarks();
        Ok(walk.found)
    }
}

impl Walk<'_, '_> {
    fn folder(&mut self, folder: &str, folders: &mut Vec<String>) -> Result<(), RunError> {
        let mut files = Vec::new();
        let listed = self.tree.list(folder, &mut |name, kind| {
            self.entries += 1;
            if self.entries > MOST_ENTRIES {
                self.left.beyond += 1;
                return ControlFlow::Break(());
            }
            let Some(path) = plain(folder, name) else {
                self.left.names += 1;
                return ControlFlow::Continue(());
            };
            match kind {
                EntryKind::Folder if path.split('/').count() >= RelPath::MAX_DEPTH || path.len() > 3000 => {
                    self.left.deep += 1;
                }
                EntryKind::Folder => folders.push(path),
                EntryKind::File => files.push(path),
                EntryKind::Link => self.left.links += 1,
                EntryKind::Special => self.left.special += 1,
            }
            ControlFlow::Continue(())
        });
        self.left.unreadable += usize::from(listed.is_err());
        if self.entries > MOST_ENTRIES {
            folders.clear();
        }
        files.into_iter().try_for_each(|path| self.file(path))
    }

    fn file(&mut self, path: String) -> Result<(), RunError> {
        let Ok(Opened { size, executable, mut content }) = self.tree.open(&path) else {
            self.left.unreadable += 1;
            return Ok(());
        };
        if self.found.files.len() >= MOST_FILES || size > self.collection.most_bytes - self.bytes {
            self.left.beyond += 1;
            return Ok(());
        }
        let inline = self.collection.inline.iter().any(|glob| glob.matches(&path));
        let inline = inline && {
            let fits = self.inline_bytes + size <= MOST_INLINE;
            self.left.not_inline += usize::from(!fits);
            fits
        };
        let Ok((hash, bytes, kept)) = read(&mut content, size, inline) else {
            self.left.unreadable += 1;
            return Ok(());
        };
        self.bytes += bytes;
        let change = match self.collection.placed.get(&path) {
            Some(before) if *before == hash => return Ok(()),
            Some(_) => Change::Modified,
            None => Change::Created,
        };
        self.inline_bytes += kept.as_ref().map_or(0, |kept| kept.len() as u64);
        if let Some(receiver) = &mut self.collection.receiver {
            let again = |source| BackendError::Place { path: path.clone(), source };
            content.rewind().map_err(again)?;
            // No more than what was hashed.
            let made = Made { path: &path, executable, content: &mut content.take(bytes) };
            self.left.in_the_way += usize::from(receiver.receive(made)? == Received::Refused);
        }
        let base64 = kept.map(|kept| STANDARD.encode(kept));
        self.found.files.push(FileRecord { path, bytes, sha256: crate::id::hex(&hash), change, base64 });
        Ok(())
    }
}

/// A path that a person and a JSON text can hold: UTF-8 without control characters.
fn plain(folder: &str, name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok().filter(|name| !name.chars().any(char::is_control))?;
    // A file system gives no other names; whoever tells of one elsewhere may lie.
    if name.contains('/') || matches!(name, "" | "." | "..") {
        return None;
    }
    Some(if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") })
}

/// Hashes at most `size` bytes, and keeps them if asked to.
fn read(content: &mut dyn Read, size: u64, keep: bool) -> io::Result<([u8; 32], u64, Option<Vec<u8>>)> {
    let mut hash = Sha256::new();
    let mut kept = keep.then(Vec::new);
    let mut buffer = vec![0; 64 << 10];
    let mut bytes = 0;
    let mut content = content.take(size);
    loop {
        match content.read(&mut buffer) {
            Ok(0) => return Ok((hash.finalize().into(), bytes, kept)),
            Ok(n) => {
                hash.update(&buffer[..n]);
                bytes += n as u64;
                if let Some(kept) = &mut kept {
                    kept.extend_from_slice(&buffer[..n]);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

impl Left {
    fn remarks(&self) -> Vec<String> {
        let remark = |count: usize, what: &str| (count > 0).then(|| format!("{count} {what}"));
        [
            remark(self.links, "symbolic links were not followed"),
            remark(self.special, "sockets, FIFOs or devices were left out"),
            remark(self.names, "entries were left out because their names are not printable text"),
            remark(self.deep, "folders were left out because they are nested too deep"),
            remark(self.unreadable, "entries were left out because they cannot be read"),
            remark(self.beyond, "files were left out because there are too many, or too many bytes"),
            remark(self.in_the_way, "files were not written because a folder or link of that name is in the way"),
            remark(self.not_inline, "files were too large to travel inside the result; use --out"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
