//! MCP over HTTP. The protocol's newest version has no sessions of its own and takes a call back when its connection
//! closes; older ones have sessions, which belong to the key that began them.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::Response;
use axum::routing::get;
use http_body_util::BodyExt;
use hyper::body::Body as HttpBody;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::sync::{Semaphore, mpsc, watch};
use types::ErrorCode;

use super::stdio::{self, MCP_PATH};
use super::tools::{MOST_CALLS, Presence, Tools};
use crate::activity::{Activity, turned};
use crate::error::Refusal;
use crate::events::Events;
use crate::guard::{Peer, Way};
use crate::http::{MOST_BODY, READER_PATIENCE, Shared, read};
use crate::identity::Identity;

/// Sessions of the protocol at once, for each key.
const MOST_SESSIONS: usize = 100;
/// How long one lives without a call.
const SESSION_LIFE: Duration = Duration::from_hours(1);
/// How long an answer is kept for a client that lost its connection.
const COME_BACK: Duration = Duration::from_secs(5);
/// Events that wait for a slow reader.
const QUEUE: usize = 8;
/// By which a client of an older version names its session.
const SESSION_HEADER: &str = "mcp-session-id";

/// The route; what a tool needs is decided when it is called.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    let methods = get(serve).post(serve).delete(serve);
    Router::new().route(MCP_PATH, methods).layer(Extension(Arc::new(Doors::default())))
}

/// A door for each key: nobody finds a session of somebody else's.
#[derive(Default)]
struct Doors(Mutex<HashMap<String, Arc<Door>>>);

/// The door of one key.
struct Door {
    service: StreamableHttpService<Tools, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    /// Connections of each session.
    present: Mutex<HashMap<String, Activity>>,
}

impl Doors {
    fn of(&self, shared: &Shared, identity: &Identity) -> Arc<Door> {
        let caller = &identity.caller;
        let name = caller.key().unwrap_or(&caller.name).to_owned();
        let mut doors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(doors.entry(name).or_insert_with(|| Arc::new(Door::new(shared))))
    }
}

impl Door {
    fn new(shared: &Shared) -> Self {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(SESSION_LIFE);
        sessions.session_config.completed_cache_ttl = COME_BACK;
        let sessions = Arc::new(sessions);
        let tools = Tools {
            engine: Arc::clone(&shared.engine),
            runs: shared.runs.clone(),
            give_up: shared.give_up.subscribe(),
            owner: None,
            places: Arc::new(Semaphore::new(MOST_CALLS)),
        };
        // Who may connect, by which names, was decided by the guard.
        let config =
            StreamableHttpServerConfig::default().disable_allowed_hosts().with_max_request_body_bytes(MOST_BODY);
        let service = StreamableHttpService::new(move || Ok(tools.clone()), Arc::clone(&sessions), config);
        Self { service, sessions, present: Mutex::default() }
    }

    /// The connections of a session, if there is such a session.
    async fn presence(&self, id: &str) -> Option<Presence> {
        let living = self.sessions.sessions.read().await;
        if !living.contains_key(id) {
            return None;
        }
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        present.retain(|id, _| living.contains_key(id.as_str()));
        Some(Presence(present.entry(id.to_owned()).or_insert_with(Activity::new).clone()))
    }
}

async fn serve(
    State(shared): State<Arc<Shared>>,
    Extension(doors): Extension<Arc<Doors>>,
    identity: Identity,
    request: Request,
) -> Result<Response, Refusal> {
    let peer = request.extensions().get::<Peer>().cloned();
    if let Some(peer) = peer.filter(|peer| peer.way == Way::Socket && stdio::is_upgrade(&request)) {
        return Ok(stdio::upgrade(&shared, identity, peer, request));
    }
    let door = doors.of(&shared, &identity);
    let (mut parts, body) = request.into_parts();
    // Whole, in time and not too large, before anything is begun.
    let body = read(body).await?;
    let presence = match session_of(&parts.headers) {
        Some(id) => door.presence(id).await,
        None => None,
    };
    if parts.method == Method::POST && presence.is_none() && door.sessions.sessions.read().await.len() >= MOST_SESSIONS
    {
        let hint = "end one with DELETE, or wait until it has been quiet for an hour";
        return Err(Refusal::new(ErrorCode::Busy, format!("this key has {MOST_SESSIONS} MCP sessions"), hint));
    }
    let here = presence.as_ref().map(|presence| presence.0.begin());
    parts.extensions.insert(identity);
    if let Some(presence) = presence {
        parts.extensions.insert(presence);
    }
    let response = door.service.handle(Request::from_parts(parts, Body::from(body))).await;
    let is_stream = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    if !is_stream {
        return Ok(response.map(Body::new));
    }
    Ok(response.map(|body| pass_on(body, here, shared.give_up.subscribe())))
}

fn session_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_HEADER).and_then(|id: &HeaderValue| id.to_str().ok())
}

/// Events, for as long as somebody reads them. `here` is held as long.
fn pass_on<B, H>(mut body: B, here: H, mut give_up: watch::Receiver<bool>) -> Body
where
    B: HttpBody<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
    H: Send + 'static,
{
    let (sender, queue) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let _here = here;
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = sender.closed() => return,
                () = turned(&mut give_up) => return,
            };
            let Some(Ok(frame)) = frame else { return };
            let Ok(data) = frame.into_data() else { continue };
            match tokio::time::timeout(READER_PATIENCE, sender.send(data.to_vec())).await {
                Ok(Ok(())) => {}
                // Gone, or he takes nothing: what he called need not wait for him.
                Ok(Err(_)) | Err(_) => return,
            }
        }
    });
    let (cancel, _) = watch::channel(false);
    Body::new(Events { queue, cancel })
}
