//! `/run_jupyter`: cells in one interpreter of a session that lives as long as the request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::{Caller, CellSpec, Engine, FileError, GuestUser, Session, SessionError, SessionSpec};
use serde_json::json;
use tokio::io::AsyncReadExt;
use types::{CellResult, FileContent, LimitKind, LimitsSpec, Outcome, Policy, Usage};

use super::run::{inputs, step};
use super::wire::{Cell, RunJupyter, RunJupyterAnswer, Status, StepStatus};
use super::{Trouble, sandbox_error};

/// Kept of each output of a cell.
const OUTPUT_KB: f64 = 16384.0;
/// The most bytes of files that are brought back.
const MOST_FETCHED: u64 = 32 << 20;
/// What the session may take beyond the time of its cells.
const AROUND: Duration = Duration::from_mins(1);

/// Carries out a request.
pub(super) async fn run(
    engine: &Arc<Engine>,
    caller: &Caller,
    request: RunJupyter,
) -> Result<RunJupyterAnswer, Trouble> {
    let answered = match Notebook::open(engine, caller, &request).await {
        Ok(notebook) => notebook.run(&request).await,
        Err(error) => Err(error),
    };
    match answered {
        Ok(answer) => Ok(answer),
        Err(SessionError::Run(error)) => Ok(no_answer(sandbox_error(&error)?)),
        Err(other) => {
            let body = other.body();
            Ok(no_answer(format!("{}; {}", body.message, body.hint)))
        }
    }
}

fn no_answer(message: String) -> RunJupyterAnswer {
    let (status, files) = (Status::SandboxError, BTreeMap::new());
    RunJupyterAnswer { status, message, driver: None, cells: Vec::new(), executor_pod_name: None, files }
}

/// A session that ends with the request, whatever becomes of that.
struct Notebook {
    engine: Arc<Engine>,
    caller: Caller,
    session: Arc<Session>,
}

impl Drop for Notebook {
    fn drop(&mut self) {
        let (engine, caller, id) = (Arc::clone(&self.engine), self.caller.clone(), self.session.id().to_owned());
        tokio::spawn(async move { drop(engine.kill_session(&caller, &id).await) });
    }
}

impl Notebook {
    async fn open(engine: &Arc<Engine>, caller: &Caller, request: &RunJupyter) -> Result<Self, SessionError> {
        let total = Duration::try_from_secs_f64(request.total_timeout).unwrap_or_default();
        let limits = LimitsSpec {
            memory_mb: Some(request.memory_limit_mb).filter(|limit| *limit > 0.0),
            ..LimitsSpec::default()
        };
        let ttl_ms = u64::try_from((total + AROUND).as_millis()).ok();
        let session = engine.create_session(caller, SessionSpec { limits, ttl_ms, ..SessionSpec::default() }).await?;
        Ok(Self { engine: Arc::clone(engine), caller: caller.clone(), session })
    }

    async fn run(&self, request: &RunJupyter) -> Result<RunJupyterAnswer, SessionError> {
        if let Err(why) = self.place(request).await? {
            return Ok(no_answer(why));
        }
        let start = Instant::now();
        let mut cells = Vec::new();
        let mut end = Outcome::Exited { code: 0 };
        for code in &request.cells {
            let Some(wall) = time_left(request, start) else {
                end = Outcome::LimitExceeded { limit: LimitKind::Wall };
                break;
            };
            let limits = LimitsSpec {
                wall_ms: Some(wall),
                output_kb: Some(OUTPUT_KB.min(self.engine.most_output() as f64 / 1024.0)),
                ..LimitsSpec::default()
            };
            let spec = CellSpec { code: code.clone(), limits, policy: Policy::Off, ..CellSpec::default() };
            let cell = self.engine.run_in_session(&self.caller, &self.session, spec).await?;
            let (outcome, is_lost) = (cell.run.outcome.clone(), cell.context_lost);
            cells.push(told(cell));
            if matches!(outcome, Outcome::LimitExceeded { .. }) || is_lost {
                end = outcome;
                break;
            }
        }
        let usage = Usage { wall_ms: start.elapsed().as_secs_f64() * 1000.0, ..Usage::default() };
        let mut driver = step(&end, usage, String::new(), String::new());
        if end == (Outcome::Exited { code: 0 }) {
            let files = self.fetch(request).await?;
            let (status, message, driver) = (Status::Success, String::new(), Some(driver));
            return Ok(RunJupyterAnswer { status, message, driver, cells, executor_pod_name: None, files });
        }
        if driver.status == StepStatus::Finished {
            // The kernel is gone, by its own doing or at a limit.
            driver.status = StepStatus::Error;
        }
        let (status, message, driver, files) = (Status::Failed, String::new(), Some(driver), BTreeMap::new());
        Ok(RunJupyterAnswer { status, message, driver, cells, executor_pod_name: None, files })
    }

    /// Places the files; which of them cannot be is an answer.
    async fn place(&self, request: &RunJupyter) -> Result<Result<(), String>, SessionError> {
        let given = match inputs(&request.files) {
            Ok(given) => given,
            Err(why) => return Ok(Err(why)),
        };
        if given.is_empty() {
            return Ok(Ok(()));
        }
        let (files, _pass) = self.session.files_to_write(&self.caller).await?;
        for file in given {
            let FileContent::Base64(content) = &file.content else { continue };
            let Ok(content) = STANDARD.decode(content) else {
                return Ok(Err(format!("the file `{}` is no base64", file.path)));
            };
            let path = Session::path(file.path.as_str(), GuestUser::User, "/work")?;
            if content.len() as u64 > self.session.room().0 {
                return Err(FileError::Full(path).into());
            }
            files.write(&path, GuestUser::User, 0o644, &mut &content[..]).await?;
        }
        Ok(Ok(()))
    }

    /// Files that were asked for and are there.
    async fn fetch(&self, request: &RunJupyter) -> Result<BTreeMap<String, String>, SessionError> {
        let mut fetched = BTreeMap::new();
        let mut left = MOST_FETCHED;
        for name in &request.fetch_files {
            let Ok(path) = Session::path(name, GuestUser::User, "/work") else { continue };
            let Ok(mut stream) = self.session.files()?.read(&path).await else { continue };
            if stream.bytes > left {
                continue;
            }
            let mut content = Vec::new();
            if (&mut stream.content).take(stream.bytes).read_to_end(&mut content).await.is_ok() {
                left -= content.len() as u64;
                fetched.insert(name.clone(), STANDARD.encode(content));
            }
        }
        Ok(fetched)
    }
}

/// What a cell may take now, in milliseconds; nothing, if the time of all is over.
fn time_left(request: &RunJupyter, start: Instant) -> Option<f64> {
    let total = request.total_timeout - start.elapsed().as_secs_f64();
    let left = if request.cell_timeout > 0.0 { total.min(request.cell_timeout) } else { total };
    (left > 0.0).then_some(left * 1000.0)
}

/// A cell in Jupyter's words.
fn told(cell: CellResult) -> Cell {
    let error = cell.run.exception.iter().map(|exception| {
        let traceback: Vec<&str> = exception.traceback.lines().collect();
        json!({ "ename": exception.kind, "evalue": exception.message, "traceback": traceback })
    });
    let error = error.collect();
    let display = cell.results.into_iter().map(|bundle| json!(bundle)).collect();
    Cell { stdout: cell.run.stdout, stderr: cell.run.stderr, display, error }
}
