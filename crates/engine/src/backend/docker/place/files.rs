//! Files of a container that stays, looked after by clerks: programs of ours inside, one for each question.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use jail::clerk::{Answer, Ask, NAME};
use jail::contained::{FrameKind, Frames, MOST_CONTENT, NAME as PROGRAM, frame};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::sync::mpsc;
use types::GuestPath;

use super::lane::Lane;
use crate::backend::{
    BoxFuture, Connection, Control, FileContentStream, FileEntry, FileError, FileEvent, GuestUser, Marks, PlaceFiles,
    Process, ProcessSpec, Reach, Stream, Unpacked,
};

/// Events that wait for a reader.
const QUEUE: usize = 256;

/// The files of one container.
#[derive(Clone)]
pub(super) struct ContainerFiles {
    pub(super) lane: Arc<Lane>,
}

impl ContainerFiles {
    /// Bytes and entries on its disk, as far as they can be seen.
    pub(super) async fn measure(&self) -> io::Result<(u64, u64)> {
        match self.ask(&Ask::Measure).await?.answer().await? {
            Answer::Used { bytes, entries } => Ok((bytes, entries)),
            _ => Err(unexpected()),
        }
    }

    /// Asks a clerk.
    async fn ask(&self, ask: &Ask) -> io::Result<Clerk> {
        if self.lane.is_frozen() {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the session is paused"));
        }
        let spec = ProcessSpec {
            programs: vec![PROGRAM.to_owned()],
            argv: vec![NAME.to_owned()],
            env: BTreeMap::new(),
            cwd: GuestPath::new("/").map_err(io::Error::other)?,
            user: GuestUser::User,
            connection: Connection::Pipes,
            wall: None,
        };
        let process = self.lane.start(spec, &[]).await.map_err(io::Error::other)?;
        let Process { input, output, control, .. } = process;
        let clerk = Clerk { input, output, frames: Frames::default(), control, done: false };
        clerk.send(ask.frame()).await?;
        Ok(clerk)
    }

    async fn done(&self, ask: Ask) -> io::Result<()> {
        match self.ask(&ask).await?.answer().await? {
            Answer::Done => Ok(()),
            _ => Err(unexpected()),
        }
    }

    async fn list(&self, path: &GuestPath, depth: u32) -> io::Result<Vec<FileEntry>> {
        let mut clerk = self.ask(&Ask::List { path: text(path), depth: depth.max(1) }).await?;
        let mut all = Vec::new();
        loop {
            match clerk.answer().await? {
                Answer::Entries(entries) if all.len() <= jail::inside::MOST_ENTRIES => {
                    all.extend(entries.into_iter().map(FileEntry::from));
                }
                Answer::Done => return Ok(all),
                _ => return Err(unexpected()),
            }
        }
    }

    async fn read_file(&self, path: &GuestPath) -> io::Result<FileContentStream> {
        let mut clerk = self.ask(&Ask::Read(text(path))).await?;
        let Answer::File(bytes) = clerk.answer().await? else { return Err(unexpected()) };
        let content = Box::new(Content { clerk, rest: Vec::new(), at: 0, over: false }.take(bytes));
        Ok(FileContentStream { bytes, content })
    }

    async fn write_file(
        &self,
        path: &GuestPath,
        mode: u32,
        content: &mut (dyn AsyncRead + Send + Unpin),
    ) -> io::Result<u64> {
        let mut clerk = self.ask(&Ask::Write { path: text(path), mode }).await?;
        let Answer::Ready = clerk.answer().await? else { return Err(unexpected()) };
        let bytes = clerk.fill(content).await?;
        match clerk.answer().await? {
            Answer::Done => Ok(bytes),
            _ => Err(unexpected()),
        }
    }

