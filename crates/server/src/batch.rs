//! `POST /v1/batch`: a task on each line in, a result on each line out, both as they come.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::thread::available_parallelism;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use engine::MOST_AT_ONCE;
use evals::judge::{Judge, Out, batch as judge_all};
use hyper::body::Body as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use types::{ErrorCode, ExecRequest};

use crate::activity::turned;
use crate::error::{Refusal, stopping};
use crate::events::Events;
use crate::http::{BODY_TIME, MOST_BODY, READER_PATIENCE, Shared};
use crate::identity::Identity;
use crate::outlet::Outlet;
use crate::query::Query;

/// Bytes of the body that wait to be judged. Many clients read nothing before they have sent all: as long as that fits in
/// here, they and the server do not wait for each other.
const AHEAD: usize = MOST_BODY;

/// A piece of the body, and its share of what may wait.
type Piece = io::Result<(Bytes, OwnedSemaphorePermit)>;

pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/v1/batch", post(batch))
}

/// Answers at once; tasks are read as fast as they are judged. A client that goes away ends all of it.
async fn batch(State(shared): State<Arc<Shared>>, identity: Identity, request: Request) -> Result<Response, Refusal> {
    let underway = shared.runs.begin();
    let jobs = jobs(&request, shared.engine.gauges().places)?;
    let judge = Arc::new(Judge::new(Arc::clone(&shared.engine), identity.caller, ExecRequest::default()));
    let (pieces, received) = mpsc::unbounded_channel();
    let lines = Lines { pieces: received, rest: Bytes::new(), line: 0 };
    let (cancel, mut cancelled) = watch::channel(false);
    let (outlet, queue) = Outlet::new(cancel.subscribe(), Some(READER_PATIENCE));
    let mut give_up = shared.give_up.subscribe();
    let reading = tokio::spawn(pass_on(request.into_body(), pieces));
    tokio::spawn(async move {
        let _underway = underway;
        let last = outlet.queue();
        let answers = Answers(outlet);
        let judged = judge_all(judge, jobs, Box::new(lines), Out::Writer(Box::new(answers)), |_| {});
        let refusal = tokio::select! {
            judged = judged => judged.err().map(|error| {
                let body = error.body();
                Refusal::new(body.code, body.message, body.hint)
            }),
            () = turned(&mut give_up) => Some(stopping()),
            () = turned(&mut cancelled) => None,
        };
        reading.abort();
        // The status was sent long ago: why the lines end here is a line itself.
        if let Some(refusal) = refusal {
            let mut line = refusal.json().1;
            line.push(b'\n');
            drop(tokio::time::timeout(READER_PATIENCE, last.send(line)).await);
        }
    });
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::new(Events { queue, cancel })).into_response())
}

/// Tasks at once: as many as there are processors, or as asked for, and never more than the host has places for.
fn jobs(request: &Request, places: usize) -> Result<usize, Refusal> {
    let most = (places / MOST_AT_ONCE).max(1);
    let asked = match Query::of(request).get("jobs") {
        Some(text) => text.parse().ok().filter(|jobs| *jobs > 0).ok_or_else(|| {
            Refusal::new(ErrorCode::InvalidRequest, "`jobs` is no number above 0", "say ?jobs=8, or nothing")
        })?,
        None => available_parallelism().map_or(1, usize::from),
    };
    Ok(asked.min(most))
}

/// From the connection to whoever reads; ends with an error where nothing comes in time.
async fn pass_on(mut body: Body, pieces: mpsc::UnboundedSender<Piece>) {
    let room = Arc::new(Semaphore::new(AHEAD));
    loop {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        let broken = match tokio::time::timeout(BODY_TIME, frame).await {
            Ok(None) => return,
            Ok(Some(Ok(frame))) => {
                let Ok(data) = frame.into_data() else { continue };
                let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
                // A batch that is judged slowly is read slowly, in the end.
                let Ok(share) = Arc::clone(&room).acquire_many_owned(bytes).await else { return };
                if pieces.send(Ok((data, share))).is_err() {
                    return;
                }
                continue;
            }
            Ok(Some(Err(_))) => io::Error::new(io::ErrorKind::UnexpectedEof, "their end is missing"),
            Err(_) => io::Error::new(io::ErrorKind::TimedOut, "none came in time"),
        };
        // Nobody reads on who has stopped.
        drop(pieces.send(Err(broken)));
        return;
    }
}

/// The body, for a thread that reads lines of it.
struct Lines {
    pieces: mpsc::UnboundedReceiver<Piece>,
    rest: Bytes,
    /// Bytes of the line that is being read.
    line: usize,
}

impl Read for Lines {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.rest = piece?.0,
                None => return Ok(0),
            }
        }
        let count = into.len().min(self.rest.len());
        let piece = self.rest.split_to(count);
        self.line = piece.iter().rposition(|byte| *byte == b'\n').map_or(self.line + count, |end| count - end - 1);
        if self.line > MOST_BODY {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is longer than 64 MiB"));
        }
        into[..count].copy_from_slice(&piece);
        Ok(count)
    }
}

/// Lines of results, on their way to the client.
struct Answers(Outlet);

impl Write for Answers {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.put(line.to_vec()).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(piece: &Bytes) -> io::Result<u64> {
        let (pieces, received) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(1));
        for _ in 0..100 {
            let share = Arc::clone(&room).try_acquire_many_owned(0).unwrap();
            pieces.send(Ok((piece.clone(), share))).unwrap();
        }
        drop(pieces);
        let mut lines = Lines { pieces: received, rest: Bytes::new(), line: 0 };
        io::copy(&mut lines, &mut io::sink())
    }

    #[test]
    fn lines_are_bounded_and_bodies_are_not() {
        let line = Bytes::from([&vec![b'x'; 1 << 20][..], b"\n"].concat());
        assert_eq!(read_all(&line).unwrap(), 100 * line.len() as u64);
        assert!(read_all(&line.slice(..1 << 20)).is_err());
    }
}
