//! Trees of a sandbox that stays as one stream, a tar, in and out.
//!
//! Out: no link is followed, and nothing but folders, regular files and links is told of. In: every path is resolved with
//! the sandbox's root as the end of all links, set-id bits and devices are never made.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, chownat,
    fchmod, fstat, fstatfs, futimens, linkat, openat2, readlinkat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use tar::{Archive, Builder, EntryType, Header};
use types::GuestPath;

use super::{Files, PROC, Unpacked, tidy};
use crate::wire::GuestIds;

/// Below a folder that is open already: no links, and never above it.
const BELOW: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// What is to be packed: it was there when somebody asked.
pub struct Packing {
    files: Files,
    path: GuestPath,
    top: OwnedFd,
    is_folder: bool,
}

impl Files {
    /// Everything below a folder, or one file, to be packed.
    pub fn packing(&self, path: &GuestPath) -> io::Result<Packing> {
        let top = self.open(path.as_str(), OFlags::PATH, Mode::empty())?;
        let is_folder = FileType::from_raw_mode(fstat(&top)?.st_mode) == FileType::Directory;
        Ok(Packing { files: self.clone(), path: path.clone(), top, is_folder })
    }

    /// Unpacks what comes below a folder, which is made. At most so many entries.
    pub fn unpack(&self, path: &GuestPath, user: u32, most: u64, content: impl Read) -> io::Result<Unpacked> {
        let (modes, done) = (Vec::new(), Unpacked::default());
        let mut into = Unpacking { files: self, base: tidy(path), user, most, modes, done };
        into.take(Archive::new(content))?;
        Ok(into.done)
    }
}

impl Packing {
    /// Packs it.
    pub fn write(&self, into: &mut dyn Write) -> io::Result<()> {
        if self.is_folder { pack_below(&self.files, &self.top, into) } else { pack_one(&self.files, &self.path, into) }
    }
}

fn pack_one(files: &Files, path: &GuestPath, into: &mut dyn Write) -> io::Result<()> {
    let file = files.open_regular(path.as_str(), OFlags::RDONLY, Mode::empty())?;
    let shown = tidy(path);
    let name = shown.rsplit('/').next().unwrap_or_default();
    let mut builder = Builder::new(into);
    append_file(files, &mut builder, name.as_bytes(), file)?;
    builder.into_inner().map(drop)
}

fn pack_below(files: &Files, top: &OwnedFd, into: &mut dyn Write) -> io::Result<()> {
    let mut builder = Builder::new(into);
    // Paths of folders still to be read; each is opened when its turn comes.
    let mut left: Vec<Vec<u8>> = vec![Vec::new()];
    while let Some(at) = left.pop() {
        let here: &[u8] = if at.is_empty() { b"." } else { &at };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = match openat2(top, here, flags, Mode::empty(), BELOW) {
            Ok(folder) => folder,
            // It is gone by now, or something else.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
            Err(errno) => return Err(errno.into()),
        };
        // What the kernel tells of processes is no tree; we would be told more than the guest is.
        if fstatfs(&folder)?.f_type == PROC {
            continue;
        }
        let mut names: Vec<CString> = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let name = entry?.file_name().to_owned();
            if !matches!(name.to_bytes(), b"." | b"..") {
                names.push(name);
            }
        }
        names.sort();
        for name in names {
            let mut path = at.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.to_bytes());
            let Ok(stat) = statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    let mut header = head(files, &stat, EntryType::Directory, 0);
                    builder.append_data(&mut header, Path::new(OsStr::from_bytes(&path)), io::empty())?;
                    left.push(path);
                }
                FileType::Symlink => {
                    let Ok(target) = readlinkat(&folder, &name, Vec::new()) else { continue };
                    let mut header = head(files, &stat, EntryType::Symlink, 0);
                    let target = Path::new(OsStr::from_bytes(target.to_bytes()));
                    builder.append_link(&mut header, Path::new(OsStr::from_bytes(&path)), target)?;
                }
                FileType::RegularFile => {
                    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
                    let Ok(file) = openat2(&folder, &name, flags, Mode::empty(), BELOW) else { continue };
                    append_file(files, &mut builder, &path, File::from(file))?;
                }
                _ => {}
            }
        }
    }
    builder.into_inner().map(drop)
}

