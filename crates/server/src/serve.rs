//! Listening, and ending.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use engine::{Engine, ServerSettings};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::activity::{Activity, turned};
use crate::e2b::{self, Sandboxes};
use crate::error::{ServeError, full};
use crate::guard::{Peer, Way};
use crate::http::{Shared, router};
use crate::jobs::Desk;
use crate::keys::{Key, Ring};
use crate::metrics::Answers;
use crate::patience::Patient;
use crate::places::{Arriving, Leaving, Place, Places};
use crate::runs::Registry;
use crate::socket::{Door, is_trusted, socket_path};
use crate::tls;
use crate::traces::Traces;

/// Where the server listens unless told otherwise.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7244);

/// Connections at once, apart for each way in: whoever has no key cannot keep the owner out.
const MOST_BY_SOCKET: usize = 512;
const MOST_BY_TCP: usize = 1024;
/// For whoever is told that there is no room to read it.
const FAREWELL: Duration = Duration::from_secs(1);
/// How many are told at once; others are only hung up on.
const MOST_FAREWELLS: usize = 64;
/// For the next request's header, on a connection kept alive too.
const HEADER_TIME: Duration = Duration::from_secs(30);
/// What a connection without a key can make us hold.
const MOST_HEADER: usize = 64 << 10;
/// For a client to say in TLS who it wants.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// For runs that were taken back when the server stops to say so.
const GIVE_UP_TIME: Duration = Duration::from_secs(2);

/// Where old clients of E2B look for what is in a sandbox.
const E2B_PORTS: [u16; 2] = [49983, 49999];

/// How to serve.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address for HTTP; by the settings, else [`DEFAULT_LISTEN`], if absent.
    pub listen: Option<SocketAddr>,
    /// End after no run for this long.
    pub idle_exit: Option<Duration>,
}

/// A server that listens already, so whoever starts it can say where.
pub struct Server {
    shared: Arc<Shared>,
    tcp: tokio::net::TcpListener,
    /// For clients that know no other ports.
    fixed: Vec<tokio::net::TcpListener>,
    unix: tokio::net::UnixListener,
    door: Door,
    idle_exit: Option<Duration>,
    tls: Option<TlsAcceptor>,
    drain: Duration,
}

impl Server {
    /// Takes the state folder's socket and lock, the key and the port; to be called inside a runtime of many threads.
    pub fn bind(engine: Engine, options: &Options) -> Result<Self, ServeError> {
        let settings = engine.server_settings().clone();
        let address = options.listen.or(settings.listen).unwrap_or(DEFAULT_LISTEN);
        check(address, &settings)?;
        let tls = settings.tls.as_ref().map(tls::acceptor).transpose()?;
        let failed = |source| ServeError::Listen { address, source };
        let (door, unix) = Door::open(engine.state())?;
        let unix = tokio::net::UnixListener::from_std(unix).map_err(failed)?;
        let keys = Ring::open(engine.state())?;
        let known = Registry::open(engine.state())
            .map_err(|source| ServeError::State { path: engine.state().join("background"), source })?;
        let tcp = listen(address)?;
        let fixed = if engine.e2b().old_clients { &E2B_PORTS[..] } else { &[] };
        let fixed = fixed.iter().map(|port| listen(SocketAddr::from((Ipv4Addr::LOCALHOST, *port))));
        let fixed = fixed.collect::<Result<Vec<_>, _>>()?;
        let engine = Arc::new(engine);
        let jobs = Desk::open(Arc::clone(&engine), &keys)
            .map_err(|source| ServeError::State { path: engine.state().join("jobs"), source })?;
        let shared = Shared {
            traces: Traces::begin(&engine),
            engine,
            keys,
            known,
            jobs,
            answers: Answers::default(),
            examining: tokio::sync::Mutex::default(),
            runs: Activity::new(),
            give_up: watch::Sender::new(false),
            hosts: settings.hosts,
            log: settings.log,
            e2b: Sandboxes::default(),
            by_tcp: Places::new(MOST_BY_TCP),
            by_socket: Places::new(MOST_BY_SOCKET),
        };
        let drain = settings.drain;
        Ok(Self { shared: Arc::new(shared), tcp, fixed, unix, door, idle_exit: options.idle_exit, tls, drain })
    }

    /// Where HTTP is answered.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// `http`, or `https` where it has a certificate.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Where the command line finds it.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        socket_path(self.state())
    }

    /// Where the key is.
    #[must_use]
    pub fn key_file(&self) -> PathBuf {
        Key::path(self.state())
    }

    fn state(&self) -> &Path {
        self.shared.engine.state()
    }

    /// Serves until `stop` comes true or nobody has asked for a run for long enough. Runs that are under way then get a
    /// moment to end, and are taken back after it.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { shared, tcp, fixed, unix, door, idle_exit, tls, drain } = self;
        let entrance =
            Entrance { router: router(Arc::clone(&shared)), open: Activity::new(), closing: watch::Sender::new(false) };
        shared.jobs.go_on();
        e2b::at_start(&shared);
        let mut listening = JoinSet::new();
        listening.spawn(by_tcp(tcp, tls, Arc::clone(&shared.by_tcp), entrance.clone()));
        for listener in fixed {
            listening.spawn(by_tcp(listener, None, Arc::clone(&shared.by_tcp), entrance.clone()));
        }
        listening.spawn(by_socket(unix, Arc::clone(&shared.by_socket), entrance.clone()));
        let idle = async {
            match idle_exit {
                Some(time) => loop {
                    shared.runs.quiet_for(time).await;
                    // A session is somebody's, though he says nothing, and so is a job.
                    if shared.engine.count_sessions() == 0 && !shared.jobs.is_busy() {
                        break;
                    }
                    tokio::time::sleep(time.max(Duration::from_millis(50))).await;
                },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop => {}
            () = idle => {}
        }
        // First nobody can come in any more, then the socket's name goes.
        listening.shutdown().await;
        drop(door);
        entrance.closing.send_replace(true);
        drop(tokio::time::timeout(GIVE_UP_TIME, shared.jobs.stop()).await);
        let ended = async { tokio::join!(shared.runs.none(), entrance.open.none()) };
        if tokio::time::timeout(drain, ended).await.is_err() {
            shared.give_up.send_replace(true);
            let ended = async { tokio::join!(shared.runs.none(), entrance.open.none()) };
            drop(tokio::time::timeout(GIVE_UP_TIME, ended).await);
        }
        shared.engine.end_sessions().await;
        shared.traces.finish().await;
    }
}

