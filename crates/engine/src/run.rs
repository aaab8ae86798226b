//! One admitted request on its way: acquire a sandbox, place the files, run, collect.

mod compile;

use std::collections::BTreeMap;
use std::io;

use tokio::sync::watch;
use types::{
    BackendKind, Compile, ExecResult, FileContent, Finding, InputFile, Isolation, Layer, Limits, Outcome, RelPath,
    Start, Usage,
};

use crate::admission::{self, Admitted, Program};
use crate::audit::Executed;
use crate::backend::{Cancel, Command, Ended, ImageFacts, Output, Packages, Sandbox, SandboxSpec, Stdin, WorkerSpec};
use crate::capture::Capture;
use crate::doctor;
use crate::engine::{Caller, Delivery, Engine, Harness};
use crate::error::{BackendError, RunError};
use crate::exception::{MAX_RECORD, parse_report};
use crate::feedback;
use crate::files::{Collected, Collection, Executable, Inputs, Placed, Receive, Tree};
use crate::language::{EXCEPTION_RECORD, Fill, Found, Recipe, Recorder};
use crate::pool::Lease;
use crate::station::Station;
use crate::watch::{Step, Steps};
pub use compile::Built;
use compile::Compiled;

/// One admitted request on its way.
pub(crate) struct Run<'e> {
    engine: &'e Engine,
    station: &'e Station,
    admitted: Admitted,
    /// What there is to know of its image, once it was looked at.
    image: Option<ImageFacts>,
    accept: Vec<Layer>,
    /// What was installed for it.
    packages: Option<Packages>,
    steps: &'e Steps,
}

/// What is known of a program that has ended.
struct Done {
    ended: Ended,
    capture: (crate::capture::Kept, crate::capture::Kept),
    exception: Option<types::Exception>,
    collected: Collected,
}

impl Done {
    /// As a shell says that there is no such command.
    fn nothing_to_run() -> Self {
        let remarks = vec!["the compiler made no program that can be started".to_owned()];
        Self::nothing(Outcome::Exited { code: 127 }, remarks)
    }

    /// Of a run in which nothing was started.
    fn nothing(outcome: Outcome, remarks: Vec<String>) -> Self {
        let ended = Ended { outcome, usage: Usage::default(), hits: Vec::new(), layers: Vec::new() };
        let nothing = Capture::new(0, None);
        let collected = Collected { files: Vec::new(), remarks };
        Self { ended, capture: (nothing.stdout, nothing.stderr), exception: None, collected }
    }
}

impl<'e> Run<'e> {
    pub(crate) fn new(
        engine: &'e Engine,
        station: &'e Station,
        caller: &Caller,
        admitted: Admitted,
        steps: &'e Steps,
    ) -> Self {
        // Who insists on a layer does not accept its absence, whatever the settings say.
        let insisted = |layer: &Layer| engine.settings.require.contains(layer) || caller.require.contains(layer);
        let accept = engine.accepted(caller).into_iter().filter(|layer| !insisted(layer)).collect();
        Self { engine, station, admitted, image: None, accept, packages: None, steps }
    }

    /// The same with packages that were installed for it.
    pub(crate) fn with_packages(self, packages: Option<Packages>) -> Self {
        Self { packages, ..self }
    }

    fn spec(&self, limits: Limits) -> SandboxSpec {
        SandboxSpec {
            limits,
            accept: self.accept.clone(),
            extra_roots: self.admitted.roots.clone(),
            image: self.admitted.image.clone(),
            digest: self.image.as_ref().map(|image| image.digest.clone()),
            network: self.admitted.network.clone(),
            worker: None,
            packages: self.packages.clone(),
            ahead: false,
            rehearse: false,
        }
    }

    pub(crate) fn cancelled_in_line(&self, findings: Vec<Finding>) -> Executed {
        let done = Done::nothing(Outcome::Cancelled, Vec::new());
        let mut executed = self.result(self.recipe(), None, Start::Cold, done);
        executed.result.findings = findings;
        executed
    }