/// As many bytes as it had when it was opened; zeros in place of what was cut off since.
fn append_file(files: &Files, builder: &mut Builder<&mut dyn Write>, path: &[u8], file: File) -> io::Result<()> {
    let stat = fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(());
    }
    let bytes = u64::try_from(stat.st_size).unwrap_or(0);
    let mut header = head(files, &stat, EntryType::Regular, bytes);
    builder.append_data(&mut header, Path::new(OsStr::from_bytes(path)), file.chain(io::repeat(0)).take(bytes))
}

fn head(files: &Files, stat: &Stat, kind: EntryType, bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(bytes);
    header.set_mode(stat.st_mode & 0o777);
    let (uid, gid) = files.inside(stat);
    header.set_uid(uid.into());
    header.set_gid(gid.into());
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
    header
}

struct Unpacking<'a> {
    files: &'a Files,
    base: String,
    user: u32,
    most: u64,
    /// Modes of folders, set when everything is in them.
    modes: Vec<(String, u32)>,
    done: Unpacked,
}

impl Unpacking<'_> {
    fn take(&mut self, mut archive: Archive<impl Read>) -> io::Result<()> {
        self.files.make_folders(&self.base, self.user)?;
        for entry in archive.entries()? {
            let mut entry = entry?;
            self.done.entries += 1;
            if self.done.entries > self.most {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.place(&mut entry)?;
        }
        for (path, mode) in self.modes.drain(..).rev() {
            // Whoever is inside may have moved it meanwhile.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            if let Ok(folder) = self.files.open(&path, flags, Mode::empty()) {
                fchmod(&folder, Mode::from(mode))?;
            }
        }
        Ok(())
    }

    /// A path of the archive, below the folder; nothing for the folder itself.
    fn path(&self, bytes: &[u8]) -> io::Result<Option<GuestPath>> {
        let refused = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        let text = std::str::from_utf8(bytes).map_err(|_| refused("a name in the archive is no text"))?;
        let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if parts.contains(&"..") {
            return Err(refused("a path in the archive has `..`"));
        }
        if parts.is_empty() {
            return Ok(None);
        }
        let path = format!("{}/{}", self.base.trim_end_matches('/'), parts.join("/"));
        GuestPath::new(path).map(Some).map_err(io::Error::other)
    }

    fn place(&mut self, entry: &mut tar::Entry<'_, impl Read>) -> io::Result<()> {
        let Some(path) = self.path(&entry.path_bytes())? else { return Ok(()) };
        let mode = entry.header().mode()? & 0o777;
        match entry.header().entry_type() {
            EntryType::Directory => {
                self.files.make_folders(path.as_str(), self.user)?;
                self.modes.push((tidy(&path), mode));
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                self.make_room(&path)?;
                let mut file = self.files.create(&path, self.user, mode)?;
                self.done.bytes += io::copy(entry, &mut file)?;
                if let Ok(mtime) = entry.header().mtime() {
                    let modified = Timespec { tv_sec: i64::try_from(mtime).unwrap_or(0), tv_nsec: 0 };
                    let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
                    futimens(&file, &Timestamps { last_access: omitted, last_modification: modified })?;
                }
            }
            EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                let target = CString::new(target).map_err(io::Error::other)?;
                let (folder, name) = self.make_room(&path)?;
                symlinkat(&target, &folder, &name)?;
                if let GuestIds::Range { first } = self.files.ids() {
                    let host = first + self.user;
                    let owner = (Some(Uid::from_raw(host)), Some(Gid::from_raw(host)));
                    chownat(&folder, &name, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW)?;
                }
            }
            EntryType::Link => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                let Some(target) = self.path(&target)? else { return Ok(()) };
                let (from, from_name) = self.files.parent(&target, None)?;
                let (folder, name) = self.make_room(&path)?;
                linkat(&from, &from_name, &folder, &name, AtFlags::empty())?;
            }
            // Devices, pipes and words about the archive itself.
            _ => self.done.skipped += 1,
        }
        Ok(())
    }

    /// The folder of a path, made, without whatever file or link had its name.
    fn make_room(&self, path: &GuestPath) -> io::Result<(OwnedFd, CString)> {
        let (folder, name) = self.files.parent(path, Some(self.user))?;
        match unlinkat(folder.as_fd(), &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok((folder, name)),
            Err(errno) => Err(errno.into()),
        }
    }
}
