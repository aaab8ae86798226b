//! Settings as written in a file, the environment on top of them.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::backend::{DockerSettings, E2bBackendSettings};
use crate::e2b_settings::E2bSettings;
use crate::image::Sources;
use crate::job_settings::JobSettings;
use crate::model_review::ReviewSettings;
use crate::network::NetworkSettings;
use crate::policy_settings::{PolicySection, PolicySettings};
use crate::server_settings::ServerSettings;
use crate::usage::Prices;
use serde::{Deserialize, Serialize};
use types::{BackendKind, Ceiling, ErrorBody, ErrorCode, Layer, LimitError, Limits, LimitsSpec};

/// Everything that is set outside a request. Names of environment variables live here and nowhere else.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Where saggar keeps what outlives a command.
    pub state: PathBuf,
    /// What isolates where a request does not say.
    pub backend: BackendKind,
    /// Programs by language.
    pub interpreters: BTreeMap<String, PathBuf>,
    /// What a request gets that asks for nothing.
    pub defaults: Limits,
    /// The most that a request may ask for.
    pub ceiling: Ceiling,
    /// Layers without which nothing runs.
    pub require: Vec<Layer>,
    /// Walls that the owner of this host gives up by name.
    pub accept_missing: Vec<Layer>,
    /// A cgroup that was handed over.
    pub cgroup: Option<String>,
    /// What is made ahead of need.
    pub pool: PoolSettings,
    /// Who reviews programs; nobody if absent.
    pub review: Option<ReviewSettings>,
    /// What models cost, before the built-in prices.
    pub prices: Prices,
    /// How often and how much callers may ask.
    pub admission: AdmissionSettings,
    /// What is written down.
    pub audit: AuditSettings,
    /// What the static check asks of every request.
    pub policy: PolicySettings,
    /// What runs with a way out may reach.
    pub network: NetworkSettings,
    /// Where packages come from when an image is built.
    pub build: Sources,
    /// Whether Python scripts get the packages that their own metadata asks for.
    pub build_for_scripts: bool,
    /// The Docker daemon.
    pub docker: DockerSettings,
    /// How the server is reached.
    pub server: ServerSettings,
    /// The E2B-compatible door.
    pub e2b: E2bSettings,
    /// How `SandboxFusion`'s clients are served.
    pub fusion: FusionSettings,
    /// What jobs of the server's callers may use.
    pub jobs: JobSettings,
}

/// `SandboxFusion`'s clients.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FusionSettings {
    /// Whether they need no key: everybody who reaches the loopback, other users of the host too, may run code then.
    pub without_key: bool,
}

/// The audit trail.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuditSettings {
    /// Whether there is one.
    pub enabled: bool,
    /// Whether the code of runs and the words of commands are kept, not only their hashes.
    pub keep_source: bool,
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self { enabled: true, keep_source: false }
    }
}

/// How often and how much callers may ask.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdmissionSettings {
    /// Runs in line, for each caller.
    pub waiting: usize,
    /// The command line, and whoever comes by the Unix socket.
    pub socket: Allowance,
    /// The key of the first start.
    pub first_key: Allowance,
    /// Keys that the owner has made for others, unless one has its own.
    pub keys: Allowance,
}

impl Default for AdmissionSettings {
    fn default() -> Self {
        let keys = Allowance { per_minute: NonZeroU32::new(100), ..Allowance::default() };
        Self { waiting: 16_384, socket: Allowance::default(), first_key: Allowance::default(), keys }
    }
}

/// What one caller may ask for. Gaps mean no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Allowance {
    /// Requests a minute, in the long run.
    pub per_minute: Option<NonZeroU32>,
    /// Requests at once after a pause; as many as a minute's, if not said.
    pub burst: Option<NonZeroU32>,
    /// Requests under way at once, in line or running.
    pub concurrent: Option<NonZeroU32>,
    /// Requests a day, in UTC, as far as the engine was there to count them.
    pub per_day: Option<NonZeroU32>,
}

