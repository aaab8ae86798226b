//! `saggar key`: who else may ask the server, and for what.

use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand};
use engine::{Allowance, Caller, Engine, Settings};
use server::{KeyInfo, KeySpec, NewKey, Scopes, create_key, list_keys, record_key, revoke_key};
use types::{Timestamp, parse_duration};

use crate::failure::{Failure, print_json};
use crate::in_runtime;
use crate::remote::{Content, Server, broken, encode};
use crate::table::print;

/// Make, list and take back keys of the server
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar key create --name ci --scope run,judge --per-minute 600\n  saggar key list\n  saggar key revoke ci\n  saggar key create --server https://box.example.org --name guest --scope run\n\nA key is shown once, when it is made; only its hash is kept. Keys count at once, whether a server runs or not. Whoever\nhas one sees runs, sessions and snapshots made with it, and no others. The key of the first start is in `api-key` of\nthe state folder; it is for everything and not in this list."
)]
pub(crate) struct Key {
    /// Ask the server at this address, with a key for `admin` in `SAGGAR_API_KEY`
    #[arg(long, value_name = "URL", global = true)]
    server: Option<String>,
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
        let keys = match &self.server {
            Some(url) => Keys::Elsewhere(Server::at(url)?),
            None => Keys::Here(Box::new(Engine::open(Settings::load(config)?)?)),
        };
        match self.command {
            Command::Create(create) => create.execute(&keys),
            Command::List(list) => list.execute(&keys),
            Command::Revoke(revoke) => revoke.execute(&keys),
        }
    }
}

/// Whose keys: those of this state folder, or a server's.
enum Keys {
    Here(Box<Engine>),
    Elsewhere(Server),
}

impl Keys {
    fn create(&self, spec: KeySpec) -> Result<NewKey, Failure> {
        match self {
            Self::Here(engine) => {
                let made = create_key(engine.state(), spec)?;
                record(engine, &made.info, "created")?;
                Ok(made)
            }
            Self::Elsewhere(server) => {
                let json = serde_json::to_vec(&spec).map_err(|error| broken(error.into()))?;
                server.json("POST", "/v1/keys", Content::Json(json))
            }
        }
    }

    fn list(&self) -> Result<Vec<KeyInfo>, Failure> {
        match self {
            Self::Here(engine) => Ok(list_keys(engine.state())?),
            Self::Elsewhere(server) => server.json("GET", "/v1/keys", Content::Nothing),
        }
    }

    fn revoke(&self, name: &str) -> Result<KeyInfo, Failure> {
        match self {
            Self::Here(engine) => {
                let revoked = revoke_key(engine.state(), name)?;
                record(engine, &revoked, "revoked")?;
                Ok(revoked)
            }
            Self::Elsewhere(server) => {
                let path = format!("/v1/keys/{}", encode(name).replace('/', "%2F"));
                server.json("DELETE", &path, Content::Nothing)
            }
        }
    }
}

fn record(engine: &Engine, key: &KeyInfo, act: &str) -> Result<(), Failure> {
    let caller = Caller { name: "local".to_owned(), ..Caller::default() };
    in_runtime(async { Ok(record_key(engine, &caller, key, act).await?) })
}

impl Create {
    fn execute(self, keys: &Keys) -> Result<u8, Failure> {
        let Self { per_minute, burst, concurrent, per_day, .. } = self;
        let own = Allowance { per_minute, burst, concurrent, per_day };
        let allowance = (own != Allowance::default()).then_some(own);
        let valid_ms = self.expires.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let made = keys.create(KeySpec { name: self.name, scopes: self.scope, valid_ms, allowance })?;
        if self.json {
            print_json(&made)?;
        } else {
            print(&[], &[], &made.key)?;
        }
        Ok(0)
    }
}

impl List {
    fn execute(&self, keys: &Keys) -> Result<u8, Failure> {
        let keys = keys.list()?;
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
    fn execute(self, keys: &Keys) -> Result<u8, Failure> {
        let revoked = keys.revoke(&self.id)?;
        if self.json {
            print_json(&revoked)?;
        } else {
            print(&[], &[], &format!("revoked {}", revoked.id))?;
        }
        Ok(0)
    }
}
