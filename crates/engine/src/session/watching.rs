//! Who may watch folders, and how many. The kernel gives the programs of one host user a common number of watchers, 128 as it
//! comes: without shares one caller could take them from all others, and from the rest of the host.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use tokio::sync::mpsc;
use types::GuestPath;

use super::{Session, SessionError};
use crate::backend::{FileEvent, Reach};

/// Where the kernel says how many there are, and what it says where nothing else is said.
const KERNELS: &str = "/proc/sys/fs/inotify/max_user_instances";
const USUAL: usize = 128;

/// How many each caller has. The kernel's count is the host user's: so is this one, whatever engines there are.
static HELD: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

/// A folder that is watched.
#[derive(Debug)]
pub struct Watching {
    events: mpsc::Receiver<FileEvent>,
    _share: Share,
}

impl Watching {
    /// What happens next; `None` when there is nothing left to watch.
    pub async fn recv(&mut self) -> Option<FileEvent> {
        self.events.recv().await
    }
}

impl Session {
    /// Tells what happens in a folder of it from now on, for as long as somebody listens.
    pub async fn watch(&self, path: &GuestPath, reach: Reach) -> Result<Watching, SessionError> {
        let share = Share::take(&self.owner.name, most())?;
        Ok(Watching { events: self.files()?.watch(path, reach).await?, _share: share })
    }
}

/// A quarter stays for other programs.
fn most() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let known = std::fs::read_to_string(KERNELS).ok().and_then(|text| text.trim().parse().ok());
        let known: usize = known.unwrap_or(USUAL);
        known - known / 4
    })
}

/// One of a caller's.
#[derive(Debug)]
struct Share(String);

impl Share {
    /// Nobody gets more than he leaves: so there is always one for who comes next.
    fn take(owner: &str, most: usize) -> Result<Self, SessionError> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let free = most.saturating_sub(held.values().sum());
        let own = held.entry(owner.to_owned()).or_default();
        if *own >= free {
            return Err(SessionError::TooManyWatched { held: *own });
        }
        *own += 1;
        Ok(Self(owner.to_owned()))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = held.get_mut(&self.0) {
            *own -= 1;
            if *own == 0 {
                held.remove(&self.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_more_than_he_leaves_and_what_is_given_back_is_there() {
        let all = |owner: &str| std::iter::from_fn(|| Share::take(owner, 16).ok()).take(100).collect::<Vec<_>>();
        let one = all("watching-one");
        assert_eq!(one.len(), 8);
        let two = all("watching-two");
        assert_eq!((two.len(), all("watching-three").len()), (4, 2));
        drop(one);
        assert_eq!(all("watching-three").len(), 6);
        drop(two);
        assert_eq!(all("watching-one").len(), 8);
    }
}
