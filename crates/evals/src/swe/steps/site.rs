//! A sandbox in which a repository lies, and what is done in it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::{
    Caller, CommandSpec, Engine, GuestUser, Output, Session, SessionSpec, SnapshotSpec, Spoken, Surroundings, Way,
};
use tokio::io::AsyncRead;
use types::{BackendKind, GuestPath, LimitKind, LimitsSpec, Outcome, Policy};

use crate::swe::SweError;
use crate::swe::channel::proof::hex;

/// Where the repository lies.
pub const TREE: &str = "/work/testbed";
/// Where it lies in the images of data sets, and shows in sandboxes that are made of them.
pub const IMAGE_TREE: &str = "/testbed";
/// Where its environment lies.
pub const ENVIRONMENT: &str = "/work/env";
/// What is handed in, outside of the repository.
pub(super) const ASIDE: &str = "/tmp/.saggar";

/// What a sandbox is like before anything happens in it.
#[derive(Debug, Clone, Default)]
pub struct Ground {
    /// What isolates.
    pub backend: BackendKind,
    /// An image to begin with, of the backend's own.
    pub image: Option<String>,
    /// The state of the disk to begin with, by its name; an empty one if absent.
    pub from: Option<String>,
    /// Where the repository is to be: [`TREE`], or in its place [`IMAGE_TREE`].
    pub tree: Where,
    /// Host trees that can be read.
    pub trees: Vec<String>,
    /// The way out.
    pub way: Way,
    /// Environment of every command.
    pub env: BTreeMap<String, String>,
    /// Limits of the whole.
    pub limits: LimitsSpec,
    /// How long it may be needed.
    pub time: Duration,
}

/// Where the repository of a sandbox is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Where {
    /// In [`TREE`] alone.
    #[default]
    Own,
    /// In [`IMAGE_TREE`], as what the image has installed expects it.
    Image,
}

impl Where {
    /// The folder.
    #[must_use]
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Own => TREE,
            Self::Image => IMAGE_TREE,
        }
    }
}

/// A sandbox with a repository. It ends when it is dropped.
pub struct Site {
    engine: Arc<Engine>,
    caller: Caller,
    session: Arc<Session>,
    tree: Where,
}

/// A script to run in a site.
#[derive(Debug, Clone, Default)]
pub struct Script<'a> {
    /// What bash reads.
    pub text: &'a str,
    /// Its arguments, from `$1` on.
    pub arguments: Vec<String>,
    /// Environment on top of the site's.
    pub env: BTreeMap<String, String>,
    /// What it reads.
    pub stdin: String,
    /// After so long it is killed with all that it started.
    pub time: Duration,
}

/// What became of a script.
#[derive(Debug, Clone)]
pub struct Said {
    /// What it wrote to its output.
    pub out: String,
    /// What it wrote to its error output.
    pub err: String,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took.
    pub wall_ms: f64,
}

impl Said {
    /// Whether it ended with code 0.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.outcome == Outcome::Exited { code: 0 }
    }

    /// The exit code as a shell tells it.
    #[must_use]
    pub fn code(&self) -> i32 {
        match self.outcome {
            Outcome::Exited { code } => code,
            Outcome::Signaled { signal } => 128 + signal,
            Outcome::LimitExceeded { limit: LimitKind::Wall } => 124,
            _ => 137,
        }
    }

    /// Whether it was killed because its time was over.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.outcome == Outcome::LimitExceeded { limit: LimitKind::Wall }
    }

    /// The last lines of both outputs, for people.
    #[must_use]
    pub fn last(&self, lines: usize) -> String {
        let all: Vec<&str> = self.out.lines().chain(self.err.lines()).filter(|line| !line.trim().is_empty()).collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

impl Site {
    /// Makes the sandbox.
    pub async fn open(engine: &Arc<Engine>, caller: &Caller, ground: Ground) -> Result<Self, SweError> {
        let spec = SessionSpec {
            backend: Some(ground.backend),
            image: ground.image,
            from: ground.from,
            limits: ground.limits,
            env: ground.env,
            ttl_ms: Some(u64::try_from(ground.time.as_millis()).unwrap_or(u64::MAX)),
            ..SessionSpec::default()
        };
        let shown = match ground.tree {
            Where::Own => Vec::new(),
            Where::Image => vec![(TREE.to_owned(), IMAGE_TREE.to_owned())],
        };
        let around = Surroundings { trees: ground.trees, way: ground.way, shown };
        let session = engine.create_session_in(caller, spec, Some(around)).await?;
        Ok(Self { engine: Arc::clone(engine), caller: caller.clone(), session, tree: ground.tree })
    }

    /// Where its repository is.
    #[must_use]
    pub const fn tree(&self) -> &'static str {
        self.tree.folder()
    }

    /// Runs a script to its end.
    pub async fn run(&self, script: Script<'_>) -> Result<Said, SweError> {
        self.run_heard(script, None).await
    }

    /// The same, with somebody who reads along.
    pub(super) async fn run_heard(&self, script: Script<'_>, live: Option<&mut dyn Output>) -> Result<Said, SweError> {
        let words = ["bash", "--noprofile", "--norc", "-c", script.text, "bash"];
        let mut argv: Vec<String> = words.map(str::to_owned).into();
        argv.extend(script.arguments);
        let command = CommandSpec {
            argv,
            env: script.env,
            stdin: script.stdin,
            limits: LimitsSpec { wall_ms: Some(script.time.as_secs_f64() * 1000.0), ..LimitsSpec::default() },
            policy: Policy::Off,
            ..CommandSpec::default()
        };
        let spoken = Spoken { live, ..Spoken::default() };
        let result = self.engine.exec_in_session(&self.caller, &self.session, command, spoken).await?;
        let (out, err, outcome) = (result.stdout, result.stderr, result.outcome);
        Ok(Said { out, err, outcome, wall_ms: result.usage.wall_ms })
    }

    /// Writes a file.
    pub async fn write(&self, path: &str, content: &[u8]) -> Result<(), SweError> {
        let path = GuestPath::new(path).map_err(engine::SessionError::from)?;
        let (files, _pass) = self.session.files_to_write(&self.caller).await?;
        let mut content = content;
        files.write(&path, GuestUser::User, 0o644, &mut content).await.map_err(engine::SessionError::from)?;
        Ok(())
    }

    /// The content of a file.
    pub async fn read(&self, path: &str) -> Result<Box<dyn AsyncRead + Send + Unpin>, SweError> {
        let path = GuestPath::new(path).map_err(engine::SessionError::from)?;
        let found = self.session.files()?.read(&path).await.map_err(engine::SessionError::from)?;
        Ok(found.content)
    }

    /// Keeps the disk as it is, under a name.
    pub async fn keep(&self, name: &str, note: &str) -> Result<(), SweError> {
        let note: String = note.chars().filter(|c| !c.is_control()).take(1000).collect();
        let spec = SnapshotSpec { name: Some(name.to_owned()), note, kill: true };
        self.engine.snapshot_session(&self.caller, self.session.id(), spec).await?;
        Ok(())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Without a runtime the whole program is about to end, and the sandbox with it.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (engine, caller, id) = (Arc::clone(&self.engine), self.caller.clone(), self.session.id().to_owned());
        runtime.spawn(async move { drop(engine.kill_session(&caller, &id).await) });
    }
}

/// A name for what was made of these things: the same for the same.
#[must_use]
pub(super) fn name(kind: &str, parts: &[&str]) -> String {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    let hex = hex(&digest[..16]);
    format!("swe-{kind}-{hex}")
}
