//! E2B's control plane: sandboxes are made, found, extended and ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::envd::json as answer;
use super::fault::{Fault, NOT_FOUND};
use super::lifecycle::{self, Before};
use super::sandbox::{AtEnd, Kept, Sandbox, Wanted};
use super::{list, metrics, shape, snapshots, template};
use crate::http::{Shared, caller, read};
use crate::query::Query;

/// How long a sandbox lives if nobody says, and at most.
const USUAL: u64 = 300;
const LONGEST: u64 = 24 * 3600;

/// Every route of the control plane.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/sandboxes", post(create).get(listed))
        .route("/v2/sandboxes", post(create).get(listed))
        .route("/sandboxes/{id}", get(show).delete(kill))
        .route("/sandboxes/{id}/connect", post(connect))
        .route("/v2/sandboxes/{id}/connect", post(connect))
        .route("/sandboxes/{id}/resume", post(connect))
        .route("/sandboxes/{id}/pause", post(pause))
        .route("/sandboxes/{id}/timeout", post(timeout))
        .route("/sandboxes/{id}/refreshes", post(refresh))
        .route("/sandboxes/{id}/metrics", get(measure))
        .route("/sandboxes/{id}/logs", get(logs))
        .route("/v2/sandboxes/{id}/logs", get(logs))
        .route("/sandboxes/{id}/network", put(network))
        .route("/sandboxes/{id}/snapshots", post(snapshots::take))
        .route("/sandboxes/{id}/fork", post(snapshots::fork))
        .route("/snapshots", get(snapshots::all))
        .route("/templates/{id}", delete(snapshots::delete))
}

/// Whether a request is for the control plane.
pub(super) fn is_ours(request: &Request) -> bool {
    let path = request.uri().path();
    let path = path.strip_prefix("/v2").unwrap_or(path);
    ["/sandboxes", "/snapshots", "/templates"].iter().any(|begin| path.starts_with(begin))
}

/// A body as JSON; none is an empty one. Fields that mean nothing here are passed over, as clients of many versions expect.
pub(super) async fn body<T: DeserializeOwned>(request: Request) -> Result<T, Fault> {
    let body = read(request.into_body()).await?;
    super::contexts::parse(if body.is_empty() { b"{}" } else { &body })
}

/// The sandbox that a caller asks about. One of somebody else's is not there.
pub(super) fn find(shared: &Shared, request: &Request, id: &str) -> Result<Arc<Sandbox>, Fault> {
    let caller = caller(request);
    let found = shared.e2b.get(id).filter(|sandbox| caller.may_use(&sandbox.owner));
    let found = found.filter(|sandbox| sandbox.is_paused() || sandbox.session().is_some());
    found.ok_or_else(|| Fault::missing(NOT_FOUND))
}

