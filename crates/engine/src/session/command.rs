//! Commands in a session: run to their end, or left running.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};
use types::{ExecRequest, ExecResult, Finding, GuestPath, Isolation, LimitKind, Limits, Outcome, Start, Usage};

use super::Session;
use super::error::SessionError;
use super::registry::check_env;
use super::running::Running;
use super::spec::{CommandSpec, ProcessInfo};
use crate::audit::{Account, Executed};
use crate::backend::{
    Cancel, Connection, Control, Ended, GuestUser, Output, Process, ProcessSpec, Stdin, TerminalSize,
};
use crate::capture::Capture;
use crate::engine::{Caller, Engine};
use crate::error::RunError;
use crate::feedback;
use crate::review::{self, Reviewed};

/// How long output may still come after a program's end, from others who hold its pipes.
pub(super) const AFTERMATH: Duration = Duration::from_millis(100);
/// Programs of ours inside: `sudo`.
const OWN_PROGRAMS: &str = "/opt/saggar/bin";
/// Most programs at once, in one session.
const MOST_RUNNING: usize = 256;

/// How somebody converses with a command while it runs.
#[derive(Default)]
pub struct Spoken<'a> {
    /// In place of the command's own `stdin`.
    pub stdin: Option<Stdin>,
    /// Reads along.
    pub live: Option<&'a mut dyn Output>,
    /// Takes the command back when it comes true.
    pub cancel: Option<Cancel<'a>>,
    /// New sizes of its terminal.
    pub resized: Option<mpsc::Receiver<TerminalSize>>,
}

impl Engine {
    /// Runs a command in a session to its end. Whoever drops this takes the command back, with all that it started.
    pub async fn exec_in_session(
        &self,
        caller: &Caller,
        session: &Arc<Session>,
        command: CommandSpec,
        spoken: Spoken<'_>,
    ) -> Result<ExecResult, SessionError> {
        let request = as_request(session, &command);
        let mut account = Account::open(&self.audit, caller, &request);
        account.session(session.id());
        // On the heap: callers keep many of them.
        let end = Box::pin(self.carry_out_in(caller, session, command, &request, spoken, &mut account)).await;
        match end {
            Ok(executed) => Ok(account.close(Ok(executed)).await?),
            Err(error) => Err(account.failed(error).await?),
        }
    }

    async fn carry_out_in(
        &self,
        caller: &Caller,
        session: &Arc<Session>,
        command: CommandSpec,
        request: &ExecRequest,
        spoken: Spoken<'_>,
        account: &mut Account<'_>,
    ) -> Result<Executed, SessionError> {
        let _pass = self.enter(caller)?;
        let (findings, refusal) = self.judge(request, account).await?;
        let limits = command.limits.resolve(&session.limits, &self.settings.ceiling).map_err(RunError::from)?;
        account.grant(&limits);
        let mut capture = Capture::new(limits.output, spoken.live);
        if command.terminal.is_some() {
            // A person reads it, and wants all of it.
            capture = capture.pass_stdout();
        }
        if let Some(rule) = refusal {
            let ended = Ended {
                outcome: Outcome::Refused { rule },
                usage: Usage::default(),
                hits: Vec::new(),
                layers: Vec::new(),
            };
            let mut executed = session.result(ended, capture, &limits);
            executed.result.feedback.extend(feedback::for_refusal(&findings));
            executed.result.findings = findings;
            return Ok(executed);
        }
        self.audit.ready().await?;
        let stdin = spoken.stdin.unwrap_or_else(|| Stdin::Bytes(command.stdin.clone().into_bytes()));
        let is_empty = matches!(&stdin, Stdin::Bytes(bytes) if bytes.is_empty());
        let connection = match command.terminal {
            Some(size) => Connection::Terminal(size),
            None if is_empty => Connection::NoInput,
            None => Connection::Pipes,
        };
        // Who sits at a terminal has the time of the session.
        let wall = (command.terminal.is_none() || command.limits.wall_ms.is_some()).then_some(limits.wall);
        let process = session.launch(&command, connection, wall).await?;
        if let Some(sizes) = spoken.resized {
            tokio::spawn(follow_sizes(sizes, Arc::clone(&process.control)));
        }
        let cancel = spoken.cancel.unwrap_or_else(|| Box::pin(std::future::pending()));
        let mut executed = session.attend(command, process, stdin, capture, &limits, cancel).await?;
        executed.result.findings = findings;
        Ok(executed)
    }

