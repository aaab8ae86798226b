//! The container's writable folders, for the engine: it has no other way to them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use super::{Engine, EntryKind, Folder, FrameKind, MOST_CONTENT, Report, frame};
use crate::beneath;
use crate::stage;

/// The most entries in one report; a name has 255 bytes at most.
const MOST_ENTRIES: usize = 256;

fn root(folder: Folder) -> io::Result<OwnedFd> {
    let path = match folder {
        Folder::Work => "/work",
        Folder::Tmp => "/tmp",
    };
    Ok(open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
}

/// Makes room for the record of an exception, which is wanted most when the run has filled its disk.
pub(super) fn reserve() -> Result<(), Errno> {
    let root = open("/", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    match stage::reserve_record(&root) {
        // Whoever furnished the container has done it; or nobody may reserve anything there, as in a session of ours.
        Err(Errno::EXIST | Errno::OPNOTSUPP) => Ok(()),
        other => other,
    }
}

/// Writes one file; what follows is read to its end, whether or not it can be written.
pub(super) fn place(engine: &mut Engine, path: &str, executable: bool) -> Result<(), Errno> {
    let mode = Mode::from(if executable { 0o755 } else { 0o644 });
    let mut file = root(Folder::Work).and_then(|work| beneath::create(work.as_fd(), path, mode, &|_| Ok(())));
    loop {
        let (kind, content) = engine.next()?;
        match kind {
            FrameKind::Content => {
                if let Ok(open) = &mut file
                    && let Err(error) = open.write_all(&content)
                {
                    file = Err(error);
                }
            }
            FrameKind::End => return answer(file.map(|_| Report::Done)),
            FrameKind::Message | FrameKind::Out | FrameKind::Err | FrameKind::Packet => return Err(Errno::PROTO),
        }
    }
}

pub(super) fn list(folder: &str) -> Result<(), Errno> {
    let mut entries: Vec<(Vec<u8>, EntryKind)> = Vec::new();
    let mut told = Ok(());
    let listed = root(Folder::Work).and_then(|work| {
        beneath::list(work, folder, &mut |name, kind| {
            entries.push((name.to_vec(), kind));
            if entries.len() == MOST_ENTRIES {
                told = Engine::report(&Report::Entries(std::mem::take(&mut entries)));
            }
            if told.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
    });
    told?;
    if !entries.is_empty() {
        Engine::report(&Report::Entries(entries))?;
    }
    answer(listed.map(|()| Report::Done))
}

pub(super) fn stat(path: &str) -> Result<(), Errno> {
    let found = root(Folder::Work).and_then(|work| beneath::open_regular(work, path)).and_then(|file| file.metadata());
    answer(found.map(|meta| Report::File { size: meta.len(), executable: meta.mode() & 0o100 != 0 }))
}

pub(super) fn read(folder: Folder, path: &str, most: u64) -> Result<(), Errno> {
    match root(folder).and_then(|root| beneath::open_regular(root, path)) {
        Ok(file) => send(file.take(most)),
        Err(error) => answer(Err(error)),
    }
}

fn send(mut file: io::Take<File>) -> Result<(), Errno> {
    let mut buffer = vec![0; MOST_CONTENT];
    loop {
        match file.read(&mut buffer) {
            // Nothing of a run is alive: a file that cannot be read on is as good as one that ends here.
            Ok(0) | Err(_) => return Engine::say(&frame(FrameKind::End, &[])),
            Ok(n) => Engine::say(&frame(FrameKind::Content, &buffer[..n]))?,
        }
    }
}

pub(super) fn room() -> Result<(), Errno> {
    let mut hits: Vec<_> = [Folder::Work, Folder::Tmp]
        .into_iter()
        .filter_map(|folder| root(folder).ok())
        .collect::<Vec<_>>()
        .iter()
        .flat_map(beneath::full)
        .collect();
    hits.sort_unstable();
    hits.dedup();
    Engine::report(&Report::Full(hits))
}

fn answer(result: io::Result<Report>) -> Result<(), Errno> {
    Engine::report(&result.unwrap_or_else(|error| Report::Failed { errno: errno(&error) }))
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EINVAL)
}
