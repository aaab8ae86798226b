//! Snapshots: the disk of a session as it was, kept until somebody deletes it.
//!
//! A record is a small file in `snapshots` of the state folder; what it names is the backend's. Records with `layers` keep
//! these layers from being removed.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use types::BackendKind;

use super::error::SessionError;
use super::spec::{SessionInfo, SessionSpec};
use super::{Session, upkeep};
use crate::backend::{LayerId, Origin, Writers};
use crate::engine::{Caller, Engine, Standing};
use crate::error::RunError;
use crate::image::Image;
use crate::layers::{LayerName, Store};

/// Copies of a session that one call makes.
const MOST_FORKS: u32 = 64;

/// The disk of a session as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// `snap_` and 32 hex digits.
    pub id: String,
    /// A name to find it by.
    pub name: Option<String>,
    /// Words of whoever made it.
    pub note: String,
    /// The session that it was made of.
    pub session: String,
    /// Whose it is: what only its backend can read.
    pub backend: BackendKind,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// Bytes that it adds to what it stands on; not known yet where there are many files to count.
    pub bytes: Option<u64>,
    /// The state of the disk, in the backend's words.
    pub state: String,
    /// What must be kept for it.
    pub layers: Vec<String>,
    /// The image below it, as it was: its layers are among those that are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// The key by which it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// A snapshot to make.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SnapshotSpec {
    /// A name to find it by.
    pub name: Option<String>,
    /// Words of the caller's own.
    pub note: String,
    /// Whether processes that write to its disk are ended; otherwise they are an error.
    pub kill: bool,
}

impl Snapshot {
    /// Its layers without those of what its session began with.
    pub(super) fn own_layers(&self) -> Vec<String> {
        self.state.split(',').map(str::to_owned).collect()
    }
}

impl Engine {
    /// Keeps the disk of a session as it is now. The session goes on with its processes, where its backend can do that.
    pub async fn snapshot_session(
        &self,
        caller: &Caller,
        id: &str,
        spec: SnapshotSpec,
    ) -> Result<Snapshot, SessionError> {
        let _pass = self.admit(caller, "snapshot").await?;
        check_name(&spec)?;
        let session = self.session(caller, id)?;
        let snapshot = self.take(caller, &session, spec).await?;
        let facts = serde_json::json!({ "snapshot": snapshot.id, "bytes": snapshot.bytes });
        session.record(caller, "snapshot", facts).await?;
        Ok(snapshot)
    }

    async fn take(
        &self,
        caller: &Caller,
        session: &Arc<Session>,
        spec: SnapshotSpec,
    ) -> Result<Snapshot, SessionError> {
        let _still = session.hold_still().await?;
        let place = session.place()?;
        let writers = if spec.kill { Writers::Kill } else { Writers::Refuse };
        let made = place.snapshot(writers).await?;
        let image = session.place_spec.image.as_ref().map(|held| held.image.clone());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let snapshot = Snapshot {
            id: crate::id::new_id("snap"),
            name: spec.name,
            note: spec.note,
            session: session.id.clone(),
            backend: session.backend,
            created_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            bytes: made.bytes,
            state: made.layer.0.clone(),
            layers: made.layers.into_iter().chain(image.iter().flat_map(Image::layer_names)).collect(),
            image,
            key: caller.key().map(str::to_owned),
        };
        // First the record, by which the layer is kept; then the session goes on above it.
        let kept = write(&self.settings.state, &snapshot);
        if made.goes_on {
            session.settle();
        } else if let Err(error) = self.stand_on(session, Origin::Snapshot(made.layer)).await {
            // There is nothing left that it could stand on.
            self.sessions.end(&session.id);
            return Err(error);
        }
        kept.map_err(|source| RunError::State { path: self.settings.state.clone(), source })?;
        Ok(snapshot)
    }

    /// Puts the disk of a session back to a snapshot. Its processes end.
    pub async fn rollback_session(
        &self,
        caller: &Caller,
        id: &str,
        snapshot: &str,
    ) -> Result<SessionInfo, SessionError> {
        let _pass = self.admit(caller, "rollback").await?;
        let session = self.session(caller, id)?;
        let snapshot = self.snapshot(caller, snapshot)?;
        if snapshot.backend != session.backend {
            return Err(RunError::Request("the snapshot is of another backend than the session").into());
        }
        let still = session.hold_still().await?;
        self.stand_on(&session, Origin::Snapshot(LayerId(snapshot.state))).await?;
        drop(still);
        session.record(caller, "rollback", serde_json::json!({ "snapshot": snapshot.id })).await?;
        Ok(session.info())
    }

    /// Makes copies of a session, which begin with its files and without processes.
    pub async fn fork_session(
        &self,
        caller: &Caller,
        id: &str,
        count: u32,
        kill: bool,
    ) -> Result<Vec<SessionInfo>, SessionError> {
        if count == 0 || count > MOST_FORKS {
            return Err(RunError::Request("`count` must be from 1 to 64").into());
        }
        let session = self.session(caller, id)?;
        let spec = SnapshotSpec { note: format!("fork of {id}"), kill, ..SnapshotSpec::default() };
        let snapshot = self.snapshot_session(caller, id, spec).await?;
        let mut copies: Vec<SessionInfo> = Vec::new();
        for _ in 0..count {
            let spec = SessionSpec { from: Some(snapshot.id.clone()), image: None, ..session.spec.clone() };
            match self.create_session(caller, spec).await {
                Ok(copy) => copies.push(copy.info()),
                Err(error) => {
                    // All or none.
                    for copy in &copies {
                        let _ = self.kill_session(caller, &copy.id).await;
                    }
                    return Err(error);
                }
            }
        }
        Ok(copies)
    }

