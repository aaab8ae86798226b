//! Many tasks: a line in, a line out, in order, in constant memory, and again from where it was interrupted.

use std::collections::VecDeque;
use std::fs::File;
use std::future::{poll_fn, ready};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use types::{ErrorBody, ErrorCode};

use super::error::JudgeError;
use super::in_line::{InLine, Waiting};
use super::record::hex;
use super::tally::{Found, Summary, Tally};
use super::task::Task;
use super::{Judge, Judged};

/// The longest line that is read.
const MOST_LINE: u64 = 256 << 20;
/// Before the next try, where nobody says.
const SOON: Duration = Duration::from_secs(1);
/// Lines under way or waiting for one before them, for each job; as many more if they are short, so that a slow task
/// holds up nobody but itself.
const AHEAD: usize = 8;
const MORE_AHEAD: usize = 128;
/// What counts as short: so many bytes of lines in all.
const SHORT: u64 = 8 << 20;

/// Why a batch could not go on. A bad line is a line of the output, never one of these.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The tasks cannot be read.
    #[error("cannot read the tasks")]
    Read(#[source] io::Error),
    /// The results cannot be written or read back.
    #[error("cannot write `{}`", path.display())]
    Out {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What is there already belongs to other tasks.
    #[error("line {line} of `{}` is the result of another task", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The first that does not fit.
        line: usize,
    },
    /// The judge's own task was taken away.
    #[error("the batch was interrupted")]
    Interrupted,
}

impl BatchError {
    /// The wire form.
    #[must_use]
    pub fn body(&self) -> ErrorBody {
        let (code, hint) = match self {
            Self::Read(_) => (ErrorCode::InputUnreadable, "check that the file exists and that you may read it"),
            Self::Out { .. } => (ErrorCode::OutputUnwritable, "check the folder's permissions and free space"),
            Self::Foreign { .. } => {
                (ErrorCode::InvalidRequest, "a batch goes on where its results end: name another --out, or remove it")
            }
            Self::Interrupted => (ErrorCode::SandboxFailed, "call it again: it goes on where it was"),
        };
        let source = std::error::Error::source(self).map(|source| format!(": {source}")).unwrap_or_default();
        ErrorBody { code, message: format!("{self}{source}"), hint: hint.to_owned() }
    }
}

/// Where results go.
pub enum Out {
    /// A file, which may hold the first of them already.
    File(PathBuf),
    /// Whoever reads along.
    Writer(Box<dyn Write + Send>),
}

/// How far a batch is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Lines judged, those of an earlier time included.
    pub done: u64,
    /// Bytes of the input that belong to them.
    pub bytes: u64,
    /// Of those, found in the output already.
    pub resumed: u64,
}

/// Judges every line of `input`.
pub async fn batch(
    judge: Arc<Judge>,
    jobs: usize,
    input: Box<dyn Read + Send>,
    out: Out,
    mut progress: impl FnMut(Progress),
) -> Result<Summary, BatchError> {
    let mut sink = Sink::open(out)?;
    let mut lines = read_lines(input);
    let mut tally = Tally::default();
    let mut told = Progress::default();
    let gate = Arc::new(Semaphore::new(jobs.max(1)));
    let in_line = InLine::new(Arc::clone(&judge.engine));
    let mut under_way: VecDeque<(u64, Judging)> = VecDeque::new();
    let (mut number, mut open) = (0, true);
    while open || !under_way.is_empty() {
        let full = is_full(&under_way, jobs.max(1));
        tokio::select! {
            line = lines.recv(), if open && !full => {
                let Some(line) = line else {
                    open = false;
                    in_line.close();
                    continue;
                };
                let line = line.map_err(BatchError::Read)?;
                number += 1;
                let bytes = line.bytes;
                if let Some(found) = sink.next_found(&line, number)? {
                    tally.add(&found);
                    told.resumed += 1;
                    told.done += 1;
                    told.bytes += bytes;
                    continue;
                }
                let (judge, gate) = (Arc::clone(&judge), Arc::clone(&gate));
                let place = Place { turn: turn(&gate).await, waiting: in_line.enter() };
                let judged = tokio::spawn(async move { Box::pin(judge_line(&judge, &gate, place, &line)).await });
                under_way.push_back((bytes, Judging(judged)));
            },
            line = first(&mut under_way), if !under_way.is_empty() => {
                let (bytes, line) = line?;
                sink.write(&line.text)?;
                tally.add(&line.found);
                told.done += 1;
                told.bytes += bytes;
                progress(told);
            }
        }
    }
    sink.flush()?;
    Ok(tally.summary())
}