pub(super) fn lives(timeout: Option<u64>) -> Result<Duration, Fault> {
    let seconds = timeout.unwrap_or(USUAL);
    if seconds > LONGEST {
        return Err(Fault::bad("Timeout cannot be greater than 24 hours"));
    }
    Ok(Duration::from_secs(seconds))
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct New {
    #[serde(rename = "templateID")]
    template: Option<String>,
    timeout: Option<u64>,
    metadata: Option<BTreeMap<String, String>>,
    #[serde(rename = "envVars")]
    env: Option<BTreeMap<String, String>>,
    #[serde(rename = "autoPause")]
    auto_pause: Option<bool>,
    #[serde(rename = "autoPauseMemory")]
    auto_pause_memory: Option<bool>,
    #[serde(rename = "autoResume")]
    auto_resume: Option<AutoResume>,
    secure: Option<bool>,
    allow_internet_access: Option<bool>,
    network: Option<Traffic>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AutoResume {
    enabled: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Traffic {
    #[serde(rename = "allowPublicTraffic")]
    public: Option<bool>,
    #[serde(rename = "allowOut")]
    allow: Vec<String>,
    #[serde(rename = "denyOut")]
    deny: Vec<String>,
}

/// All addresses, as clients write them.
const EVERYBODY: [&str; 2] = ["0.0.0.0/0", "::/0"];

impl New {
    /// What a sandbox may reach is all or nothing here: what would be a part of it is refused, not opened wider.
    fn check_way_out(&mut self, is_open: bool) -> Result<(), Fault> {
        let Some(Traffic { allow, deny, .. }) = &self.network else { return Ok(()) };
        if !is_open || self.allow_internet_access == Some(false) || deny.is_empty() {
            return Ok(());
        }
        if !allow.is_empty() || !deny.iter().any(|address| EVERYBODY.contains(&address.as_str())) {
            return Err(Fault::bad("this server opens all of the internet to a sandbox or nothing, no part of it"));
        }
        self.allow_internet_access = Some(false);
        Ok(())
    }

    fn wanted(self, template: String) -> Wanted {
        let kept = if self.auto_pause_memory == Some(false) { Kept::Disk } else { Kept::Memory };
        Wanted {
            template,
            metadata: self.metadata.unwrap_or_default(),
            env: self.env.unwrap_or_default(),
            at_end: if self.auto_pause == Some(true) { AtEnd::Pause(kept) } else { AtEnd::Kill },
            auto_resume: self.auto_resume.is_some_and(|resume| resume.enabled),
            secure: self.secure != Some(false),
            private: self.network.is_some_and(|network| network.public == Some(false)),
            internet: self.allow_internet_access,
        }
    }
}

async fn create(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Fault> {
    let _underway = shared.runs.begin();
    let (owner, domain) = (caller(&request), shape::domain(request.headers()));
    let mut new: New = body(request).await?;
    let lives = lives(new.timeout)?;
    new.check_way_out(shared.engine.e2b().network == types::Network::Open)?;
    let name = new.template.clone().unwrap_or_else(|| template::BASE.to_owned());
    let origin = template::find(&shared, &owner, &name).await?;
    let sandbox = lifecycle::create(&shared, &owner, new.wanted(name), origin, lives).await?;
    Ok((StatusCode::CREATED, answer(&shape::brief(&sandbox, domain.as_deref()))).into_response())
}

async fn listed(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Fault> {
    let domain = shape::domain(request.headers());
    list::sandboxes(&shared.e2b, &caller(&request), &Query::of(&request), domain.as_deref())
}

async fn show(State(shared): State<Arc<Shared>>, Path(id): Path<String>, request: Request) -> Result<Response, Fault> {
    let sandbox = find(&shared, &request, &id)?;
    Ok(answer(&shape::whole(&sandbox, shape::domain(request.headers()).as_deref())))
}

async fn kill(State(shared): State<Arc<Shared>>, Path(id): Path<String>, request: Request) -> Result<Response, Fault> {
    let sandbox = find(&shared, &request, &id)?;
    lifecycle::kill(&shared, &sandbox).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Time {
    timeout: Option<u64>,
    duration: Option<u64>,
}

async fn connect(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Fault> {
    let sandbox = find(&shared, &request, &id)?;
    let domain = shape::domain(request.headers());
    let time: Time = body(request).await?;
    let status = match lifecycle::resume(&shared, &sandbox, lives(time.timeout)?).await? {
        Before::Running => StatusCode::OK,
        Before::Paused => StatusCode::CREATED,
    };
    Ok((status, answer(&shape::brief(&sandbox, domain.as_deref()))).into_response())
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Pause {
    memory: Option<bool>,
}

async fn pause(State(shared): State<Arc<Shared>>, Path(id): Path<String>, request: Request) -> Result<Response, Fault> {
    let sandbox = find(&shared, &request, &id)?;
    let Pause { memory } = body(request).await?;
    let kept = if memory == Some(false) { Kept::Disk } else { Kept::Memory };
    lifecycle::pause(&shared, &sandbox, kept).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn timeout(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Fault> {
    let sandbox = find(&shared, &request, &id)?;
    let time: Time = body(request).await?;
    sandbox.live(lives(time.timeout)?);
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn refresh(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Fault> {
    let sandbox = find(&shared, &request, &id)?;
    let time: Time = body(request).await?;
    lifecycle::resume(&shared, &sandbox, lives(time.duration)?).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn measure(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Fault> {
    let sandbox = find(&shared, &request, &id)?;
    let query = Query::of(&request);
    let moment = |name| query.get(name).and_then(|text| text.parse().ok());
    Ok(answer(&metrics::between(&sandbox, moment("start"), moment("end")).await?))
}

/// What programs write goes to whoever listens, and is not kept.
async fn logs(State(shared): State<Arc<Shared>>, Path(id): Path<String>, request: Request) -> Result<Response, Fault> {
    find(&shared, &request, &id)?;
    Ok(answer(&json!({ "logs": [], "logEntries": [] })))
}

async fn network(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Fault> {
    find(&shared, &request, &id)?;
    Err(Fault::bad("what a sandbox can reach is decided by this server's settings, and before it begins"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_internet_is_refused_not_opened_wider() {
        let asked = |is_open, text: &str| {
            let mut new: New = serde_json::from_str(text).unwrap_or_default();
            new.check_way_out(is_open).map(|()| new.allow_internet_access)
        };
        assert_eq!(asked(true, r#"{"network": {"denyOut": ["0.0.0.0/0"]}}"#).ok(), Some(Some(false)));
        assert!(asked(true, r#"{"network": {"denyOut": ["8.8.8.8"]}}"#).is_err());
        assert!(asked(true, r#"{"network": {"allowOut": ["1.1.1.1"], "denyOut": ["0.0.0.0/0"]}}"#).is_err());
        assert_eq!(asked(true, r#"{"network": {"allowPublicTraffic": false}}"#).ok(), Some(None));
        assert_eq!(asked(false, r#"{"network": {"denyOut": ["8.8.8.8"]}}"#).ok(), Some(None), "nothing is open there");
    }
}
