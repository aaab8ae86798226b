//! Templates: what a sandbox begins with. Every image of ours is one, by its name; so is every snapshot.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::{Build, Caller, Output, RunError, Stream, System};
use tokio::sync::watch;

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
pub(super) const INTERPRETER: &str = "code-interpreter-v1";

/// What programs for E2B expect of every sandbox, beside a shell; Node comes apart, for Debian's is too old for types.
const PROGRAMS: [&str; 11] = [
    "bash",
    "curl",
    "git",
    "netbase",
    "procps",
    "python-is-python3",
    "python3",
    "python3-pip",
    "python3-venv",
    "unzip",
    "wget",
];
const NODE: &str = "22";

/// What code interpreters are expected to have.
/// Matplotlib 3.11 does not take what code for E2B's own, which has 3.10, says of boxes.
const PACKAGES: [&str; 6] = ["ipython", "numpy", "pandas", "matplotlib<3.11", "pillow", "e2b_charts"];

/// How long after the beginning of a build somebody waits for its end. Clients give up after a minute, some after half.
const PATIENCE: Duration = Duration::from_secs(20);

/// Time between two words on how a build goes.
const PROGRESS: Duration = Duration::from_secs(5);

/// Templates that are being built, or could not be: since when, and true when it is over.
#[derive(Default)]
pub(super) struct Builds(Mutex<BTreeMap<&'static str, Underway>>);

type Underway = (tokio::time::Instant, watch::Receiver<bool>);

/// What a template stands for.
pub(super) async fn find(shared: &Arc<Shared>, caller: &Caller, name: &str) -> Result<Origin, Fault> {
    if name.starts_with("snap") && shared.engine.snapshot(caller, name).is_ok() {
        return Ok(Origin::Snapshot(name.to_owned()));
    }
    if has_image(shared, name)? {
        return Ok(Origin::Image(name.to_owned()));
    }
    match name {
        BASE => built(shared, BASE).await,
        INTERPRETER => built(shared, INTERPRETER).await,
        _ if shared.engine.snapshot(caller, name).is_ok() => Ok(Origin::Snapshot(name.to_owned())),
        _ => {
            let shown: String = name.chars().take(100).collect();
            Err(Fault::missing(format!("template '{shown}' not found; `saggar image list` shows those that there are")))
        }
    }
}

/// The same if it is there already: nothing is built for it.
pub(super) fn known(shared: &Shared, name: &str) -> Option<Origin> {
    if has_image(shared, name).unwrap_or(false) {
        return Some(Origin::Image(name.to_owned()));
    }
    (!shared.engine.e2b().build && [BASE, INTERPRETER].contains(&name)).then_some(Origin::Nothing)
}

fn has_image(shared: &Shared, name: &str) -> Result<bool, RunError> {
    Ok(shared.engine.images()?.get(name).is_ok())
}

/// A template of ours, built when it is first asked for. Where that cannot be done, and as long as it takes, it is the host's
/// own programs.
async fn built(shared: &Arc<Shared>, name: &'static str) -> Result<Origin, Fault> {
    if !shared.engine.e2b().build {
        return Ok(Origin::Nothing);
    }
    let (since, mut over) = begin(shared, name);
    if tokio::time::timeout_at(since + PATIENCE, over.wait_for(|over| *over)).await.is_err() {
        say(&format!(
            "the template {name} is still being built: a sandbox begins with this host's own programs, read-only"
        ));
        return Ok(Origin::Nothing);
    }
    Ok(if has_image(shared, name)? { Origin::Image(name.to_owned()) } else { Origin::Nothing })
}

/// Builds a template, once, whoever asks and however soon he goes away.
fn begin(shared: &Arc<Shared>, name: &'static str) -> Underway {
    let mut builds = shared.e2b.builds.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = builds.get(name) {
        return known.clone();
    }
    let (tell, told) = watch::channel(false);
    let underway = (tokio::time::Instant::now(), told);
    builds.insert(name, underway.clone());
    drop(builds);
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let is_there = match name {
            BASE => make(&shared, of_base()).await,
            _ => make_interpreter(&shared).await,
        };
        if is_there {
            // It may be removed, and is built again then.
            shared.e2b.builds.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        }
        tell.send_replace(true);
    });
    underway
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn of_base() -> Build {
    let system = System { node: Some(NODE.to_owned()) };
    Build { name: BASE.to_owned(), system: Some(system), apt: words(&PROGRAMS), ..Build::default() }
}

