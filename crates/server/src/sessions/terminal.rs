//! A program of a session over a WebSocket: what is typed goes in, what it shows comes out, as it comes.

use std::sync::Arc;

use axum::Router;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::get;
use engine::{Heard, Running, TerminalSize};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;
use types::ErrorCode;

use super::find;
use crate::activity::turned;
use crate::error::Refusal;
use crate::guard::Peer;
use crate::http::Shared;

/// The most bytes of a message: a person types less, and a program that pastes can paste in pieces.
const MOST_MESSAGE: usize = 1 << 20;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/v1/sessions/{id}/processes/{pid}/terminal", get(terminal))
}

/// What is no input: a message of text.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Control {
    Resize(TerminalSize),
    Signal(i32),
    EndInput,
}

async fn terminal(
    State(shared): State<Arc<Shared>>,
    Path((id, pid)): Path<(String, String)>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    let process = find(&shared, &request, &id)?.1.process(&pid)?;
    let upgrade = upgrade.map_err(|_| {
        let hint = "ask with a client for WebSockets; `…/output` and `…/stdin` do without";
        Refusal::new(ErrorCode::InvalidRequest, "this is a WebSocket, and the request asks for none", hint)
    })?;
    let peer = request.extensions().get::<Peer>().cloned();
    if let Some(peer) = &peer {
        // A person may stop the screen for as long as he likes.
        peer.place.unhurried();
    }
    let give_up = shared.give_up.subscribe();
    let upgrade = upgrade.max_message_size(MOST_MESSAGE).max_frame_size(MOST_MESSAGE);
    Ok(upgrade.on_upgrade(move |socket| async move {
        // The connection counts for as long as it is used.
        let _held = peer;
        converse(socket, &process, give_up).await;
    }))
}

/// Until the program or the client ends it. A client who goes away leaves the program alone.
async fn converse(mut socket: WebSocket, process: &Arc<Running>, mut give_up: watch::Receiver<bool>) -> Option<()> {
    let mut listener = process.listen();
    loop {
        tokio::select! {
            heard = listener.next() => match heard {
                Some(Heard::Output(_, bytes)) => socket.send(Message::Binary(bytes.to_vec().into())).await.ok()?,
                Some(Heard::Lost(bytes)) => say(&mut socket, &json!({"lost": bytes})).await?,
                Some(Heard::Ended(_)) | None => break,
            },
            message = socket.recv() => match message?.ok()? {
                // What a program does not take any more is no fault of who typed it.
                Message::Binary(bytes) => drop(process.write(bytes.to_vec()).await),
                Message::Text(text) => {
                    if let Err(why) = obey(process, &text) {
                        say(&mut socket, &json!({"error": why})).await?;
                    }
                }
                Message::Close(_) => return None,
                Message::Ping(_) | Message::Pong(_) => {}
            },
            () = turned(&mut give_up) => return None,
        }
    }
    say(&mut socket, &json!({"ended": process.info()})).await?;
    socket.send(Message::Close(None)).await.ok()
}

async fn say(socket: &mut WebSocket, words: &serde_json::Value) -> Option<()> {
    socket.send(Message::Text(words.to_string().into())).await.ok()
}

fn obey(process: &Running, text: &str) -> Result<(), String> {
    let control = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match control {
        Control::Resize(size) => process.control().resize(size).map_err(|error| error.to_string()),
        Control::Signal(signal) => process.control().signal(signal).map_err(|error| error.to_string()),
        Control::EndInput => {
            process.close_input();
            Ok(())
        }
    }
}