/// What is made ahead of need, where a pool is kept.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PoolSettings {
    /// Sandboxes that wait, for each kind.
    pub ready: usize,
    /// Sandboxes that wait, of all kinds together.
    pub most: usize,
    /// How long a kind that nobody asks for is kept.
    #[serde(rename = "idle_ms", deserialize_with = "milliseconds")]
    pub idle: Duration,
    /// Runs at once; others wait in line.
    pub running: usize,
    /// Modules that Python workers have imported already.
    pub preload: Vec<String>,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            ready: 4,
            most: 32,
            idle: Duration::from_mins(1),
            running: 32,
            preload: PRELOAD.iter().map(|module| (*module).to_owned()).collect(),
        }
    }
}

impl PoolSettings {
    /// Whether nobody has named other modules than ours.
    pub(crate) fn has_usual_preload(&self) -> bool {
        self.preload == PRELOAD
    }
}

/// What most small programs import. Each costs every fork a little, and spares who needs it a lot.
const PRELOAD: &[&str] = &[
    "bisect",
    "collections",
    "copy",
    "dataclasses",
    "datetime",
    "functools",
    "heapq",
    "itertools",
    "json",
    "math",
    "operator",
    "random",
    "re",
    "string",
    "time",
    "typing",
];

pub(crate) fn milliseconds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

/// Why settings were refused.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read the settings `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Not TOML, or a key that does not exist.
    #[error("the settings `{}` are wrong: {}", path.display(), source.message())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A limit that is zero or absurd.
    #[error("the settings `{}` are wrong: {source}", path.display())]
    Limit {
        /// The file.
        path: PathBuf,
        /// Which and why.
        source: LimitError,
    },
    /// A pool in which nothing could run.
    #[error("the settings `{}` are wrong: `running` of [pool] must be at least 1", path.display())]
    Pool {
        /// The file.
        path: PathBuf,
    },
    /// A review that could not be made as written.
    #[error("the settings `{}` are wrong: {why} in [review]", path.display())]
    Review {
        /// The file.
        path: PathBuf,
        /// Which key, and why.
        why: &'static str,
    },
    /// A price that is no amount of money.
    #[error("the settings `{}` are wrong: the price of `{model}` is no amount of money", path.display())]
    Price {
        /// The file.
        path: PathBuf,
        /// Of which model.
        model: String,
    },
    /// A policy file cannot be read.
    #[error("cannot read the policy file `{}`", path.display())]
    PolicyRead {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A policy file is not TOML, or has a key that does not exist.
    #[error("the policy file `{}` is wrong: {}", path.display(), source.message())]
    PolicyParse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A preset that does not exist.
    #[error("the settings `{}` are wrong: there is no preset `{name}`", path.display())]
    Preset {
        /// The file.
        path: PathBuf,
        /// As written.
        name: String,
    },
    /// `SAGGAR_BACKEND` names none.
    #[error("SAGGAR_BACKEND is `{name}`, which is no backend")]
    Backend {
        /// As it is there.
        name: String,
    },
    /// Neither `SAGGAR_HOME` nor a home to derive it from.
    #[error("there is no place for the state folder: neither SAGGAR_HOME nor HOME is set")]
    NoHome,
}

impl SettingsError {
    /// The wire form.
    #[must_use]
    pub fn body(&self) -> ErrorBody {
        let hint = match self {
            Self::Read { .. } => "check --config and SAGGAR_CONFIG",
            Self::Parse { .. } => {
                "known keys: state, backend, require, accept_missing, cgroup, [interpreters], [limits], [ceiling], [pool], [review], [prices], [admission], [audit], [policy], [network], [build], [docker], [server], [fusion], [e2b]"
            }
            Self::Review { .. } => "docs/REVIEW.md has every key",
            Self::Price { .. } => {
                "prices are US dollars for a million tokens: { input = 0.15, cached = 0.075, output = 0.6 }"
            }
            Self::PolicyRead { .. } => "check --policy-file, and `file` of [policy] in the settings",
            Self::PolicyParse { .. } => {
                "known keys: allow_imports, deny_imports, commands, ignore, [tools], [files], [[rules]]; docs/POLICY.md has an example"
            }
            Self::Preset { .. } => "presets: repository",
            Self::Pool { .. } => "with 0 every run would wait for ever",
            Self::Limit { .. } => "limits must be above zero and below the ceiling",
            Self::Backend { .. } => "backends: native, docker, e2b",
            Self::NoHome => "set SAGGAR_HOME to a folder that you may write",
        };
        let mut message = self.to_string();
        if let Self::Read { source, .. } | Self::PolicyRead { source, .. } = self {
            message = format!("{message}: {source}");
        }
        ErrorBody { code: ErrorCode::InvalidSettings, message, hint: hint.to_owned() }
    }
}

