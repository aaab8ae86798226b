//! Telling a client that something is going on, if it asked for that.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use engine::{Output, Stream};
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::sync::watch;

/// No two notifications are closer than this.
const LEAST: Duration = Duration::from_millis(200);
/// Somebody who has not heard anything for so long is told that it goes on.
const MOST: Duration = Duration::from_secs(2);
/// Longer lines are cut.
const MOST_LINE: usize = 200;

/// Does `work`, and tells meanwhile how long it has taken and which line its program wrote last.
pub(super) async fn along<T>(
    context: &RequestContext<RoleServer>,
    said: watch::Receiver<String>,
    work: impl Future<Output = T>,
) -> T {
    let Some(token) = context.meta.get_progress_token() else { return work.await };
    tokio::select! {
        // In this order: that it has begun is said before it can end.
        biased;
        never = tell(&context.peer, token, said) => match never {},
        done = work => done,
    }
}

/// Progress is seconds, since nobody knows how much a program has left to do.
async fn tell(
    peer: &Peer<RoleServer>,
    token: ProgressToken,
    mut said: watch::Receiver<String>,
) -> std::convert::Infallible {
    let start = Instant::now();
    loop {
        let line = said.borrow_and_update().clone();
        let mut note = ProgressNotificationParam::new(token.clone(), start.elapsed().as_secs_f64());
        if !line.is_empty() {
            note = note.with_message(line);
        }
        if peer.notify_progress(note).await.is_err() {
            return std::future::pending().await;
        }
        tokio::time::sleep(LEAST).await;
        tokio::select! {
            Ok(()) = said.changed() => {}
            () = tokio::time::sleep(MOST) => {}
        }
    }
}

/// Keeps the last whole line that a program wrote.
pub(super) struct LastLine<'a> {
    said: &'a watch::Sender<String>,
    begun: Vec<u8>,
}

impl<'a> LastLine<'a> {
    pub(super) fn new(said: &'a watch::Sender<String>) -> Self {
        Self { said, begun: Vec::new() }
    }
}

impl Output for LastLine<'_> {
    fn write(&mut self, _: Stream, bytes: &[u8]) -> ControlFlow<()> {
        let (lines, rest) = match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => (&bytes[..at], &bytes[at + 1..]),
            None => (&bytes[..0], bytes),
        };
        if lines.len() < bytes.len() - rest.len() {
            let start = lines.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
            if start.is_some() {
                self.begun.clear();
            }
            self.begun
                .extend_from_slice(&lines[start.unwrap_or(0)..][..(lines.len() - start.unwrap_or(0)).min(MOST_LINE)]);
            let line: String = String::from_utf8_lossy(&self.begun).chars().filter(|c| !c.is_control()).collect();
            if !line.trim().is_empty() {
                self.said.send_replace(line);
            }
            self.begun.clear();
        }
        let room = MOST_LINE.saturating_sub(self.begun.len());
        self.begun.extend_from_slice(&rest[..rest.len().min(room)]);
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_line_is_told_wherever_it_was_cut() {
        let said = watch::Sender::new(String::new());
        let mut lines = LastLine::new(&said);
        let mut after = |bytes: &[u8]| {
            assert!(lines.write(Stream::Out, bytes).is_continue());
            said.borrow().clone()
        };
        assert_eq!(after(b"one"), "");
        assert_eq!(after(b" more\ntw"), "one more");
        assert_eq!(after(b"o"), "one more");
        assert_eq!(after(b"\n"), "two");
        assert_eq!(after(b"three\nfour\nfi"), "four");
        assert_eq!(after(b"\x1b[31mve\n\n"), "four");
        assert_eq!(after(b"six\x1b[31m\n"), "six[31m");
        let long = [&vec![b'x'; 100_000][..], b"\n"].concat();
        assert_eq!(after(&long).len(), MOST_LINE);
    }
}
