//! What opens the server now. Keys that are made or taken back while it runs count from their next request on.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::{Caller, Standing};

use super::first::Key;
use super::made::{self, Entry};
use crate::error::ServeError;
use crate::identity::Identity;

/// The first key, and those that were made.
pub(crate) struct Ring {
    first: Key,
    path: PathBuf,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    /// Which file this is; none if there is none.
    stamp: Option<Stamp>,
    by_hash: HashMap<String, Entry>,
}

/// A file is replaced, never changed: each has a number of its own, or another time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    changed: (i64, i64),
    bytes: u64,
}

impl Ring {
    pub(crate) fn open(state: &Path) -> Result<Self, ServeError> {
        Ok(Self { first: Key::open(state)?, path: made::path(state), made: Mutex::default() })
    }

    /// Whose key this is, if it opens anything.
    pub(crate) fn identify(&self, given: &[u8]) -> Option<Identity> {
        if self.first.is(given) {
            return Some(Identity::first_key());
        }
        self.find(&made::hash(given)).map(identity)
    }

    /// Whoever has the key of this id, if it still opens anything.
    pub(crate) fn by_id(&self, id: &str) -> Option<Identity> {
        let made = self.current();
        let entry = made.by_hash.values().find(|entry| entry.info.id == id && entry.info.is_valid())?;
        Some(identity(entry.clone()))
    }

    fn find(&self, hash: &str) -> Option<Entry> {
        self.current().by_hash.get(hash).filter(|entry| entry.info.is_valid()).cloned()
    }

    /// Those in the file as it is now.
    fn current(&self) -> MutexGuard<'_, Made> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = stamp(&self.path);
        if made.stamp != stamp {
            *made = Made { stamp, by_hash: self.read() };
        }
        made
    }

    /// A file that cannot be read opens nothing.
    fn read(&self) -> HashMap<String, Entry> {
        let keys = made::read(&self.path).unwrap_or_else(|error| {
            let _ = writeln!(io::stderr(), "saggar: no key but the first is valid: {error}");
            Vec::new()
        });
        keys.into_iter().map(|entry| (entry.sha256.clone(), entry)).collect()
    }
}

fn identity(entry: Entry) -> Identity {
    let (id, allowance) = (entry.info.id, entry.info.allowance);
    let caller = Caller { name: id.clone(), standing: Standing::Key { id, allowance }, ..Caller::default() };
    Identity { caller, scopes: entry.info.scopes }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = fs::metadata(path).ok()?;
    Some(Stamp { inode: meta.ino(), changed: (meta.ctime(), meta.ctime_nsec()), bytes: meta.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Scope, Scopes};
    use crate::keys::{KeySpec, create_key, list_keys, revoke_key};

    fn state(name: &str) -> PathBuf {
        let state = std::env::temp_dir().join(format!("saggar-keys-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&state);
        fs::create_dir_all(&state).unwrap();
        state
    }

    fn spec(name: &str, scopes: &[Scope]) -> KeySpec {
        KeySpec { name: name.to_owned(), scopes: scopes.iter().copied().collect(), ..KeySpec::default() }
    }

    #[test]
    fn keys_count_from_when_they_are_made_until_they_are_taken_back() {
        let state = state("ring");
        let ring = Ring::open(&state).unwrap();
        let key = create_key(&state, spec("a", &[Scope::Run])).unwrap();
        let other = create_key(&state, spec("b", &[Scope::Session, Scope::Admin])).unwrap();
        let identity = ring.identify(key.key.as_bytes()).unwrap();
        assert_eq!((identity.caller.key(), identity.scopes.to_string().as_str()), (Some(key.info.id.as_str()), "run"));
        assert_eq!(ring.identify(other.key.as_bytes()).unwrap().scopes.to_string(), "session,admin");
        revoke_key(&state, "a").unwrap();
        assert!(ring.identify(key.key.as_bytes()).is_none());
        assert!(ring.identify(other.key.as_bytes()).is_some());
        for wrong in ["", "e2b_", &key.key[..43], &key.info.id, &made::hash(other.key.as_bytes())] {
            assert!(ring.identify(wrong.as_bytes()).is_none(), "{wrong}");
        }
        fs::remove_dir_all(state).unwrap();
    }

    #[test]
    fn what_is_kept_opens_nothing() {
        let state = state("kept");
        let key = create_key(&state, spec("a", &[Scope::Run])).unwrap();
        let text = fs::read_to_string(made::path(&state)).unwrap();
        assert!(!text.contains(&key.key) && text.contains(&key.info.id), "{text}");
        assert_eq!(fs::metadata(made::path(&state)).unwrap().mode() & 0o777, 0o600);
        assert_eq!(list_keys(&state).unwrap(), [key.info]);
        fs::remove_dir_all(state).unwrap();
    }

    #[test]
    fn keys_end_by_themselves_and_names_are_not_guessed_at() {
        let state = state("ends");
        let ring = Ring::open(&state).unwrap();
        let gone = KeySpec { valid_ms: Some(0), ..spec("a", &[Scope::Run]) };
        let key = create_key(&state, gone).unwrap();
        assert!(ring.identify(key.key.as_bytes()).is_none());
        for _ in 0..2 {
            create_key(&state, spec("twice", &[Scope::Run])).unwrap();
        }
        assert!(revoke_key(&state, "twice").is_err() && revoke_key(&state, "none").is_err());
        assert!(create_key(&state, KeySpec { scopes: Scopes::default(), ..spec("x", &[]) }).is_err());
        assert!(create_key(&state, spec("a\nb", &[Scope::Run])).is_err());
        fs::write(made::path(&state), "nonsense").unwrap();
        assert!(ring.identify(key.key.as_bytes()).is_none() && create_key(&state, spec("b", &[Scope::Run])).is_err());
        fs::remove_dir_all(state).unwrap();
    }
}
