//! Environments and trees: made once, in sandboxes, and kept as layers that many instances share.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::{Caller, Engine, Found, Way};
use types::LimitsSpec;

use super::building::{Building, Builds, cause};
use super::repository::Repository;
use super::site::{ASIDE, ENVIRONMENT, Ground, Said, Script, Site, TREE, Where, name};
use crate::swe::SweError;
use crate::swe::plan::Plan;

/// Longer than the largest environment takes.
pub(super) const TIME: Duration = Duration::from_mins(45);
/// Beside the environment: the authorities that the settings name.
const AUTHORITIES_FILE: &str = "-authorities.pem";
/// Where this host has the authorities that it trusts, on most systems.
const AUTHORITIES: &[&str] = &["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// A virtual environment with the pins in it.
const ENVIRONMENT_SCRIPT: &str = r#"set -e
exec 2>&1
# The pip that comes with these takes the wish for no cache for the name of one, and knows too few kinds of wheels.
[ -z "$OLD_PYTHON" ] || unset PIP_NO_CACHE_DIR
if "$1" -c 'import venv' 2>/dev/null; then
  "$1" -m venv "$2"
else
  "$1" -m pip install -q --target /tmp/pip-virtualenv 'virtualenv<20.22'
  PYTHONPATH=/tmp/pip-virtualenv "$1" -m virtualenv -q "$2"
fi
if [ -n "$OLD_PYTHON" ] && [ -z "$PIP_NO_INDEX" ]; then
  "$2/bin/python" -m pip install -q --upgrade 'pip<22' setuptools wheel || true
fi
install() { "$2/bin/python" -m pip install $PIP_FLAGS -r "$1"; }
if [ -s /work/pins.txt ] && ! install /work/pins.txt "$2"; then
  # Without `wheel` pip builds what has no wheel amid the others, with whichever of them hook into setuptools.
  grep -iE '^(setuptools|wheel)([^a-z0-9_.-]|$)' /work/pins.txt > /work/first.txt
  install /work/first.txt "$2"
  install /work/pins.txt "$2"
fi
rm -rf /work/pins.txt /work/first.txt /tmp/pip-* "$HOME/.cache"
"#;

/// What git is told wherever it runs: no hooks, no names, no tidying up.
pub(super) const GIT_SETTINGS: &str = "[user]\n\tname = saggar\n\temail = saggar@localhost\n[safe]\n\tdirectory = *\n\
    [uploadpack]\n\tallowAnySHA1InWant = true\n[core]\n\thooksPath = /dev/null\n\tlogAllRefUpdates = false\n\
    [init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n[gc]\n\tauto = 0\n";

/// The repository at one commit, with nothing of its history before or after.
const CHECKOUT_SCRIPT: &str = r#"set -e
exec 2>&1
source="$1" commit="$2" tree="$3"
printf '%s' "$GIT_SETTINGS" > "$HOME/.gitconfig"
case "$source" in
  *.bundle)
    git init -q --bare /tmp/bundle
    git -C /tmp/bundle fetch -q --no-tags "$source" '+refs/*:refs/bundle/*'
    source=file:///tmp/bundle ;;
esac
case "$source" in
  # Half a hash is enough for people, and not for fetching.
  file://*) [ "${#commit}" -ge 40 ] || commit=$(git --git-dir="${source#file://}" rev-parse --verify -q "$commit^{commit}") ;;
esac
git init -q "$tree"
cd "$tree"
git fetch -q --no-tags --no-recurse-submodules --depth=1 "$source" "$commit"
git checkout -q --detach FETCH_HEAD
[ "$(git rev-parse HEAD)" = "$commit" ]
rm -rf .git/FETCH_HEAD .git/ORIG_HEAD .git/logs .git/hooks .git/branches /tmp/bundle
"#;

