//! Watching folders of a sandbox that stays, by inotify on descriptors that were resolved inside.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use types::GuestPath;

use super::{Change, Event, Files, Kind, Reach, tidy};

/// Folders that one watch looks at.
const MOST_FOLDERS: usize = 8192;
/// Events that are told at once.
const QUEUE: usize = 256;
/// How long the second half of a rename may take.
pub const SECOND_HALF: Duration = Duration::from_millis(20);

/// Whether something was there before somebody asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Before,
    Since,
}

/// One of the kernel's words.
struct Word {
    folder: i32,
    flags: ReadFlags,
    cookie: u32,
    name: String,
}

/// Somebody watches a folder.
pub struct Watch {
    inotify: Arc<OwnedFd>,
    files: Files,
    reach: Reach,
    /// Paths of folders, by their numbers.
    folders: BTreeMap<i32, String>,
    /// Entries that were found before the kernel told of them.
    known: HashSet<String>,
    /// The first half of a rename: its cookie, path, and whether it is a folder.
    half: Option<(u32, String, bool)>,
    out: Vec<Event>,
}

impl Files {
    /// Begins to watch a folder; what happens from now on is there to be read.
    pub fn watch(&self, path: &GuestPath, reach: Reach) -> io::Result<Watch> {
        let inotify = Arc::new(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?);
        let mut watch = Watch {
            inotify: Arc::clone(&inotify),
            files: self.clone(),
            reach,
            folders: BTreeMap::new(),
            known: HashSet::new(),
            half: None,
            out: Vec::new(),
        };
        watch.add(&inotify, &tidy(path), OFlags::empty())?;
        if reach == Reach::All {
            watch.add_below(&inotify, &tidy(path), Found::Before)?;
        }
        watch.out.clear();
        Ok(watch)
    }
}

