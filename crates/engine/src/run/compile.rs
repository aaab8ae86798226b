//! The compiler's step: in a sandbox with room of its own, whose products are moved to where they run.

use std::io;
use std::time::Duration;

use tokio::sync::watch;
use types::{Compile, LimitKind, Limits, Outcome, RelPath, Start};

use super::{Done, Run, cancel_by, place, touched};
use crate::audit::Executed;
use crate::backend::{Ended, Sandbox, Stdin};
use crate::capture::Capture;
use crate::error::{BackendError, RunError};
use crate::files::{Collected, Collection, Executable, Inputs, Made, Placed, Receive, Received, Tree};
use crate::language::{Found, Recipe, Step};
use crate::pool::Lease;

/// Compilers need room that the program they make may not have.
const COMPILE_WALL: Duration = Duration::from_secs(20);
const COMPILE_MEMORY: u64 = 1 << 30;
const COMPILE_PIDS: u64 = 256;
const COMPILE_DISK: u64 = 512 << 20;

impl Run<'_> {
    pub(super) async fn compile(
        &self,
        step: &Step,
        limits: Limits,
        (found, file, code): (&Found, &RelPath, &[u8]),
        inputs: &mut Option<&mut dyn Inputs>,
        cancel: Option<watch::Receiver<bool>>,
    ) -> Result<Compiled, RunError> {
        let mut compiler = self.acquire(limits.clone(), None).await?.sandbox;
        let mut sources = self.place_inputs(compiler.tree(), inputs)?;
        place(compiler.tree(), file, &mut &code[..], Executable::No, &mut sources)?;
        let fill = Self::fill(found, file, &[], &limits);
        let command = self.command(step.argv(&fill), &step.env(&fill), Some(found));
        let mut capture = Capture::new(limits.output, None);
        self.steps.begin(crate::watch::Step::Compile);
        let mut ended = compiler.run(command, Stdin::Bytes(Vec::new()), &mut capture, cancel_by(cancel)).await?;
        touched(&mut ended, compiler.tree());
        let report = Compile {
            ok: ended.outcome.is_ok(),
            outcome: ended.outcome.clone(),
            stdout: capture.stdout.text(),
            stderr: capture.stderr.text(),
            usage: ended.usage,
        };
        if report.ok {
            return Ok(Compiled::Ready(Box::new(Built { compiler, sources, most_bytes: limits.disk, report, ended })));
        }
        let capture = (capture.stdout, capture.stderr);
        let done = Done { ended, capture, exception: None, collected: Collected::default() };
        Ok(Compiled::Failed(Box::new((report, done))))
    }

    /// A sandbox with what the compiler made in it; `None` if that is more than the run may hold.
    ///
    /// Borrowed alone, because a sandbox may be sent to another thread but not be used by two.
    pub(super) async fn unpack(
        &self,
        built: &mut Built,
        inputs: &mut Option<&mut dyn Inputs>,
        placed: &mut Placed,
    ) -> Result<Option<Lease>, RunError> {
        let lease = self.acquire(self.admitted.limits.clone(), None).await?;
        *placed = self.place_inputs(lease.sandbox.tree(), inputs)?;
        let mut products = Products { tree: lease.sandbox.tree(), placed };
        let receiver: Option<&mut dyn Receive> = Some(&mut products);
        let Built { compiler, sources, most_bytes, .. } = built;
        let collection = Collection { placed: sources, inline: &[], receiver, most_bytes: *most_bytes };
        match compiler.tree().collect(collection) {
            Ok(_) => Ok(Some(lease)),
            Err(RunError::Backend(BackendError::Place { source, .. }))
                if source.kind() == io::ErrorKind::StorageFull =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// More room than the program has, but never more than the ceiling gives.
    pub(super) fn compile_limits(&self, wall: Option<Duration>) -> Limits {
        let (limits, most) = (&self.admitted.limits, &self.engine.settings.ceiling.0);
        Limits {
            wall: wall.unwrap_or(limits.wall.max(COMPILE_WALL)).min(most.wall),
            cpu: None,
            memory: limits.memory.max(COMPILE_MEMORY).min(most.memory),
            cpus: limits.cpus.max(2.0).min(most.cpus),
            pids: limits.pids.max(COMPILE_PIDS).min(most.pids),
            disk: limits.disk.max(COMPILE_DISK).min(most.disk),
            ..limits.clone()
        }
    }

    pub(super) fn compile_failed(&self, recipe: &'static Recipe, (report, done): (Compile, Done)) -> Executed {
        let Executed { mut result, .. } = self.result(Some(recipe), Some(report), Start::Cold, done);
        // The compiler's words are in `compile`; the program itself said nothing.
        result.stdout.clear();
        result.stderr.clear();
        (result.stdout_bytes, result.stderr_bytes) = (0, 0);
        (result.stdout_truncated, result.stderr_truncated) = (false, false);
        let nothing = Capture::new(0, None);
        Executed { result, stdout: nothing.stdout.facts(), stderr: nothing.stderr.facts() }
    }
}

/// What became of the compiler's step.
pub(super) enum Compiled {
    /// The program, still where it was made.
    Ready(Box<Built>),
    /// What there is to report instead.
    Failed(Box<(Compile, Done)>),
}

/// What a compiler made, kept in its own sandbox so that one step serves many runs.
pub struct Built {
    compiler: Box<dyn Sandbox>,
    sources: Placed,
    most_bytes: u64,
    pub(super) report: Compile,
    ended: Ended,
}

impl Built {
    /// The program alone is larger than the run may hold.
    pub(super) fn too_large(&self) -> (Compile, Done) {
        let limit = LimitKind::Disk;
        let mut ended = Ended { outcome: Outcome::LimitExceeded { limit }, ..self.ended.clone() };
        ended.hits.push(limit);
        let report = Compile { ok: false, outcome: ended.outcome.clone(), ..self.report.clone() };
        (report, Done { ended, ..Done::nothing(Outcome::Cancelled, Vec::new()) })
    }
}

/// Moves a compiler's products into the sandbox where they run.
struct Products<'a> {
    tree: &'a dyn Tree,
    placed: &'a mut Placed,
}

impl Receive for Products<'_> {
    fn receive(&mut self, made: Made<'_>) -> Result<Received, RunError> {
        let path = RelPath::new(made.path)?;
        place(self.tree, &path, made.content, Executable::Yes, self.placed)?;
        Ok(Received::Taken)
    }
}
