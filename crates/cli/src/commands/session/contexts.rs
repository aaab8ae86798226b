//! Interpreters of a session: `contexts`, `interrupt`, `restart`.

use std::io::{self, Write};

use clap::Args;
use serde_json::Value;

use super::{address, text};
use crate::failure::{Failure, print_json, unheard};
use crate::remote::{Content, Server, encode};

/// List the interpreters of a session
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar session contexts ses_4f1c… --json")]
pub(super) struct Contexts {
    /// The session
    id: String,
    /// Print a list of contexts as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Interrupt the code that runs in an interpreter of a session; its variables stay
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar session interrupt ses_4f1c…")]
pub(super) struct Interrupt {
    #[command(flatten)]
    pub(super) one: One,
}

/// End an interpreter of a session; the next code begins with a new one
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar session restart ses_4f1c… node")]
pub(super) struct Restart {
    #[command(flatten)]
    pub(super) one: One,
}

/// One interpreter.
#[derive(Debug, Args)]
pub(super) struct One {
    /// The session
    id: String,
    /// Which interpreter
    #[arg(default_value = "python")]
    context: String,
    /// Print the context as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl Contexts {
    pub(super) fn execute(&self, server: &Server) -> Result<u8, Failure> {
        let contexts: Value = server.json("GET", &address(&self.id, "/contexts"), Content::Nothing)?;
        if self.json {
            print_json(&contexts)?;
            return Ok(0);
        }
        let mut out = io::stdout().lock();
        for context in contexts.as_array().into_iter().flatten() {
            let (name, version, flavour) = (text(context, "name"), text(context, "version"), text(context, "flavour"));
            writeln!(out, "{name:20}  {version:12}  {flavour}").map_err(unheard)?;
        }
        Ok(0)
    }
}

impl One {
    /// Does something with it, and shows what it was.
    pub(super) fn execute(&self, server: &Server, method: &str, rest: &str) -> Result<u8, Failure> {
        let name = encode(&self.context).replace('/', "%2F");
        let path = address(&self.id, &format!("/contexts/{name}{rest}"));
        let context: Value = server.json(method, &path, Content::Nothing)?;
        if self.json {
            print_json(&context)?;
        }
        Ok(0)
    }
}
