//! The server's key: made on first start, kept for its owner only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::ServeError;

/// Every E2B client takes keys of this form.
pub(super) const PREFIX: &str = "e2b_";
pub(super) const DIGITS: usize = 40;

/// What a client on the network must know.
pub(crate) struct Key(String);

impl Key {
    /// Where it is kept.
    pub(crate) fn path(state: &Path) -> PathBuf {
        state.join("api-key")
    }

    /// Reads the key, or makes one. Whoever calls holds the state folder's lock.
    pub(crate) fn open(state: &Path) -> Result<Self, ServeError> {
        let path = Self::path(state);
        let failed = |source| ServeError::State { path: path.clone(), source };
        let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits().cast_signed();
        match OpenOptions::new().read(true).custom_flags(flags).open(&path) {
            Ok(file) => read(&file, &path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(state, &path).map_err(failed),
            Err(error) => Err(failed(error)),
        }
    }

    /// Compares without telling by its time how much was right.
    pub(crate) fn is(&self, given: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let differing = own.iter().zip(given).fold(0, |all, (a, b)| std::hint::black_box(all | (a ^ b)));
        own.len() == given.len() && differing == 0
    }
}

fn read(file: &File, path: &Path) -> Result<Key, ServeError> {
    let failed = |source| ServeError::State { path: path.to_path_buf(), source };
    let wrong = |why| ServeError::Key { path: path.to_path_buf(), why };
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() || meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(wrong("is not a file of yours"));
    }
    if meta.mode() & 0o077 != 0 {
        return Err(wrong("can be read by others"));
    }
    let mut text = String::new();
    file.take(100).read_to_string(&mut text).map_err(failed)?;
    let key = text.trim_end_matches('\n');
    let digits = key.strip_prefix(PREFIX).unwrap_or_default();
    if digits.len() != DIGITS || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong("is not one line of `e2b_` and 40 hex digits"));
    }
    Ok(Key(key.to_owned()))
}

/// Under another name first: a key appears whole or not at all.
fn make(state: &Path, path: &Path) -> io::Result<Key> {
    let key = format!("{PREFIX}{}", random_hex::<DIGITS>());
    let temporary = state.join(format!(".api-key-{}", random_hex::<16>()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| writeln!(file, "{key}").and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    Ok(Key(key))
}

/// Hex digits from the kernel.
pub(crate) fn random_hex<const DIGITS: usize>() -> String {
    let mut bytes = [0_u8; DIGITS];
    // So few bytes never come in parts, and the pool is ready before any program starts.
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    bytes.iter().filter_map(|byte| char::from_digit(u32::from(byte & 15), 16)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_key_is_the_key() {
        let key = Key(format!("{PREFIX}{}", "a".repeat(DIGITS)));
        assert!(key.is(key.0.as_bytes()));
        for wrong in ["", "e2b_", &key.0[..43], &format!("{}a", key.0), &key.0.replace('a', "b")] {
            assert!(!key.is(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn digits_are_drawn_anew() {
        let (one, two) = (random_hex::<DIGITS>(), random_hex::<DIGITS>());
        assert_eq!(one.len(), DIGITS);
        assert_ne!(one, two);
    }
}
