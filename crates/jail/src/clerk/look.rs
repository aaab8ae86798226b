//! Watching a folder by looking at it: programs of a sandbox are not told by the kernel what others do to files, and a clerk
//! is one of them.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::inside::{Change, Event, MOST_ENTRIES, Reach};

/// What an entry was when it was looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    /// The number of its inode, and when that was made: numbers are used again.
    number: (u64, Option<SystemTime>),
    folder: bool,
    /// When its content changed, and how long it was.
    content: (i64, i64, u64),
    /// Its mode and owner.
    rights: (u32, u32, u32),
}

impl Seen {
    fn of(meta: &Metadata) -> Self {
        Self {
            number: (meta.ino(), meta.created().ok()),
            folder: meta.is_dir(),
            // A folder changes with what is in it, which is told by itself.
            content: if meta.is_dir() { (0, 0, 0) } else { (meta.mtime(), meta.mtime_nsec(), meta.len()) },
            rights: (meta.mode(), meta.uid(), meta.gid()),
        }
    }
}

/// A folder as it was.
pub(super) struct Look {
    top: PathBuf,
    reach: Reach,
    seen: BTreeMap<PathBuf, Seen>,
}

impl Look {
    /// Looks at it for the first time.
    pub(super) fn new(path: &str, reach: Reach) -> io::Result<Self> {
        let top = PathBuf::from(path);
        if !fs::metadata(&top)?.is_dir() {
            return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
        }
        let (seen, whole) = entries(&top, reach);
        if !whole {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        Ok(Self { top, reach, seen })
    }

    /// Looks again: what has happened since, or nothing more to see where it is gone.
    pub(super) fn again(&mut self) -> Option<Vec<Event>> {
        if !self.top.is_dir() {
            return None;
        }
        let (now, whole) = entries(&self.top, self.reach);
        let before = std::mem::replace(&mut self.seen, now);
        let mut events = differences(before, &self.seen);
        if !whole {
            let path = self.top.display().to_string();
            events.push(Event { change: Change::Overflow, path, to: None });
        }
        Some(events)
    }
}

/// Entries below a folder, through no link; whether these are all.
fn entries(top: &Path, reach: Reach) -> (BTreeMap<PathBuf, Seen>, bool) {
    let (mut found, mut left) = (BTreeMap::new(), vec![top.to_path_buf()]);
    while let Some(folder) = left.pop() {
        // It may be gone by now, or closed to us.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            if found.len() >= MOST_ENTRIES {
                return (found, false);
            }
            if meta.is_dir() && reach == Reach::All {
                left.push(entry.path());
            }
            found.insert(entry.path(), Seen::of(&meta));
        }
    }
    (found, true)
}

/// What happened between two looks. What is the same file under another name was renamed, and all below it with it.
fn differences(mut before: BTreeMap<PathBuf, Seen>, now: &BTreeMap<PathBuf, Seen>) -> Vec<Event> {
    let event = |change, path: &Path, to: Option<&Path>| {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Event { change, path: text(path), to: to.map(text) }
    };
    let mut events = Vec::new();
    let mut created = Vec::new();
    for (path, is) in now {
        if before.get(path).is_some_and(|was| was.number == is.number) {
            continue;
        }
        let is_gone = |(old, was): &(&PathBuf, &Seen)| {
            was.number == is.number
                && was.folder == is.folder
                && now.get(*old).is_none_or(|now| now.number != is.number)
        };
        let Some(from) = before.iter().find(is_gone).map(|(old, _)| old.clone()) else {
            created.push((path, is));
            continue;
        };
        events.push(event(Change::Rename, &from, Some(path)));
        let moved: Vec<(PathBuf, Seen)> =
            before.iter().filter(|(old, _)| old.starts_with(&from)).map(|(old, was)| (old.clone(), *was)).collect();
        for (old, was) in moved {
            before.remove(&old);
            let rest = old.strip_prefix(&from).map(Path::to_path_buf).unwrap_or_default();
            let new = if rest.as_os_str().is_empty() { path.clone() } else { path.join(rest) };
            before.insert(new, was);
        }
    }
    let gone = before.iter().rev().filter(|(path, was)| now.get(*path).is_none_or(|is| is.number != was.number));
    events.extend(gone.map(|(path, _)| event(Change::Remove, path, None)));
    for (path, is) in created {
        events.push(event(Change::Create, path, None));
        if is.content.2 > 0 {
            events.push(event(Change::Write, path, None));
        }
    }
    for (path, is) in now {
        let Some(was) = before.get(path).filter(|was| was.number == is.number) else { continue };
        if was.content != is.content {
            events.push(event(Change::Write, path, None));
        } else if was.rights != is.rights {
            events.push(event(Change::Attributes, path, None));
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_between_two_looks_is_told() {
        let top = std::env::temp_dir().join(format!("saggar-look-{}", std::process::id()));
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/b/f"), "1").unwrap();
        fs::write(top.join("stays"), "1").unwrap();
        let mut look = Look::new(top.to_str().unwrap(), Reach::All).unwrap();
        assert_eq!(look.again().unwrap(), []);
        fs::rename(top.join("a/b"), top.join("c")).unwrap();
        fs::write(top.join("stays"), "longer").unwrap();
        fs::write(top.join("new"), "x").unwrap();
        let mut told: Vec<String> = look
            .again()
            .unwrap()
            .iter()
            .map(|event| {
                let short = |path: &str| path.strip_prefix(top.to_str().unwrap()).unwrap().to_owned();
                format!("{:?} {} {:?}", event.change, short(&event.path), event.to.as_deref().map(short))
            })
            .collect();
        told.sort();
        let expected = ["Create /new None", "Rename /a/b Some(\"/c\")", "Write /new None", "Write /stays None"];
        assert_eq!(told, expected);
        fs::remove_dir_all(&top).unwrap();
        assert!(look.again().is_none());
        assert!(Look::new("/nowhere", Reach::All).is_err());
    }
}
