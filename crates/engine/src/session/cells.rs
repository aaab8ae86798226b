//! Code in an interpreter that stays: variables of one cell are there for the next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use types::{BackendKind, CellResult, ErrorCode, ExecRequest, LimitsSpec, Policy, Source};

use super::Session;
use super::error::SessionError;
use super::registry::check_env;
use super::spec::CommandSpec;
use crate::audit::{Account, Executed, OutputFacts};
use crate::backend::{Connection, Process};
use crate::engine::{Caller, Engine};
use crate::error::RunError;
use crate::image::Base;
use crate::interpreter::{self, About, Cell, CellFrame, CellOutput, Driver, Interpreter};
use crate::language;

/// How long an interpreter may take to start.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much longer a cell may take to heed that its time is over.
const GRACE: Duration = Duration::from_secs(2);
/// Interpreters at once, in one session.
const MOST_CONTEXTS: usize = 16;

/// Code for an interpreter that stays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CellSpec {
    /// The code.
    pub code: String,
    /// Name of a recipe; `python` if absent.
    pub language: Option<String>,
    /// Which interpreter, if there is more than one of the language.
    pub context: Option<String>,
    /// Environment for this code alone, on top of the session's.
    pub env: BTreeMap<String, String>,
    /// Where the interpreter goes first, and stays.
    pub cwd: Option<String>,
    /// `wall_ms` and `output_kb`; the rest is the session's.
    pub limits: LimitsSpec,
    /// What the static check may do with the code.
    pub policy: Policy,
}

/// An interpreter of a session, as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContextInfo {
    /// By which it is found.
    pub name: String,
    /// Its version.
    pub version: String,
    /// `plain`, or what it has beyond that, such as `ipython`.
    pub flavour: String,
}

impl ContextInfo {
    fn of(name: &str, interpreter: &Interpreter) -> Self {
        let About { version, flavour } = interpreter.about().clone();
        Self { name: name.to_owned(), version, flavour }
    }
}

impl Session {
    /// Its interpreters that live, by name.
    #[must_use]
    pub fn contexts(&self) -> Vec<ContextInfo> {
        let state = self.lock();
        let living = state.contexts.iter().filter(|(_, interpreter)| interpreter.is_alive());
        living.map(|(name, interpreter)| ContextInfo::of(name, interpreter)).collect()
    }

    /// Interrupts the code that an interpreter runs; its variables stay.
    pub async fn interrupt_context(&self, caller: &Caller, name: &str) -> Result<ContextInfo, SessionError> {
        let _pass = self.admit(caller, "interrupt").await?;
        self.touch();
        let interpreter = self.lock().contexts.get(name).cloned();
        let interpreter = interpreter.filter(Interpreter::is_alive).ok_or_else(|| no_context(name))?;
        interpreter.interrupt();
        self.record(caller, "interrupted", serde_json::json!({ "context": name })).await?;
        Ok(ContextInfo::of(name, &interpreter))
    }

    /// Ends an interpreter; the next cell begins with a new one. Code that it runs is interrupted.
    pub async fn restart_context(&self, caller: &Caller, name: &str) -> Result<ContextInfo, SessionError> {
        let _pass = self.admit(caller, "restart").await?;
        self.touch();
        let interpreter = self.lock().contexts.remove(name).ok_or_else(|| no_context(name))?;
        interpreter.interrupt();
        let info = ContextInfo::of(name, &interpreter);
        // With the last who has it the process goes.
        drop(interpreter);
        self.record(caller, "restarted", serde_json::json!({ "context": name })).await?;
        Ok(info)
    }
}

fn no_context(name: &str) -> SessionError {
    SessionError::NoContext(name.chars().take(100).collect())
}

impl Engine {
    /// Runs code in an interpreter of a session, which is started for the first. Dropping this interrupts the code.
    pub async fn run_in_session(
        &self,
        caller: &Caller,
        session: &Arc<Session>,
        spec: CellSpec,
    ) -> Result<CellResult, SessionError> {
        self.run_in_session_live(caller, session, spec, None).await
    }

    /// The same, with somebody who takes what the code makes as it comes.
    pub async fn run_in_session_live(
        &self,
        caller: &Caller,
        session: &Arc<Session>,
        spec: CellSpec,
        live: Option<Box<dyn CellOutput>>,
    ) -> Result<CellResult, SessionError> {
        let language = spec.language.as_deref().unwrap_or("python").to_owned();
        let request = ExecRequest {
            language: Some(language),
            code: Some(Source(spec.code.clone().into_bytes())),
            limits: spec.limits.clone(),
            policy: spec.policy,
            backend: Some(session.backend),
            ..ExecRequest::default()
        };
        let mut account = Account::open(&self.audit, caller, &request);
        account.session(session.id());
        match Box::pin(self.run_cell(caller, session, spec, live, &request, &mut account)).await {
            Ok((mut cell, stdout, stderr)) => {
                let result = cell.run.clone();
                cell.run = account.close(Ok(Executed { result, stdout, stderr })).await?;
                Ok(cell)
            }
            Err(error) => Err(account.failed(error).await?),
        }
    }

