//! Packages for a run at an E2B-compatible server. They are installed there, by the template's own Python, in a sandbox that has a
//! way out, and come into the sandbox of the run, which need have none. Here they are bytes that nobody opens.

use std::io::Read as _;
use std::sync::Arc;

use types::{BackendKind, ExecRequest, Network, Outcome, Policy};

use super::build::{ARCHIVE, Along, limits, not_installed};
use super::{Build, ImageError, Sources};
use crate::backend::{Output, Packages};
use crate::engine::{Caller, Delivery, Engine};
use crate::error::RunError;
use crate::files::{Made, Receive, Received};

/// Packed bytes that are carried from one sandbox to the other: they are held in memory on the way.
const MOST: u64 = 512 << 20;

impl Engine {
    /// What a script's own metadata (PEP 723) asks for, installed at the E2B-compatible server in a sandbox of the template
    /// that the run will have; `None` if it asks for nothing. `live` hears what the installer says.
    pub async fn packages_for_script(
        &self,
        caller: &Caller,
        code: &[u8],
        template: Option<String>,
        live: Option<&mut dyn Output>,
    ) -> Result<Option<Packages>, RunError> {
        let Some(pip) = super::script::dependencies(code)? else { return Ok(None) };
        // The house's own index is not told to a server elsewhere, which would rarely reach it.
        let sources = Sources { index_url: self.settings.e2b.backend.index_url.clone(), ..Sources::default() };
        let build = Build { pip, sources, ..Build::default() };
        build.check()?;
        let mut argv = vec!["sh".to_owned(), "-c".to_owned(), build.script(), "build".to_owned()];
        argv.extend(build.pip.iter().cloned());
        let request = ExecRequest {
            argv: Some(argv),
            env: build.environment(),
            image: template,
            network: Network::Open,
            limits: limits(&self.settings.ceiling.0),
            policy: Policy::Off,
            cold: true,
            backend: Some(BackendKind::E2b),
            ..ExecRequest::default()
        };
        let mut archive = Archive::default();
        let mut along = live.map(Along);
        let live = along.as_mut().map(|along| along as &mut dyn Output);
        let delivery = Delivery { live, out: Some(&mut archive), ..Delivery::default() };
        let result = self.execute(caller, request, delivery).await?;
        let why = match (&result.outcome, archive.0) {
            (Outcome::Exited { code: 0 }, Some(bytes)) => return Ok(Some(Packages(Arc::new(bytes)))),
            (Outcome::Exited { code: 0 }, None) => "the installer left nothing behind".to_owned(),
            (outcome, _) => not_installed(outcome, &result.stderr),
        };
        Err(ImageError::Elsewhere(why).into())
    }
}

/// Takes the one file that an installation leaves.
#[derive(Default)]
struct Archive(Option<Vec<u8>>);

impl Receive for Archive {
    fn receive(&mut self, made: Made<'_>) -> Result<Received, RunError> {
        if made.path == ARCHIVE {
            let mut bytes = Vec::new();
            made.content.take(MOST + 1).read_to_end(&mut bytes).map_err(ImageError::Archive)?;
            if bytes.len() as u64 > MOST {
                return Err(ImageError::TooLarge { what: "bytes of packages", most: MOST }.into());
            }
            self.0 = Some(bytes);
        }
        Ok(Received::Taken)
    }
}
