//! One patch on one instance: check out, patch, test, grade, write down.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::SweError;
use super::channel::Runner;
use super::diff;
use super::edits::{self, Edits};
use super::grade::{self, END, START};
use super::hunks::{self, Hunk};
use super::integrity::Integrity;
use super::plan::Plan;
use super::prediction::Prediction;
use super::report::{Report, write_text};
use super::row::Instance;
use super::steps::{self, Applied, Edit, Prepared, Script, Site, Tested, Where, Workshop};

/// How patches are graded.
#[derive(Debug, Clone)]
pub struct Rules {
    /// What becomes of edits that could decide the verdict.
    pub edits: Edits,
    /// Time for one patch, from its application to its last test.
    pub time: Duration,
    /// How often the tests are run.
    pub repeat: u32,
}

/// What became of a patch.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// It was graded.
    Graded(Box<Report>),
    /// It could not be put into the tree: what became of its hunks.
    NotApplied(Vec<Hunk>),
    /// Its tests took too long.
    Late,
}

/// One instance, ready to be graded.
pub struct Bench<'a> {
    /// Makes sandboxes.
    pub workshop: &'a Workshop,
    /// Which.
    pub instance: &'a Instance,
    /// How it is run.
    pub plan: &'a Plan,
    /// What its sandboxes begin with.
    pub prepared: &'a Prepared,
    /// How it is graded.
    pub rules: &'a Rules,
    /// The image that has it, on a backend that keeps images itself.
    pub image: Option<&'a str>,
}

/// What is written down on the way.
#[derive(Default)]
struct Notes {
    text: String,
    /// What test commands took.
    tests: Duration,
}

impl Notes {
    fn add(&mut self, line: &str) {
        // Writing into memory does not fail.
        let _ = writeln!(self.text, "{line}");
    }
}

/// What one round of tests came to.
struct Round {
    tested: Tested,
    /// What came before the tests in the log.
    head: String,
    edits: Vec<Edit>,
}

