//! Snapshots of a session: `snapshot`, `snapshots`, `rollback`, `fork`, `forget`.

use std::io::{self, BufWriter, Write};

use clap::Args;
use engine::SnapshotSpec;
use serde_json::{Value, json};

use super::{address, body, say, text};
use crate::failure::{Failure, print_json, unheard, visible};
use crate::unix::{Content, Server, encode};

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
        let path = format!("/v1/snapshots/{}", encode(&self.snapshot).replace('/', "%2F"));
        let deleted: Value = server.json("DELETE", &path, Content::Nothing)?;
        if self.json {
            print_json(&deleted)?;
        }
        Ok(0)
    }
}