/// On our base, or on the host's own programs where there is none.
async fn make_interpreter(shared: &Arc<Shared>) -> bool {
    if !has_image(shared, BASE).unwrap_or(false) {
        // Whoever makes it tells when it is over, also when it failed.
        let _ = begin(shared, BASE).1.wait_for(|over| *over).await;
    }
    let from = has_image(shared, BASE).unwrap_or(false).then(|| BASE.to_owned());
    make(shared, Build { name: INTERPRETER.to_owned(), from, pip: words(&PACKAGES), ..Build::default() }).await
}

/// Whether it is there now.
async fn make(shared: &Arc<Shared>, build: Build) -> bool {
    let by_hand = command(&build);
    let name = build.name.clone();
    say(&format!("building the template {name}, once: {by_hand}"));
    // It is the server's own, whoever asked first.
    let owner = Caller { name: "e2b template".to_owned(), ..Caller::default() };
    let mut progress = Progress { name: name.clone(), told: Instant::now() };
    match shared.engine.build_image(&owner, build, Some(&mut progress)).await {
        Ok(image) => say(&format!("built the template {name}, {} MiB", image.bytes >> 20)),
        Err(error) => {
            say(&format!(
                "the template {name} could not be built, so its sandboxes have this host's own programs, read-only, until \
                 the server is started again: {}; by hand: {by_hand}",
                one_line(&error.to_string())
            ));
            return false;
        }
    }
    true
}

/// What somebody would type for it.
fn command(build: &Build) -> String {
    let mut words = vec![format!("saggar image build {}", build.name)];
    if let Some(System { node }) = &build.system {
        words.push("--system".to_owned());
        words.extend(node.iter().map(|version| format!("--node {version}")));
    }
    words.extend(build.from.iter().map(|name| format!("--from {name}")));
    for (flag, packages) in [("apt", &build.apt), ("pip", &build.pip)] {
        if !packages.is_empty() {
            words.push(format!("--{flag} '{}'", packages.join(",")));
        }
    }
    words.join(" ")
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Nobody may be there to read it.
fn say(words: &str) {
    let _ = writeln!(std::io::stderr(), "saggar: {words}");
}

/// Tells now and then what the installers said last.
struct Progress {
    name: String,
    told: Instant,
}

impl Output for Progress {
    fn write(&mut self, _: Stream, bytes: &[u8]) -> ControlFlow<()> {
        if self.told.elapsed() >= PROGRESS
            && let Some(line) = last_line(bytes)
        {
            self.told = Instant::now();
            say(&format!("template {}: {}", self.name, one_line(&line)));
        }
        ControlFlow::Continue(())
    }
}

/// The last line that is there whole and says something.
fn last_line(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let (whole, _) = text.rsplit_once('\n')?;
    let line = whole.lines().rfind(|line| !line.trim().is_empty())?;
    Some(line.trim().chars().take(100).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_in_whole_lines() {
        assert_eq!(last_line(b"Get:1 a\n  Get:2 b\n\nG"), Some("Get:2 b".to_owned()));
        assert_eq!(last_line(b"W"), None);
        assert_eq!(last_line(b"\n \n"), None);
    }

    #[test]
    fn what_is_said_of_a_build_can_be_typed() {
        assert_eq!(
            command(&of_base()),
            "saggar image build base --system --node 22 --apt \
             'bash,curl,git,netbase,procps,python-is-python3,python3,python3-pip,python3-venv,unzip,wget'"
        );
        let build =
            Build { name: "x".to_owned(), from: Some("base".to_owned()), pip: words(&["a<3"]), ..Build::default() };
        assert_eq!(command(&build), "saggar image build x --from base --pip 'a<3'");
    }
}