    /// Starts a command in a session and leaves it running.
    pub async fn start_in_session(
        &self,
        caller: &Caller,
        session: &Arc<Session>,
        command: CommandSpec,
    ) -> Result<Arc<Running>, SessionError> {
        let request = as_request(session, &command);
        let mut account = Account::open(&self.audit, caller, &request);
        account.session(session.id());
        let started = Box::pin(self.start(caller, session, command, &request, &mut account)).await;
        let (running, process) = match started {
            Ok(started) => started,
            Err(error) => return Err(account.failed(error).await?),
        };
        // Listened to from here on, whoever goes away; its end is written after its beginning.
        let (begun, beginning) = oneshot::channel::<()>();
        let (log, ending, by) = (Arc::clone(&running), Arc::clone(session), caller.clone());
        tokio::spawn(async move {
            Arc::clone(&log).keep_log(process).await;
            let _ = beginning.await;
            let facts = serde_json::json!({ "pid": log.pid(), "ended": log.info().outcome });
            // What cannot be written now is owed by the trail.
            let _ = ending.record(&by, "ended", facts).await;
        });
        let written = account.started(session.id(), running.pid()).await;
        drop(begun);
        if written.is_err() {
            // What cannot be recorded does not run.
            let _ = running.control().kill();
        }
        written?;
        Ok(running)
    }

    /// What the policy and, where it is asked, a model say of a request in a session.
    pub(super) async fn judge(
        &self,
        request: &ExecRequest,
        account: &mut Account<'_>,
    ) -> Result<(Vec<Finding>, Option<String>), SessionError> {
        let Reviewed { mut findings, mut refusal, policy } = review::review(request, &self.settings).await?;
        account.policy(policy);
        if refusal.is_none()
            && let Some(opinion) = self.opinion(request).await?
        {
            account.review(&opinion);
            refusal = opinion.refused_by.map(str::to_owned);
            findings.extend(opinion.findings);
        }
        account.findings(&findings);
        Ok((findings, refusal))
    }

    async fn start(
        &self,
        caller: &Caller,
        session: &Arc<Session>,
        command: CommandSpec,
        request: &ExecRequest,
        account: &mut Account<'_>,
    ) -> Result<(Arc<Running>, Process), SessionError> {
        let _pass = self.enter(caller)?;
        if let (_, Some(rule)) = self.judge(request, account).await? {
            return Err(SessionError::Refused { rule });
        }
        self.audit.ready().await?;
        let connection = match command.terminal {
            Some(size) => Connection::Terminal(size),
            None if command.stdin_open || !command.stdin.is_empty() => Connection::Pipes,
            None => Connection::NoInput,
        };
        let wall = command.limits.wall_ms.map(|_| command.limits.resolve(&session.limits, &self.settings.ceiling));
        let wall = wall.transpose().map_err(RunError::from)?.map(|limits| limits.wall);
        let mut process = session.launch(&command, connection, wall).await?;
        let input = process.input.take();
        if let (Some(input), false) = (&input, command.stdin.is_empty()) {
            let (input, bytes) = (input.clone(), command.stdin.clone().into_bytes());
            tokio::spawn(async move { drop(input.send(bytes).await) });
        }
        let input = input.filter(|_| command.stdin_open || command.terminal.is_some());
        let running = session.enlist(command, &process, input, Waited::No);
        Ok((running, process))
    }
}

/// Whether somebody waits for a program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waited {
    Yes,
    No,
}

impl Session {
    /// Every program that runs, or has ended a short while ago.
    #[must_use]
    pub fn processes(&self) -> Vec<ProcessInfo> {
        self.lock().running.values().map(|running| running.info()).collect()
    }

    /// A program by its number or its name.
    pub fn process(&self, name: &str) -> Result<Arc<Running>, SessionError> {
        self.touch();
        let state = self.lock();
        let found = state.running.values().filter(|running| running.is_called(name));
        // Of those with the same name the one that runs, or the last that did.
        let best = found.max_by_key(|running| (!running.has_ended(), running.started()));
        best.cloned().ok_or_else(|| SessionError::NoProcess(name.chars().take(100).collect()))
    }