/// The file as written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    state: Option<PathBuf>,
    backend: Option<BackendKind>,
    interpreters: BTreeMap<String, PathBuf>,
    limits: LimitsSpec,
    ceiling: LimitsSpec,
    require: Vec<Layer>,
    accept_missing: Vec<Layer>,
    cgroup: Option<String>,
    pool: PoolSettings,
    review: Option<ReviewSettings>,
    prices: Prices,
    admission: AdmissionSettings,
    audit: AuditSettings,
    policy: PolicySection,
    network: NetworkSettings,
    build: BuildSection,
    docker: DockerSettings,
    server: ServerSettings,
    fusion: FusionSettings,
    jobs: JobSettings,
    e2b: E2bSettings,
}

/// `[build]` as written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct BuildSection {
    index_url: Option<String>,
    npm_registry: Option<String>,
    apt_mirror: Option<String>,
    proxy: Option<String>,
    ca_bundle: Option<PathBuf>,
    repositories: Option<String>,
    script_dependencies: bool,
}

impl Settings {
    /// Reads the file that `config` or the environment names, or the one in its usual place if it is there. The working
    /// directory is never looked at: it may be somebody else's.
    pub fn load(config: Option<&Path>) -> Result<Self, SettingsError> {
        let named = config.map(Path::to_path_buf).or_else(|| from_environment("SAGGAR_CONFIG"));
        let (path, must_exist) = match named {
            Some(path) => (path, true),
            None => (usual_place(), false),
        };
        let file = match fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text)
                .map_err(|source| SettingsError::Parse { path: path.clone(), source: Box::new(source) })?,
            // Only a file that is not there means the defaults: one that cannot be read may hold a ceiling.
            Err(error) if !must_exist && error.kind() == io::ErrorKind::NotFound => File::default(),
            Err(source) => return Err(SettingsError::Read { path, source }),
        };
        Self::resolve(file, &path)
    }

    /// The state folder whose server may stand in for us: the settings that it started with are the usual ones, and so
    /// are ours. `None` if this process was told otherwise, or there is no such folder.
    ///
    /// Cheap where `SAGGAR_HOME` is set or there is no settings file: it is on the way of every warm run.
    #[must_use]
    pub fn common_state(config: Option<&Path>) -> Option<PathBuf> {
        let own = ["SAGGAR_CONFIG", "SAGGAR_CGROUP"].into_iter().any(|name| from_environment(name).is_some());
        if own || config.is_some() {
            return None;
        }
        from_environment("SAGGAR_HOME").or_else(|| Some(Self::load(None).ok()?.state))
    }

    /// What isolates by the environment, which goes over the file, and a request over that.
    pub fn backend_in_environment() -> Result<Option<BackendKind>, SettingsError> {
        let said = env::var_os("SAGGAR_BACKEND").filter(|name| !name.is_empty());
        said.map(|name| backend_named(&name.to_string_lossy())).transpose()
    }

    fn resolve(file: File, path: &Path) -> Result<Self, SettingsError> {
        let wrong = |source| SettingsError::Limit { path: path.to_path_buf(), source };
        let most = Ceiling::default();
        let ceiling = Ceiling(file.ceiling.resolve(&most.0, &most).map_err(wrong)?);
        let defaults = file.limits.resolve(&Limits::default(), &ceiling).map_err(wrong)?;
        if file.pool.running == 0 {
            return Err(SettingsError::Pool { path: path.to_path_buf() });
        }
        if let Some(why) = file.review.as_ref().and_then(ReviewSettings::wrong) {
            return Err(SettingsError::Review { path: path.to_path_buf(), why });
        }
        if let Some(model) = file.prices.absurd() {
            return Err(SettingsError::Price { path: path.to_path_buf(), model: model.to_owned() });
        }
        let state = from_environment("SAGGAR_HOME").or(file.state).or_else(usual_state).ok_or(SettingsError::NoHome)?;
        Ok(Self {
            // Keepers, servers and mounts have other folders to be in.
            state: std::path::absolute(&state).unwrap_or(state),
            backend: Self::backend_in_environment()?.or(file.backend).unwrap_or_default(),
            interpreters: file.interpreters,
            defaults,
            ceiling,
            require: file.require,
            accept_missing: file.accept_missing,
            cgroup: env::var("SAGGAR_CGROUP").ok().filter(|path| !path.is_empty()).or(file.cgroup),
            pool: file.pool,
            review: file.review,
            prices: file.prices,
            admission: file.admission,
            audit: file.audit,
            policy: file.policy.resolve(path)?,
            network: file.network,
            build: Sources {
                index_url: file.build.index_url,
                npm_registry: file.build.npm_registry,
                apt_mirror: file.build.apt_mirror,
                proxy: file.build.proxy,
                ca_bundle: file.build.ca_bundle,
                repositories: file.build.repositories,
            },
            build_for_scripts: file.build.script_dependencies,
            docker: docker_host(file.docker),
            server: file.server,
            fusion: file.fusion,
            e2b: e2b_addresses(file.e2b),
            jobs: file.jobs,
        })
    }
}

