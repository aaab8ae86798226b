//! The service `filesystem.Filesystem`.

use axum::extract::Request;
use axum::response::Response;
use engine::{FileError, GuestUser};
use serde::Deserialize;
use serde_json::json;
use types::GuestPath;

use super::connect::{self, Code, Failure};
use super::envd::{Asked, resolved, user};
use super::process::refused;
use super::{entry, watchers};

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    path: String,
}

pub(super) async fn serve(asked: &Asked<'_>, method: &str, request: Request) -> Result<Response, Failure> {
    let user = user(request.headers())?;
    match method {
        "Stat" => {
            let path = named(request, user).await?;
            entry_at(asked, &path).await
        }
        "MakeDir" => make_dir(asked, named(request, user).await?, user).await,
        "Move" => rename(asked, connect::message(request).await?, user).await,
        "ListDir" => list(asked, connect::message(request).await?, user).await,
        "Remove" => remove(asked, named(request, user).await?).await,
        "WatchDir" => Ok(watchers::stream(asked, request, user).await.unwrap_or_else(|failure| refused(&failure))),
        "CreateWatcher" => watchers::create(asked, connect::message(request).await?, user).await,
        "GetWatcherEvents" => watchers::events(asked, connect::message(request).await?).await,
        "RemoveWatcher" => watchers::remove(asked, &connect::message(request).await?),
        _ => Err(Failure::new(Code::Unimplemented, "there is no such method")),
    }
}

async fn named(request: Request, user: GuestUser) -> Result<GuestPath, Failure> {
    let Named { path } = connect::message(request).await?;
    Ok(resolved(&path, user)?)
}

async fn entry_at(asked: &Asked<'_>, path: &GuestPath) -> Result<Response, Failure> {
    let files = asked.session.files()?;
    Ok(connect::answer(&json!({ "entry": entry::stat(&*files, path).await? })))
}

async fn make_dir(asked: &Asked<'_>, path: GuestPath, user: GuestUser) -> Result<Response, Failure> {
    let (files, _pass) = asked.session.files_to_write(&asked.sandbox.owner).await?;
    files.make_folder(&path, user).await.map_err(|error| match error {
        FileError::Kind { path, .. } => {
            Failure::new(Code::InvalidArgument, format!("path already exists but it is not a directory: {path}"))
        }
        FileError::Exists(path) => Failure::new(Code::AlreadyExists, format!("directory already exists: {path}")),
        other => other.into(),
    })?;
    asked.session.record_act(&asked.sandbox.owner, "made a folder", &path).await?;
    entry_at(asked, &path).await
}

#[derive(Deserialize)]
struct Move {
    source: String,
    destination: String,
}

async fn rename(asked: &Asked<'_>, message: Move, user: GuestUser) -> Result<Response, Failure> {
    let (from, to) = (resolved(&message.source, user)?, resolved(&message.destination, user)?);
    let (files, _pass) = asked.session.files_to_change(&asked.sandbox.owner).await?;
    files.rename(&from, &to).await?;
    asked.session.record_act(&asked.sandbox.owner, "moved", &to).await?;
    entry_at(asked, &to).await
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    path: String,
    #[serde(default)]
    depth: u32,
}

async fn list(asked: &Asked<'_>, message: List, user: GuestUser) -> Result<Response, Failure> {
    let path = resolved(&message.path, user)?;
    let entries = entry::list(&*asked.session.files()?, &path, message.depth.max(1)).await?;
    Ok(connect::answer(&json!({ "entries": entries })))
}

async fn remove(asked: &Asked<'_>, path: GuestPath) -> Result<Response, Failure> {
    let (files, _pass) = asked.session.files_to_change(&asked.sandbox.owner).await?;
    files.remove(&path).await?;
    asked.session.record_act(&asked.sandbox.owner, "removed", &path).await?;
    Ok(connect::answer(&json!({})))
}