    /// Starts a program as the session's own: its environment, its folder.
    pub(crate) async fn launch(
        &self,
        command: &CommandSpec,
        connection: Connection,
        wall: Option<Duration>,
    ) -> Result<Process, SessionError> {
        self.touch();
        let Some(name) = command.argv.first().filter(|name| !name.is_empty()) else {
            return Err(RunError::Request("the command is empty").into());
        };
        if command.argv.iter().any(|word| word.contains('\0')) {
            return Err(RunError::Request("arguments and environment must not contain NUL").into());
        }
        check_env(&command.env)?;
        // Not while the disk is changed.
        let _going = self.still.read().await;
        let place = self.running_place()?;
        if self.lock().running.values().filter(|running| !running.has_ended()).count() >= MOST_RUNNING {
            return Err(RunError::Request("too many programs run in the session at once").into());
        }
        let env = self.environment(command);
        let programs = if name.contains('/') {
            vec![name.clone()]
        } else {
            let path = env.get("PATH").map(String::as_str).unwrap_or_default();
            path.split(':').map(|folder| format!("{folder}/{name}")).collect()
        };
        let cwd = Self::cwd(command)?;
        let argv = command.argv.clone();
        self.stir();
        Ok(place.start(ProcessSpec { programs, argv, env, cwd, user: command.user, connection, wall }).await?)
    }

    fn cwd(command: &CommandSpec) -> Result<GuestPath, SessionError> {
        Self::path(command.cwd.as_deref().unwrap_or(""), command.user, "/work")
    }