    /// Of a program that somebody found reason not to run.
    pub(crate) fn refused(&self, rule: String, findings: Vec<Finding>) -> Executed {
        let outcome = Outcome::Refused { rule };
        let mut executed = self.result(self.recipe(), None, Start::Cold, Done::nothing(outcome, Vec::new()));
        executed.result.feedback.extend(feedback::for_refusal(&findings));
        executed.result.findings = findings;
        executed
    }

    /// Turns the name of an image into what it stands for now.
    pub(crate) async fn look_at_image(&mut self) -> Result<(), RunError> {
        if let Some(reference) = &self.admitted.reference {
            self.image = Some(self.station.backend.image(reference).await?);
        }
        Ok(())
    }

    /// An image that lacks a language's program is told by that, not by a path that nobody asked for.
    fn not_in_image(&self, recipe: &'static Recipe, error: RunError) -> RunError {
        match error {
            RunError::Backend(BackendError::Program { source, .. })
                if self.image.is_some() && source.kind() == io::ErrorKind::NotFound =>
            {
                RunError::NotInImage { language: recipe.name, programs: recipe.programs.join(", ") }
            }
            other => other,
        }
    }

    fn recipe(&self) -> Option<&'static Recipe> {
        match &self.admitted.program {
            Program::Code { recipe, .. } => Some(*recipe),
            Program::Command(_) => None,
        }
    }

    /// Layers that somebody insists on must be there before anything runs.
    pub(crate) async fn check_required(&self, caller: &Caller) -> Result<(), RunError> {
        let required: Vec<Layer> = self.engine.settings.require.iter().chain(&caller.require).copied().collect();
        // The native backend refuses to run without a wall anyway.
        let native = self.station.backend.kind() == BackendKind::Native;
        if required.iter().all(|layer| native && layer.is_wall()) {
            return Ok(());
        }
        let spec = self.spec(self.admitted.limits.clone());
        let capabilities = self.station.backend.capabilities(&spec).await?;
        match capabilities.missing.into_iter().find(|(layer, _)| required.contains(layer)) {
            Some((layer, why)) => Err(RunError::Required { layer, why }),
            None => Ok(()),
        }
    }

    pub(crate) async fn carry_out(self, stdin: Stdin, delivery: Delivery<'_>) -> Result<Executed, RunError> {
        let Delivery {
            stdin: _,
            live,
            mut inputs,
            out: receiver,
            cancel,
            harness,
            compile_wall,
            built,
            id: _,
            reach: _,
            packages: _,
        } = delivery;
        match &self.admitted.program {
            Program::Command(argv) => {
                let Lease { sandbox, start, refill: _refill, .. } =
                    self.acquire(self.admitted.limits.clone(), None).await?;
                let placed = self.place_inputs(sandbox.tree(), &mut inputs)?;
                let command = self.command(argv.clone(), &[], None);
                let listener = Listener { live, harness: Harness::None };
                let done = self.run(sandbox, command, stdin, listener, cancel_by(cancel), &placed, receiver).await?;
                Ok(self.result(None, None, start, Done { exception: None, ..done }))
            }
            Program::Code { recipe, found, runner, file, code } => {
                self.check_version(recipe, found).await?;
                let steps = recipe.steps(harness)?;
                let mut placed = Placed::new();
                let mut own = None;
                let built = built.unwrap_or(&mut own);
                let (lease, report) = match &recipe.compile {
                    None => {
                        let lease =
                            self.acquire(self.admitted.limits.clone(), self.worker(recipe, found, harness)).await?;
                        placed = self.place_inputs(lease.sandbox.tree(), &mut inputs)?;
                        place(lease.sandbox.tree(), file, &mut &code[..], Executable::No, &mut placed)?;
                        (lease, None)
                    }
                    Some(step) => {
                        if built.is_none() {
                            let limits = self.compile_limits(compile_wall);
                            let source = (found, file, &code[..]);
                            let compiled = self.compile(step, limits, source, &mut inputs, cancel.clone()).await;
                            match compiled.map_err(|error| self.not_in_image(recipe, error))? {
                                Compiled::Ready(ready) => *built = Some(*ready),
                                Compiled::Failed(result) => return Ok(self.compile_failed(recipe, *result)),
                            }
                        }
                        let Some(ready) = built else { return Err(RunError::Request("nothing was compiled")) };
                        match self.unpack(ready, &mut inputs, &mut placed).await? {
                            Some(lease) => (lease, Some(ready.report.clone())),
                            None => return Ok(self.compile_failed(recipe, ready.too_large())),
                        }
                    }
                };
                let Lease { sandbox, start, has_worker, refill: _refill } = lease;
                let program = runner.as_ref().unwrap_or(found);
                let fill = Self::fill(program, file, &self.admitted.args, &self.admitted.limits);
                let step = if has_worker { steps.order } else { steps.run };
                let command = self.command(step.argv(&fill), &step.env(&fill), Some(program));
                let listener = Listener { live, harness };
                let done = self.run(sandbox, command, stdin, listener, cancel_by(cancel), &placed, receiver).await;
                let done = match done {
                    // The compiler was content and made nothing that runs: a library, a package without a main.
                    Err(RunError::Backend(BackendError::Program { .. })) if report.is_some() => Done::nothing_to_run(),
                    Err(error) => return Err(self.not_in_image(recipe, error)),
                    Ok(done) => done,
                };
                let done = if recipe.recorder == Recorder::None { Done { exception: None, ..done } } else { done };
                Ok(self.result(Some(recipe), report, start, done))
            }
        }
    }

    fn fill<'a>(found: &'a Found, file: &'a RelPath, args: &'a [String], limits: &'a Limits) -> Fill<'a> {
        Fill { program: &found.program, file: file.as_str(), limits, args }
    }

    async fn acquire(&self, limits: Limits, worker: Option<WorkerSpec>) -> Result<Lease, RunError> {
        self.steps.begin(Step::Acquire);
        let spec = SandboxSpec { worker, ..self.spec(limits) };
        let lease = match self.station.pool.as_ref().filter(|_| !self.admitted.cold) {
            Some(pool) => pool.lease(&spec).await?,
            None => Lease::cold(self.station.backend.create(&SandboxSpec { worker: None, ..spec }).await?),
        };
        // The trail was opened beside that; nothing is started that it cannot tell of.
        self.engine.audit.ready().await?;
        Ok(lease)
    }

    /// The interpreter that could wait for this run.
    fn worker(&self, recipe: &Recipe, found: &Found, harness: Harness) -> Option<WorkerSpec> {
        // It has read these long before the run names them.
        let read_at_start = ["PYTHON", "NODE_", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_"];
        // An interpreter of an image is started in its container, for its run.
        let worker = recipe.worker.as_ref().filter(|_| self.image.is_none())?;
        if self.admitted.env.keys().any(|name| read_at_start.iter().any(|start| name.starts_with(start))) {
            return None;
        }
        let file = RelPath::new(recipe.file).ok()?;
        let settings = &self.engine.settings;
        let mut preload = settings.pool.preload.clone();
        if let (Harness::Judge, Some(judge)) = (harness, &recipe.judge) {
            // Whoever has named modules himself wants them here too.
            if settings.pool.has_usual_preload() {
                preload.retain(|module| !judge.spare.contains(&module.as_str()));
            }
            preload.extend(judge.preload.iter().map(|module| (*module).to_owned()));
        }
        let fill = Self::fill(found, &file, &preload, &settings.defaults);
        // An interpreter that was told its limits when it was started cannot be told others.
        let own = Self::fill(found, &file, &preload, &self.admitted.limits);
        if worker.start.argv(&own) != worker.start.argv(&fill) {
            return None;
        }
        let mut env = worker.start.env(&fill);
        if let (Harness::Judge, Some(judge)) = (harness, &recipe.judge) {
            // What it will be told anyway.
            env.extend(judge.order.env(&fill));
        }
        let (argv, env) = (worker.start.argv(&fill), pairs(self.environment(&env)));
        Some(WorkerSpec { kind: worker.kind, program: found.program.clone(), argv, env })
    }

    fn place_inputs(&self, tree: &dyn Tree, inputs: &mut Option<&mut dyn Inputs>) -> Result<Placed, RunError> {
        let mut placed = Placed::new();
        for (index, InputFile { path, content }) in self.admitted.files.iter().enumerate() {
            match content {
                FileContent::Text(text) => {
                    place(tree, path, &mut text.as_bytes(), Executable::No, &mut placed)?;
                }
                FileContent::Base64(text) => {
                    let bytes = admission::decode(text).unwrap_or_default();
                    place(tree, path, &mut &bytes[..], Executable::No, &mut placed)?;
                }
                FileContent::Host(host) => {
                    let unreadable = |source| RunError::Input { path: host.clone(), source };
                    let Some(inputs) = inputs else { return Err(unreadable(io::ErrorKind::Unsupported.into())) };
                    let mut input = inputs.open(index, host).map_err(unreadable)?;
                    place(tree, path, &mut input.content, input.executable, &mut placed)?;
                }
            }
        }
        Ok(placed)
    }

    /// The minimal environment, the recipe's on top, the caller's over all.
    fn command(&self, argv: Vec<String>, recipe_env: &[(String, String)], program: Option<&Found>) -> Command {
        let mut env = self.environment(recipe_env);
        env.extend(self.admitted.env.clone());
        let programs = match (program, argv.first()) {
            (_, Some(name)) if name.contains('/') => vec![name.clone()],
            (Some(found), _) if found.names.is_empty() => vec![found.program.clone()],
            (Some(found), _) => found.names.iter().flat_map(|name| on_path(name, &env)).collect(),
            (None, Some(name)) => on_path(name, &env),
            (None, None) => Vec::new(),
        };
        Command { programs, argv, env: pairs(env) }
    }

    /// The minimal environment, the recipe's on top: nothing of the caller's.
    fn environment(&self, recipe_env: &[(String, String)]) -> BTreeMap<String, String> {
        let image = self.admitted.image.as_ref().map(|held| &held.image);
        let mut folders = image.map(|image| image.path.clone()).unwrap_or_default();
        folders.extend(self.admitted.path.iter().cloned());
        match (image.and_then(|image| image.env.get("PATH")), &self.image) {
            (Some(path), _) => folders.push(path.clone()),
            (None, Some(facts)) if !facts.path.is_empty() => folders.extend(facts.path.iter().cloned()),
            (None, _) => folders.extend(["/usr/local/bin", "/usr/bin", "/bin"].map(str::to_owned)),
        }
        let path = folders.join(":");
        let minimal = [("LANG", "C.UTF-8"), ("HOME", "/tmp"), ("TMPDIR", "/tmp")];
        let minimal = minimal.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let own = image.into_iter().flat_map(|image| image.env.clone());
        minimal.chain(own).chain([("PATH".to_owned(), path)]).chain(recipe_env.iter().cloned()).collect()
    }

    #[expect(clippy::too_many_arguments, reason = "the ends of one run: where it runs, what it reads, who listens")]
    async fn run(
        &self,
        mut sandbox: Box<dyn Sandbox>,
        command: Command,
        stdin: Stdin,
        listener: Listener<'_>,
        cancel: Cancel<'_>,
        placed: &Placed,
        receiver: Option<&mut (dyn Receive + '_)>,
    ) -> Result<Done, RunError> {
        let Listener { live, harness } = listener;
        let mut capture = Capture::new(self.admitted.limits.output, live);
        if harness != Harness::None {
            capture = capture.pass_stdout();
        }
        self.steps.begin(Step::Run);
        let mut ended = sandbox.run(command, stdin, &mut capture, cancel).await?;
        self.steps.begin(Step::Collect);
        capture.finish();
        let tree = sandbox.tree();
        let record = tree.read_small(EXCEPTION_RECORD, MAX_RECORD);
        // A program that ended well was ended by no exception, whatever it left behind.
        let exception = record.and_then(|bytes| parse_report(&bytes)).filter(|_| !ended.outcome.is_ok());
        touched(&mut ended, tree);
        let collected = tree.collect(Collection {
            placed,
            inline: &self.admitted.inline,
            receiver,
            most_bytes: self.admitted.limits.disk,
        })?;
        Ok(Done { ended, capture: (capture.stdout, capture.stderr), exception, collected })
    }

    /// Refuses a program that is too old for its recipe, rather than let it fail in a way nobody understands.
    async fn check_version(&self, recipe: &'static Recipe, found: &Found) -> Result<(), RunError> {
        // What an image has was chosen with it.
        if recipe.needs.is_none() || !found.names.is_empty() {
            return Ok(());
        }
        let spec = self.engine.probe_spec(found.roots.clone());
        let version = doctor::version(&*self.station.backend, &spec, recipe, vec![found.program.clone()]).await?;
        match recipe.too_old(&version) {
            Some(needs) => Err(RunError::InterpreterOld { language: recipe.name, needs, found: version }),
            None => Ok(()),
        }
    }

    fn result(&self, recipe: Option<&'static Recipe>, compile: Option<Compile>, start: Start, done: Done) -> Executed {
        let Done { ended, capture: (stdout, stderr), exception, collected } = done;
        let missing = Layer::ALL.into_iter().filter(|layer| !ended.layers.contains(layer)).collect();
        let mut result = ExecResult {
            id: crate::id::run_id(),
            ok: ended.outcome.is_ok() && compile.as_ref().is_none_or(|compile| compile.ok),
            outcome: ended.outcome,
            language: recipe.map(|recipe| recipe.name.to_owned()),
            backend: self.station.backend.kind(),
            image: self.image.as_ref().map(|image| image.digest.clone()),
            start,
            compile,
            limits_hit: ended.hits,
            stdout: stdout.text(),
            stderr: stderr.text(),
            stdout_bytes: stdout.total(),
            stderr_bytes: stderr.total(),
            stdout_truncated: stdout.is_cut(),
            stderr_truncated: stderr.is_cut(),
            usage: ended.usage,
            exception,
            files: collected.files,
            findings: Vec::new(),
            feedback: Vec::new(),
            isolation: Isolation { layers: ended.layers, missing },
        };
        result.feedback = feedback::for_result(&result, &self.admitted.limits, &collected.remarks);
        Executed { result, stdout: stdout.facts(), stderr: stderr.facts() }
    }
}

/// Where a program may be, in order.
fn on_path(name: &str, env: &BTreeMap<String, String>) -> Vec<String> {
    let path = env.get("PATH").map(String::as_str).unwrap_or_default();
    path.split(':').map(|folder| format!("{folder}/{name}")).collect()
}

fn pairs(env: BTreeMap<String, String>) -> Vec<String> {
    env.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// Comes true when the caller's signal does; never, if there is none or its sender is gone.
pub(crate) fn cancel_by(signal: Option<watch::Receiver<bool>>) -> Cancel<'static> {
    Box::pin(async move {
        if let Some(mut signal) = signal
            && signal.wait_for(|cancelled| *cancelled).await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    })
}

/// Who listens to a run, and to what.
struct Listener<'a> {
    live: Option<&'a mut dyn Output>,
    harness: Harness,
}

fn place(
    tree: &dyn Tree,
    path: &RelPath,
    content: &mut dyn io::Read,
    executable: Executable,
    placed: &mut Placed,
) -> Result<(), RunError> {
    tree.place(path, content, executable, placed)
        .map_err(|source| BackendError::Place { path: path.to_string(), source }.into())
}

/// Adds the limits that only the files tell of.
fn touched(ended: &mut Ended, tree: &dyn Tree) {
    ended.hits.extend(tree.full());
    ended.hits.sort_unstable();
    ended.hits.dedup();
}
