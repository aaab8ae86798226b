//! Connections at once, and who has to go when there is no room for another.
//!
//! A connection waits for its client (for a request, or for the rest of one) or works for him. When all places are taken,
//! one that waits makes room: first those of strangers, then those of whoever has shown a key; among these, those of the
//! peer that has most of them, and of his the one that has waited longest. Where everybody works there is no room.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use tokio::sync::Notify;

/// The connections of one way in.
pub(crate) struct Places {
    most: usize,
    next: AtomicU64,
    taken: Mutex<HashMap<u64, Arc<Seat>>>,
    closed: AtomicU64,
    refused: AtomicU64,
}

/// What is known of one connection.
struct Seat {
    from: Option<IpAddr>,
    status: Mutex<Status>,
    /// Told when it has to go.
    leave: Notify,
    /// Whether its client may read as slowly as he likes.
    unhurried: AtomicBool,
}

#[derive(Clone, Copy)]
struct Status {
    /// Whether it has shown a key.
    known: bool,
    /// Since when it waits for its client.
    waiting: Option<Instant>,
}

/// One connection's place, kept for as long as anybody needs it.
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    seat: Arc<Seat>,
}

impl Places {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            next: AtomicU64::new(0),
            taken: Mutex::default(),
            closed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    /// A place for somebody new, who waits so far; none if everybody else is at work.
    pub(crate) fn take(self: &Arc<Self>, from: Option<IpAddr>) -> Option<Arc<Place>> {
        let status = Mutex::new(Status { known: false, waiting: Some(Instant::now()) });
        let seat = Arc::new(Seat { from, status, leave: Notify::new(), unhurried: AtomicBool::new(false) });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut taken = lock(&self.taken);
        if taken.len() >= self.most {
            let Some(gone) = longest_idle(&taken).and_then(|number| taken.remove(&number)) else {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return None;
            };
            self.closed.fetch_add(1, Ordering::Relaxed);
            gone.leave.notify_one();
        }
        taken.insert(number, Arc::clone(&seat));
        drop(taken);
        Some(Arc::new(Place { places: Arc::clone(self), number, seat }))
    }

    /// Connections that are open, that were closed for others, and that were refused.
    pub(crate) fn counts(&self) -> [u64; 3] {
        let open = lock(&self.taken).len() as u64;
        [open, self.closed.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed)]
    }
}

/// Who is missed least.
fn longest_idle(taken: &HashMap<u64, Arc<Seat>>) -> Option<u64> {
    let mut of_peer: HashMap<Option<IpAddr>, usize> = HashMap::new();
    for seat in taken.values() {
        *of_peer.entry(seat.from).or_default() += 1;
    }
    let idle = taken.iter().filter_map(|(number, seat)| {
        let Status { known, waiting } = *lock(&seat.status);
        let others = of_peer.get(&seat.from).copied().unwrap_or_default();
        Some(((known, usize::MAX - others, waiting?, *number), *number))
    });
    idle.min_by_key(|(worth, _)| *worth).map(|(_, number)| number)
}

impl Place {
    /// Waits until somebody else needs the place.
    pub(crate) async fn wanted(&self) {
        self.seat.leave.notified().await;
    }

    /// It has shown a key.
    pub(crate) fn known(&self) {
        lock(&self.seat.status).known = true;
    }

    /// Its client may read as slowly as he likes: a person at a terminal.
    pub(crate) fn unhurried(&self) {
        self.seat.unhurried.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_unhurried(&self) -> bool {
        self.seat.unhurried.load(Ordering::Relaxed)
    }

    pub(crate) fn works(&self) {
        lock(&self.seat.status).waiting = None;
    }

    fn waits(&self) {
        lock(&self.seat.status).waiting.get_or_insert_with(Instant::now);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.places.taken).remove(&self.number);
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request's body. While its next piece is missing, the connection waits for its client.
pub(crate) struct Arriving {
    body: Incoming,
    place: Arc<Place>,
}

impl Arriving {
    /// As the routes take it; what is whole already is not watched.
    pub(crate) fn watch(body: Incoming, place: &Arc<Place>) -> Body {
        if body.is_end_stream() { Body::new(body) } else { Body::new(Self { body, place: Arc::clone(place) }) }
    }
}

impl hyper::body::Body for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if polled.is_pending() {
            self.place.waits();
        } else {
            self.place.works();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.place.works();
    }
}

/// An answer's body. When all of it is handed over, the connection waits for its client again.
pub(crate) struct Leaving {
    body: Body,
    /// None where the connection is somebody else's from here on.
    place: Option<Arc<Place>>,
}

impl Leaving {
    pub(crate) fn watch(response: Response, place: Arc<Place>) -> hyper::Response<Self> {
        let place = (response.status() != StatusCode::SWITCHING_PROTOCOLS).then_some(place);
        response.map(|body| Self { body, place })
    }
}

impl hyper::body::Body for Leaving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(place) = &self.place {
            place.waits();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn is_wanted(place: &Place) -> bool {
        let waker = std::task::Waker::noop();
        std::pin::pin!(place.wanted()).poll(&mut Context::from_waker(waker)).is_ready()
    }

    #[test]
    fn strangers_go_first_then_whoever_has_most_and_has_waited_longest() {
        let places = Places::new(5);
        let of = |last| places.take(Some(peer(last))).unwrap();
        let (guest, alone, early, late, busy) = (of(1), of(2), of(3), of(3), of(3));
        guest.known();
        busy.works();
        let _sixth = of(4);
        assert_eq!(
            [&guest, &alone, &early, &late, &busy].map(|place| is_wanted(place)),
            [false, false, true, false, false]
        );
        late.works();
        let _seventh = of(2);
        assert!(is_wanted(&alone), "of those with one each, who has waited longest");
        assert_eq!(places.counts(), [5, 2, 0]);
    }

    #[test]
    fn nobody_is_sent_away_from_his_work() {
        let places = Places::new(2);
        let both: Vec<_> = (0..2).map(|_| places.take(None).unwrap()).collect();
        for place in &both {
            place.works();
        }
        assert!(places.take(None).is_none());
        assert!(both.iter().all(|place| !is_wanted(place)));
        both[0].waits();
        let third = places.take(None).unwrap();
        assert!(is_wanted(&both[0]));
        drop((both, third));
        assert_eq!(places.counts(), [0, 1, 1]);
    }
}