fn is_full(under_way: &VecDeque<(u64, Judging)>, jobs: usize) -> bool {
    let count = under_way.len();
    count >= jobs * MORE_AHEAD
        || count >= jobs * AHEAD && under_way.iter().map(|(bytes, _)| bytes).sum::<u64>() >= SHORT
}

/// The first line under way, once it is judged. Lines after it wait for it: they are written in order.
async fn first(under_way: &mut VecDeque<(u64, Judging)>) -> Result<(u64, Line), BatchError> {
    let Some((bytes, judged)) = under_way.front_mut() else { return Err(BatchError::Interrupted) };
    let (bytes, line) = (*bytes, (&mut judged.0).await);
    under_way.pop_front();
    line.map(|line| (bytes, line)).map_err(|_| BatchError::Interrupted)
}

/// A line under way; it ends with the batch.
struct Judging(JoinHandle<Line>);

impl Drop for Judging {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A line of the input.
struct Read1 {
    text: Result<String, &'static str>,
    bytes: u64,
}

/// A line of the output, and what the summary needs of it.
struct Line {
    text: String,
    found: Found,
}

/// Reads in a thread of its own, never far ahead.
fn read_lines(input: Box<dyn Read + Send>) -> mpsc::Receiver<io::Result<Read1>> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    std::thread::spawn(move || {
        let mut reader = BufReader::with_capacity(1 << 20, input);
        loop {
            let mut bytes = Vec::new();
            let read = reader.by_ref().take(MOST_LINE).read_until(b'\n', &mut bytes);
            let line = match read {
                Err(error) => {
                    drop(sender.blocking_send(Err(error)));
                    return;
                }
                Ok(0) => return,
                Ok(_) => bytes,
            };
            let mut size = line.len() as u64;
            let too_long = size >= MOST_LINE && line.last() != Some(&b'\n');
            if too_long {
                size += skip_line(&mut reader);
            }
            let text = match String::from_utf8(line) {
                _ if too_long => Err("the line is too long"),
                Ok(text) if text.trim().is_empty() => continue,
                Ok(text) => Ok(text),
                Err(_) => Err("the line is not UTF-8 text"),
            };
            if sender.blocking_send(Ok(Read1 { text, bytes: size })).is_err() {
                return;
            }
        }
    });
    receiver
}

fn skip_line(reader: &mut impl BufRead) -> u64 {
    let mut skipped = 0;
    loop {
        let Ok(buffer) = reader.fill_buf() else { return skipped };
        let end = buffer.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let count = end.unwrap_or(buffer.len());
        reader.consume(count);
        skipped += count as u64;
        if end.is_some() || count == 0 {
            return skipped;
        }
    }
}

async fn judge_line(judge: &Judge, gate: &Arc<Semaphore>, place: Place, line: &Read1) -> Line {
    let wrong = |why: &str| ErrorBody {
        code: ErrorCode::InvalidRequest,
        message: why.to_owned(),
        hint: "a batch has one task as JSON on each line".to_owned(),
    };
    let (task_id, judged) = match &line.text {
        Err(why) => (serde_json::Value::Null, Err(wrong(why))),
        Ok(text) => {
            let judged = Box::pin(judge_text(judge, gate, place, text)).await;
            (name_of(text), judged.map_err(|error| error.body()))
        }
    };
    let (text, found) = match judged {
        Ok(judged) => {
            let found = Found { id: None, task_id, score: Some(judged.score), all_passed: judged.all_passed };
            (serde_json::to_string(&judged), found)
        }
        Err(error) => {
            let text = serde_json::to_string(&Failed { task_id: &task_id, error: &error });
            (text, Found { task_id, ..Found::default() })
        }
    };
    Line { text: text.unwrap_or_default(), found }
}

#[derive(Serialize)]
struct Failed<'a> {
    task_id: &'a serde_json::Value,
    error: &'a ErrorBody,
}

/// A place in the line for a turn.
struct Place {
    turn: Turn,
    waiting: Waiting,
}

/// A turn that comes.
type Turn = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>;

/// Gets in line at once: lines have their turns in their order, whichever of them is the first to be woken.
async fn turn(gate: &Arc<Semaphore>) -> Turn {
    let gate = Arc::clone(gate);
    // Never closed.
    let mut turn: Turn = Box::pin(async move { gate.acquire_owned().await.ok() });
    match poll_fn(|context| Poll::Ready(turn.as_mut().poll(context))).await {
        Poll::Ready(turn) => Box::pin(ready(turn)),
        Poll::Pending => turn,
    }
}