    /// Gives a session another disk. The old one goes when nobody uses it.
    async fn stand_on(&self, session: &Arc<Session>, origin: Origin) -> Result<(), SessionError> {
        let mut spec = session.place_spec.clone();
        spec.id = format!("{}-{}", session.id, crate::id::random_hex());
        spec.origin = origin;
        let place = self.stations.get(session.backend, &self.settings)?.backend.open(&spec).await?;
        let before = {
            let mut state = session.lock();
            if state.place.is_none() {
                // It was ended meanwhile.
                return Err(SessionError::Missing(session.id.clone()));
            }
            state.running.clear();
            state.contexts.clear();
            state.tally.forget();
            state.place.replace(place)
        };
        let gone = before.as_ref().map(|place| place.gone());
        drop(before);
        if let Some(gone) = gone {
            gone.await;
        }
        tokio::spawn(upkeep::keep(self.sessions.clone(), Arc::clone(session)));
        Ok(())
    }

    /// A snapshot by its id or its name, for somebody who may use it; of several of one name the newest.
    pub fn snapshot(&self, caller: &Caller, name: &str) -> Result<Snapshot, SessionError> {
        let mut found = self.list_snapshots(caller)?;
        found.retain(|snapshot| snapshot.id == name || snapshot.name.as_deref() == Some(name));
        found.pop().ok_or_else(|| SessionError::NoSnapshot(name.chars().take(100).collect()))
    }

    /// Every snapshot that this caller may use, oldest first.
    pub fn list_snapshots(&self, caller: &Caller) -> Result<Vec<Snapshot>, SessionError> {
        let folder = folder(&self.settings.state);
        let failed = |source: io::Error| RunError::State { path: folder.clone(), source };
        let mut snapshots = Vec::new();
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(snapshots),
            other => other.map_err(failed)?,
        };
        for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().ends_with(".json")) {
            let Ok(text) = fs::read(entry.path()) else { continue };
            // One that cannot be read is of a later version, or somebody else's doing; it is left alone.
            if let Ok(mut snapshot) = serde_json::from_slice::<Snapshot>(&text)
                && is_for(&snapshot, caller)
            {
                snapshot.bytes = snapshot.bytes.or_else(|| self.counted(snapshot.layers.first()?));
                snapshots.push(snapshot);
            }
        }
        snapshots.sort_by(|a, b| (a.created_ms, &a.id).cmp(&(b.created_ms, &b.id)));
        Ok(snapshots)
    }

    /// The states of all snapshots; none if there is a record that cannot be read.
    pub(super) fn snapshot_states(&self) -> Option<Vec<LayerId>> {
        let entries = match fs::read_dir(folder(&self.settings.state)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Vec::new()),
            other => other.ok()?,
        };
        let mut states = Vec::new();
        for entry in entries {
            let path = entry.ok()?.path();
            if path.extension().is_some_and(|ending| ending == "json") {
                states.push(LayerId(serde_json::from_slice::<Snapshot>(&fs::read(path).ok()?).ok()?.state));
            }
        }
        Some(states)
    }

    /// Bytes of a layer, if they were counted since.
    fn counted(&self, layer: &str) -> Option<u64> {
        let name = LayerName::try_from(layer.to_owned()).ok()?;
        let record = Store::open(&self.settings.state).ok()?.record(&name)?;
        (!record.uncounted).then_some(record.bytes)
    }

    /// Deletes a snapshot. Layers that nothing else needs go with the next `saggar prune`.
    pub async fn delete_snapshot(&self, caller: &Caller, name: &str) -> Result<Snapshot, SessionError> {
        let snapshot = self.snapshot(caller, name)?;
        let path = folder(&self.settings.state).join(format!("{}.json", snapshot.id));
        fs::remove_file(&path).map_err(|source| RunError::State { path, source })?;
        if snapshot.backend != BackendKind::Native {
            let layer = LayerId(snapshot.state.clone());
            // What cannot be removed now, because others stand on it, goes with the next `saggar prune`.
            self.stations.get(snapshot.backend, &self.settings)?.backend.forget(&layer).await?;
        }
        self.record_of(caller, &snapshot.id, "snapshot deleted").await?;
        Ok(snapshot)
    }
}

fn is_for(snapshot: &Snapshot, caller: &Caller) -> bool {
    match &caller.standing {
        Standing::Owner | Standing::FirstKey => true,
        Standing::Key { id, .. } => snapshot.key.as_deref() == Some(id),
    }
}

pub(super) fn check_name(spec: &SnapshotSpec) -> Result<(), RunError> {
    let fits = |text: &str, most: usize| text.len() <= most && !text.contains(char::is_control);
    if spec.name.as_ref().is_some_and(|name| name.is_empty() || !fits(name, 100)) || !fits(&spec.note, 4000) {
        return Err(RunError::Request("a name has up to 100 bytes, a note up to 4000, and neither control characters"));
    }
    Ok(())
}

fn folder(state: &Path) -> PathBuf {
    state.join("snapshots")
}

/// There whole or not at all, also for whoever comes after a process that was killed. That it outlives a machine that was
/// switched off is not waited for: what it names would have to be written first, and that is all of the session's files.
pub(super) fn write(state: &Path, snapshot: &Snapshot) -> io::Result<()> {
    let folder = folder(state);
    if !folder.is_dir() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    }
    let aside = folder.join(format!(".{}", crate::id::random_hex()));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
    let written = file.write_all(&serde_json::to_vec(snapshot)?);
    let placed = written.and_then(|()| fs::rename(&aside, folder.join(format!("{}.json", snapshot.id))));
    if placed.is_err() {
        let _ = fs::remove_file(&aside);
    }
    placed
}
