//! `saggar bench e2b`: E2B's own client against a server of ours, from creating a sandbox to the first result in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::budgets::Budget;
use super::cannot;
use super::daemon::Daemon;
use super::machine;
use super::process::{Invocation, Minimal};
use super::statistics::Summary;
use super::table::{Table, figure};
use super::work::Folder;
use crate::failure::Failure;

/// What the client does, in Python.
const SCRIPT: &str = include_str!("e2b.py");

/// How much is measured.
pub(super) struct Rounds {
    /// Sandboxes on a server that is up.
    pub(super) warm: usize,
    /// Servers that are started anew for one sandbox each.
    pub(super) cold: usize,
    /// Sandboxes on a server that makes none ahead of need.
    pub(super) anew: usize,
    /// Sandboxes at once.
    pub(super) alive: usize,
}

/// What was measured.
#[derive(Debug, Serialize)]
pub(super) struct E2bReport {
    /// To the first result, on a server that is up.
    warm: Summary,
    /// Creating alone, there.
    create: Summary,
    /// To the first result, the first of a server.
    cold: Summary,
    /// The same on a server that makes none ahead of need.
    anew: Summary,
    /// Sandboxes that answered while all of them lived.
    alive: usize,
    /// Memory that they took from the machine, all together.
    alive_bytes: u64,
    load_before: Option<f64>,
    load_after: Option<f64>,
    budgets: Vec<Budget>,
    pub(super) met: bool,
}

#[derive(Deserialize)]
struct First {
    create: f64,
    whole: f64,
}

#[derive(Deserialize)]
struct Alive {
    alive: usize,
    bytes: u64,
}

/// Measures with the client that `python` has.
pub(super) fn measure(config: Option<&Path>, python: &Path, rounds: &Rounds) -> Result<E2bReport, Failure> {
    let load_before = machine::load();
    let bench = Bench::new(config, python)?;
    let mut cold = Vec::new();
    for _ in 0..rounds.cold {
        cold.extend(bench.on(&bench.start()?, "first", 1).and_then(|said| read::<Vec<First>>(&said))?);
    }
    let daemon = bench.start()?;
    // The first ones find what nobody has touched yet.
    bench.on(&daemon, "first", 3)?;
    let warm: Vec<First> = read(&bench.on(&daemon, "first", rounds.warm)?)?;
    let alive: Alive = read(&bench.on(&daemon, "alive", rounds.alive)?)?;
    drop(daemon);
    let anew: Vec<First> = read(&bench.on(&bench.start_with(NONE_AHEAD)?, "first", rounds.anew)?)?;
    let summary = |firsts: &[First], of: fn(&First) -> f64| {
        let times: Vec<Duration> = firsts.iter().map(|first| Duration::from_secs_f64(of(first) / 1e3)).collect();
        Summary::of(&times).ok_or_else(|| cannot("measure", &"there was nothing to measure"))
    };
    let (whole, create) = (summary(&warm, |first| first.whole)?, summary(&warm, |first| first.create)?);
    let (cold, anew) = (summary(&cold, |first| first.whole)?, summary(&anew, |first| first.whole)?);
    let budgets = vec![
        Budget::at_most(40.0, "ms", "warm", "create to first result, p50").measured(Some(whole.p50_ms)),
        Budget::at_most(150.0, "ms", "cold", "the same as the first of a server, p50").measured(Some(cold.p50_ms)),
        Budget::at_most(150.0, "ms", "anew", "the same with none made ahead, p50").measured(Some(anew.p50_ms)),
        Budget::at_least(rounds.alive as f64, "sandboxes", "alive", "that answer while all live")
            .measured(Some(alive.alive as f64)),
    ];
    let met = budgets.iter().all(|budget| budget.met == Some(true));
    let load_after = machine::load();
    let (alive, alive_bytes) = (alive.alive, alive.bytes);
    Ok(E2bReport { warm: whole, create, cold, anew, alive, alive_bytes, load_before, load_after, budgets, met })
}

struct Bench<'a> {
    folder: Folder,
    script: PathBuf,
    python: &'a Path,
}

/// The settings of most servers here.
const USUAL: &str = "saggar.toml";
/// Of those that make nothing ahead of need.
const NONE_AHEAD: &str = "none-ahead.toml";