/// What the project wants to have done before tests; files that it leaves are no work of a patch.
const INSTALL_SCRIPT: &str = r#"exec 2>&1
cd "$1"
if [ -n "$BUG" ]; then
  # What was there before is the solution.
  { git apply "$BUG" && rm -rf .git "$BUG" && git init -q . && git add -A -f && git commit -q -m SWE-smith; } || exit 1
fi
eval "$PRE_INSTALL"
git diff --quiet HEAD || git commit -q -a -m SWE-bench
for file in $REQUIREMENTS; do
  [ -f "$file" ] || continue
  # One package that cannot be had is no reason to have none.
  python -m pip install -r "$file" || grep -v '^ *\(#\|-\|$\)' "$file" | while read -r line; do python -m pip install "$line"; done
done
set -e
eval "$INSTALL"
mkdir -p .git/info
git ls-files --others --exclude-standard --directory | sed 's|^|/|' >> .git/info/exclude
# Files as old as the index are read again by every command that looks at the tree, unless it is written anew.
git update-index -q --refresh || true
rm -rf /tmp/pip-* "$HOME/.cache"
"#;

/// Makes what instances stand on.
pub struct Workshop {
    engine: Arc<Engine>,
    caller: Caller,
    /// A folder of wheels in place of an index.
    wheels: Option<PathBuf>,
    /// What is being made, so that nothing is made twice.
    making: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// What could not be made, and why: others that need it are told the same.
    failed: Mutex<HashMap<String, Failure>>,
    /// What is being built.
    builds: Builds,
    /// How many were made, and not found.
    made: std::sync::atomic::AtomicUsize,
}

/// Why something could not be made.
#[derive(Clone)]
pub(super) struct Failure {
    pub(super) what: &'static str,
    pub(super) why: String,
    pub(super) log: Arc<str>,
}

/// What an instance's sandboxes begin with.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The state of the disk.
    pub from: String,
    /// The interpreter's own trees.
    pub trees: Vec<String>,
    /// Where packages lie in the environment, if there is one.
    pub packages: Option<String>,
    /// Folders of programs, where an image has them.
    pub path: Option<Vec<String>>,
}

impl Workshop {
    /// One that installs from an index, or from a folder of wheels.
    #[must_use]
    pub fn new(engine: Arc<Engine>, caller: Caller, wheels: Option<PathBuf>) -> Self {
        Self {
            engine,
            caller,
            wheels,
            making: Mutex::default(),
            failed: Mutex::default(),
            builds: Builds::default(),
            made: std::sync::atomic::AtomicUsize::new(0),
        }
    }