impl Bench<'_> {
    /// Grades a patch and writes its files into a folder, the report last. Also what the test commands took by themselves.
    pub async fn grade(&self, prediction: &Prediction, folder: &Path) -> Result<(Verdict, Duration), SweError> {
        std::fs::create_dir_all(folder).map_err(|source| SweError::File { path: folder.to_path_buf(), source })?;
        let patch = prediction.patch.clone().unwrap_or_default();
        write_text(&folder.join("patch.diff"), &patch)?;
        write_text(&folder.join("eval.sh"), &self.script())?;
        let mut notes = Notes::default();
        let graded = self.rounds(prediction, &patch, folder, &mut notes).await;
        if let Err(error) = &graded {
            notes.add(&format!("error: {error}"));
        }
        write_text(&folder.join("run_instance.log"), &notes.text)?;
        let verdict = graded?;
        let took = notes.tests;
        if let Verdict::Graded(report) = &verdict {
            report.write(&self.instance.id, folder, self.rules.edits)?;
        }
        Ok((verdict, took))
    }

    async fn rounds(
        &self,
        prediction: &Prediction,
        patch: &str,
        folder: &Path,
        notes: &mut Notes,
    ) -> Result<Verdict, SweError> {
        let mut first: Option<(Report, grade::TestsStatus)> = None;
        let mut flaky: Vec<String> = Vec::new();
        for round in 0..self.rules.repeat.max(1) {
            let done = match self.round(patch, notes).await? {
                Ok(done) => done,
                Err(hunks) => return Ok(Verdict::NotApplied(hunks)),
            };
            let log = self.log(&done);
            if round == 0 {
                write_text(&folder.join("test_output.txt"), &log)?;
            }
            if done.tested.is_late {
                notes.add(&format!("Test timed out after {} seconds.", self.rules.time.as_secs()));
                return Ok(Verdict::Late);
            }
            let report = self.report(prediction, &log, done);
            let status = report.tests_status.clone().unwrap_or_default();
            match &first {
                None => first = Some((report, status)),
                Some((_, before)) => flaky.extend(before.differences(&status)),
            }
        }
        let Some((mut report, _)) = first else { return Ok(Verdict::NotApplied(Vec::new())) };
        flaky.sort();
        flaky.dedup();
        if !flaky.is_empty() {
            notes.add(&format!("ended in more than one way: {}", flaky.join(", ")));
            report.integrity.get_or_insert_default().flaky = flaky;
        }
        notes.add(&format!("Result for {}: resolved: {}", self.instance.id, report.resolved));
        Ok(Verdict::Graded(Box::new(report)))
    }

    /// A fresh sandbox, the patch, the tests. The hunks where the patch cannot be applied.
    async fn round(&self, patch: &str, notes: &mut Notes) -> Result<Result<Round, Vec<Hunk>>, SweError> {
        let began = Instant::now();
        let left = || self.rules.time.saturating_sub(began.elapsed()).max(Duration::from_secs(1));
        let site = self.workshop.open(self.prepared, self.plan, self.rules.time).await?;
        let (applied, said) = steps::apply(&site, patch, left()).await?;
        notes.add(&said);
        match applied {
            Applied::By(command) => notes.add(&format!(">>>>> Applied Patch ({command})")),
            Applied::Already => notes.add(">>>>> Applied Patch (it was there already)"),
            Applied::No(_) => {
                let hunks = hunks::read(&said);
                for hunk in &hunks {
                    notes.add(&hunk.to_string());
                }
                notes.add(">>>>> Patch Apply Failed");
                return Ok(Err(hunks));
            }
        }
        // Without a patch for them the tests are those of the tree.
        let no_patch = self.instance.test_patch.trim().is_empty();
        let test_files = if no_patch { self.plan.test_files.clone() } else { diff::files(&self.instance.test_patch) };
        let edits = self.neutralise(&site, patch, &test_files, left()).await?;
        for edit in &edits {
            notes.add(&format!("put back: {} ({:?})", edit.path, edit.power));
        }
        let mut head = self.look(&site, left()).await?;
        if self.must_install(patch) {
            head.push_str(&self.install(&site, patch, &test_files, left()).await?);
        }
        let commit = &self.instance.base_commit;
        let restored = match self.rules.edits {
            _ if no_patch => None,
            Edits::Official => Some(steps::restore_officially(&site, &self.instance.test_patch, commit, left()).await?),
            Edits::Strict => Some(steps::restore(&site, &self.instance.test_patch, commit, left()).await?),
        };
        if let Some(restored) = restored {
            head.push_str(&restored.out);
            if !restored.is_ok() {
                notes.add("the test patch could not be applied");
            }
        }
        let packages = self.packages(&site).await?;
        let tested = steps::test(&site, &self.plan.before, &self.plan.test, packages.as_deref(), left()).await?;
        notes.add(&format!("Test runtime: {:.2} seconds", tested.wall_ms / 1000.0));
        notes.tests += Duration::try_from_secs_f64(tested.wall_ms / 1000.0).unwrap_or_default();
        Ok(Ok(Round { tested, head, edits }))
    }

    /// Where the reporter is put. A runner that it knows is not believed without it.
    async fn packages(&self, site: &Site) -> Result<Option<String>, SweError> {
        let (Some(image), Some(_)) = (self.image, Runner::of(&self.plan.test)) else {
            return Ok(self.prepared.packages.clone());
        };
        let found = self.workshop.image_packages(site).await?;
        if found.is_none() && self.rules.edits == Edits::Strict {
            return Err(SweError::Unwatched { image: image.to_owned() });
        }
        Ok(found)
    }

    /// What the official script shows of the tree before the tests.
    async fn look(&self, site: &Site, time: Duration) -> Result<String, SweError> {
        let text = "exec 2>&1; cd \"$1\"; set -x\ngit status\ngit -c core.fileMode=false diff \"$2\"";
        let commit = if self.plan.bug.is_some() { "HEAD" } else { &self.instance.base_commit };
        let arguments = vec![site.tree().to_owned(), commit.to_owned()];
        Ok(site.run(Script { text, arguments, time, ..Script::default() }).await?.out)
    }

    /// Whether the project must be installed again. One that is imported from its tree need not be, as long as what its
    /// installation reads is the same and nothing has to be compiled.
    fn must_install(&self, patch: &str) -> bool {
        let stays = |line: &String| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.contains(&"-e") || words.contains(&"--editable") || words.contains(&"develop")
        };
        if !self.plan.install.iter().all(stays) {
            return true;
        }
        !diff::named(patch).iter().all(|path| is_plain(path))
    }

    /// Puts back what could decide the verdict, where that is the rule.
    async fn neutralise(
        &self,
        site: &Site,
        patch: &str,
        test_files: &[String],
        time: Duration,
    ) -> Result<Vec<Edit>, SweError> {
        match self.rules.edits {
            Edits::Official => Ok(Vec::new()),
            Edits::Strict => {
                let known = diff::files(&self.instance.patch);
                steps::neutralise(site, patch, &known, test_files, time).await
            }
        }
    }

    /// Installs the project again; what was said.
    async fn install(
        &self,
        site: &Site,
        patch: &str,
        test_files: &[String],
        time: Duration,
    ) -> Result<String, SweError> {
        let changed = diff::named(patch);
        let install = format!("exec 2>&1; cd \"$1\"; set -x\n{}", self.plan.install.join("\n"));
        if let (None, Some(packages)) = (self.image, &self.prepared.packages) {
            let is_copy = steps::only_copies(&self.plan.install);
            if is_copy
                && changed.iter().all(|path| is_plain(path) && steps::is_module(path))
                && let Some(said) = steps::renew(site, packages, &changed, time).await?
            {
                return Ok(said);
            }
            if self.rules.edits == Edits::Strict && steps::is_by_pip(&self.plan.install) {
                let aside = self.workshop.open(self.prepared, self.plan, time).await?;
                steps::apply(&aside, patch, time).await?;
                self.neutralise(&aside, patch, test_files, time).await?;
                let sites = [&aside, site];
                if let Some(said) = steps::install_aside(sites, &install, packages, is_copy, time).await? {
                    return Ok(said);
                }
            }
        }
        let arguments = vec![site.tree().to_owned()];
        Ok(site.run(Script { text: &install, arguments, time, ..Script::default() }).await?.out)
    }

    /// The log as the official harness has it.
    fn log(&self, round: &Round) -> String {
        let Round { tested, head, .. } = round;
        let mut log = format!("{head}+ : '{START}'\n{}", tested.log);
        if !log.ends_with('\n') {
            log.push('\n');
        }
        if tested.is_late {
            let _ = writeln!(log, "\nTimeout error: {} seconds exceeded.", self.rules.time.as_secs());
            return log;
        }
        let _ = writeln!(log, "+ : '{END}'\n>>>>> Test Exit Code: {}", tested.code);
        log
    }

    fn report(&self, prediction: &Prediction, log: &str, round: Round) -> Report {
        let Round { tested, edits, .. } = round;
        let mut integrity = Integrity { neutralised: !edits.is_empty(), edits, ..Integrity::default() };
        let instance = self.instance;
        let mut report = Report::of(instance, prediction, log);
        // What the command itself printed, whatever marks are in it.
        let read = |parser: super::log::Parser| {
            let own = format!(
                "+ : '{START}'\n{}\n+ : '{END}'\n>>>>> Test Exit Code: {}\n",
                unmarked(&tested.log),
                tested.code
            );
            Some((grade::read_log(&own, parser)?, parser))
        };
        let confirmed = instance.parser.and_then(read).zip(tested.heard.as_ref()).map(|((statuses, parser), heard)| {
            integrity.confirm(&statuses, heard, parser, &instance.fail_to_pass, &self.plan.test_files)
        });
        if self.rules.edits == Edits::Strict {
            if let Some(confirmed) = confirmed {
                report.regrade(instance, &confirmed);
            } else if report.tests_status.is_some() && tested.heard.is_some() {
                // The log of the tests says nothing by itself.
                report = Report { tests_status: None, resolved: false, patch_successfully_applied: false, ..report };
            }
        }
        report.integrity = Some(integrity);
        report
    }

    /// All of it as one script, for people.
    fn script(&self) -> String {
        let plan = self.plan;
        let tree = if self.image.is_some() { Where::Image } else { Where::Own };
        let mut script = format!("#!/bin/bash\nset -uxo pipefail\ncd {}\n", tree.folder());
        for line in plan.before.iter().chain(&plan.install) {
            let _ = writeln!(script, "{line}");
        }
        let commit = &self.instance.base_commit;
        let files: Vec<String> =
            diff::files(&self.instance.test_patch).iter().map(|file| super::plan::quoted(file)).collect();
        let (files, patch) = (files.join(" "), &self.instance.test_patch);
        let _ = writeln!(
            script,
            "git checkout {commit} {files}\ngit apply -v - <<'EOF_114329324912'\n{patch}\nEOF_114329324912"
        );
        let _ = writeln!(script, ": '{START}'\n{}\n: '{END}'\ngit checkout {commit} {files}", plan.test);
        script
    }
}

/// A log without marks that it could be taken apart by.
fn unmarked(log: &str) -> String {
    log.replace(">>>>> ", ">>>> ")
}

/// Whether a change of this file needs no new installation.
fn is_plain(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_build = matches!(name, "setup.py" | "setup.cfg" | "pyproject.toml" | "MANIFEST.in" | "tox.ini")
        || edits::power(path, &[]).is_some();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    !is_build && matches!(ending, "py" | "pyi" | "rst" | "md" | "txt" | "html" | "css" | "js" | "json" | "po")
        // A new folder at the top may be a package that is not known yet.
        && path.contains('/')
}
