//! Which sandboxes a caller has, page by page.

use std::sync::Arc;

use axum::http::HeaderValue;
use axum::response::Response;
use engine::Caller;
use serde_json::Value;
use types::Timestamp;

use super::envd::json;
use super::fault::Fault;
use super::sandbox::{Sandbox, Sandboxes};
use super::shape;
use crate::query::{Query, decode};

/// Entries of a page, if nobody says, and at most.
const PAGE: usize = 100;
const NEXT: &str = "x-next-token";

/// One page of anything that has a moment and a name. The token names the last entry that was told.
pub(super) fn page<T>(
    query: &Query,
    mut all: Vec<T>,
    key: impl Fn(&T) -> (Timestamp, String),
    told: impl Fn(&T) -> Value,
) -> Result<Response, Fault> {
    let ascending = query.get("order").as_deref() == Some("asc");
    all.sort_by_key(&key);
    if !ascending {
        all.reverse();
    }
    if let Some(token) = query.get("nextToken").filter(|token| !token.is_empty()) {
        let wrong = || Fault::bad("`nextToken` is none of ours");
        let (moment, name) = token.split_once('_').ok_or_else(wrong)?;
        let last = (Timestamp(moment.parse().map_err(|_| wrong())?), name.to_owned());
        all.retain(|entry| if ascending { key(entry) > last } else { key(entry) < last });
    }
    let limit = query.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(PAGE).clamp(1, PAGE);
    let more = all.len() > limit;
    all.truncate(limit);
    let mut response = json(&all.iter().map(told).collect::<Vec<_>>());
    if let (true, Some((moment, name))) = (more, all.last().map(key))
        && let Ok(token) = HeaderValue::try_from(format!("{}_{name}", moment.0))
    {
        response.headers_mut().insert(NEXT, token);
    }
    Ok(response)
}

pub(super) fn sandboxes(
    known: &Sandboxes,
    caller: &Caller,
    query: &Query,
    domain: Option<&str>,
) -> Result<Response, Fault> {
    let states = query.get("state");
    let after = query.get("startedAfter").map(|text| text.parse::<Timestamp>()).transpose();
    let after = after.map_err(|error| Fault::bad(error.to_string()))?;
    let template = query.get("template");
    let metadata = query.get("metadata").map(|text| pairs(&text)).unwrap_or_default();
    let is_wanted = |sandbox: &Arc<Sandbox>| {
        let state = if sandbox.is_paused() { "paused" } else { "running" };
        (sandbox.is_paused() || sandbox.session().is_some())
            && states.as_ref().is_none_or(|states| states.split(',').any(|wanted| wanted == state))
            && after.is_none_or(|after| sandbox.created >= after)
            && template.as_ref().is_none_or(|wanted| sandbox.wanted.template == *wanted)
            && metadata.iter().all(|(name, value)| sandbox.wanted.metadata.get(name) == Some(value))
    };
    let all: Vec<Arc<Sandbox>> = known.of(caller).into_iter().filter(is_wanted).collect();
    page(query, all, |one| (one.created, one.id.clone()), |one| shape::whole(one, domain))
}

/// A query within a query, whose words are encoded once more.
fn pairs(text: &str) -> Vec<(String, String)> {
    let twice = |text: &str| decode(&decode(text));
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(a, b)| (twice(a), twice(b))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_filter_are_encoded_twice() {
        assert_eq!(pairs("a=b%2520c&d="), [("a".to_owned(), "b c".to_owned()), ("d".to_owned(), String::new())]);
        assert_eq!(pairs(""), []);
    }
}