    async fn watch_folder(&self, path: &GuestPath, reach: Reach) -> io::Result<mpsc::Receiver<FileEvent>> {
        let mut clerk = self.ask(&Ask::Watch { path: text(path), reach: reach.into() }).await?;
        let Answer::Ready = clerk.answer().await? else { return Err(unexpected()) };
        let (tell, told) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            loop {
                let events = tokio::select! {
                    answer = clerk.answer() => match answer {
                        Ok(Answer::Events(events)) => events,
                        _ => return,
                    },
                    () = tell.closed() => return,
                };
                for event in events {
                    if tell.send(event.into()).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(told)
    }
}

fn text(path: &GuestPath) -> String {
    path.as_str().to_owned()
}

fn unexpected() -> io::Error {
    io::Error::other("the container's files cannot be looked after")
}

/// A clerk at work; with its end it is dismissed.
struct Clerk {
    input: Option<mpsc::Sender<Vec<u8>>>,
    output: mpsc::Receiver<(Stream, Vec<u8>)>,
    frames: Frames,
    control: Arc<dyn Control>,
    /// Whether it goes by itself.
    done: bool,
}

impl Drop for Clerk {
    fn drop(&mut self) {
        if !self.done {
            // It may be gone nevertheless.
            drop(self.control.kill());
        }
    }
}

impl Clerk {
    async fn send(&self, frame: Vec<u8>) -> io::Result<()> {
        let Some(input) = &self.input else { return Err(io::ErrorKind::BrokenPipe.into()) };
        input.send(frame).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(FrameKind, Vec<u8>)>> {
        loop {
            match self.frames.next_frame() {
                Err(_) => return Poll::Ready(Err(unexpected())),
                Ok(Some(frame)) => return Poll::Ready(Ok(frame)),
                Ok(None) => {}
            }
            match ready!(self.output.poll_recv(cx)) {
                Some((Stream::Out, bytes)) => self.frames.push(&bytes),
                // It has nothing to say there.
                Some((Stream::Err, _)) => {}
                None => return Poll::Ready(Err(unexpected())),
            }
        }
    }

    async fn next(&mut self) -> io::Result<(FrameKind, Vec<u8>)> {
        std::future::poll_fn(|cx| self.poll_frame(cx)).await
    }

    async fn answer(&mut self) -> io::Result<Answer> {
        let (kind, payload) = self.next().await?;
        if kind != FrameKind::Message {
            return Err(unexpected());
        }
        let answer = Answer::read(&payload).ok_or_else(unexpected)?;
        self.done = match &answer {
            Answer::Ready | Answer::Entries(_) | Answer::File(_) | Answer::Events(_) => false,
            Answer::Done
            | Answer::Failed { .. }
            | Answer::Entry(_)
            | Answer::Marks(_)
            | Answer::Unpacked(_)
            | Answer::Used { .. } => true,
        };
        refused(answer)
    }

    /// Sends content to its end.
    async fn fill(&mut self, content: &mut (dyn AsyncRead + Send + Unpin)) -> io::Result<u64> {
        let (mut buffer, mut bytes) = (vec![0; MOST_CONTENT], 0);
        loop {
            let n = content.read(&mut buffer).await?;
            let (kind, last) = if n == 0 { (FrameKind::End, true) } else { (FrameKind::Content, false) };
            bytes += n as u64;
            // One that has failed says so, and takes no more.
            if self.send(frame(kind, &buffer[..n])).await.is_err() || last {
                return Ok(bytes);
            }
        }
    }
}

/// A refusal, in the kernel's words where they are its.
fn refused(answer: Answer) -> io::Result<Answer> {
    match answer {
        Answer::Failed { errno: Some(errno), .. } => Err(io::Error::from_raw_os_error(errno)),
        Answer::Failed { errno: None, said } => {
            let said: String = said.chars().filter(|c| !c.is_control()).take(300).collect();
            Err(io::Error::new(io::ErrorKind::InvalidInput, said))
        }
        other => Ok(other),
    }
}

/// Content on its way out.
struct Content {
    clerk: Clerk,
    rest: Vec<u8>,
    at: usize,
    over: bool,
}

impl AsyncRead for Content {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.at == self.rest.len() && !self.over {
            match ready!(self.clerk.poll_frame(cx))? {
                (FrameKind::Content, piece) => (self.rest, self.at) = (piece, 0),
                (FrameKind::End, _) => (self.over, self.clerk.done) = (true, true),
                // Whoever reads must not take a part for the whole.
                (FrameKind::Message, payload) => {
                    let why = Answer::read(&payload).map_or_else(|| Err(unexpected()), refused);
                    return Poll::Ready(Err(why.err().unwrap_or_else(unexpected)));
                }
                (FrameKind::Out | FrameKind::Err | FrameKind::Packet, _) => return Poll::Ready(Err(unexpected())),
            }
        }
        let n = into.remaining().min(self.rest.len() - self.at);
        into.put_slice(&self.rest[self.at..self.at + n]);
        self.at += n;
        Poll::Ready(Ok(()))
    }
}

/// The same with what could not be done told by its path.
fn about<T>(path: &GuestPath, done: io::Result<T>) -> Result<T, FileError> {
    done.map_err(|error| FileError::from_io(path, error))
}

impl PlaceFiles for ContainerFiles {
    fn stat<'a>(&'a self, path: &'a GuestPath) -> BoxFuture<'a, Result<FileEntry, FileError>> {
        Box::pin(async move {
            let asked = async { self.ask(&Ask::Stat(text(path))).await?.answer().await };
            match about(path, asked.await)? {
                Answer::Entry(entry) => Ok(entry.into()),
                _ => about(path, Err(unexpected())),
            }
        })
    }

    fn list<'a>(&'a self, path: &'a GuestPath, depth: u32) -> BoxFuture<'a, Result<Vec<FileEntry>, FileError>> {
        Box::pin(async move { Self::list(self, path, depth).await.map_err(|error| FileError::of_list(path, error)) })
    }

    fn read<'a>(&'a self, path: &'a GuestPath) -> BoxFuture<'a, Result<FileContentStream, FileError>> {
        Box::pin(async move { about(path, self.read_file(path).await) })
    }

    fn write<'a>(
        &'a self,
        path: &'a GuestPath,
        _user: GuestUser,
        mode: u32,
        content: &'a mut (dyn AsyncRead + Send + Unpin),
    ) -> BoxFuture<'a, Result<u64, FileError>> {
        Box::pin(async move { about(path, self.write_file(path, mode, content).await) })
    }

