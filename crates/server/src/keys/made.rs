//! Keys that the owner has made for others. The file holds their hashes alone: they are drawn from 160 random bits, so a
//! fast hash tells nobody anything. It is replaced whole, under a lock, and a server notices that.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use engine::{Allowance, AuditError, Caller, Engine, Entry as AuditEntry, Kind, new_id};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use types::{ErrorBody, ErrorCode, Timestamp};

use super::first::{DIGITS, PREFIX, random_hex};
use crate::identity::Scopes;

/// Of the file's form.
const VERSION: u32 = 1;
/// The longest name.
const MOST_NAME: usize = 100;
/// Keys in one file, revoked ones too.
const MOST: usize = 10_000;

/// Why keys cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file or its lock.
    #[error("cannot use `{}`: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It holds something else.
    #[error("`{}` is no list of keys: {why}", path.display())]
    Form {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// There is none of this id or name.
    #[error("there is no key `{0}`")]
    Missing(String),
    /// Several have this name.
    #[error("several keys are called `{0}`")]
    Several(String),
    /// A name that could not be shown, or one too many.
    #[error("{0}")]
    Spec(&'static str),
}

impl KeyError {
    /// The wire form.
    #[must_use]
    pub fn body(&self) -> ErrorBody {
        let (code, hint) = match self {
            Self::File { .. } => (ErrorCode::StateUnwritable, "set SAGGAR_HOME to a folder that you may write"),
            Self::Form { .. } => {
                (ErrorCode::StateUnwritable, "restore it, or remove it: then no key but the first is valid")
            }
            Self::Missing(_) => (ErrorCode::NotFound, "`saggar key list` shows ids and names"),
            Self::Several(_) => (ErrorCode::InvalidRequest, "name the one that you mean by its id: `saggar key list`"),
            Self::Spec(_) => (ErrorCode::InvalidRequest, "`saggar key create --help` has an example"),
        };
        ErrorBody { code, message: self.to_string(), hint: hint.to_owned() }
    }
}

/// A key to make.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeySpec {
    /// For people.
    pub name: String,
    /// What it is for.
    pub scopes: Scopes,
    /// How long it is valid, in milliseconds; for ever if absent.
    pub valid_ms: Option<u64>,
    /// What it may, if not what all of them may.
    pub allowance: Option<Allowance>,
}

/// A key as it is told of; the key itself is told once, when it is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyInfo {
    /// `key_` and 32 hex digits.
    pub id: String,
    /// For people.
    pub name: String,
    /// What it is for.
    pub scopes: Scopes,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// When it ends by itself.
    pub expires_ms: Option<u64>,
    /// When it was taken back.
    pub revoked_ms: Option<u64>,
    /// What it may, if not what all of them may.
    pub allowance: Option<Allowance>,
}

impl KeyInfo {
    /// Whether it opens anything now.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.revoked_ms.is_none() && self.expires_ms.is_none_or(|end| now() < end)
    }
}

/// A key that was just made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewKey {
    /// What is kept of it.
    #[serde(flatten)]
    pub info: KeyInfo,
    /// What its owner must keep: nobody can tell it again.
    pub key: String,
}

/// A key in the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) sha256: String,
    #[serde(flatten)]
    pub(super) info: KeyInfo,
}

#[derive(Debug, Serialize, Deserialize)]
struct File {
    version: u32,
    keys: Vec<Entry>,
}