impl Watch {
    /// Can be read when something has happened.
    #[must_use]
    pub fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.inotify)
    }

    /// Whether it waits for the second half of a rename, which comes within [`SECOND_HALF`] or not at all.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.half.is_some()
    }

    /// The second half did not come.
    pub fn wait_no_longer(&mut self) -> Vec<Event> {
        let inotify = self.descriptor();
        let half = self.half.take();
        self.gone(&inotify, half);
        std::mem::take(&mut self.out)
    }

    /// Whether there is no folder left to watch.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.folders.is_empty()
    }

    /// What has happened; `WouldBlock` if nothing has.
    pub fn read(&mut self) -> io::Result<Vec<Event>> {
        let inotify = self.descriptor();
        let mut half = self.half.take();
        let words = match read(&inotify) {
            Ok(words) => words,
            Err(error) => {
                self.half = half;
                return Err(error);
            }
        };
        for word in words {
            self.hear(&inotify, word, &mut half);
        }
        self.half = half;
        Ok(std::mem::take(&mut self.out))
    }

    fn hear(&mut self, inotify: &OwnedFd, word: Word, half: &mut Option<(u32, String, bool)>) {
        let Word { folder, flags, cookie, name } = word;
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            return self.note(Change::Overflow, "/".to_owned(), None);
        }
        if flags.contains(ReadFlags::IGNORED) {
            self.folders.remove(&folder);
            return;
        }
        let is_folder = flags.contains(ReadFlags::ISDIR);
        let second = flags.contains(ReadFlags::MOVED_TO) && half.as_ref().is_some_and(|(known, ..)| *known == cookie);
        if !second {
            // Before anything else: what went elsewhere is not told of any more.
            self.gone(inotify, half.take());
        }
        let Some(at) = self.folders.get(&folder) else { return };
        let path = format!("{}/{name}", at.trim_end_matches('/'));
        if let Some((_, from, _)) = half.take() {
            if is_folder {
                self.moved(&from, &path);
            }
            return self.note(Change::Rename, from, Some(path));
        }
        if flags.contains(ReadFlags::MOVED_FROM) {
            *half = Some((cookie, path, is_folder));
        } else if flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
            if !self.known.remove(&path) {
                self.note(Change::Create, path.clone(), None);
            }
            if is_folder && self.reach == Reach::All {
                // It may be gone already, or there are too many: then what is in it is not told.
                let _ = self.add(inotify, &path, OFlags::NOFOLLOW);
                let _ = self.add_below(inotify, &path, Found::Since);
            }
        } else if flags.contains(ReadFlags::MODIFY) {
            self.note(Change::Write, path, None);
        } else if flags.contains(ReadFlags::DELETE) {
            self.known.remove(&path);
            self.note(Change::Remove, path, None);
        } else if flags.contains(ReadFlags::ATTRIB) && !name.is_empty() {
            self.note(Change::Attributes, path, None);
        }
    }

    /// Writes of one program after another to one file are one.
    fn note(&mut self, change: Change, path: String, to: Option<String>) {
        let event = Event { change, path, to };
        if !matches!(change, Change::Write | Change::Attributes) || self.out.last() != Some(&event) {
            self.out.push(event);
        }
    }

    /// The second half of a rename did not come: it went elsewhere, and so did what is below it.
    fn gone(&mut self, inotify: &OwnedFd, half: Option<(u32, String, bool)>) {
        let Some((_, path, is_folder)) = half else { return };
        if is_folder {
            let below = format!("{path}/");
            self.folders.retain(|number, at| {
                let stays = *at != path && !at.starts_with(&below);
                if !stays {
                    let _ = inotify::remove_watch(inotify, *number);
                }
                stays
            });
        }
        self.note(Change::Remove, path, None);
    }

    fn moved(&mut self, from: &str, to: &str) {
        for at in self.folders.values_mut() {
            if let Some(rest) = at.strip_prefix(from).filter(|rest| rest.is_empty() || rest.starts_with('/')) {
                *at = format!("{to}{rest}");
            }
        }
    }

    fn add(&mut self, inotify: &OwnedFd, path: &str, flags: OFlags) -> io::Result<()> {
        if self.folders.len() >= MOST_FOLDERS {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "too many folders"));
        }
        let folder = self.files.open(path, OFlags::PATH | OFlags::DIRECTORY | flags, Mode::empty())?;
        let wanted = WatchFlags::CREATE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::EXCL_UNLINK
            | WatchFlags::ONLYDIR;
        // By the descriptor: whatever the path leads to by now.
        let number = inotify::add_watch(inotify, format!("/proc/self/fd/{}", folder.as_raw_fd()), wanted)?;
        self.folders.insert(number, path.to_owned());
        Ok(())
    }

    /// Watches every folder below one; what came since then is told.
    fn add_below(&mut self, inotify: &OwnedFd, path: &str, found: Found) -> io::Result<()> {
        let mut left = vec![path.to_owned()];
        while let Some(at) = left.pop() {
            let path = GuestPath::new(at.clone()).map_err(io::Error::other)?;
            let entries = match self.files.list(&path, 1) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for entry in entries {
                if found == Found::Since && self.known.len() < MOST_FOLDERS && self.known.insert(entry.path.clone()) {
                    self.note(Change::Create, entry.path.clone(), None);
                }
                if entry.kind == Kind::Folder {
                    match self.add(inotify, &entry.path, OFlags::NOFOLLOW) {
                        Ok(()) => left.push(entry.path),
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(())
    }
}

/// All that the kernel has to say now.
fn read(inotify: &OwnedFd) -> io::Result<Vec<Word>> {
    let mut buffer = [MaybeUninit::uninit(); 16 << 10];
    let mut reader = inotify::Reader::new(inotify, &mut buffer);
    let mut words = Vec::new();
    loop {
        match reader.next() {
            Ok(event) => words.push(Word {
                folder: event.wd(),
                flags: event.events(),
                cookie: event.cookie(),
                name: event.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            }),
            Err(Errno::AGAIN) if words.is_empty() => return Err(io::ErrorKind::WouldBlock.into()),
            Err(Errno::AGAIN) => return Ok(words),
            Err(errno) => return Err(errno.into()),
        }
        if words.len() >= QUEUE && reader.is_buffer_empty() {
            return Ok(words);
        }
    }
}