    fn make_folder<'a>(&'a self, path: &'a GuestPath, _user: GuestUser) -> BoxFuture<'a, Result<(), FileError>> {
        Box::pin(async move { about(path, self.done(Ask::MakeFolder(text(path))).await) })
    }

    fn rename<'a>(&'a self, from: &'a GuestPath, to: &'a GuestPath) -> BoxFuture<'a, Result<(), FileError>> {
        Box::pin(async move { about(from, self.done(Ask::Rename { from: text(from), to: text(to) }).await) })
    }

    fn remove<'a>(&'a self, path: &'a GuestPath) -> BoxFuture<'a, Result<(), FileError>> {
        Box::pin(async move { about(path, self.done(Ask::Remove(text(path))).await) })
    }

    fn marks<'a>(
        &'a self,
        paths: Vec<GuestPath>,
        prefix: &'static str,
    ) -> BoxFuture<'a, Result<Vec<Marks>, FileError>> {
        Box::pin(async move {
            let (paths, count) = (paths.iter().map(text).collect(), paths.len());
            let asked = async { self.ask(&Ask::Marks { paths, prefix: prefix.to_owned() }).await?.answer().await };
            match asked.await {
                Ok(Answer::Marks(marks)) if marks.len() == count => Ok(marks),
                // What cannot be told has none, as on every other backend.
                _ => Ok(vec![Marks::new(); count]),
            }
        })
    }

    fn mark<'a>(
        &'a self,
        path: &'a GuestPath,
        prefix: &'static str,
        marks: Marks,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        let ask = Ask::Mark { path: text(path), prefix: prefix.to_owned(), marks };
        Box::pin(async move { about(path, self.done(ask).await) })
    }

    fn pack<'a>(&'a self, path: &'a GuestPath) -> BoxFuture<'a, Result<Box<dyn AsyncRead + Send + Unpin>, FileError>> {
        Box::pin(async move {
            let asked = async {
                let mut clerk = self.ask(&Ask::Pack(text(path))).await?;
                let Answer::Ready = clerk.answer().await? else { return Err(unexpected()) };
                Ok(Content { clerk, rest: Vec::new(), at: 0, over: false })
            };
            about(path, asked.await).map(|content| Box::new(content) as Box<dyn AsyncRead + Send + Unpin>)
        })
    }

    fn unpack<'a>(
        &'a self,
        path: &'a GuestPath,
        _user: GuestUser,
        most: u64,
        content: &'a mut (dyn AsyncRead + Send + Unpin),
    ) -> BoxFuture<'a, Result<Unpacked, FileError>> {
        Box::pin(async move {
            let asked = async {
                let mut clerk = self.ask(&Ask::Unpack { path: text(path), most }).await?;
                clerk.fill(content).await?;
                match clerk.answer().await? {
                    Answer::Unpacked(unpacked) => Ok(unpacked.into()),
                    _ => Err(unexpected()),
                }
            };
            about(path, asked.await)
        })
    }

    fn watch<'a>(
        &'a self,
        path: &'a GuestPath,
        reach: Reach,
    ) -> BoxFuture<'a, Result<mpsc::Receiver<FileEvent>, FileError>> {
        Box::pin(async move { about(path, self.watch_folder(path, reach).await) })
    }
}
