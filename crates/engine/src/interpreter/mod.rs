//! Interpreters that stay: a driver of ours runs cells of code in one process of a session, and keeps their variables.
//!
//! # Protocol
//!
//! The engine first writes the driver itself, whose length is among its arguments: a driver has no file, so it runs in any
//! image. From then on each side writes lines of JSON. The driver moves both descriptors out of the way before any code of
//! a user runs, and gives that code pipes of its own.
//!
//! | to the driver | |
//! |---|---|
//! | `{"op": "execute", "id", "code", "env", "cwd"}` | runs a cell; `env` holds for this cell, `cwd` for those after it too |
//! | `{"op": "adopt", "env"}` | Python's only: variables that it might have begun with |
//! | `{"op": "chdir"}` | the disk was swapped: enter the working directory again, by its name |
//! | `{"op": "interrupt", "id"}` | Node's only: interrupt this cell, if it is not done |
//!
//! | from the driver | |
//! |---|---|
//! | `{"event": "ready", "version", "flavour"}` | once: it can take cells |
//! | `{"event": "stdout" or "stderr", "text"}` | what was written, by whomever, also between cells |
//! | `{"event": "result", "id", "data": {mime: …}, "dropped"?: [mime]}` | the last expression's value |
//! | `{"event": "display", "id", "data", "dropped"?}` | what the cell showed |
//! | `{"event": "error", "id", "name", "value", "traceback", "line"}` | what ended the cell |
//! | `{"event": "done", "id", "status", "code", "count", "cpu_ms"}` | `status` is `ok`, `error`, `exit` or `interrupted` |
//!
//! SIGINT interrupts a cell of Python. Images are base64. No line is longer than [`MOST_LINE`].
//!
//! Nothing that comes back is believed: a user's code runs in the same process and can write what it likes. It can spoil
//! its own cell's result and lose its own context, and that is all.

mod actor;
mod driver;
mod event;
mod heard;
mod lines;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use types::{Bundle, Exception};

use crate::backend::{Control, Output, Process};
use actor::{Actor, Order};

pub use driver::Driver;
pub(crate) use heard::Heard;
pub use heard::{CellEnd, CellFrame};

/// The longest line that is read.
pub const MOST_LINE: usize = 8 << 20;

/// Code to run in an interpreter that stays.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The code.
    pub code: String,
    /// Variables for this cell alone.
    pub env: BTreeMap<String, String>,
    /// Where it runs, and those after it.
    pub cwd: Option<String>,
    /// After so long it is interrupted.
    pub wall: Duration,
    /// How much longer it may take to heed that, before its process is killed.
    pub grace: Duration,
    /// How much of each output is kept.
    pub output: u64,
}

/// Takes what a cell makes as it comes.
pub trait CellOutput: Output {
    /// Takes what was shown; `main` is the last expression's value.
    fn shown(&mut self, bundle: &Bundle, main: bool) -> ControlFlow<()>;
    /// Takes the exception that ended the cell.
    fn raised(&mut self, exception: &Exception) -> ControlFlow<()>;
}

/// Why a cell has no end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InterpreterError {
    /// Its process is gone, and its variables with it.
    #[error("the interpreter has ended: {0}")]
    Gone(String),
    /// It did not begin.
    #[error("the interpreter did not start: {0}")]
    NotStarted(String),
    /// The code is more than a line holds.
    #[error("the code is longer than {} MiB", MOST_LINE >> 21)]
    TooLong,
}

impl InterpreterError {
    /// What a program matches on.
    #[must_use]
    pub const fn code(&self) -> types::ErrorCode {
        match self {
            Self::Gone(_) | Self::NotStarted(_) => types::ErrorCode::SandboxFailed,
            Self::TooLong => types::ErrorCode::InvalidRequest,
        }
    }

    /// What to do next.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Gone(_) => "restart the context; its variables are lost, files are not",
            Self::NotStarted(_) => "try the interpreter by hand: saggar session exec ID -- python3 -c 'print(1)'",
            Self::TooLong => "put it into a file of the session and import that",
        }
    }
}

/// One running interpreter. Cells wait in line; the last handle dropped ends it.
#[derive(Clone)]
pub struct Interpreter {
    orders: mpsc::Sender<Order>,
    interrupts: Arc<watch::Sender<u64>>,
    control: Arc<dyn Control>,
    about: About,
    /// Why it is gone, once it is.
    last_words: Arc<Mutex<Option<String>>>,
}

/// Whether code fits into a line, whatever is in it.
pub(crate) fn check(code: &str) -> Result<(), InterpreterError> {
    if code.len() > MOST_LINE / 2 { Err(InterpreterError::TooLong) } else { Ok(()) }
}

/// What an interpreter says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Its version.
    pub version: String,
    /// `plain`, or what it has beyond that, such as `ipython`.
    pub flavour: String,
}

/// Orders that wait in line for one interpreter.
const QUEUE: usize = 16;

impl Interpreter {
    /// Sends the driver into a process that was started by [`Driver::argv`], and waits until it is ready.
    pub async fn begin(process: Process, driver: &Driver, patience: Duration) -> Result<Self, InterpreterError> {
        let control = Arc::clone(&process.control);
        let (interrupts, interrupted) = watch::channel(0);
        let last_words = Arc::new(Mutex::new(None));
        let mut actor = Actor::new(process, interrupted, driver.interrupt, Arc::clone(&last_words))?;
        let started = tokio::time::timeout(patience, actor.begin(driver.source())).await;
        let about = match started {
            Ok(Ok(about)) => about,
            Ok(Err(why)) => {
                let _ = control.kill();
                return Err(InterpreterError::NotStarted(why));
            }
            Err(_) => {
                let _ = control.kill();
                return Err(InterpreterError::NotStarted(format!("no word after {} s", patience.as_secs())));
            }
        };
        let (orders, receiver) = mpsc::channel(QUEUE);
        tokio::spawn(actor.serve(receiver));
        Ok(Self { orders, interrupts: Arc::new(interrupts), control, about, last_words })
    }

    /// What it says of itself.
    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Runs a cell to its end, whatever that is. Dropping the future interrupts the cell.
    pub async fn run(&self, cell: Cell, output: Option<Box<dyn CellOutput>>) -> Result<CellEnd, InterpreterError> {
        check(&cell.code)?;
        let (reply, answer) = oneshot::channel();
        self.orders.send(Order::Run { cell, output, reply }).await.map_err(|_| self.gone())?;
        answer.await.map_err(|_| self.gone())
    }

    /// Interrupts the cell that runs now, if one does.
    pub fn interrupt(&self) {
        self.interrupts.send_modify(|count| *count += 1);
    }

    /// Makes it enter its working directory again, when no cell runs.
    pub async fn settle(&self) -> Result<(), InterpreterError> {
        self.orders.send(Order::Settle).await.map_err(|_| self.gone())
    }

    /// Gives a Python variables for its environment that stay, as if it had begun with them.
    pub async fn adopt(&self, env: BTreeMap<String, String>) -> Result<(), InterpreterError> {
        self.orders.send(Order::Adopt(env)).await.map_err(|_| self.gone())
    }

    /// Whether it can take another cell.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !self.orders.is_closed()
    }

    /// Ends it now, with all that it started.
    pub fn kill(&self) {
        let _ = self.control.kill();
    }

    fn gone(&self) -> InterpreterError {
        let words = self.last_words.lock().map_or(None, |words| words.clone());
        InterpreterError::Gone(words.unwrap_or_else(|| "its process was killed".to_owned()))
    }
}
