//! Files of a session over HTTP. Content travels as it is, in pieces.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use engine::{Caller, FileError, GuestUser, Reach, Session, SessionError};
use tokio::sync::watch;
use types::{ErrorCode, GuestPath};

use super::body::{Incoming, Outgoing, Unmeasured};
use super::find;
use crate::activity::turned;
use crate::error::Refusal;
use crate::events::{Events, raw_event};
use crate::http::{READER_PATIENCE, Shared, event_stream, json};
use crate::outlet::Outlet;
use crate::query::Query;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/sessions/{id}/files", get(download).put(upload).delete(remove))
        .route("/v1/sessions/{id}/entries", get(list))
        .route("/v1/sessions/{id}/entry", get(stat))
        .route("/v1/sessions/{id}/folders", post(make_folder))
        .route("/v1/sessions/{id}/move", post(rename))
        .route("/v1/sessions/{id}/archive", get(pack).put(unpack))
        .route("/v1/sessions/{id}/watch", get(look))
}

/// What a request about a file names.
struct Named {
    caller: Caller,
    session: Arc<Session>,
    path: GuestPath,
    /// Whose it will be.
    user: GuestUser,
    query: Query,
}

impl Named {
    fn of(shared: &Shared, id: &str, request: &Request) -> Result<Self, Refusal> {
        let (caller, session) = find(shared, request, id)?;
        let query = Query::of(request);
        let user = match query.get("user").as_deref() {
            None | Some("user") => GuestUser::User,
            Some("root") => GuestUser::Root,
            Some(_) => {
                return Err(Refusal::new(ErrorCode::InvalidRequest, "there is no such user", "`user` or `root`"));
            }
        };
        let path = at(&query, "path", user)?;
        Ok(Self { caller, session, path, user, query })
    }

    async fn record(&self, act: &str) -> Result<(), Refusal> {
        Ok(self.session.record_act(&self.caller, act, &self.path).await?)
    }

    /// The entry itself, as the answer.
    async fn entry(&self) -> Result<Response, Refusal> {
        json(&self.session.files()?.stat(&self.path).await.map_err(failed)?)
    }
}

fn at(query: &Query, field: &str, user: GuestUser) -> Result<GuestPath, Refusal> {
    let Some(path) = query.get(field) else {
        let hint = format!("add ?{field}=/work/name to the address");
        return Err(Refusal::new(ErrorCode::InvalidRequest, format!("`{field}` is missing"), hint));
    };
    Ok(Session::path(&path, user, "/work")?)
}

type Asked = (State<Arc<Shared>>, Path<String>, Request);

async fn download((State(shared), Path(id), request): Asked) -> Result<Response, Refusal> {
    let named = Named::of(&shared, &id, &request)?;
    let content = named.session.files()?.read(&named.path).await.map_err(failed)?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, content.bytes.to_string()),
    ];
    Ok((headers, Body::new(Outgoing::new(content))).into_response())
}

async fn upload((State(shared), Path(id), request): Asked) -> Result<Response, Refusal> {
    let _underway = shared.runs.begin();
    let named = Named::of(&shared, &id, &request)?;
    let mode = named.query.get("mode").map(|mode| u32::from_str_radix(&mode, 8)).transpose().map_err(|_| {
        Refusal::new(ErrorCode::InvalidRequest, "`mode` is not octal", "three octal digits, such as 755")
    })?;
    let (files, _pass) = named.session.files_to_write(&named.caller).await?;
    let mut content = Incoming::new(request.into_body(), named.session.room().0);
    files.write(&named.path, named.user, mode.unwrap_or(0o644), &mut content).await.map_err(failed)?;
    named.record("put").await?;
    named.entry().await
}

async fn remove((State(shared), Path(id), request): Asked) -> Result<Response, Refusal> {
    let named = Named::of(&shared, &id, &request)?;
    let (files, _pass) = named.session.files_to_change(&named.caller).await?;
    files.remove(&named.path).await.map_err(failed)?;
    named.record("removed").await?;
    json(&serde_json::json!({ "path": named.path.as_str() }))
}

async fn list((State(shared), Path(id), request): Asked) -> Result<Response, Refusal> {
    let named = Named::of(&shared, &id, &request)?;
    let depth = named.query.get("depth").and_then(|depth| depth.parse().ok()).unwrap_or(1);
    json(&named.session.files()?.list(&named.path, depth).await.map_err(failed)?)
}

async fn stat((State(shared), Path(id), request): Asked) -> Result<Response, Refusal> {
    Named::of(&shared, &id, &request)?.entry().await
}

async fn make_folder((State(shared), Path(id), request): Asked) -> Result<Response, Refusal> {
    let named = Named::of(&shared, &id, &request)?;
    let (files, _pass) = named.session.files_to_write(&named.caller).await?;
    files.make_folder(&named.path, named.user).await.map_err(failed)?;
    named.record("made a folder").await?;
    named.entry().await
}

async fn rename((State(shared), Path(id), request): Asked) -> Result<Response, Refusal> {
    let mut named = Named::of(&shared, &id, &request)?;
    let to = at(&named.query, "to", named.user)?;
    let (files, _pass) = named.session.files_to_change(&named.caller).await?;
    files.rename(&named.path, &to).await.map_err(failed)?;
    named.path = to;
    named.record("moved").await?;
    named.entry().await
}

async fn pack((State(shared), Path(id), request): Asked) -> Result<Response, Refusal> {
    let named = Named::of(&shared, &id, &request)?;
    let content = named.session.files()?.pack(&named.path).await.map_err(failed)?;
    let kind = [(header::CONTENT_TYPE, "application/x-tar")];
    Ok((kind, Body::new(Unmeasured::new(content))).into_response())
}

async fn unpack((State(shared), Path(id), request): Asked) -> Result<Response, Refusal> {
    let _underway = shared.runs.begin();
    let named = Named::of(&shared, &id, &request)?;
    let (files, _pass) = named.session.files_to_write(&named.caller).await?;
    let (bytes, entries) = named.session.room();
    let mut content = Incoming::new(request.into_body(), bytes);
    let unpacked = files.unpack(&named.path, named.user, entries, &mut content).await.map_err(failed)?;
    named.record("unpacked").await?;
    json(&unpacked)
}

/// What happens to files, as events, until the client goes away.
async fn look((State(shared), Path(id), request): Asked) -> Result<Response, Refusal> {
    let named = Named::of(&shared, &id, &request)?;
    let reach = if named.query.get("recursive").as_deref() == Some("true") { Reach::All } else { Reach::Folder };
    let mut events = named.session.watch(&named.path, reach).await?;
    let (cancel, mut cancelled) = watch::channel(false);
    let (mut outlet, queue) = Outlet::new(cancelled.clone(), Some(READER_PATIENCE));
    let mut give_up = shared.give_up.subscribe();
    tokio::spawn(async move {
        // Whoever reads this knows that from now on everything is told.
        let mut told = outlet.put(raw_event("watching", b"{}"));
        while told.is_ok() {
            let event = tokio::select! {
                event = events.recv() => event,
                () = turned(&mut cancelled) => return,
                () = turned(&mut give_up) => return,
            };
            let Some(event) = event else { return };
            told = outlet.put(raw_event("file", &serde_json::to_vec(&event).unwrap_or_default()));
        }
    });
    Ok(event_stream(Events { queue, cancel }))
}

fn failed(error: FileError) -> Refusal {
    SessionError::File(error).into()
}
