//! The events of one run, kept for whoever asks for them later or again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::response::Response;
use tokio::sync::{mpsc, watch};

use crate::events::{Events, numbered_event, raw_event};
use crate::http::{READER_PATIENCE, event_stream};

/// Bytes that are kept; the oldest events go first.
const MOST: usize = 1 << 20;
/// Events on their way to one reader.
const QUEUE: usize = 8;
/// A sign of life, so that nobody between takes the connection for dead.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// Numbered events: the first is 1.
pub(crate) struct Log {
    kept: Mutex<Kept>,
    changed: watch::Sender<()>,
}

struct Kept {
    events: VecDeque<Bytes>,
    /// The number of the first that is still there.
    first: u64,
    bytes: usize,
    end: Option<End>,
}

/// What follows the last event.
#[derive(Clone)]
enum End {
    Nothing,
    /// The last word, which somebody else keeps too: its name, and its JSON.
    Said(&'static str, Bytes),
}

/// What a reader gets at once.
struct Part {
    /// The number of its first event.
    first: u64,
    events: Vec<Bytes>,
    /// Nothing will follow.
    last: bool,
}

impl Log {
    pub(crate) fn new() -> Arc<Self> {
        Self::after_number(0)
    }

    /// One whose first event comes after that of a number: what came before is gone.
    pub(crate) fn after_number(number: u64) -> Arc<Self> {
        let kept = Kept { events: VecDeque::new(), first: number + 1, bytes: 0, end: None };
        Arc::new(Self { kept: Mutex::new(kept), changed: watch::Sender::new(()) })
    }

    pub(crate) fn push(&self, event: Bytes) {
        let mut kept = self.lock();
        kept.bytes += event.len();
        kept.events.push_back(event);
        while kept.bytes > MOST && kept.events.len() > 1 {
            let gone = kept.events.pop_front().unwrap_or_default();
            kept.bytes -= gone.len();
            kept.first += 1;
        }
        drop(kept);
        self.changed.send_replace(());
    }

    /// Nothing follows, if nobody has said how it ended.
    pub(crate) fn close(&self) {
        self.end(End::Nothing);
    }

    /// The last word.
    pub(crate) fn conclude(&self, name: &'static str, json: Bytes) {
        self.end(End::Said(name, json));
    }

    fn end(&self, end: End) {
        self.lock().end.get_or_insert(end);
        self.changed.send_replace(());
    }

    /// Bytes that it holds alone.
    pub(super) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// An answer with all events after number `after`, those to come too.
    pub(crate) fn replay(self: Arc<Self>, after: u64) -> Response {
        let (queue, receiver) = mpsc::channel(QUEUE);
        tokio::spawn(async move { self.tell(after.saturating_add(1), &queue).await });
        // Who reads along does not hold the run: nobody hears this signal.
        event_stream(Events { queue: receiver, cancel: watch::Sender::new(false) })
    }

    async fn tell(&self, mut next: u64, queue: &mpsc::Sender<Vec<u8>>) -> Option<()> {
        let mut changes = self.changed.subscribe();
        loop {
            changes.mark_unchanged();
            let Part { first, events, last } = self.after(next);
            if first > next {
                let missing = format!("{{\"first\":{next},\"last\":{}}}", first - 1);
                send(queue, raw_event("gap", missing.as_bytes())).await?;
            }
            next = first.max(next) + events.len() as u64;
            for event in events {
                send(queue, event.into()).await?;
            }
            if last {
                return None;
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = queue.closed() => return None,
                () = tokio::time::sleep(SIGN_OF_LIFE) => send(queue, b":\n\n".to_vec()).await?,
            }
        }
    }

    fn after(&self, next: u64) -> Part {
        let kept = self.lock();
        let skip = usize::try_from(next.saturating_sub(kept.first)).unwrap_or(usize::MAX);
        let mut events: Vec<Bytes> = kept.events.iter().skip(skip).cloned().collect();
        let last = kept.first + kept.events.len() as u64;
        if let Some(End::Said(name, json)) = kept.end.as_ref().filter(|_| next <= last) {
            events.push(numbered_event(last, name, json).into());
        }
        Part { first: kept.first.max(next), events, last: kept.end.is_some() }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// To a reader who takes it in time.
async fn send(queue: &mpsc::Sender<Vec<u8>>, event: Vec<u8>) -> Option<()> {
    tokio::time::timeout(READER_PATIENCE, queue.send(event)).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(log: &Log, next: u64) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (queue, mut receiver) = mpsc::channel(100);
        runtime.block_on(log.tell(next, &queue));
        let mut all = Vec::new();
        while let Ok(event) = receiver.try_recv() {
            all.extend(event);
        }
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn a_reader_goes_on_where_he_was() {
        let log = Log::new();
        for event in ["a", "b", "c"] {
            log.push(Bytes::from_static(event.as_bytes()));
        }
        log.conclude("result", Bytes::from_static(b"{}"));
        log.close();
        let last = "id: 4\nevent: result\ndata: {}\n\n";
        assert_eq!((told(&log, 1), told(&log, 3)), (format!("abc{last}"), format!("c{last}")));
        assert_eq!((told(&log, 4).as_str(), told(&log, 5).as_str()), (last, ""));
        assert_eq!(told(&log, u64::MAX), "");
    }

    #[test]
    fn what_is_gone_is_said_and_the_last_stays() {
        let log = Log::new();
        log.push(vec![b'x'; MOST].into());
        log.push(vec![b'y'; MOST + 1].into());
        log.close();
        let said = told(&log, 1);
        assert!(said.starts_with("event: gap\ndata: {\"first\":1,\"last\":1}\n\nyyy"), "{}", &said[..80]);
        assert!(log.bytes() <= MOST + 1);
    }
}