    /// The usual variables, the session's on top, the command's over all.
    fn environment(&self, command: &CommandSpec) -> BTreeMap<String, String> {
        let (name, home) = match command.user {
            GuestUser::User => ("user", "/home/user"),
            GuestUser::Root => ("root", "/root"),
        };
        let system = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
        let image = self.place_spec.image.as_ref().map(|held| &held.image);
        let mut folders = vec![OWN_PROGRAMS.to_owned()];
        folders.extend(image.iter().flat_map(|image| image.path.iter().cloned()));
        folders.extend(self.interpreter_folders().iter().cloned());
        folders.push(image.and_then(|image| image.env.get("PATH")).map_or(system, String::as_str).to_owned());
        let path = folders.join(":");
        let usual = [
            ("PATH", path.as_str()),
            ("HOME", home),
            ("USER", name),
            ("LOGNAME", name),
            ("SHELL", "/bin/bash"),
            ("LANG", "C.UTF-8"),
            ("TMPDIR", "/tmp"),
        ];
        let mut env: BTreeMap<String, String> = image.map(|image| image.env.clone()).unwrap_or_default();
        env.extend(usual.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
        if command.terminal.is_some() {
            env.insert("TERM".to_owned(), "xterm-256color".to_owned());
        }
        env.extend(self.spec.env.clone());
        env.extend(command.env.clone());
        env
    }

    fn enlist(
        &self,
        command: CommandSpec,
        process: &Process,
        input: Option<mpsc::Sender<Vec<u8>>>,
        waited: Waited,
    ) -> Arc<Running> {
        let cwd = Self::cwd(&command).map(|cwd| cwd.as_str().to_owned()).unwrap_or_default();
        let info = ProcessInfo {
            pid: process.pid,
            tag: command.tag,
            argv: command.argv,
            cwd,
            user: command.user,
            started: SystemTime::now().into(),
            background: waited == Waited::No,
            outcome: None,
        };
        let running = Running::new(info, command.terminal.is_some(), Arc::clone(&process.control), input);
        self.lock().running.insert(process.pid, Arc::clone(&running));
        running
    }

    /// Stays with a program until it ends.
    async fn attend(
        &self,
        command: CommandSpec,
        mut process: Process,
        stdin: Stdin,
        mut capture: Capture<'_>,
        limits: &Limits,
        mut cancel: Cancel<'_>,
    ) -> Result<Executed, SessionError> {
        let running = self.enlist(command, &process, None, Waited::Yes);
        let guard = TakenBack { control: &*process.control, running: &running, session: self };
        let feeding = process.input.take().map(|input| tokio::spawn(feed(stdin, input)));
        let (mut end, mut open) = (None, true);
        let mut aftermath = std::pin::pin!(tokio::time::sleep(Duration::from_hours(24 * 365)));
        let mut cancelled = false;
        while open {
            tokio::select! {
                biased;
                piece = process.output.recv() => match piece {
                    Some((stream, bytes)) => {
                        if capture.write(stream, &bytes) == ControlFlow::Break(()) {
                            // It may have ended meanwhile.
                            let _ = process.control.kill();
                        }
                    }
                    None => open = false,
                },
                ended = &mut process.ended, if end.is_none() => {
                    end = Some(ended);
                    aftermath.as_mut().reset(tokio::time::Instant::now() + AFTERMATH);
                }
                () = &mut cancel, if !cancelled => {
                    cancelled = true;
                    let _ = process.control.kill();
                }
                () = &mut aftermath => break,
            }
        }
        let end = match end {
            Some(end) => end,
            None => process.ended.as_mut().await,
        };
        if let Some(feeding) = feeding {
            feeding.abort();
        }
        let outcome = running.finish(&end);
        std::mem::forget(guard);
        self.lock().running.remove(&running.pid());
        self.touch();
        if open {
            // Whoever it left running goes on, and what they write goes nowhere.
            let mut output = process.output;
            tokio::spawn(async move { while output.recv().await.is_some() {} });
        }
        capture.finish();
        let mut ended = end?;
        if let Outcome::LimitExceeded { limit } = &outcome
            && !ended.hits.contains(limit)
        {
            ended.hits.push(*limit);
        }
        Ok(self.result(Ended { outcome, ..ended }, capture, limits))
    }

    fn result(&self, ended: Ended, capture: Capture<'_>, limits: &Limits) -> Executed {
        let (stdout, stderr) = (capture.stdout, capture.stderr);
        let isolation = self.place().map_or_else(|_| Isolation::default(), |place| place.isolation());
        let mut hits: Vec<LimitKind> = ended.hits;
        hits.sort_unstable();
        let mut result = ExecResult {
            id: crate::id::run_id(),
            ok: ended.outcome.is_ok(),
            outcome: ended.outcome,
            language: None,
            backend: self.backend,
            image: None,
            start: Start::Cold,
            compile: None,
            limits_hit: hits,
            stdout: stdout.text(),
            stderr: stderr.text(),
            stdout_bytes: stdout.total(),
            stderr_bytes: stderr.total(),
            stdout_truncated: stdout.is_cut(),
            stderr_truncated: stderr.is_cut(),
            usage: ended.usage,
            exception: None,
            files: Vec::new(),
            findings: Vec::new(),
            feedback: Vec::new(),
            isolation,
        };
        result.feedback = feedback::for_result(&result, limits, &[]);
        Executed { result, stdout: stdout.facts(), stderr: stderr.facts() }
    }
}

/// A program whose waiter went away is killed with all that it started.
struct TakenBack<'a> {
    control: &'a dyn Control,
    running: &'a Running,
    session: &'a Session,
}

impl Drop for TakenBack<'_> {
    fn drop(&mut self) {
        // It may have ended meanwhile.
        let _ = self.control.kill();
        self.session.lock().running.remove(&self.running.pid());
    }
}

/// Passes new sizes on for as long as somebody tells them.
async fn follow_sizes(mut sizes: mpsc::Receiver<TerminalSize>, control: Arc<dyn Control>) {
    while let Some(size) = sizes.recv().await {
        // It may have ended meanwhile.
        let _ = control.resize(size);
    }
}

async fn feed(stdin: Stdin, input: mpsc::Sender<Vec<u8>>) {
    match stdin {
        Stdin::Bytes(bytes) => drop(input.send(bytes).await),
        Stdin::Stream(mut chunks) => {
            while let Some(chunk) = chunks.recv().await {
                if input.send(chunk).await.is_err() {
                    return;
                }
            }
        }
        // Files of the caller's own are for programs that are no session's.
        Stdin::Descriptor(_) => {}
    }
}

/// A command as the static check and the trail see it.
fn as_request(session: &Session, command: &CommandSpec) -> ExecRequest {
    let mut env = session.spec.env.clone();
    env.extend(command.env.clone());
    ExecRequest {
        argv: Some(command.argv.clone()),
        env,
        limits: command.limits.clone(),
        policy: command.policy,
        backend: Some(session.backend),
        image: session.spec.image.clone(),
        ..ExecRequest::default()
    }
}