fn listen(address: SocketAddr) -> Result<tokio::net::TcpListener, ServeError> {
    let failed = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    tokio::net::TcpListener::from_std(listener).map_err(failed)
}

/// Others may connect where somebody has said by which name, and that nobody on the way reads their keys.
fn check(address: SocketAddr, settings: &ServerSettings) -> Result<(), ServeError> {
    let missing = if address.ip().is_loopback() {
        return Ok(());
    } else if settings.hosts.is_empty() {
        "the settings name no `hosts` by which clients reach it"
    } else if settings.tls.is_none() && !settings.behind_proxy {
        "keys would travel in the clear"
    } else {
        return Ok(());
    };
    Err(ServeError::NotLoopback { address, missing })
}

/// What a connection needs.
#[derive(Clone)]
struct Entrance {
    router: Router,
    /// Connections that are open.
    open: Activity,
    /// Turns true when no further request is wanted.
    closing: watch::Sender<bool>,
}

async fn by_tcp(listener: tokio::net::TcpListener, tls: Option<TlsAcceptor>, places: Arc<Places>, entrance: Entrance) {
    let farewells = Activity::new();
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            breathe().await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        match (places.take(Some(from.ip())), tls.clone()) {
            (Some(place), Some(tls)) => drop(tokio::spawn(encrypted(stream, tls, place, entrance.clone()))),
            (Some(place), None) => {
                let stream = Patient::new(stream, Arc::clone(&place));
                tokio::spawn(connection(stream, Way::Tcp, place, entrance.clone()));
            }
            (None, None) => say_full(stream, &farewells),
            // Whoever wants to be told in private first has to wait for nobody's turn.
            (None, Some(_)) => {}
        }
    }
}

async fn encrypted(stream: tokio::net::TcpStream, tls: TlsAcceptor, place: Arc<Place>, entrance: Entrance) {
    let greeting = tokio::time::timeout(HANDSHAKE_TIME, tls.accept(stream));
    let greeted = tokio::select! {
        greeted = greeting => greeted,
        () = place.wanted() => return,
    };
    if let Ok(Ok(stream)) = greeted {
        let stream = Patient::new(stream, Arc::clone(&place));
        connection(stream, Way::Tcp, place, entrance).await;
    }
}

async fn by_socket(listener: tokio::net::UnixListener, places: Arc<Places>, entrance: Entrance) {
    let farewells = Activity::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) if is_trusted(stream.as_fd()) => match places.take(None) {
                Some(place) => drop(tokio::spawn(connection(stream, Way::Socket, place, entrance.clone()))),
                None => say_full(stream, &farewells),
            },
            Ok(_) => {}
            Err(_) => breathe().await,
        }
    }
}

/// Tells somebody that there is no room, whatever he wanted.
fn say_full<S>(mut stream: S, farewells: &Activity)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    if farewells.count() >= MOST_FAREWELLS {
        return;
    }
    let underway = farewells.begin();
    let words = async move {
        stream.write_all(&full()).await?;
        stream.shutdown().await?;
        // A connection that is closed with something unread takes back what was said on it.
        tokio::io::copy(&mut stream.take(1 << 20), &mut tokio::io::sink()).await
    };
    tokio::spawn(async move {
        let _underway = underway;
        // Who does not listen has nothing to miss.
        drop(tokio::time::timeout(FAREWELL, words).await);
    });
}

/// After an `accept` that failed for want of descriptors, which only time gives back.
async fn breathe() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

async fn connection<S>(stream: S, way: Way, place: Arc<Place>, entrance: Entrance)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let _open = entrance.open.begin();
    let mut closing = entrance.closing.subscribe();
    let peer = Peer { way, place: Arc::clone(&place) };
    let routes = TowerToHyperService::new(entrance.router);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        peer.place.works();
        request.extensions_mut().insert(peer.clone());
        let (routes, place) = (routes.clone(), Arc::clone(&peer.place));
        async move {
            let request = request.map(|body| Arriving::watch(body, &place));
            let response = hyper::service::Service::call(&routes, request).await?;
            Ok::<_, Infallible>(Leaving::watch(response, place))
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME).max_buf_size(MOST_HEADER);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service).with_upgrades());
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = place.wanted() => return,
        () = turned(&mut closing) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    // A client that went away, or spoke something else than HTTP: nobody is left to be told.
    drop(ended);
}
