//! The trail that is asked: that of a state folder, or a server's.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use engine::{ChainReport, Filter, Reader, Record};
use serde::Deserialize;
use types::ErrorBody;

use crate::failure::Failure;
use crate::options::wrong;
use crate::remote::{Content, Server, broken, encode, query};

/// Entries that a server tells in one answer.
const MOST_TOLD: usize = 1000;
/// The longest entry.
const MOST_LINE: u64 = 64 << 20;

pub(super) enum Trail {
    Here(Reader),
    Elsewhere(Server),
}

#[derive(Deserialize)]
struct Wire {
    error: ErrorBody,
}

impl Trail {
    pub(super) fn of(state: &Path) -> Result<Self, Failure> {
        Ok(Self::Here(Reader::open(state)?))
    }

    pub(super) fn elsewhere(url: &str) -> Result<Self, Failure> {
        Ok(Self::Elsewhere(Server::at(url)?))
    }

    pub(super) fn newest(&self, filter: &Filter, most: usize) -> Result<Vec<Record>, Failure> {
        match self {
            Self::Here(reader) => Ok(reader.newest(filter, most)?),
            Self::Elsewhere(_) if most > MOST_TOLD => Err(wrong(format!(
                "a server tells at most {MOST_TOLD} entries at once; `audit export` has all of them"
            ))),
            Self::Elsewhere(server) => {
                let path = format!("/v1/audit{}", asked(filter, Some(most)));
                server.json("GET", &path, Content::Nothing)
            }
        }
    }

    pub(super) fn find(&self, name: &str) -> Result<Option<Record>, Failure> {
        match self {
            Self::Here(reader) => Ok(reader.find(name)?),
            Self::Elsewhere(server) => {
                let path = format!("/v1/audit/{}", encode(name).replace('/', "%2F"));
                match server.json("GET", &path, Content::Nothing) {
                    Err(failure) if failure.is_missing() => Ok(None),
                    told => told.map(Some),
                }
            }
        }
    }

    pub(super) fn verify(&self) -> Result<ChainReport, Failure> {
        match self {
            Self::Here(reader) => Ok(reader.verify()?),
            Self::Elsewhere(server) => server.json("GET", "/v1/audit/verify", Content::Nothing),
        }
    }

    /// Every entry as a line of JSON, oldest first.
    pub(super) fn all(
        &self,
        filter: &Filter,
        mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let server = match self {
            Self::Here(reader) => {
                return reader
                    .all(filter, |entry| take(&serde_json::to_vec(&entry).map_err(io::Error::from).map_err(broken)?));
            }
            Self::Elsewhere(server) => server,
        };
        let answer = server.ask("GET", &format!("/v1/audit/export{}", asked(filter, None)), Content::Nothing)?;
        let mut reader = BufReader::new(answer.body);
        let mut line = Vec::new();
        while reader.by_ref().take(MOST_LINE).read_until(b'\n', &mut line).map_err(broken)? > 0 {
            let Some(entry) = line.strip_suffix(b"\n") else {
                return Err(broken(io::ErrorKind::UnexpectedEof.into()));
            };
            // A server that cannot go on says so on the last line.
            if let Ok(Wire { error }) = serde_json::from_slice(entry) {
                return Err(error.into());
            }
            take(entry)?;
            line.clear();
        }
        Ok(())
    }
}

fn asked(filter: &Filter, limit: Option<usize>) -> String {
    let Filter { since, until, caller, outcome, kind } = filter;
    query(&[
        ("since", since.map(|time| time.to_string())),
        ("until", until.map(|time| time.to_string())),
        ("caller", caller.clone()),
        ("outcome", outcome.clone()),
        ("kind", kind.clone()),
        ("limit", limit.map(|limit| limit.to_string())),
    ])
}