async fn judge_text(judge: &Judge, gate: &Arc<Semaphore>, place: Place, text: &str) -> Result<Judged, JudgeError> {
    let task = Task::from_any(text)?;
    let mut turn = place.turn.await;
    drop(place.waiting);
    let task_id = Some(task.task_id.clone().unwrap_or_default());
    loop {
        match judge.judge_as(id_of(text), &task, turn.take()).await {
            // Many tasks come as one batch: they go as fast as their caller may, and none is lost for that.
            Err(JudgeError::Run(error)) if error.retry_after().is_some() => {
                tokio::time::sleep(error.retry_after().unwrap_or(SOON)).await;
                turn = Arc::clone(gate).acquire_owned().await.ok();
            }
            judged => return Ok(Judged { task_id, ..judged? }),
        }
    }
}

/// By the line itself, so that the same line has the same name whenever it is judged.
fn id_of(text: &str) -> String {
    let hash = Sha256::digest(text.trim().as_bytes());
    format!("judge_{}", hex(&hash[..16]))
}

/// The caller's own name of a line, also of one that cannot be judged.
fn name_of(text: &str) -> serde_json::Value {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Named {
        task_id: Option<serde_json::Value>,
        question_id: Option<serde_json::Value>,
        id: Option<serde_json::Value>,
    }
    let named: Named = serde_json::from_str(text).unwrap_or_default();
    named.task_id.or(named.question_id).or(named.id).unwrap_or_default()
}

/// The output. A file's complete lines are results of an earlier call, as long as they fit the input.
enum Sink {
    File { path: PathBuf, file: File, found: Option<BufReader<File>> },
    Writer(Box<dyn Write + Send>),
}

impl Sink {
    fn open(out: Out) -> Result<Self, BatchError> {
        let path = match out {
            Out::Writer(writer) => return Ok(Self::Writer(writer)),
            Out::File(path) => path,
        };
        let wrong = |source| BatchError::Out { path: path.clone(), source };
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(wrong)?;
        // A line that was being written when the last call was killed is written again.
        let whole = whole_lines(&mut file).map_err(wrong)?;
        file.set_len(whole).map_err(wrong)?;
        file.seek(SeekFrom::End(0)).map_err(wrong)?;
        let found = File::open(&path).map_err(wrong)?;
        Ok(Self::File { path, file, found: Some(BufReader::new(found)) })
    }

    /// The result of this line, if an earlier call has written it.
    fn next_found(&mut self, line: &Read1, number: usize) -> Result<Option<Found>, BatchError> {
        let Self::File { path, found, .. } = self else { return Ok(None) };
        let Some(reader) = found else { return Ok(None) };
        let mut text = String::new();
        let read = reader.read_line(&mut text).map_err(|source| BatchError::Out { path: path.clone(), source })?;
        if read == 0 {
            *found = None;
            return Ok(None);
        }
        let name = line.text.as_deref().map(name_of).unwrap_or_default();
        // Another completion of the same task is another line.
        let is_same = |id: &str| line.text.as_deref().is_ok_and(|text| id_of(text) == id);
        match serde_json::from_str::<Found>(&text) {
            Ok(result) if result.task_id == name && result.id.as_deref().is_none_or(is_same) => Ok(Some(result)),
            Ok(_) | Err(_) => Err(BatchError::Foreign { path: path.clone(), line: number }),
        }
    }

    fn write(&mut self, text: &str) -> Result<(), BatchError> {
        let line = format!("{text}\n");
        match self {
            Self::Writer(writer) => writer.write_all(line.as_bytes()).and_then(|()| writer.flush()),
            Self::File { file, .. } => file.write_all(line.as_bytes()),
        }
        .map_err(|source| self.wrong(source))
    }

    fn flush(&mut self) -> Result<(), BatchError> {
        match self {
            Self::Writer(writer) => writer.flush(),
            Self::File { file, .. } => file.sync_all(),
        }
        .map_err(|source| self.wrong(source))
    }

    fn wrong(&self, source: io::Error) -> BatchError {
        let path = match self {
            Self::File { path, .. } => path.clone(),
            Self::Writer(_) => "standard output".into(),
        };
        BatchError::Out { path, source }
    }
}

/// How many bytes of the file are lines with an end.
fn whole_lines(file: &mut File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut buffer = vec![0; 1 << 16];
    while end > 0 {
        let start = end.saturating_sub(buffer.len() as u64);
        let part = &mut buffer[..usize::try_from(end - start).unwrap_or_default()];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(part)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}