    pub(super) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(super) const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// How many environments and trees were made.
    #[must_use]
    pub fn made(&self) -> usize {
        self.made.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// What is being built now.
    #[must_use]
    pub fn building(&self) -> Vec<Building> {
        self.builds.list()
    }

    /// The interpreter that a plan wants, if it wants one.
    pub fn python(&self, plan: &Plan) -> Result<Option<Found>, SweError> {
        let Some((major, minor)) = plan.python else { return Ok(None) };
        self.engine.python((major, minor)).map(Some).ok_or(SweError::NoPython { major, minor })
    }

    /// The repository at its commit, installed in its environment; made if it is not there yet.
    pub async fn tree(&self, plan: &Plan, repository: &Repository, commit: &str) -> Result<Prepared, SweError> {
        let is_commit = (7..=64).contains(&commit.len()) && commit.bytes().all(|c| c.is_ascii_hexdigit());
        if !is_commit {
            return Err(SweError::Commit(commit.chars().take(100).collect()));
        }
        let python = self.python(plan)?;
        let environment = match &python {
            Some(python) => Some(self.environment(plan, python).await?),
            None => None,
        };
        let mut trees = python.map(|python| python.roots).unwrap_or_default();
        trees.extend(plan.trees.iter().cloned());
        let [install, pre_install] = [&plan.install, &plan.pre_install].map(|lines| lines.join("\n"));
        let requirements = plan.requirements.join(" ");
        let env = serde_json::to_string(&plan.env).unwrap_or_default();
        let seen = trees.join("\n");
        let parts = [
            environment.as_deref().unwrap_or(&seen),
            CHECKOUT_SCRIPT,
            INSTALL_SCRIPT,
            commit,
            &install,
            &pre_install,
            &requirements,
            &env,
            plan.bug.as_deref().unwrap_or_default(),
        ];
        let tree = name("tree", &parts);
        let _alone = self.alone(&tree).await;
        let packages = plan.python.map(packages);
        let prepared = Prepared { from: tree.clone(), trees: trees.clone(), packages, path: None };
        if self.is_kept(&tree) {
            return Ok(prepared);
        }
        let below = environment.as_deref().unwrap_or_default();
        let checked_out = name("checkout", &[below, CHECKOUT_SCRIPT, commit]);
        if !self.is_kept(&checked_out) {
            self.check_out(&checked_out, environment, repository, commit).await?;
        }
        let offline = plan.offline || self.wheels.is_some();
        let mut env = self.commands(plan);
        env.extend(plan.bug.iter().map(|_| ("BUG".to_owned(), format!("{ASIDE}/bug.diff"))));
        env.extend(
            [("PRE_INSTALL", pre_install), ("INSTALL", install), ("REQUIREMENTS", requirements)]
                .map(|(k, v)| (k.to_owned(), v)),
        );
        let way = if offline { Way::Closed } else { Way::Index };
        if offline {
            env.extend(without_index());
        } else {
            env.extend(self.index());
        }
        trees.extend(self.wheels.iter().map(|path| path.display().to_string()));
        let site = self.site(Some(checked_out), trees, way, env).await?;
        if let Some(bug) = &plan.bug {
            site.write(&format!("{ASIDE}/bug.diff"), bug.as_bytes()).await?;
        }
        let mut reader = self.builds.begin("installing the project", commit);
        let said = site.run_heard(script(INSTALL_SCRIPT, &[TREE]), Some(&mut reader)).await?;
        done(&said, "the project could not be installed")?;
        self.count();
        site.keep(&tree, &format!("{commit}, installed")).await?;
        Ok(prepared)
    }

    async fn check_out(
        &self,
        to: &str,
        on: Option<String>,
        repository: &Repository,
        commit: &str,
    ) -> Result<(), SweError> {
        if matches!(repository, Repository::Remote(_)) {
            let clone = self.clone_of(repository).await?;
            match self.check_out_of(to, on.clone(), &clone, commit).await {
                // It is on no branch, or newer than the clone: hosts give single commits by their names.
                Err(SweError::Checkout { .. }) => {}
                done => return done,
            }
        }
        self.check_out_of(to, on, repository, commit).await
    }

    async fn check_out_of(
        &self,
        to: &str,
        on: Option<String>,
        repository: &Repository,
        commit: &str,
    ) -> Result<(), SweError> {
        let way = if repository.is_away() { Way::Index } else { Way::Closed };
        let mut env = if repository.is_away() { self.index() } else { BTreeMap::new() };
        env.extend(git_environment(repository.is_away() && self.engine.sources().ca_bundle.is_some()));
        env.insert("GIT_SETTINGS".to_owned(), GIT_SETTINGS.to_owned());
        let site = self.site(on, repository.trees(), way, env).await?;
        if repository.is_away() {
            self.trust(&site).await?;
        }
        let said = site.run(script(CHECKOUT_SCRIPT, &[&repository.source(), commit, TREE])).await?;
        if !said.is_ok() {
            return Err(SweError::Checkout { commit: commit.to_owned(), why: said.last(3) });
        }
        site.keep(to, &format!("{commit}, checked out")).await
    }

    /// A disk with a virtual environment; made if it is not there yet.
    async fn environment(&self, plan: &Plan, python: &Found) -> Result<String, SweError> {
        let (pins, flags) = (plan.pins.join("\n"), plan.pip_flags.join(" "));
        let wheels = self.wheels.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let parts = [std::env::consts::ARCH, ENVIRONMENT_SCRIPT, &python.program, &pins, &flags, &wheels];
        let environment = name("env", &parts);
        let _alone = self.alone(&environment).await;
        if self.is_kept(&environment) {
            return Ok(environment);
        }
        if let Some(Failure { what, why, log }) = self.failures().get(&environment).cloned() {
            return Err(SweError::Environment { what, why, log });
        }
        let mut trees = python.roots.clone();
        let mut env = BTreeMap::from([own(("PIP_FLAGS", &flags))]);
        let way = if self.wheels.is_some() { Way::Closed } else { Way::Index };
        trees.extend(self.wheels.iter().map(|path| path.display().to_string()));
        env.extend(self.index());
        let old = if plan.python.is_some_and(|version| version < (3, 8)) { "1" } else { "" };
        env.extend([own(("OLD_PYTHON", old))]);
        let site = self.site(None, trees, way, env).await?;
        site.write("/work/pins.txt", format!("{pins}\n").trim_start().as_bytes()).await?;
        self.trust(&site).await?;
        let (major, minor) = plan.python.unwrap_or_default();
        let of = format!("Python {major}.{minor}, {} pins", plan.pins.len());
        let mut reader = self.builds.begin("installing packages", &of);
        let said = script(ENVIRONMENT_SCRIPT, &[&python.program, ENVIRONMENT]);
        let said = site.run_heard(said, Some(&mut reader)).await?;
        done(&said, "the packages could not be installed").inspect_err(|error| {
            if let SweError::Environment { what, why, log } = error {
                let failure = Failure { what, why: why.clone(), log: Arc::clone(log) };
                self.failures().insert(environment.clone(), failure);
            }
        })?;
        self.count();
        site.keep(&environment, &of).await?;
        Ok(environment)
    }

    /// Hands in the authorities that the settings name, if they name any.
    pub(super) async fn trust(&self, site: &Site) -> Result<(), SweError> {
        let Some(path) = &self.engine.sources().ca_bundle else { return Ok(()) };
        let text = std::fs::read(path).map_err(|source| SweError::File { path: path.clone(), source })?;
        site.write(&format!("{ENVIRONMENT}{AUTHORITIES_FILE}"), &text).await
    }

    /// Where packages come from.
    pub(super) fn index(&self) -> BTreeMap<String, String> {
        let sources = self.engine.sources();
        let mut env = sources.environment(&format!("{ENVIRONMENT}{AUTHORITIES_FILE}"));
        if let Some(wheels) = &self.wheels {
            let wheels = wheels.display().to_string();
            env.extend([("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", wheels.as_str())].map(own));
        }
        // pip brings a list of its own, which does not know whom this host trusts.
        if let (None, Some(path)) =
            (&sources.ca_bundle, AUTHORITIES.iter().find(|path| std::path::Path::new(path).is_file()))
        {
            env.extend([("PIP_CERT", *path), ("SSL_CERT_FILE", path), ("REQUESTS_CA_BUNDLE", path)].map(own));
        }
        env
    }

    /// Environment of commands in a tree.
    pub fn commands(&self, plan: &Plan) -> BTreeMap<String, String> {
        let mut folders = vec![format!("{ENVIRONMENT}/bin:/usr/local/bin:/usr/bin:/bin")];
        folders.extend(plan.trees.iter().map(|tree| format!("{tree}/bin")));
        let path = folders.join(":");
        let mut env = BTreeMap::from(
            [
                ("PATH", path.as_str()),
                ("VIRTUAL_ENV", ENVIRONMENT),
                ("LC_ALL", "C.UTF-8"),
                ("TZ", "UTC"),
                // Runs are to be equal, and sympy's runner stays in one process with it.
                ("PYTHONHASHSEED", "0"),
                ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
                ("GIT_TERMINAL_PROMPT", "0"),
            ]
            .map(own),
        );
        env.extend(plan.env.clone());
        env
    }

    /// A sandbox on what was prepared.
    pub async fn open(&self, prepared: &Prepared, plan: &Plan, time: Duration) -> Result<Site, SweError> {
        let mut env = self.commands(plan);
        env.extend(without_index());
        if let Some(path) = &prepared.path {
            env.insert("PATH".to_owned(), path.join(":"));
            env.remove("VIRTUAL_ENV");
        }
        let ground = Ground {
            from: Some(prepared.from.clone()),
            tree: if prepared.path.is_some() { Where::Image } else { Where::Own },
            trees: prepared.trees.clone(),
            way: plan.way,
            env,
            limits: limits(),
            time: time * 2 + Duration::from_mins(10),
            ..Ground::default()
        };
        Site::open(&self.engine, &self.caller, ground).await
    }

    pub(super) async fn site(
        &self,
        from: Option<String>,
        trees: Vec<String>,
        way: Way,
        env: BTreeMap<String, String>,
    ) -> Result<Site, SweError> {
        let ground = Ground { from, trees, way, env, limits: limits(), time: TIME * 2, ..Ground::default() };
        Site::open(&self.engine, &self.caller, ground).await
    }

    pub(super) fn is_kept(&self, name: &str) -> bool {
        self.engine.snapshot(&self.caller, name).is_ok()
    }

    pub(super) fn failures(&self) -> MutexGuard<'_, HashMap<String, Failure>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self) {
        self.made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    /// Nobody else makes what is called so, as long as what comes back lives.
    pub(super) async fn alone(&self, name: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let lock =
            Arc::clone(self.making.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default());
        lock.lock_owned().await
    }
}

/// Where packages lie.
fn packages((major, minor): (u8, u8)) -> String {
    format!("{ENVIRONMENT}/lib/python{major}.{minor}/site-packages")
}

fn own((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Installing without an index: all that is needed is in the environment. pip reads the last one the other way round.
fn without_index() -> [(String, String); 3] {
    [("PIP_NO_INDEX", "1"), ("PIP_NO_DEPS", "1"), ("PIP_NO_BUILD_ISOLATION", "0")].map(own)
}

/// Nobody is asked for a password, settings of the system say nothing, and a host that falls silent is given up: one at
/// work sends a sign of life every few seconds.
pub(super) fn git_environment(has_authorities: bool) -> BTreeMap<String, String> {
    let silence = [("GIT_HTTP_LOW_SPEED_LIMIT", "1"), ("GIT_HTTP_LOW_SPEED_TIME", "120")];
    let mut env = BTreeMap::from([("GIT_TERMINAL_PROMPT", "0"), ("GIT_CONFIG_NOSYSTEM", "1")].map(own));
    env.extend(silence.map(own));
    if has_authorities {
        env.insert("GIT_SSL_CAINFO".to_owned(), format!("{ENVIRONMENT}{AUTHORITIES_FILE}"));
    }
    env
}

pub(super) fn script<'a>(text: &'a str, arguments: &[&str]) -> Script<'a> {
    let arguments = arguments.iter().map(|&word| word.to_owned()).collect();
    Script { text, arguments, time: TIME, ..Script::default() }
}

fn done(said: &Said, what: &'static str) -> Result<(), SweError> {
    if said.is_ok() {
        return Ok(());
    }
    let log = format!("{}{}", said.out, said.err).into();
    Err(SweError::Environment { what, why: cause(said), log })
}

/// More than tests take.
pub(super) fn limits() -> LimitsSpec {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    LimitsSpec {
        memory_mb: Some(8.0 * 1024.0),
        cpus: Some(processors as f64),
        pids: Some(2048),
        disk_mb: Some(16.0 * 1024.0),
        inodes: Some(2_000_000),
        output_kb: Some(64.0 * 1024.0),
        ..LimitsSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_in_lies_outside_of_the_tree() {
        assert!(!ASIDE.starts_with(TREE) && !ENVIRONMENT.starts_with(TREE));
    }
}
