//! The corridor: every door turns its input into a request and calls [`Engine::execute`].

use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;
use types::{ExecRequest, ExecResult, Layer};

use crate::admission;
use crate::backend::{Backend, Native, Output, Stdin};
use crate::error::RunError;
use crate::files::{Inputs, Receive};
use crate::pool::Pool;
use crate::queue::Queue;
use crate::review;
use crate::run::{Run, cancel_by};
use crate::settings::Settings;
use crate::state;

/// Who asks. Doors for other people than the owner of the machine bring their own ceiling.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// Whose turn it is: runs of one caller wait for each other, not for those of another.
    pub name: String,
    /// Walls that this caller gives up by name, on top of the settings'.
    pub accept_missing: Vec<Layer>,
    /// Layers that this caller insists on, on top of the settings'.
    pub require: Vec<Layer>,
}

/// How a run is connected to whoever asked for it.
#[derive(Default)]
pub struct Delivery<'a> {
    /// In place of the request's own `stdin`.
    pub stdin: Option<Stdin>,
    /// Reads along.
    pub live: Option<&'a mut dyn Output>,
    /// Opens the files of the caller's machine that the request names; without it there are none.
    pub inputs: Option<&'a mut dyn Inputs>,
    /// Gets the files that the run made.
    pub out: Option<&'a mut dyn Receive>,
    /// Takes the run back when it turns true.
    pub cancel: Option<watch::Receiver<bool>>,
}

/// Runs requests. One for each process; cheap until the first run.
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) pool: Option<Arc<Pool>>,
    queue: Queue,
}

impl Engine {
    /// Opens the state folder; starts nothing yet.
    pub fn open(settings: Settings) -> Result<Self, RunError> {
        state::open(&settings.state)?;
        let backend = Arc::new(Native::new(settings.cgroup.clone(), false));
        let queue = Queue::new(settings.pool.running);
        Ok(Self { settings, backend, pool: None, queue })
    }

    /// Keeps sandboxes and interpreters ready from now on. For whoever runs more than one program: it needs a runtime
    /// that lives as long as the engine.
    #[must_use]
    pub fn with_pool(mut self) -> Self {
        self.backend = Arc::new(Native::new(self.settings.cgroup.clone(), true));
        let pool = Pool::new(Arc::clone(&self.backend), self.settings.pool.clone(), self.settings.defaults.clone());
        self.pool = Some(pool);
        self
    }

    /// Carries out one request: admit, review, acquire, run, record. A bad end is a result; an `Err` is our own failure.
    pub async fn execute(
        &self,
        caller: &Caller,
        request: ExecRequest,
        mut delivery: Delivery<'_>,
    ) -> Result<ExecResult, RunError> {
        // 2 review comes first in time where it needs only the text; 1 admit turns the request into a plan.
        review::review(&request)?;
        let stdin = delivery.stdin.take().unwrap_or_else(|| Stdin::Bytes(request.stdin.clone().into_bytes()));
        let admitted = admission::admit(request, &self.settings)?;
        let run = Run::new(self, caller, admitted);
        run.check_required(caller).await?;
        let cancelled = cancel_by(delivery.cancel.clone());
        let _slot = tokio::select! {
            slot = self.queue.enter(&caller.name) => slot,
            () = cancelled => return Ok(run.cancelled_in_line()),
        };
        // 3 acquire and 4 run; 5 record is where the audit trail will be written, for refusals and errors too.
        run.carry_out(stdin, delivery).await
    }

    /// Where saggar keeps what outlives a command.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.settings.state
    }

    pub(crate) fn accepted(&self, caller: &Caller) -> Vec<Layer> {
        self.settings.accept_missing.iter().chain(&caller.accept_missing).copied().collect()
    }
}