fn backend_named(name: &str) -> Result<BackendKind, SettingsError> {
    let known = [BackendKind::Native, BackendKind::Docker, BackendKind::E2b];
    let found = known.into_iter().find(|kind| kind.name() == name);
    found.ok_or_else(|| SettingsError::Backend { name: name.chars().filter(|c| !c.is_control()).take(40).collect() })
}

/// What everybody who speaks to a daemon goes by, unless the settings say otherwise.
fn docker_host(docker: DockerSettings) -> DockerSettings {
    let said = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    // As Docker's own client has it: a daemon and its certificates are named together.
    let usual = said("DOCKER_HOST").filter(|_| docker.host.is_none());
    let certificates = docker.certificates.or_else(|| {
        usual.as_ref().and_then(|_| said("DOCKER_TLS_VERIFY").and_then(|_| said("DOCKER_CERT_PATH")).map(PathBuf::from))
    });
    DockerSettings { host: docker.host.or(usual), certificates, ..docker }
}

/// What E2B's own clients go by, unless the settings say otherwise.
fn e2b_addresses(e2b: E2bSettings) -> E2bSettings {
    let or =
        |written: Option<String>, name: &str| written.or_else(|| env::var(name).ok().filter(|url| !url.is_empty()));
    let backend = E2bBackendSettings {
        api_url: or(e2b.backend.api_url, "E2B_API_URL"),
        sandbox_url: or(e2b.backend.sandbox_url, "E2B_SANDBOX_URL"),
        domain: or(e2b.backend.domain, "E2B_DOMAIN"),
        ..e2b.backend
    };
    E2bSettings { backend, ..e2b }
}