/// Makes a key and keeps its hash.
pub fn create_key(state: &Path, spec: KeySpec) -> Result<NewKey, KeyError> {
    if spec.name.len() > MOST_NAME || spec.name.contains(char::is_control) {
        return Err(KeyError::Spec("a name has up to 100 bytes and no control characters"));
    }
    if spec.scopes == Scopes::default() {
        return Err(KeyError::Spec("a key that is for nothing opens nothing"));
    }
    let key = format!("{PREFIX}{}", random_hex::<DIGITS>());
    let (created_ms, id) = (now(), new_id("key"));
    let expires_ms = spec.valid_ms.map(|time| created_ms.saturating_add(time));
    let KeySpec { name, scopes, allowance, .. } = spec;
    let info = KeyInfo { id, name, scopes, created_ms, expires_ms, revoked_ms: None, allowance };
    let entry = Entry { sha256: hash(key.as_bytes()), info: info.clone() };
    change(state, |keys| {
        if keys.len() >= MOST {
            return Err(KeyError::Spec("there are 10,000 keys already"));
        }
        keys.push(entry);
        Ok(())
    })?;
    Ok(NewKey { info, key })
}

/// All of them, oldest first.
pub fn list_keys(state: &Path) -> Result<Vec<KeyInfo>, KeyError> {
    Ok(read(&path(state))?.into_iter().map(|entry| entry.info).collect())
}

/// Takes a key back, by its id or its name; it opens nothing from now on.
pub fn revoke_key(state: &Path, name: &str) -> Result<KeyInfo, KeyError> {
    change(state, |keys| {
        let fits = |entry: &&mut Entry| entry.info.id == name || (entry.info.name == name && entry.info.is_valid());
        let mut found: Vec<&mut Entry> = keys.iter_mut().filter(fits).collect();
        match &mut found[..] {
            [] => Err(KeyError::Missing(name.chars().take(MOST_NAME).collect())),
            [entry] => {
                entry.info.revoked_ms.get_or_insert_with(now);
                Ok(entry.info.clone())
            }
            _ => Err(KeyError::Several(name.to_owned())),
        }
    })
}

/// In the trail a key is named by its id; the key itself is nowhere.
pub async fn record_key(engine: &Engine, caller: &Caller, key: &KeyInfo, act: &str) -> Result<(), AuditError> {
    let details = serde_json::json!({ "name": key.name, "scopes": key.scopes, "allowance": key.allowance });
    let entry = AuditEntry {
        id: key.id.clone(),
        kind: Kind::Key,
        caller: caller.name.clone(),
        outcome: act.to_owned(),
        details: details.to_string(),
    };
    engine.audit().record(entry).await
}

/// Where they are kept.
pub(super) fn path(state: &Path) -> PathBuf {
    state.join("keys.json")
}

/// As it is in the file.
pub(super) fn hash(key: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    Sha256::digest(key).iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

pub(super) fn read(path: &Path) -> Result<Vec<Entry>, KeyError> {
    let failed = |source| KeyError::File { path: path.to_path_buf(), source };
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let wrong = |why: String| KeyError::Form { path: path.to_path_buf(), why };
    let file: File = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    match file.version {
        VERSION => Ok(file.keys),
        other => Err(wrong(format!("it has version {other}, and this program knows {VERSION}"))),
    }
}

/// Reads, changes and replaces the file; nobody else does meanwhile.
fn change<T>(state: &Path, act: impl FnOnce(&mut Vec<Entry>) -> Result<T, KeyError>) -> Result<T, KeyError> {
    let path = path(state);
    let failed = |source: io::Error| KeyError::File { path: path.clone(), source };
    let lock = state.join("keys.lock");
    let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(lock).map_err(failed)?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
    let mut keys = read(&path)?;
    let done = act(&mut keys)?;
    write(state, &path, &File { version: VERSION, keys }).map_err(failed)?;
    Ok(done)
}

/// Under another name first: the file is the old or the new one, whatever happens.
fn write(state: &Path, path: &Path, file: &File) -> io::Result<()> {
    let aside = state.join(format!(".keys-{}", random_hex::<16>()));
    let json = serde_json::to_vec(file)?;
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&aside)
        .and_then(|mut file| file.write_all(&json).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&aside, path));
    if written.is_err() {
        let _ = fs::remove_file(&aside);
    }
    written
}

pub(super) fn now() -> u64 {
    u64::try_from(Timestamp::from(SystemTime::now()).0 / 1000).unwrap_or(0)
}
