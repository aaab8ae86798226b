//! Step 2: what the policy says of the code, before anything is started.

use policy::Language;
use types::{ExecRequest, FileContent, Finding, InputFile, Policy};

use crate::check::{self, Checked};
use crate::engine::{Caller, Engine};
use crate::error::RunError;
use crate::files::{Inputs, read_own};
use crate::settings::Settings;

/// Up to here reading costs less than moving it to another thread; beyond, it would hold up the other runs.
const READ_IN_PLACE: usize = 16 << 10;

/// What was seen, and whether that refuses the run.
pub(crate) struct Reviewed {
    pub(crate) findings: Vec<Finding>,
    /// The rule that refuses it.
    pub(crate) refusal: Option<String>,
    /// By what it was judged.
    pub(crate) policy: Policy,
}

/// How much of the caller's own files is read.
const MAX_OWN: usize = 4 << 20;

/// The request with the code among the caller's own files in it, if there is any and it is to be checked.
pub(crate) fn with_own_code(
    request: &ExecRequest,
    settings: &Settings,
    inputs: &mut dyn Inputs,
) -> Result<Option<ExecRequest>, RunError> {
    let is_code = |path: &str| Language::by_file_name(path).is_some();
    let is_own = |file: &InputFile| matches!(file.content, FileContent::Host(_)) && is_code(file.path.as_str());
    if request.policy.max(settings.policy.least) == Policy::Off || !request.files.iter().any(is_own) {
        return Ok(None);
    }
    let mut request = request.clone();
    read_own(&mut request, inputs, MAX_OWN, is_code)?;
    Ok(Some(request))
}

/// Checks a request's code and command. A check that cannot be made is an error or a finding, never a silent pass.
pub(crate) async fn review(request: &ExecRequest, settings: &Settings) -> Result<Reviewed, RunError> {
    let Checked { report, policy, .. } = checked(request, settings).await?;
    Ok(Reviewed { refusal: report.refused_by, findings: report.findings, policy })
}

async fn checked(request: &ExecRequest, settings: &Settings) -> Result<Checked, RunError> {
    if check::bytes_of(request) <= READ_IN_PLACE {
        return check::check(request, settings);
    }
    let (request, settings) = (check::only_checked(request), settings.clone());
    let work = tokio::task::spawn_blocking(move || check::check(&request, &settings));
    // The readers do not panic; should the check itself, nothing was checked.
    work.await.map_err(|_| RunError::CheckFailed)?
}

impl Engine {
    /// Says what a run of this request would be refused for, a model's opinion included if it asks for one. Nothing is
    /// executed.
    pub async fn check(&self, caller: &Caller, request: &ExecRequest) -> Result<Checked, RunError> {
        let _pass = self.admit(caller, "check").await?;
        let mut checked = checked(request, &self.settings).await?;
        if request.review {
            let opinion = self.review(request).await?;
            checked.report.findings.extend(opinion.findings);
            checked.report.refused_by = checked.report.refused_by.or(opinion.refused_by.map(str::to_owned));
        }
        Ok(checked)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use types::{BackendKind, Outcome, Source};

    use super::*;
    use crate::backend::{Backend, BoxFuture, Capabilities, Sandbox, SandboxSpec};
    use crate::engine::Delivery;
    use crate::error::BackendError;
    use crate::station::{Station, Stations};

    /// Counts who asks it for anything, and gives nothing.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Backend for Counting {
        fn kind(&self) -> BackendKind {
            BackendKind::Native
        }

        fn capabilities<'a>(&'a self, _: &'a SandboxSpec) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { Ok(Capabilities::default()) })
        }

        fn create<'a>(&'a self, _: &'a SandboxSpec) -> BoxFuture<'a, Result<Box<dyn Sandbox>, BackendError>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { Err(BackendError::NoWorker) })
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_refused_run_never_reaches_a_backend() {
        let state = std::env::temp_dir().join(format!("saggar-review-{}", std::process::id()));
        let mut engine = Engine::open(Settings { state: state.clone(), ..Settings::default() }).unwrap();
        let backend = Arc::new(Counting::default());
        engine.stations = Stations::new(Station::new(backend.clone()));
        let request = |code: &str, policy| ExecRequest {
            language: Some("bash".to_owned()),
            code: Some(Source(code.into())),
            policy,
            ..ExecRequest::default()
        };
        let insisting = Caller { require: vec![types::Layer::CgroupMemory], ..Caller::default() };
        for code in ["rm -rf /", "curl x | sh", "if"] {
            let result = engine.execute(&insisting, request(code, Policy::Guard), Delivery::default()).await.unwrap();
            assert!(matches!(result.outcome, Outcome::Refused { .. }), "{code}");
        }
        assert_eq!(backend.0.load(Ordering::Relaxed), 0);
        let run = engine.execute(&Caller::default(), request("rm -rf /", Policy::Report), Delivery::default()).await;
        assert!(run.is_err());
        assert_eq!(backend.0.load(Ordering::Relaxed), 1);
        std::fs::remove_dir_all(state).unwrap();
    }
}
