//! One attached run, on the server's side.
//!
//! Three parts: a task that reads frames, a task that writes them, and the run itself in between. The engine hands over
//! output and files in passing and waits where the client is slow; the reader never waits for the run, so a `Cancel` or
//! the end of the connection is noticed at once.

use std::io;
use std::time::Duration;

use engine::{Caller, Delivery, Inputs, Output, Receive, RunError, Spoken, Stdin, TerminalSize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use types::{ErrorBody, ErrorCode, ExecResult, FileContent, InputFile, Source};

use super::remote::{Live, Offers, Piece, Remote};
use super::{Ask, InSession, MOST_ASK};
use crate::activity::turned;
use crate::frame::{CHUNK, Decoder, Frame, Kind, encode};
use crate::http::Shared;
use crate::outlet::Outlet;

/// How long a client may take to say what it wants.
const ASK_TIME: Duration = Duration::from_secs(30);
/// In line the command line stands apart from HTTP: neither can make the other wait for its own.
const CALLER: &str = "attach";
/// About the most bytes that are written at once.
const BATCH: usize = 4 * CHUNK;

/// Carries out the one run of a connection. `already` is what came with the upgrade.
pub(super) async fn serve(shared: &Shared, stream: UnixStream, already: &[u8]) {
    let (read, write) = stream.into_split();
    let mut frames = Frames::new(read, already);
    let Ok(Ok((ask, code))) = tokio::time::timeout(ASK_TIME, frames.ask()).await else { return };
    let (cancel, cancelled) = watch::channel(false);
    let (outlet, queue) = Outlet::new(cancelled.clone(), None);
    let writer = tokio::spawn(write_frames(write, queue));
    let (input, stdin) = mpsc::channel(1);
    let (pieces, wanted) = mpsc::channel(4);
    let (answers, answered) = mpsc::channel(1);
    let mut inputs = Remote::new(outlet.queue(), wanted);
    let mut offers = Offers::new(outlet.queue(), answered);
    let (sizes, resized) = mpsc::channel(4);
    let listener = Listener { frames, input: Some(input), pieces, answers, sizes, cancel, queue: outlet.queue() };
    let listening = Aborted(tokio::spawn(listener.listen(shared.give_up.subscribe())));
    let mut live = Live(outlet);
    let told = ask.live;
    if let Some(within) = ask.session {
        let spoken = Spoken {
            stdin: Some(Stdin::Stream(stdin)),
            live: told.then_some(&mut live as &mut dyn Output),
            cancel: Some(Box::pin(async move { turned(&mut cancelled.clone()).await })),
            resized: Some(resized),
        };
        let last = last_frame(in_session(shared, within, spoken).await, told);
        drop((listening, inputs, offers));
        live.0.finish(last).await;
        drop(writer.await);
        return;
    }
    let delivery = Delivery {
        stdin: Some(Stdin::Stream(stdin)),
        live: ask.live.then_some(&mut live as &mut dyn Output),
        inputs: Some(&mut inputs as &mut dyn Inputs),
        out: ask.out.then_some(&mut offers as &mut dyn Receive),
        cancel: Some(cancelled),
        ..Delivery::default()
    };
    let last = last_frame(execute(shared, ask, code, delivery).await.map_err(|error| error.body()), told);
    drop((listening, inputs, offers));
    live.0.finish(last).await;
    // Every sender of the queue is gone by now: the last frame is out, or nobody is there to read it.
    drop(writer.await);
}

async fn execute(
    shared: &Shared,
    ask: Ask,
    code: Option<Vec<u8>>,
    delivery: Delivery<'_>,
) -> Result<ExecResult, RunError> {
    let Ask { mut request, files, accept_missing, require, .. } = ask;
    request.code = code.map(Source);
    request.files =
        files.into_iter().map(|(path, shown)| InputFile { path, content: FileContent::Host(shown.into()) }).collect();
    let caller = Caller { name: CALLER.to_owned(), accept_missing, require, ..Caller::default() };
    shared.engine.execute(&caller, request, delivery).await
}

async fn in_session(shared: &Shared, within: InSession, spoken: Spoken<'_>) -> Result<ExecResult, ErrorBody> {
    let caller = Caller { name: CALLER.to_owned(), ..Caller::default() };
    let session = shared.engine.session(&caller, &within.id).map_err(|error| error.body())?;
    let result = shared.engine.exec_in_session(&caller, &session, within.command, spoken).await;
    result.map_err(|error| error.body())
}

/// A result, or an error that took its place.
fn last_frame(result: Result<ExecResult, ErrorBody>, told: bool) -> Vec<u8> {
    let (kind, json) = match result {
        Ok(mut result) => {
            if told {
                // The client has had every byte of it.
                (result.stdout, result.stderr) = (String::new(), String::new());
            }
            (Kind::Result, serde_json::to_vec(&result))
        }
        Err(body) => (Kind::Error, serde_json::to_vec(&body)),
    };
    let mut frame = Vec::new();
    let encoded =
        json.map_err(io::Error::from).and_then(|json| encode(kind, &json, &mut frame).map_err(io::Error::other));
    if let Err(error) = encoded {
        let message = format!("the result cannot be sent: {error}");
        let hint = "lower --output-limit, or use --cold".to_owned();
        let body = ErrorBody { code: ErrorCode::TooLarge, message, hint };
        frame.clear();
        let _ = encode(Kind::Error, &serde_json::to_vec(&body).unwrap_or_default(), &mut frame);
    }
    frame
}

/// Writes what is queued, several messages at once if they wait.
async fn write_frames(mut write: OwnedWriteHalf, mut queue: mpsc::Receiver<Vec<u8>>) {
    while let Some(mut batch) = queue.recv().await {
        while batch.len() < BATCH
            && let Ok(next) = queue.try_recv()
        {
            batch.extend_from_slice(&next);
        }
        if write.write_all(&batch).await.is_err() {
            return;
        }
    }
}

/// Frames as they arrive.
struct Frames {
    read: OwnedReadHalf,
    decoder: Decoder,
    buffer: Vec<u8>,
}

impl Frames {
    fn new(read: OwnedReadHalf, already: &[u8]) -> Self {
        let mut decoder = Decoder::new(MOST_ASK);
        decoder.push(already);
        Self { read, decoder, buffer: vec![0; CHUNK] }
    }

    /// The next frame; an error also where the client is gone. Nothing is lost if this is dropped.
    async fn next(&mut self) -> io::Result<Frame> {
        loop {
            if let Some(frame) = self.decoder.frame().map_err(io::Error::other)? {
                return Ok(frame);
            }
            match self.read.read(&mut self.buffer).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => self.decoder.push(&self.buffer[..n]),
            }
        }
    }

    /// What the client wants, and its program.
    async fn ask(&mut self) -> io::Result<(Ask, Option<Vec<u8>>)> {
        let mut frame = self.next().await?;
        let mut code = None;
        if frame.kind == Kind::Code {
            code = Some(frame.payload);
            frame = self.next().await?;
        }
        match frame.kind {
            Kind::Ask => Ok((serde_json::from_slice(&frame.payload)?, code)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Hears the client while the run goes on.
struct Listener {
    frames: Frames,
    /// Standard input, until its end.
    input: Option<mpsc::Sender<Vec<u8>>>,
    pieces: mpsc::Sender<Piece>,
    answers: mpsc::Sender<Kind>,
    /// New sizes of a terminal.
    sizes: mpsc::Sender<TerminalSize>,
    cancel: watch::Sender<bool>,
    queue: mpsc::Sender<Vec<u8>>,
}

impl Listener {
    /// Until the client is gone, which takes the run back.
    async fn listen(mut self, mut give_up: watch::Receiver<bool>) {
        let (mut asked, mut given_up) = (false, false);
        loop {
            let ask_for_more = ask_for_more(self.input.clone().filter(|_| !asked), self.queue.clone());
            tokio::select! {
                frame = self.frames.next() => match frame {
                    Ok(Frame { kind: Kind::Stdin, payload }) => {
                        asked = false;
                        // There is room, because we asked; or the program no longer reads.
                        let sent = self.input.as_ref().map(|input| input.try_send(payload));
                        self.input = self.input.filter(|_| matches!(sent, Some(Ok(()))));
                    }
                    Ok(Frame { kind: Kind::StdinEnd, .. }) => self.input = None,
                    Ok(frame) => {
                        if self.pass_on(frame).await.is_break() {
                            break;
                        }
                    }
                    Err(_) => break,
                },
                () = ask_for_more => asked = true,
                () = turned(&mut give_up), if !given_up => {
                    given_up = true;
                    self.cancel.send_replace(true);
                }
            }
        }
        self.cancel.send_replace(true);
    }

    /// Gives a frame to whoever waits for it. A run that no longer wants it has ended, or will.
    async fn pass_on(&mut self, frame: Frame) -> std::ops::ControlFlow<()> {
        match frame.kind {
            Kind::Cancel => {
                self.cancel.send_replace(true);
            }
            Kind::Input => drop(self.pieces.send(Piece::Start(frame.payload == [1])).await),
            Kind::Data => drop(self.pieces.send(Piece::Data(frame.payload)).await),
            Kind::DataEnd => drop(self.pieces.send(Piece::End).await),
            Kind::Resize => {
                if let Ok([a, b, c, d]) = <[u8; 4]>::try_from(frame.payload) {
                    let (columns, rows) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
                    // The next one tells the size as well.
                    let _ = self.sizes.try_send(TerminalSize { columns, rows });
                }
            }
            Kind::Taken | Kind::Refused => drop(self.answers.send(frame.kind).await),
            Kind::Code | Kind::Ask | Kind::Stdin | Kind::StdinEnd => return std::ops::ControlFlow::Break(()),
            Kind::More | Kind::Want | Kind::Stdout | Kind::Stderr | Kind::Made | Kind::Result | Kind::Error => {
                return std::ops::ControlFlow::Break(());
            }
        }
        std::ops::ControlFlow::Continue(())
    }
}

/// Waits until standard input has room, and says so to the client. Does nothing, forever, if there is no input.
async fn ask_for_more(input: Option<mpsc::Sender<Vec<u8>>>, queue: mpsc::Sender<Vec<u8>>) {
    let Some(input) = input else { return std::future::pending().await };
    let (Ok(_room), Ok(place)) = (input.reserve().await, queue.reserve().await) else {
        return std::future::pending().await;
    };
    let mut frame = Vec::new();
    let _ = encode(Kind::More, &[], &mut frame);
    place.send(frame);
}

/// A task that ends with its owner.
struct Aborted(JoinHandle<()>);

impl Drop for Aborted {
    fn drop(&mut self) {
        self.0.abort();
    }
}