/// The same settings, but that nothing is made ahead of need.
fn without_stock(settings: &str) -> String {
    let is_ready = |line: &&str| line.split_once('=').is_some_and(|(name, _)| name.trim() == "ready");
    let mut text = String::new();
    let mut section = "";
    for line in settings.lines() {
        section = if line.trim().starts_with('[') { line.trim() } else { section };
        if section != "[e2b]" || !is_ready(&line) {
            text.extend([line, "\n"]);
        }
        if line.trim() == "[e2b]" {
            text += "ready = 0\n";
        }
    }
    if text.contains("[e2b]\nready = 0\n") { text } else { text + "[e2b]\nready = 0\n" }
}

impl<'a> Bench<'a> {
    fn new(config: Option<&Path>, python: &'a Path) -> Result<Self, Failure> {
        let folder = Folder::new().map_err(|error| cannot("make a folder", &error))?;
        // Not by the name of the module that it imports.
        let script = folder.programs().join("client.py");
        fs::write(&script, SCRIPT).map_err(|error| cannot("write the client's program", &error))?;
        let text = match config {
            Some(config) => fs::read_to_string(config).map_err(|error| Failure::input(config, error))?,
            // The interpreter with the packages is the client's own; nothing is built meanwhile.
            None => format!("[interpreters]\npython = {:?}\n[e2b]\nbuild = false\n", python.display().to_string()),
        };
        for (name, text) in [(USUAL, &text), (NONE_AHEAD, &without_stock(&text))] {
            fs::write(folder.programs().join(name), text).map_err(|error| cannot("write the settings", &error))?;
        }
        Ok(Self { folder, script, python })
    }

    fn start(&self) -> Result<Daemon, Failure> {
        self.start_with(USUAL)
    }

    fn start_with(&self, settings: &str) -> Result<Daemon, Failure> {
        let saggar = std::env::current_exe().map_err(|error| cannot("find our own program", &error))?;
        let config = self.folder.programs().join(settings);
        let daemon = Daemon::start(&saggar.display().to_string(), Some(&config), &self.folder.home());
        daemon.map_err(|why| cannot("start a server", &why))
    }

    /// Lets the client do something with a server; what it says of it.
    fn on(&self, daemon: &Daemon, what: &str, number: usize) -> Result<String, Failure> {
        let url = daemon.url().ok_or_else(|| cannot("find the server", &"it does not say where it listens"))?;
        let words = [&self.python.display().to_string(), &self.script.display().to_string(), what, &number.to_string()];
        let client = Invocation::new(words.map(ToString::to_string).to_vec(), Minimal::No)
            .with("E2B_API_URL", url.clone())
            .with("E2B_SANDBOX_URL", url)
            .with("E2B_API_KEY", daemon.address.key.clone().unwrap_or_default())
            .without(&["E2B_DEBUG", "E2B_DOMAIN"]);
        client.answer().map_err(|wrong| cannot("use E2B's client (pip install e2b-code-interpreter)", &wrong))
    }
}

fn read<T: for<'de> Deserialize<'de>>(said: &str) -> Result<T, Failure> {
    serde_json::from_str(said).map_err(|error| cannot("read the client's figures", &error))
}

/// For people.
pub(super) fn text(report: &E2bReport) -> String {
    let row = |what: &str, summary: &Summary| {
        vec![what.to_owned(), summary.n.to_string(), figure(Some(summary.p50_ms)), figure(summary.p99_ms)]
    };
    let rows = vec![
        row("create to first result, warm", &report.warm),
        row("of that, create", &report.create),
        row("create to first result, first of a server", &report.cold),
        row("create to first result, none made ahead", &report.anew),
    ];
    let alive = report.alive_bytes as f64 / f64::from(1 << 30);
    let remark = format!("{} sandboxes answered at once; together they took {alive:.1} GiB", report.alive);
    let title = "E2B's own client, milliseconds";
    let mut text = Table { title, header: &["what", "n", "p50", "p99"], rows, remark: Some(remark) }.text();
    text += &super::show::budgets(&report.budgets).text();
    text
}

#[cfg(test)]
mod tests {
    use super::without_stock;

    #[test]
    fn one_setting_is_changed_and_no_other() {
        assert_eq!(without_stock(""), "[e2b]\nready = 0\n");
        let text = "[pool]\nready = 3\n[e2b]\nbuild = false\nready = 5\n[server]\nx = 1\n";
        assert_eq!(without_stock(text), "[pool]\nready = 3\n[e2b]\nready = 0\nbuild = false\n[server]\nx = 1\n");
    }
}
