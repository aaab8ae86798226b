//! A layer's tar, entry by entry.

use std::io::Read;

use tar::{Archive, Entry, EntryType};

use super::ImageError;
use super::tree::{EntryPath, Facts, Tree, shown};

/// How names begin that say something about lower layers.
const WHITEOUT: &[u8] = b".wh.";
/// What hides a whole folder.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Other notes of the same kind, which overlay has no use for.
const NOTES: &[u8] = b".wh..wh.";

/// Writes what a tar holds.
pub(super) fn unpack(stream: impl Read, tree: &mut Tree<'_>) -> Result<(), ImageError> {
    let mut archive = Archive::new(stream);
    // Files of zeros would cost nothing in the archive.
    archive.set_ignore_zeros(false);
    for entry in archive.entries().map_err(ImageError::Archive)? {
        unpack_entry(entry.map_err(ImageError::Archive)?, tree)?;
    }
    Ok(())
}

fn unpack_entry<R: Read>(mut entry: Entry<'_, R>, tree: &mut Tree<'_>) -> Result<(), ImageError> {
    let kind = entry.header().entry_type();
    if matches!(kind, EntryType::XGlobalHeader | EntryType::XHeader) {
        return Ok(());
    }
    let Some(path) = EntryPath::new(&entry.path_bytes())? else { return Ok(()) };
    let facts = facts(&entry)?;
    let (folder, name) = path.split();
    if name == OPAQUE {
        return tree.opaque(folder.as_ref());
    }
    if name.starts_with(NOTES) {
        return Ok(());
    }
    if let Some(hidden) = name.strip_prefix(WHITEOUT) {
        if matches!(hidden, b"" | b"." | b"..") {
            return Err(ImageError::Entry { path: shown(name), why: "it hides no name" });
        }
        return tree.whiteout(&path.sibling(hidden));
    }
    match kind {
        EntryType::Directory => tree.folder(&path, facts),
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            // What it says is not believed, but saying too much is enough.
            tree.budget.clone().take_bytes(entry.size())?;
            tree.file(&path, facts, &mut entry)
        }
        EntryType::Symlink => {
            let target = entry.link_name_bytes().unwrap_or_default().into_owned();
            tree.symlink(&path, facts, &target)
        }
        EntryType::Link => {
            let target = entry.link_name_bytes().unwrap_or_default().into_owned();
            match EntryPath::new(&target)? {
                Some(target) => tree.hard_link(&path, &target),
                None => Err(ImageError::Entry { path: shown(&target), why: "it is a second name of the root" }),
            }
        }
        // Devices are the host's, pipes and sockets are nobody's once they are files of an image.
        _ => {
            tree.left_out += 1;
            Ok(())
        }
    }
}

fn facts<R: Read>(entry: &Entry<'_, R>) -> Result<Facts, ImageError> {
    let header = entry.header();
    Ok(Facts {
        mode: header.mode().map_err(ImageError::Archive)?,
        uid: header.uid().map_err(ImageError::Archive)?,
        gid: header.gid().map_err(ImageError::Archive)?,
        modified: i64::try_from(header.mtime().map_err(ImageError::Archive)?).unwrap_or(0),
    })
}
