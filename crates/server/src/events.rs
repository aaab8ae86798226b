//! A run as server-sent events: `stdout` and `stderr` as they come, then `result` or `error`.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::{Output, Stream};
use hyper::body::{Body, Bytes, Frame};
use serde::Serialize;
use tokio::sync::{mpsc, watch};

use crate::error::Refusal;
use crate::http::unspeakable;
use crate::outlet::Outlet;

/// The body of the answer. Dropping it, as a connection that closes does, takes the run back.
pub(crate) struct Events {
    pub(crate) queue: mpsc::Receiver<Vec<u8>>,
    pub(crate) cancel: watch::Sender<bool>,
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.queue.poll_recv(cx).map(|event| event.map(|event| Ok(Frame::data(event.into()))))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.cancel.send_replace(true);
    }
}

/// Reads along with a run.
pub(crate) struct Teller {
    outlet: Outlet,
    /// The start of a character whose end has not come yet.
    partial: [Vec<u8>; 2],
}

/// Some bytes of an output: text, if they are.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Piece<'a> {
    Text(&'a str),
    Base64(String),
}

impl Teller {
    pub(crate) fn new(outlet: Outlet) -> Self {
        Self { outlet, partial: [Vec::new(), Vec::new()] }
    }

    /// Tells what is left, and then the result or why there is none.
    pub(crate) async fn conclude<T: Serialize>(self, result: Result<T, Refusal>) {
        let refused = match result.map(|result| serde_json::to_vec(&result)) {
            Ok(Ok(json)) => return self.finish("result", &json).await,
            Ok(Err(error)) => unspeakable(&error),
            Err(refusal) => refusal,
        };
        self.finish("error", &refused.json().1).await;
    }

    /// Tells what is left, and then how it ended.
    async fn finish(mut self, name: &str, json: &[u8]) {
        for stream in [Stream::Out, Stream::Err] {
            let rest = std::mem::take(&mut self.partial[index(stream)]);
            if !rest.is_empty() {
                let _ = self.outlet.put(event(stream_name(stream), &piece(&rest)));
            }
        }
        self.outlet.finish(raw_event(name, json)).await;
    }
}

impl Output for Teller {
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> ControlFlow<()> {
        let mut all = std::mem::take(&mut self.partial[index(stream)]);
        all.extend_from_slice(bytes);
        let whole = whole_characters(&all);
        self.partial[index(stream)] = all.split_off(whole);
        if all.is_empty() {
            return ControlFlow::Continue(());
        }
        match self.outlet.put(event(stream_name(stream), &piece(&all))) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

fn index(stream: Stream) -> usize {
    match stream {
        Stream::Out => 0,
        Stream::Err => 1,
    }
}

fn stream_name(stream: Stream) -> &'static str {
    match stream {
        Stream::Out => "stdout",
        Stream::Err => "stderr",
    }
}

/// How many of the bytes can be told now: all but the start of a character at their end.
fn whole_characters(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let could_go_on = std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
    if could_go_on { bytes.len() - last.len() } else { bytes.len() }
}

fn piece(bytes: &[u8]) -> Piece<'_> {
    std::str::from_utf8(bytes).map_or_else(|_| Piece::Base64(STANDARD.encode(bytes)), Piece::Text)
}

fn event(name: &str, piece: &Piece<'_>) -> Vec<u8> {
    // Text and base64 always have a JSON form.
    raw_event(name, &serde_json::to_vec(piece).unwrap_or_default())
}

/// JSON is one line, as an event's data must be.
pub(crate) fn raw_event(name: &str, json: &[u8]) -> Vec<u8> {
    [b"event: ", name.as_bytes(), b"\ndata: ", json, b"\n\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(chunks: &[&[u8]]) -> String {
        let (outlet, mut queue) = Outlet::new(watch::channel(false).1, None);
        let mut teller = Teller::new(outlet);
        for chunk in chunks {
            assert!(teller.write(Stream::Out, chunk).is_continue());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(teller.finish("result", b"{}"));
        let mut all = Vec::new();
        while let Ok(event) = queue.try_recv() {
            all.extend(event);
        }
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn text_stays_text_where_a_read_cuts_a_character() {
        let events = told(&[b"caf\xc3", b"\xa9\n"]);
        assert_eq!(
            events,
            "event: stdout\ndata: {\"text\":\"caf\"}\n\nevent: stdout\ndata: {\"text\":\"é\\n\"}\n\nevent: result\ndata: {}\n\n"
        );
    }

    #[test]
    fn other_bytes_are_base64_to_the_last() {
        let events = told(&[b"\xff\xfe", b"x\xc3"]);
        assert_eq!(
            events,
            "event: stdout\ndata: {\"base64\":\"//4=\"}\n\nevent: stdout\ndata: {\"text\":\"x\"}\n\n\
             event: stdout\ndata: {\"base64\":\"ww==\"}\n\nevent: result\ndata: {}\n\n"
        );
    }
}
