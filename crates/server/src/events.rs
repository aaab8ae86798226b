//! A run as server-sent events: `start`, `stdout` and `stderr` as they come, then `result` or `error`.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::{Output, Stream};
use hyper::body::{Body, Bytes, Frame};
use serde::Serialize;
use tokio::sync::{mpsc, watch};

use crate::error::Refusal;
use crate::http::unspeakable;
use crate::outlet::{Gone, Outlet};
use crate::runs::Log;

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
    /// Who reads it now.
    outlet: Option<Outlet>,
    /// For whoever reads it later.
    log: Option<Arc<Log>>,
    /// Of the event before.
    number: u64,
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
        Self { outlet: Some(outlet), log: None, number: 0, partial: [Vec::new(), Vec::new()] }
    }

    /// One whose words are kept, beside whoever may read along.
    pub(crate) fn logged(outlet: Option<Outlet>, log: Arc<Log>) -> Self {
        Self { outlet, log: Some(log), number: 0, partial: [Vec::new(), Vec::new()] }
    }

    /// Tells the name of what begins.
    pub(crate) fn start(&mut self, id: &str) {
        // A reader who is gone already shows that with the first output, or has the run cancelled.
        let _ = self.put("start", &serde_json::to_vec(&Started { id }).unwrap_or_default());
    }

    fn put(&mut self, name: &str, json: &[u8]) -> Result<(), Gone> {
        self.number += 1;
        let event = numbered_event(self.number, name, json);
        if let Some(log) = &self.log {
            log.push(event.clone().into());
        }
        self.outlet.as_mut().map_or(Ok(()), |outlet| outlet.put(event))
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

    /// Tells what is left of the output.
    pub(crate) fn flush(&mut self) {
        for stream in [Stream::Out, Stream::Err] {
            let rest = std::mem::take(&mut self.partial[index(stream)]);
            if !rest.is_empty() {
                let _ = self.put(stream_name(stream), &written(&piece(&rest)));
            }
        }
    }

    /// Tells what is left, and then how it ended. A log has been told that already by whoever keeps it.
    pub(crate) async fn finish(mut self, name: &str, json: &[u8]) {
        self.flush();
        if let Some(outlet) = self.outlet.take() {
            outlet.finish(numbered_event(self.number + 1, name, json)).await;
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        if let Some(log) = &self.log {
            log.close();
        }
    }
}

#[derive(Serialize)]
struct Started<'a> {
    id: &'a str,
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
        match self.put(stream_name(stream), &written(&piece(&all))) {
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
pub(crate) fn whole_characters(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let could_go_on = std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
    if could_go_on { bytes.len() - last.len() } else { bytes.len() }
}

fn piece(bytes: &[u8]) -> Piece<'_> {
    std::str::from_utf8(bytes).map_or_else(|_| Piece::Base64(STANDARD.encode(bytes)), Piece::Text)
}

/// Text and base64 always have a JSON form.
fn written(piece: &Piece<'_>) -> Vec<u8> {
    serde_json::to_vec(piece).unwrap_or_default()
}

/// One by whose number a reader can go on.
pub(crate) fn numbered_event(number: u64, name: &str, json: &[u8]) -> Vec<u8> {
    [format!("id: {number}\n").as_bytes(), &raw_event(name, json)].concat()
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
            "id: 1\nevent: stdout\ndata: {\"text\":\"caf\"}\n\nid: 2\nevent: stdout\ndata: {\"text\":\"é\\n\"}\n\n\
             id: 3\nevent: result\ndata: {}\n\n"
        );
    }

    #[test]
    fn other_bytes_are_base64_to_the_last() {
        let events = told(&[b"\xff\xfe", b"x\xc3"]);
        assert_eq!(
            events,
            "id: 1\nevent: stdout\ndata: {\"base64\":\"//4=\"}\n\nid: 2\nevent: stdout\ndata: {\"text\":\"x\"}\n\n\
             id: 3\nevent: stdout\ndata: {\"base64\":\"ww==\"}\n\nid: 4\nevent: result\ndata: {}\n\n"
        );
    }
}
