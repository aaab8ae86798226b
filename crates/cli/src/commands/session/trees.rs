//! Trees of files of a session: `pack`, `unpack`, `watch`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;

use clap::Args;
use engine::RunError;
use serde_json::Value;

use super::files::{at, is_standard};
use super::text;
use crate::failure::{Failure, print_json, unheard, visible};
use crate::remote::{Answer, Content, Server, broken};

/// Bring a folder back from a session as a tar
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar session pack ses_4f1c… /work/out out.tar\n  saggar session pack ses_4f1c… /work - | tar tv"
)]
pub(super) struct Pack {
    /// The session
    id: String,
    /// A folder or a file in the session
    path: String,
    /// Where the tar goes, or - for standard output
    dest: PathBuf,
}

/// Unpack a tar into a folder of a session
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar session unpack ses_4f1c… src.tar /work\n  tar c src | saggar session unpack ses_4f1c… - /work\n\nThe tar must not be compressed. Files of the same names are replaced; devices and set-id bits are left out."
)]
pub(super) struct Unpack {
    /// The session
    id: String,
    /// A tar of yours, or - for standard input
    src: PathBuf,
    /// A folder in the session, which is made
    #[arg(default_value = "/work")]
    path: String,
    /// Print what was unpacked as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Tell what happens to the files of a folder, until interrupted
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar session watch ses_4f1c… /work --recursive")]
pub(super) struct Watch {
    /// The session
    id: String,
    /// A folder in the session
    #[arg(default_value = "/work")]
    path: String,
    /// Everything below it, also in folders that are made later
    #[arg(long)]
    recursive: bool,
    /// Print each event as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl Pack {
    pub(super) fn execute(self, server: &Server) -> Result<u8, Failure> {
        let Answer { mut body, .. } = server.ask("GET", &at(&self.id, "archive", &self.path), Content::Nothing)?;
        let failed = |source| Failure::from(RunError::Output { path: self.dest.clone(), source });
        if is_standard(&self.dest) {
            return copy(&mut body, &mut io::stdout().lock(), failed);
        }
        let mut file = File::create(&self.dest).map_err(failed)?;
        let copied = copy(&mut body, &mut file, failed);
        if copied.is_err() {
            // A part is of no use, and looks like the whole.
            let _ = std::fs::remove_file(&self.dest);
        }
        copied
    }
}

fn copy(from: &mut dyn Read, into: &mut dyn Write, failed: impl Fn(io::Error) -> Failure) -> Result<u8, Failure> {
    let mut buffer = vec![0; 256 << 10];
    loop {
        match from.read(&mut buffer).map_err(broken)? {
            0 => break,
            n => into.write_all(&buffer[..n]).map_err(&failed)?,
        }
    }
    into.flush().map_err(failed)?;
    Ok(0)
}

impl Unpack {
    pub(super) fn execute(self, server: &Server) -> Result<u8, Failure> {
        let path = at(&self.id, "archive", &self.path);
        let unpacked: Value = if is_standard(&self.src) {
            server.json("PUT", &path, Content::Stream(&mut io::stdin().lock()))?
        } else {
            let mut file = File::open(&self.src).map_err(|error| Failure::input(&self.src, error))?;
            server.json("PUT", &path, Content::Stream(&mut file))?
        };
        if self.json {
            print_json(&unpacked)?;
        }
        Ok(0)
    }
}

impl Watch {
    pub(super) fn execute(self, server: &Server) -> Result<u8, Failure> {
        let path = format!("{}&recursive={}", at(&self.id, "watch", &self.path), self.recursive);
        let Answer { body, .. } = server.ask("GET", &path, Content::Nothing)?;
        let mut kind = String::new();
        for line in BufReader::new(body).lines() {
            let line = line.map_err(broken)?;
            if let Some(name) = line.strip_prefix("event: ") {
                name.clone_into(&mut kind);
            } else if let Some(data) = line.strip_prefix("data: ") {
                let event: Value = serde_json::from_str(data).map_err(|error| broken(error.into()))?;
                self.tell(&kind, &event)?;
            }
        }
        Ok(0)
    }

    fn tell(&self, kind: &str, event: &Value) -> Result<(), Failure> {
        match (kind, self.json) {
            ("file", true) => print_json(event),
            ("file", false) => {
                let (what, path, to) = (text(event, "type"), text(event, "path"), text(event, "to"));
                let shown: String = format!("{what:8}  {path}  {to}").trim_end().chars().map(visible).collect();
                writeln!(io::stdout(), "{}", shown.replace('\n', "?")).map_err(unheard)
            }
            // Who starts something that changes files can wait for this.
            ("watching", _) => writeln!(io::stderr(), "watching").map_err(unheard),
            _ => Ok(()),
        }
    }
}
