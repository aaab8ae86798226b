//! Snapshots of a session: `snapshot`, `snapshots`, `diff`, `rollback`, `fork`, `export`, `import`, `forget`.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use engine::SnapshotSpec;
use serde_json::{Value, json};
use types::BackendKind;

use super::files::{save, send};
use super::{address, body, say, text};
use crate::failure::{Failure, print_json, unheard, visible};
use crate::options::BackendOption;
use crate::remote::{Content, Server, encode};

/// Keep the files of a session as they are, and print the snapshot's id
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  saggar session snapshot ses_4f1c… --name before\n\nProcesses go on. Those that have a file open for writing are an error that lists them, unless --kill ends them."
)]
pub(super) struct Snapshot {
    /// The session
    id: String,
    /// A name to find it by
    #[arg(long)]
    name: Option<String>,
    /// Words of your own
    #[arg(long, default_value = "")]
    note: String,
    /// End processes that have a file open for writing
    #[arg(long)]
    kill: bool,
    /// Print the snapshot as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// List snapshots
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar session snapshots --json")]
pub(super) struct Snapshots {
    /// Print a list of snapshots as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Show which files changed between two snapshots, or a snapshot and a session as it is now
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar session diff before after\n  saggar session diff before ses_4f1c… --json\n\nEach line says `added`, `changed` or `removed`, and the path."
)]
pub(super) struct Diff {
    /// A snapshot, by its id or name, or a session
    from: String,
    /// What to compare it with
    to: String,
    /// Print the changes as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Write a snapshot to a file, as a layer of an OCI image
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar session export before before.tar")]
pub(super) struct Export {
    /// The snapshot, by its id or name
    snapshot: String,
    /// The file, or - for standard output
    dest: PathBuf,
    /// Print what was written as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Make a snapshot of a layer of an OCI image, and print its id
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  saggar session import before.tar --name before\n  saggar session create --from before\n\nThe file is a tar, plain or packed by gzip or zstd."
)]
pub(super) struct Import {
    /// The file, or - for standard input
    src: PathBuf,
    /// A name to find it by
    #[arg(long)]
    name: Option<String>,
    /// Who keeps it [default: by the settings, else native]
    #[arg(long, value_enum)]
    backend: Option<BackendOption>,
    /// What it stands on, where the backend is Docker
    #[arg(long, value_name = "REF")]
    image: Option<String>,
    /// Print the snapshot as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Put the files of a session back to a snapshot; its processes end
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar session rollback ses_4f1c… before")]
pub(super) struct Rollback {
    /// The session
    id: String,
    /// The snapshot, by its id or name
    snapshot: String,
    /// Print the session as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Make copies of a session, with its files and without processes, and print their ids
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar session fork ses_4f1c… --count 3 --json")]
pub(super) struct Fork {
    /// The session
    id: String,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: u32,
    /// End processes that have a file open for writing
    #[arg(long)]
    kill: bool,
    /// Print a list of sessions as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Delete a snapshot; `saggar prune` frees what nothing else needs
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar session forget before")]
pub(super) struct Forget {
    /// The snapshot, by its id or name
    snapshot: String,
    /// Print the snapshot as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl Snapshot {
    pub(super) fn execute(self, server: &Server) -> Result<u8, Failure> {
        let spec = SnapshotSpec { name: self.name, note: self.note, kill: self.kill };
        let made: Value = server.json("POST", &address(&self.id, "/snapshots"), body(&spec)?)?;
        if self.json {
            print_json(&made)?;
        } else {
            say(text(&made, "id"))?;
        }
        Ok(0)
    }
}

impl Snapshots {
    pub(super) fn execute(&self, server: &Server) -> Result<u8, Failure> {
        let snapshots: Value = server.json("GET", "/v1/snapshots", Content::Nothing)?;
        if self.json {
            print_json(&snapshots)?;
            return Ok(0);
        }
        let mut out = BufWriter::new(io::stdout().lock());
        writeln!(out, "{:37}  {:36}  {:>12}  NAME", "ID", "SESSION", "BYTES").map_err(unheard)?;
        for snapshot in snapshots.as_array().into_iter().flatten() {
            let name: String = text(snapshot, "name").chars().map(visible).collect();
            let (id, session, bytes) = (text(snapshot, "id"), text(snapshot, "session"), snapshot["bytes"].as_u64());
            let bytes = bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
            writeln!(out, "{id:37}  {session:36}  {bytes:>12}  {name}").map_err(unheard)?;
        }
        out.flush().map_err(unheard)?;
        Ok(0)
    }
}

impl Diff {
    pub(super) fn execute(&self, server: &Server) -> Result<u8, Failure> {
        let path = format!("/v1/diff?from={}&to={}", query(&self.from), query(&self.to));
        let changes: Value = server.json("GET", &path, Content::Nothing)?;
        if self.json {
            print_json(&changes)?;
            return Ok(0);
        }
        let mut out = BufWriter::new(io::stdout().lock());
        for entry in changes["entries"].as_array().into_iter().flatten() {
            let path: String = text(entry, "path").chars().map(visible).collect();
            writeln!(out, "{:8}{path}", text(entry, "change")).map_err(unheard)?;
        }
        out.flush().map_err(unheard)?;
        if changes["truncated"] == true {
            eprintln!("there are more changes than are shown");
        }
        Ok(0)
    }
}

impl Export {
    pub(super) fn execute(self, server: &Server) -> Result<u8, Failure> {
        let path = format!("/v1/snapshots/{}/archive", query(&self.snapshot));
        let bytes = save(server.ask("GET", &path, Content::Nothing)?, &self.dest)?;
        if self.json {
            print_json(&json!({ "snapshot": self.snapshot, "dest": self.dest.display().to_string(), "bytes": bytes }))?;
        }
        Ok(0)
    }
}

impl Import {
    pub(super) fn execute(self, server: &Server) -> Result<u8, Failure> {
        let backend = BackendOption::or_by_environment(self.backend)?;
        let said = [
            ("name", self.name.as_deref()),
            ("backend", backend.map(BackendKind::name)),
            ("image", self.image.as_deref()),
        ];
        let said = said.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", query(value?))));
        let path = format!("/v1/snapshots/import?{}", said.collect::<Vec<_>>().join("&"));
        let made: Value = send(server, "POST", &path, &self.src)?;
        if self.json {
            print_json(&made)?;
        } else {
            say(text(&made, "id"))?;
        }
        Ok(0)
    }
}

/// A name as one part of an address.
fn query(name: &str) -> String {
    encode(name).replace('/', "%2F")
}

impl Rollback {
    pub(super) fn execute(self, server: &Server) -> Result<u8, Failure> {
        let content = body(&json!({ "snapshot": self.snapshot }))?;
        let session: Value = server.json("POST", &address(&self.id, "/rollback"), content)?;
        if self.json {
            print_json(&session)?;
        }
        Ok(0)
    }
}

impl Fork {
    pub(super) fn execute(self, server: &Server) -> Result<u8, Failure> {
        let content = body(&json!({ "count": self.count, "kill": self.kill }))?;
        let sessions: Value = server.json("POST", &address(&self.id, "/fork"), content)?;
        if self.json {
            print_json(&sessions)?;
        } else {
            sessions.as_array().into_iter().flatten().try_for_each(|session| say(text(session, "id")))?;
        }
        Ok(0)
    }
}

impl Forget {
    pub(super) fn execute(self, server: &Server) -> Result<u8, Failure> {
        let path = format!("/v1/snapshots/{}", query(&self.snapshot));
        let deleted: Value = server.json("DELETE", &path, Content::Nothing)?;
        if self.json {
            print_json(&deleted)?;
        }
        Ok(0)
    }
}