fn usual_place() -> PathBuf {
    from_environment("XDG_CONFIG_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| Some(from_environment("HOME")?.join(".config")))
        .unwrap_or_else(|| PathBuf::from("/etc"))
        .join("saggar/saggar.toml")
}

fn usual_state() -> Option<PathBuf> {
    let data = from_environment("XDG_DATA_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| Some(from_environment("HOME")?.join(".local/share")))?;
    Some(data.join("saggar"))
}

/// A path from the environment. Empty means unset.
fn from_environment(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(text: &str) -> Result<Settings, String> {
        let file = toml::from_str(text).map_err(|e| e.message().to_owned())?;
        Settings::resolve(file, Path::new("x")).map_err(|e| e.to_string())
    }

    #[test]
    fn unknown_keys_are_errors() {
        assert!(resolve("nettwork = 1").unwrap_err().contains("unknown field"));
        assert!(resolve("[limits]\nmemory = 1").unwrap_err().contains("unknown field"));
        assert!(resolve("require = [\"moat\"]").is_err());
        assert!(resolve("[pool]\nreddy = 1").unwrap_err().contains("unknown field"));
        assert!(resolve("[pool]\nrunning = 0").unwrap_err().contains("running"));
        assert!(resolve("[audit]\nkeep = true").unwrap_err().contains("unknown field"));
        assert!(resolve("[admission.keys]\nper_minute = 0").is_err());
    }

    #[test]
    fn the_state_folder_is_the_same_from_everywhere() {
        let state = resolve("state = 'there'").unwrap().state;
        assert!(state.is_absolute() && state.ends_with("there"), "{}", state.display());
    }

    #[test]
    fn the_backend_of_requests_that_name_none_is_a_setting() {
        assert_eq!(resolve("").unwrap().backend, BackendKind::Native);
        assert_eq!(resolve("backend = 'docker'").unwrap().backend, BackendKind::Docker);
        assert!(resolve("backend = 'podman'").unwrap_err().contains("podman"));
        assert_eq!(backend_named("e2b").unwrap(), BackendKind::E2b);
        assert!(backend_named("Docker\n").unwrap_err().to_string().contains("`Docker`"));
    }

    #[test]
    fn review_and_prices_are_read_and_checked() {
        let good =
            "[review]\nmodel = 'm'\non_error = 'allow'\ntimeout_ms = 5\n[prices]\n'a/b' = { input = 1.0, output = 2 }";
        let settings = resolve(good).unwrap();
        let review = settings.review.unwrap();
        assert_eq!((review.timeout.as_millis(), review.retries), (5, 2));
        let price = crate::usage::Price { input: 1.0, cached: None, output: 2.0 };
        assert_eq!(settings.prices.of("a/b"), Some(price));
        for (bad, why) in [
            ("[review]", "model"),
            ("[review]\nmodel = ''", "model"),
            ("[review]\nmodel = 'm'\nmodell = 1", "unknown field"),
            ("[review]\nmodel = 'm'\nbase_url = 'nonsense'", "base_url"),
            ("[review]\nmodel = 'm'\nmin_confidence = 2.0", "min_confidence"),
            ("[review]\nmodel = 'm'\non_error = 'ignore'", "ignore"),
            ("[review]\nmodel = 'm'\ndeadline_ms = 9223372036854775807", "deadline_ms"),
            ("[review]\nmodel = 'm'\nparallel = 0", "parallel"),
            ("[prices]\nm = { input = -1, output = 2 }", "no amount"),
            ("[prices]\nm = { input = nan, output = 2 }", "no amount"),
            ("[prices]\nm = { input = 1 }", "output"),
        ] {
            let error = resolve(bad).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn a_file_sets_the_least_policy_and_the_commands() {
        let settings = resolve("[policy]\nleast = 'guard'\ndeny_imports = ['socket']\npreset = 'repository'").unwrap();
        assert_eq!(settings.policy.least, types::Policy::Guard);
        assert_eq!(settings.policy.file.deny_imports, ["socket"]);
        assert_eq!(settings.policy.commands.map(|commands| commands.len()), Some(18));
        assert_eq!(resolve("").unwrap().policy.commands, None);
        assert!(resolve("[policy]\npreset = 'all'").unwrap_err().contains("no preset"));
        assert!(resolve("[policy]\nlest = 'guard'").unwrap_err().contains("unknown field"));
    }

    #[test]
    fn a_file_sets_limits_and_layers() {
        let settings = resolve(
            "state = '/x'\nrequire = ['cgroup.memory']\n[limits]\nwall_ms = 5000\n[ceiling]\nmemory_mb = 1024\n\
             [interpreters]\npython = '/opt/p/bin/python3'",
        )
        .unwrap();
        assert_eq!(settings.defaults.wall.as_secs(), 5);
        assert_eq!(settings.ceiling.0.memory, 1 << 30);
        assert_eq!(settings.require, [Layer::CgroupMemory]);
    }
}