    async fn run_cell(
        &self,
        caller: &Caller,
        session: &Arc<Session>,
        spec: CellSpec,
        live: Option<Box<dyn CellOutput>>,
        request: &ExecRequest,
        account: &mut Account<'_>,
    ) -> Result<(CellResult, OutputFacts, OutputFacts), SessionError> {
        let _pass = self.enter(caller)?;
        let language = spec.language.as_deref().unwrap_or("python").to_owned();
        // Before anybody reads it, which takes us time.
        interpreter::check(&spec.code)?;
        check_env(&spec.env)?;
        let (findings, refusal) = self.judge(request, account).await?;
        if let Some(rule) = refusal {
            return Err(SessionError::Refused { rule });
        }
        let limits = spec.limits.resolve(&session.limits, &self.settings.ceiling).map_err(RunError::from)?;
        account.grant(&limits);
        self.audit.ready().await?;
        let driver = Driver::of(&language).ok_or_else(|| RunError::UnknownLanguage(language.clone()))?;
        let context = spec.context.unwrap_or_else(|| driver.language.to_owned());
        account.context(&context);
        let interpreter = self.interpreter(session, driver, &context).await?;
        let code = spec.code;
        let (wall, output) = (limits.wall, limits.output);
        let mut env = session.spec.env.clone();
        env.extend(spec.env);
        let cell = Cell { code, env, cwd: spec.cwd, wall, grace: GRACE, output };
        let end = interpreter.run(cell, live).await?;
        session.touch();
        if end.is_lost() {
            session.lock().contexts.remove(&context);
        }
        let frame = CellFrame {
            id: crate::id::run_id(),
            context: context.clone(),
            language: driver.language.to_owned(),
            backend: session.backend,
            isolation: session.place().map(|place| place.isolation()).unwrap_or_default(),
            findings,
            limits: &limits,
        };
        let (stdout, stderr) = end.outputs();
        Ok((end.result(frame), stdout, stderr))
    }

    /// The interpreter of a context, started if there is none that lives.
    async fn interpreter(
        &self,
        session: &Arc<Session>,
        driver: &'static Driver,
        context: &str,
    ) -> Result<Interpreter, SessionError> {
        let contexts = session.starting.lock().await;
        let known = session.lock().contexts.get(context).filter(|known| known.is_alive()).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        if session.lock().contexts.len() >= MOST_CONTEXTS {
            return Err(RunError::Request("the session has 16 interpreters already").into());
        }
        let waiting = if driver.language == "python" { session.lock().waiting.take() } else { None };
        let waiting = match waiting {
            Some(soon) => soon.await.ok(),
            None => None,
        };
        let begun = match waiting.filter(Interpreter::is_alive) {
            Some(begun) => begun,
            None => self.begin(session, driver).await?,
        };
        session.lock().contexts.insert(context.to_owned(), begun.clone());
        drop(contexts);
        Ok(begun)
    }

    /// Starts a Python for code that is about to come, and returns at once. Where it does not start, whoever brings the code
    /// starts his own, and is told why that fails.
    pub fn expect_code(self: &Arc<Self>, session: &Arc<Session>) {
        let (expected, soon) = oneshot::channel();
        {
            let mut state = session.lock();
            if state.waiting.is_some() || !state.contexts.is_empty() {
                return;
            }
            state.waiting = Some(soon);
        }
        let (engine, session) = (Arc::clone(self), Arc::clone(session));
        tokio::spawn(async move {
            let Some(driver) = Driver::of("python") else { return };
            if let Ok(begun) = engine.begin(&session, driver).await {
                // Nobody takes it where the session has ended meanwhile.
                let _ = expected.send(begun);
            }
        });
    }

    /// Starts an interpreter and waits until it is there.
    pub(super) async fn begin(&self, session: &Session, driver: &'static Driver) -> Result<Interpreter, SessionError> {
        let process = self.start_driver(session, driver).await?;
        Ok(Interpreter::begin(process, driver, PATIENCE).await?)
    }

    /// Starts the interpreter of a language: the host's, or, where the root is an image, the first that it has.
    async fn start_driver(&self, session: &Session, driver: &'static Driver) -> Result<Process, SessionError> {
        let language = driver.program;
        let image = session.place_spec.image.as_ref();
        let own = session.backend != BackendKind::Native || image.is_some_and(|held| held.image.base == Base::Own);
        let programs: Vec<String> = if own {
            language::programs(language).iter().map(|&name| name.to_owned()).collect()
        } else {
            language::program_of(language, &self.settings).map(|found| found.program).into_iter().collect()
        };
        let mut missing: SessionError = RunError::InterpreterMissing { language, programs: language.to_owned() }.into();
        for program in programs {
            let command = CommandSpec { argv: driver.argv(&program), ..CommandSpec::default() };
            match session.launch(&command, Connection::Pipes, None).await {
                Err(error) if error.code() == ErrorCode::ProgramMissing => missing = error,
                started => return started,
            }
        }
        Err(missing)
    }
}
