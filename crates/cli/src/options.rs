//! Options that `run`, `exec` and `judge` share, and what they turn into.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use clap::{ArgMatches, Args, ValueEnum};
use engine::{Caller, Settings};
use evals::judge::Overlay;
use types::{
    BackendKind, ErrorBody, ErrorCode, ExecRequest, FileContent, InputFile, Layer, LimitsSpec, Network, Policy,
    RelPath, parse_duration, parse_size,
};

use crate::failure::Failure;

/// Options that `run` and `exec` share.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct Options {
    /// Wall time, such as 500ms, 30s or 2m [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Processor time of the whole run [default: none but the wall time]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    cpu_time: Option<Duration>,
    /// Memory of the whole run, files in /work and /tmp included [default: 512M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Processors, such as 0.5 or 2 [default: 1]
    #[arg(long, value_name = "N")]
    cpus: Option<f64>,
    /// Processes and threads [default: 64]
    #[arg(long, value_name = "N")]
    pids: Option<u64>,
    /// Bytes in /work and /tmp together [default: 100M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    disk: Option<u64>,
    /// Files and folders in /work and /tmp together [default: 20000]
    #[arg(long, value_name = "N")]
    inodes: Option<u64>,
    /// Bytes kept of each output, head and tail [default: 100K]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    output_limit: Option<u64>,
    /// What the run may reach [default: none]
    #[arg(long, value_enum)]
    network: Option<NetworkOption>,
    /// A variable of the run's environment (repeatable)
    #[arg(long, value_name = "K=V")]
    env: Vec<String>,
    /// A file to place in /work (repeatable)
    #[arg(long = "file", value_name = "SRC[:DEST]")]
    inputs: Vec<String>,
    /// A file to read as standard input
    #[arg(long, value_name = "FILE")]
    stdin: Option<PathBuf>,
    /// A folder for the files that the run makes
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What isolates [default: by the settings, else native]
    #[arg(long, value_enum)]
    backend: Option<BackendOption>,
    /// What the sandbox's root is made from
    #[arg(long, value_name = "REF")]
    image: Option<String>,
    /// What the static check does with its findings [default: report]
    #[arg(long, value_enum)]
    policy: Option<PolicyOption>,
    #[command(flatten)]
    lists: Lists,
    /// Let a model review the code first
    #[arg(long)]
    review: bool,
    /// Use no warm worker and no server
    #[arg(long)]
    pub(crate) cold: bool,
    /// A layer without which nothing runs (repeatable)
    #[arg(long, value_name = "LAYER")]
    require: Vec<Layer>,
    /// A wall to do without, should this host not have it (repeatable)
    #[arg(long, value_name = "LAYER")]
    accept_missing: Vec<Layer>,
    /// Ask the server at this address, with the key in `SAGGAR_API_KEY`
    #[arg(long, value_name = "URL", conflicts_with_all = ["cold", "require", "accept_missing"])]
    pub(crate) server: Option<String>,
    /// Print the whole result as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Pass control sequences to the terminal
    #[arg(long)]
    pub(crate) raw: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum NetworkOption {
    None,
    Open,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum BackendOption {
    Native,
    Docker,
    E2b,
}

impl BackendOption {
    /// What was said, else what the environment says.
    pub(crate) fn or_by_environment(said: Option<Self>) -> Result<Option<BackendKind>, Failure> {
        Ok(match said {
            Some(Self::Native) => Some(BackendKind::Native),
            Some(Self::Docker) => Some(BackendKind::Docker),
            Some(Self::E2b) => Some(BackendKind::E2b),
            None => Settings::backend_in_environment()?,
        })
    }
}

/// What `--policy` can be.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum PolicyOption {
    /// No check
    Off,
    /// Findings are reported, nothing is refused
    Report,
    /// What is critical refuses the code, or more than 15 points in sum
    Guard,
    /// What is of medium severity or above refuses the code
    Strict,
}

impl From<PolicyOption> for Policy {
    fn from(option: PolicyOption) -> Self {
        match option {
            PolicyOption::Off => Self::Off,
            PolicyOption::Report => Self::Report,
            PolicyOption::Guard => Self::Guard,
            PolicyOption::Strict => Self::Strict,
        }
    }
}

/// Lists and rules on top of the built-in ones; `check` has them too.
#[derive(Debug, Args)]
pub(crate) struct Lists {
    /// Lists and rules of your own, as TOML
    #[arg(long, value_name = "FILE")]
    policy_file: Option<PathBuf>,
    /// A module that may be imported; without any, all may (repeatable)
    #[arg(long, value_name = "M")]
    allow_import: Vec<String>,
    /// A module that may not be imported (repeatable)
    #[arg(long, value_name = "M")]
    deny_import: Vec<String>,
}

impl Lists {
    /// A request with these lists in it.
    pub(crate) fn request(&self) -> Result<ExecRequest, Failure> {
        Ok(ExecRequest {
            allow_imports: self.allow_import.clone(),
            deny_imports: self.deny_import.clone(),
            policy_file: self.policy_file.as_deref().map(engine::read_policy_file).transpose()?,
            ..ExecRequest::default()
        })
    }
}

