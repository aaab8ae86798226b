//! Keys over HTTP, for whoever looks after the machine. Nobody gives away more than he has.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{delete, get};
use engine::{Allowance, Standing};
use types::ErrorCode;

use super::made::{KeyError, KeyInfo, KeySpec, create_key, list_keys, now, record_key, revoke_key};
use crate::error::{Refusal, stopping};
use crate::http::{Shared, json, read};
use crate::identity::Identity;

pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/v1/keys", get(list).post(create)).route("/v1/keys/{key}", delete(revoke))
}

impl From<KeyError> for Refusal {
    fn from(error: KeyError) -> Self {
        let body = error.body();
        // Where the file lies is nobody's business on the network.
        let message = match error {
            KeyError::File { .. } | KeyError::Form { .. } => "the list of keys cannot be used".to_owned(),
            KeyError::Missing(_) | KeyError::Several(_) | KeyError::Spec(_) => body.message,
        };
        Self::new(body.code, message, body.hint)
    }
}

async fn list(State(shared): State<Arc<Shared>>) -> Result<Response, Refusal> {
    json(&aside(&shared, |state| list_keys(&state)).await?)
}

async fn create(State(shared): State<Arc<Shared>>, identity: Identity, request: Request) -> Result<Response, Refusal> {
    let body = read(request.into_body()).await?;
    let spec: KeySpec = serde_json::from_slice(&body).map_err(|error| {
        let hint = "send JSON such as {\"name\": \"ci\", \"scopes\": [\"run\"], \"valid_ms\": 86400000}";
        Refusal::new(ErrorCode::InvalidRequest, format!("the body is no key to make: {error}"), hint)
    })?;
    let _pass = shared.engine.admit(&identity.caller, "key").await?;
    let own = match &identity.caller.standing {
        Standing::Owner | Standing::FirstKey => None,
        Standing::Key { id, .. } => {
            let id = id.clone();
            // One that was taken back since it was shown gives nothing away.
            let keys = aside(&shared, |state| list_keys(&state)).await?;
            Some(keys.into_iter().find(|key| key.id == id && key.is_valid()).ok_or_else(crate::identity::unknown)?)
        }
    };
    may_give(&identity, own.as_ref(), &spec, shared.engine.usual_allowance())?;
    let made = aside(&shared, |state| create_key(&state, spec)).await?;
    record_key(&shared.engine, &identity.caller, &made.info, "created").await.map_err(engine::RunError::from)?;
    let mut response = json(&made)?;
    *response.status_mut() = StatusCode::CREATED;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// What a key is for, how long it opens and how often: a key that another one makes has no more of it.
fn may_give(identity: &Identity, own: Option<&KeyInfo>, spec: &KeySpec, usual: Allowance) -> Result<(), Refusal> {
    for scope in spec.scopes.iter() {
        identity.must(scope)?;
    }
    let Some(own) = own else { return Ok(()) };
    let refused = |what: &str, hint: &str| Err(Refusal::new(ErrorCode::Forbidden, what.to_owned(), hint));
    let end = spec.valid_ms.map(|time| now().saturating_add(time));
    if own.expires_ms.is_some_and(|last| end.is_none_or(|end| end > last)) {
        return refused(
            "a key cannot make one that outlives it",
            "give a `valid_ms` that ends before your own key does",
        );
    }
    if !is_within(spec.allowance.unwrap_or(usual), own.allowance.unwrap_or(usual)) {
        let hint = "give an `allowance` with at most what your own key has";
        return refused("a key cannot make one with more than its own measure", hint);
    }
    Ok(())
}

/// Gaps mean no limit.
fn is_within(new: Allowance, own: Allowance) -> bool {
    let pairs = [
        (new.per_minute, own.per_minute),
        (new.burst.or(new.per_minute), own.burst.or(own.per_minute)),
        (new.concurrent, own.concurrent),
        (new.per_day, own.per_day),
    ];
    pairs.into_iter().all(|(new, own)| own.is_none_or(|own| new.is_some_and(|new| new <= own)))
}

async fn revoke(
    State(shared): State<Arc<Shared>>,
    Path(key): Path<String>,
    identity: Identity,
) -> Result<Response, Refusal> {
    let _pass = shared.engine.admit(&identity.caller, "key").await?;
    let revoked = aside(&shared, move |state| revoke_key(&state, &key)).await?;
    record_key(&shared.engine, &identity.caller, &revoked, "revoked").await.map_err(engine::RunError::from)?;
    json(&revoked)
}

/// On a thread that may wait: somebody else may hold the list.
async fn aside<T: Send + 'static>(
    shared: &Shared,
    act: impl FnOnce(PathBuf) -> Result<T, KeyError> + Send + 'static,
) -> Result<T, Refusal> {
    let state = shared.engine.state().to_owned();
    Ok(tokio::task::spawn_blocking(move || act(state)).await.map_err(|_| stopping())??)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::identity::{Scope, Scopes};

    fn own(expires_ms: Option<u64>, allowance: Option<Allowance>) -> KeyInfo {
        let (id, name) = ("key_1".to_owned(), String::new());
        KeyInfo { id, name, scopes: Scopes::all(), created_ms: 0, expires_ms, revoked_ms: None, allowance }
    }

    fn measure(per_minute: u32) -> Allowance {
        Allowance { per_minute: NonZeroU32::new(per_minute), ..Allowance::default() }
    }

    #[test]
    fn nobody_gives_away_more_than_he_has() {
        let admin = Identity { scopes: [Scope::Admin].into_iter().collect(), ..Identity::first_key() };
        let spec = |scope| KeySpec { scopes: [scope].into_iter().collect(), ..KeySpec::default() };
        let usual = measure(100);
        assert!(may_give(&admin, None, &spec(Scope::Admin), usual).is_ok());
        assert!(may_give(&admin, None, &spec(Scope::Run), usual).is_err());
        let all = Identity::first_key();
        let bounded = own(Some(now() + 100_000), Some(measure(60)));
        let lasting = |valid_ms, allowance| KeySpec { valid_ms, allowance, ..spec(Scope::Run) };
        assert!(may_give(&all, Some(&bounded), &lasting(Some(50_000), Some(measure(60))), usual).is_ok());
        for more in [
            lasting(None, Some(measure(60))),
            lasting(Some(200_000), Some(measure(60))),
            lasting(Some(u64::MAX), Some(measure(60))),
            lasting(Some(50_000), None),
            lasting(Some(50_000), Some(measure(61))),
        ] {
            assert!(may_give(&all, Some(&bounded), &more, usual).is_err(), "{more:?}");
        }
        for (allowance, may) in [(None, true), (Some(measure(5)), true), (Some(measure(101)), false)] {
            assert_eq!(may_give(&all, Some(&own(None, None)), &lasting(None, allowance), usual).is_ok(), may);
        }
    }
}
