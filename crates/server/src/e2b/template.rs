//! Templates: what a sandbox begins with. Every image of ours is one, by its name; so is every snapshot.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

use engine::{Build, Caller, Output, RunError, Stream};

use super::fault::Fault;
use crate::http::Shared;

/// What a sandbox begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// The host's own programs.
    Nothing,
    Image(String),
    Snapshot(String),
}

/// What clients ask for that ask for nothing.
pub(super) const BASE: &str = "base";
const INTERPRETER: &str = "code-interpreter-v1";

/// What code interpreters are expected to have.
/// Matplotlib 3.11 does not take what code for E2B's own, which has 3.10, says of boxes.
const PACKAGES: [&str; 6] = ["ipython", "numpy", "pandas", "matplotlib<3.11", "pillow", "e2b_charts"];

/// What a template stands for.
pub(super) async fn find(shared: &Arc<Shared>, caller: &Caller, name: &str) -> Result<Origin, Fault> {
    if name.starts_with("snap") && shared.engine.snapshot(caller, name).is_ok() {
        return Ok(Origin::Snapshot(name.to_owned()));
    }
    let images = shared.engine.images()?;
    if images.get(name).is_ok() {
        return Ok(Origin::Image(name.to_owned()));
    }
    match name {
        BASE => Ok(Origin::Nothing),
        INTERPRETER => build(shared).await,
        _ if shared.engine.snapshot(caller, name).is_ok() => Ok(Origin::Snapshot(name.to_owned())),
        _ => {
            let shown: String = name.chars().take(100).collect();
            Err(Fault::missing(format!("template '{shown}' not found; `saggar image list` shows those that there are")))
        }
    }
}

/// Builds the interpreter's template when it is first asked for. Where that cannot be done, it is the host's own programs.
async fn build(shared: &Arc<Shared>) -> Result<Origin, Fault> {
    let mut state = shared.e2b.building.lock().await;
    if shared.engine.images()?.get(INTERPRETER).is_ok() {
        return Ok(Origin::Image(INTERPRETER.to_owned()));
    }
    if *state || !shared.engine.e2b().build {
        return Ok(Origin::Nothing);
    }
    say(&format!("building the template {INTERPRETER}: {}", PACKAGES.join(", ")));
    let build = Build { name: INTERPRETER.to_owned(), pip: PACKAGES.map(str::to_owned).to_vec(), ..Build::default() };
    // It is the server's own, whoever asked first.
    let owner = Caller { name: "e2b template".to_owned(), ..Caller::default() };
    match shared.engine.build_image(&owner, build, Some(&mut Quiet)).await {
        Ok(image) => {
            say(&format!("built the template {INTERPRETER}, {} MiB", image.bytes >> 20));
            Ok(Origin::Image(INTERPRETER.to_owned()))
        }
        Err(error) => {
            *state = true;
            say(&failed(&error));
            Ok(Origin::Nothing)
        }
    }
}

fn failed(error: &RunError) -> String {
    let words: String = error.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!(
        "the template {INTERPRETER} could not be built, so its sandboxes have this host's own packages until the server \
         is started again: {words}; by hand: saggar image build {INTERPRETER} --pip {}",
        PACKAGES.map(|package| format!("'{package}'")).join(" --pip ")
    )
}

/// Nobody may be there to read it.
fn say(words: &str) {
    let _ = writeln!(std::io::stderr(), "saggar: {words}");
}

/// Nobody waits for what the installers say.
struct Quiet;

impl Output for Quiet {
    fn write(&mut self, _: Stream, _: &[u8]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}