impl Options {
    /// The part of a request that these options decide.
    pub(crate) fn request(&self) -> Result<ExecRequest, Failure> {
        Ok(ExecRequest {
            files: self.inputs.iter().map(|text| input(text)).collect::<Result<_, _>>()?,
            env: self.environment()?,
            limits: self.limits(),
            network: match self.network {
                None | Some(NetworkOption::None) => Network::None,
                Some(NetworkOption::Open) => Network::Open,
            },
            policy: self.policy.map_or(Policy::Report, Into::into),
            backend: BackendOption::or_by_environment(self.backend)?,
            review: self.review,
            image: self.image.clone(),
            ..self.lists.request()?
        })
    }

    /// What was said here goes over what a judged task says of its own runs.
    pub(crate) fn overlay(&self, request: &ExecRequest) -> Result<Overlay, Failure> {
        let unused = [(self.stdin.is_some(), "--stdin"), (!self.inputs.is_empty(), "--file")];
        if let Some((_, option)) = unused.into_iter().find(|(is_said, _)| *is_said) {
            return Err(wrong(format!("`{option}` is not for `judge`: a task has its own inputs and files")));
        }
        Ok(Overlay {
            limits: request.limits.clone(),
            env: request.env.clone(),
            policy: self.policy.map(|_| request.policy),
            network: self.network.map(|_| request.network),
        })
    }

    /// Which layers matter to the caller.
    pub(crate) fn caller(&self) -> Caller {
        Caller {
            name: "local".to_owned(),
            accept_missing: self.accept_missing.clone(),
            require: self.require.clone(),
            ..Caller::default()
        }
    }

    /// What the program reads: `--stdin`, else our own standard input, unless that was the code.
    pub(crate) fn stdin(&self, code_was_stdin: bool) -> Result<Option<OwnedFd>, Failure> {
        if let Some(path) = &self.stdin {
            let file = File::open(path).map_err(|e| Failure::input(path, e))?;
            if file.metadata().is_ok_and(|meta| meta.is_dir()) {
                return Err(Failure::input(path, std::io::ErrorKind::IsADirectory.into()));
            }
            return Ok(Some(file.into()));
        }
        Ok(if code_was_stdin { None } else { own_stdin() })
    }

    /// The state folder whose server is asked, if any is to be.
    pub(crate) fn server_state(&self, config: Option<&Path>) -> Option<PathBuf> {
        // JSON has no word for what is not a number; the run in this process refuses it.
        let speakable = self.cpus.is_none_or(f64::is_finite);
        if self.cold || self.server.is_some() || !speakable { None } else { Settings::common_state(config) }
    }

    fn limits(&self) -> LimitsSpec {
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        LimitsSpec {
            wall_ms: self.timeout.map(ms),
            cpu_ms: self.cpu_time.map(ms),
            memory_mb: self.memory.map(mib),
            cpus: self.cpus,
            pids: self.pids,
            disk_mb: self.disk.map(mib),
            inodes: self.inodes,
            output_kb: self.output_limit.map(|bytes| bytes as f64 / 1024.0),
        }
    }

    fn environment(&self) -> Result<BTreeMap<String, String>, Failure> {
        let pair = |text: &String| {
            let (name, value) = text.split_once('=').ok_or_else(|| wrong(format!("`--env {text}` must be K=V")))?;
            Ok((name.to_owned(), value.to_owned()))
        };
        self.env.iter().map(pair).collect()
    }
}

/// Our standard input as a descriptor of its own, if it is open.
fn own_stdin() -> Option<OwnedFd> {
    std::io::stdin().as_fd().try_clone_to_owned().ok()
}

/// `SRC` or `SRC:DEST`. A file whose name has a colon in it is taken as it is.
fn input(text: &str) -> Result<InputFile, Failure> {
    let split = text.rsplit_once(':').filter(|_| !Path::new(text).exists());
    let (source, dest) = match split {
        Some((source, dest)) => (source, dest.to_owned()),
        None => (text, Path::new(text).file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()),
    };
    let source = PathBuf::from(source);
    let dest = dest.strip_prefix("/work/").unwrap_or(&dest);
    let path = RelPath::new(dest).map_err(|error| wrong(format!("`--file {text}`: {error}")))?;
    Ok(InputFile { path, content: FileContent::Host(source) })
}

/// The command that was given, such as `saggar session create`.
static COMMAND: OnceLock<String> = OnceLock::new();

/// Keeps the names of the command for whoever has to say where its help is.
pub(crate) fn remember_command(matches: &ArgMatches) {
    let mut words = vec!["saggar"];
    let mut inner = matches;
    while let Some((name, below)) = inner.subcommand() {
        words.push(name);
        inner = below;
    }
    // There is one command in a process.
    let _ = COMMAND.set(words.join(" "));
}

/// A wrong argument that clap cannot see.
pub(crate) fn wrong(message: String) -> Failure {
    let hint = format!("`{} --help` has an example", COMMAND.get().map_or("saggar", String::as_str));
    ErrorBody { code: ErrorCode::Usage, message, hint }.into()
}
