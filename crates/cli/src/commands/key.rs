//! `saggar key`: who else may ask the server, and for what.

use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand};
use engine::{Allowance, Engine, Entry, Kind, Settings};
use server::{KeyInfo, KeySpec, Scopes, create_key, list_keys, revoke_key};
use types::{Timestamp, parse_duration};

use crate::failure::{Failure, print_json};
use crate::in_runtime;
use crate::table::print;

/// Make, list and take back keys of the server
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar key create --name ci --scope run,judge --per-minute 600\n  saggar key list\n  saggar key revoke ci\n\nA key is shown once, when it is made; only its hash is kept. Keys count at once, whether a server runs or not. Whoever\nhas one sees runs, sessions and snapshots made with it, and no others. The key of the first start is in `api-key` of\nthe state folder; it is for everything and not in this list."
)]
pub(crate) struct Key {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(Create),
    List(List),
    Revoke(Revoke),
}

/// Make a key and print it
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  export SAGGAR_API_KEY=$(saggar key create --name ci --scope run,judge --expires 30d)\n\nWithout --per-minute, --burst, --concurrent or --per-day the key has what [admission.keys] of the settings gives to all: 100\nrequests a minute, unless they say otherwise."
)]
struct Create {
    /// A name, for people
    #[arg(long, default_value = "")]
    name: String,
    /// What it is for: run, judge, session, admin, with commas between them
    #[arg(long, value_name = "LIST", default_value = "run,judge,session")]
    scope: Scopes,
    /// How long it is valid, such as 30d [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    expires: Option<Duration>,
    /// Requests a minute
    #[arg(long, value_name = "N")]
    per_minute: Option<NonZeroU32>,
    /// Requests at once after a pause
    #[arg(long, value_name = "N")]
    burst: Option<NonZeroU32>,
    /// Requests under way at once
    #[arg(long, value_name = "N")]
    concurrent: Option<NonZeroU32>,
    /// Requests a day
    #[arg(long, value_name = "N")]
    per_day: Option<NonZeroU32>,
    /// Print the key and what is known of it as one line of JSON
    #[arg(long)]
    json: bool,
}

/// List keys; none of them is shown
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar key list --json")]
struct List {
    /// Print a list as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Take a key back: it opens nothing from now on
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar key revoke ci\n  saggar key revoke key_4f1c…\n\nRuns that are under way go on to their end, and sessions live as long as they were to."
)]
struct Revoke {
    /// Its id, or its name
    #[arg(value_name = "ID")]
    id: String,
    /// Print what is known of it as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Key {
    pub(crate) fn wants_json(&self) -> bool {
        match &self.command {
            Command::Create(create) => create.json,
            Command::List(list) => list.json,
            Command::Revoke(revoke) => revoke.json,
        }
    }

    pub(crate) fn execute(self, config: Option<&Path>) -> Result<u8, Failure> {
        let engine = Engine::open(Settings::load(config)?)?;
        match self.command {
            Command::Create(create) => create.execute(&engine),
            Command::List(list) => list.execute(&engine),
            Command::Revoke(revoke) => revoke.execute(&engine),
        }
    }
}

impl Create {
    fn execute(self, engine: &Engine) -> Result<u8, Failure> {
        let Self { per_minute, burst, concurrent, per_day, .. } = self;
        let own = Allowance { per_minute, burst, concurrent, per_day };
        let allowance = (own != Allowance::default()).then_some(own);
        let spec = KeySpec { name: self.name, scopes: self.scope, valid: self.expires, allowance };
        let made = create_key(engine.state(), spec)?;
        record(engine, &made.info, "created")?;
        if self.json {
            print_json(&made)?;
        } else {
            print(&[], &[], &made.key)?;
        }
        Ok(0)
    }
}

impl List {
    fn execute(&self, engine: &Engine) -> Result<u8, Failure> {
        let keys = list_keys(engine.state())?;
        if self.json {
            print_json(&keys)?;
            return Ok(0);
        }
        let rows: Vec<Vec<String>> = keys.iter().map(row).collect();
        if rows.is_empty() {
            print(&[], &[], "no key but the first; `saggar key create` makes one")?;
        } else {
            print(&["ID", "NAME", "FOR", "MADE", "STATE"], &rows, "")?;
        }
        Ok(0)
    }
}

fn row(key: &KeyInfo) -> Vec<String> {
    let state = match (key.revoked_ms, key.expires_ms) {
        (Some(at), _) => format!("revoked {}", shown(at)),
        (None, Some(at)) if !key.is_valid() => format!("ended {}", shown(at)),
        (None, Some(at)) => format!("until {}", shown(at)),
        (None, None) => "valid".to_owned(),
    };
    vec![key.id.clone(), key.name.clone(), key.scopes.to_string(), shown(key.created_ms), state]
}

fn shown(milliseconds: u64) -> String {
    let moment = Timestamp(i64::try_from(milliseconds).unwrap_or(i64::MAX).saturating_mul(1000));
    moment.to_string().chars().take(16).collect()
}

impl Revoke {
    fn execute(self, engine: &Engine) -> Result<u8, Failure> {
        let revoked = revoke_key(engine.state(), &self.id)?;
        record(engine, &revoked, "revoked")?;
        if self.json {
            print_json(&revoked)?;
        } else {
            print(&[], &[], &format!("revoked {}", revoked.id))?;
        }
        Ok(0)
    }
}

/// In the trail it is named by its id; the key itself is nowhere.
fn record(engine: &Engine, key: &KeyInfo, act: &str) -> Result<(), Failure> {
    let details = serde_json::json!({ "name": key.name, "scopes": key.scopes, "allowance": key.allowance });
    let entry = Entry {
        id: key.id.clone(),
        kind: Kind::Key,
        caller: "local".to_owned(),
        outcome: act.to_owned(),
        details: details.to_string(),
    };
    in_runtime(async { Ok(engine.audit().record(entry).await?) })
}
