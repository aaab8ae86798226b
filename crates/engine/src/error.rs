//! Why the engine could not carry out a run.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::llm::ModelError;
use crate::usage::LedgerError;
use types::{BackendKind, ErrorBody, ErrorCode, GuestPath, Layer, LimitError, PathError};

use crate::admission::AdmissionError;
use crate::audit::AuditError;
use crate::image::ImageError;

/// Why a backend could not isolate or watch a run.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The keeper program could not be started.
    #[error("the sandbox keeper could not be started")]
    Spawn(#[from] jail::SpawnError),
    /// The keeper went away while a run was under way.
    #[error("the sandbox keeper ended unexpectedly")]
    KeeperGone,
    /// No worker could be forked, or it was lost before its run began.
    #[error("no worker could be forked")]
    NoWorker,
    /// A layer that must be on cannot be had.
    #[error("layer `{layer}` cannot be had on this host: {step} failed")]
    Layer {
        /// Which.
        layer: Layer,
        /// What was tried.
        step: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A step of the set-up failed.
    #[error("the sandbox could not be set up: {step} failed")]
    Step {
        /// What was tried.
        step: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The program is not there, or cannot be executed.
    #[error("`{program}` cannot be started in the sandbox")]
    Program {
        /// As it was asked for.
        program: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Arguments and environment are more than a message holds.
    #[error("arguments and environment are larger than {} KiB", jail::MAX_MESSAGE >> 10)]
    TooLarge,
    /// A file of the run could not be placed or read.
    #[error("`{path}` could not be placed in the sandbox")]
    Place {
        /// Below `/work`.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// This backend has no sandboxes that stay.
    #[error("backend `{}` keeps no sessions", backend.name())]
    NoSessions {
        /// Which.
        backend: BackendKind,
    },
    /// The session's sandbox is gone, and its processes with it.
    #[error("the session's sandbox has ended")]
    PlaceGone,
    /// The process has ended.
    #[error("the process has ended")]
    ProcessGone,
    /// There is no such folder to start a program in.
    #[error("cwd `{0}` does not exist")]
    Cwd(GuestPath),
    /// The sandbox cannot give this to its processes.
    #[error("{what} cannot be had in this session")]
    Lacks {
        /// What.
        what: &'static str,
    },
    /// Processes could go on writing into what a snapshot keeps; without names it is somebody who is no process of it.
    #[error("{}", said_of_writers(.0))]
    Writers(Vec<String>),
    /// Its disk stands on more snapshots than the kernel can stack.
    #[error("the session stands on {most} snapshots, which is the most")]
    TooDeep {
        /// The most.
        most: usize,
    },
    /// A layer of a disk is not there, or not whole.
    #[error("`{0}` is no snapshot or image of this backend")]
    NoLayer(String),
    /// The file system of the state folder cannot carry the disk of a session.
    #[error("the file system of `{}` cannot carry the disk of a session", state.display())]
    NoDisk {
        /// The state folder.
        state: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It makes sandboxes from the host's own system only.
    #[error("the {} backend knows no images", backend.name())]
    NoImages {
        /// Which.
        backend: BackendKind,
    },
    /// The Docker daemon.
    #[error(transparent)]
    Docker(#[from] crate::backend::DockerError),
    /// An E2B-compatible server.
    #[error(transparent)]
    E2b(#[from] crate::backend::E2bError),
    /// Pipes and the like.
    #[error("the host ran out of descriptors or memory")]
    Host(#[source] io::Error),
}

/// What to write to get reviews.
const REVIEW_EXAMPLE: &str = "name one in ~/.config/saggar/saggar.toml, or the file that --config names:\n\n\
    [review]\nmodel = \"gpt-4o-mini\"\nbase_url = \"https://api.openai.com/v1\"   # any OpenAI-compatible server\n\
    api_key_env = \"OPENAI_API_KEY\"              # the variable that holds the key";

/// Why the engine could not carry out a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The request contradicts itself.
    #[error("{0}")]
    Request(&'static str),
    /// A path in the request is not plain.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A limit is zero, absurd or above the ceiling.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// No recipe has this name.
    #[error("unknown language `{0}`")]
    UnknownLanguage(String),
    /// The recipe's program is not installed.
    #[error("no program for language `{language}` was found (looked for {programs})")]
    InterpreterMissing {
        /// The recipe.
        language: &'static str,
        /// What was looked for.
        programs: String,
    },
    /// The program found is older than the recipe needs.
    #[error("language `{language}` needs {needs}, found {found}")]
    InterpreterOld {
        /// The recipe.
        language: &'static str,
        /// What it needs.
        needs: &'static str,
        /// What is there.
        found: String,
    },
    /// A file given by the caller cannot be read.
    #[error("cannot read `{}`", path.display())]
    Input {
        /// As the caller gave it.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Files cannot be brought back.
    #[error("cannot write `{}`", path.display())]
    Output {
        /// As the caller gave it.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The state folder cannot be used.
    #[error("the state folder `{}` cannot be used", path.display())]
    State {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The state folder is of a newer saggar.
    #[error("the state folder `{}` has version {version}, and this saggar knows version {known}", path.display())]
    NewerState {
        /// The folder.
        path: PathBuf,
        /// Its version.
        version: usize,
        /// Ours.
        known: usize,
    },
    /// A backend that makes its sandboxes from images alone.
    #[error("the Docker backend needs an image")]
    ImageNeeded,
    /// Whoever does not own the machine may use what its owner offers.
    #[error("image `{0}` is not among those that are offered here")]
    ImageNotOffered(String),
    /// The image lacks what the language needs.
    #[error("the image has no program for language `{language}` (looked for {programs})")]
    NotInImage {
        /// The recipe.
        language: &'static str,
        /// What was looked for.
        programs: String,
    },
    /// The contract has it, this version or host has not.
    #[error("{what} is not available in this version")]
    Unsupported {
        /// The option or value.
        what: String,
    },
    /// The settings do not let this caller have a way out.
    #[error("network `open` is not allowed by the settings")]
    NetworkClosed,
    /// The static check itself failed: nothing was judged, so nothing runs.
    #[error("the code could not be checked")]
    CheckFailed,
    /// A layer that the caller requires is missing.
    #[error("required layer `{layer}` is missing: {why}")]
    Required {
        /// Which.
        layer: Layer,
        /// Why it is not there.
        why: String,
    },
    /// A review was asked for and nobody is there to make it.
    #[error("there is no model to review the program: the settings have no [review]")]
    ReviewOff,
    /// A model cannot be asked.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The books cannot be kept or read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The caller was turned away for now.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// What happened cannot be recorded.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// An image cannot be made, found or removed.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

impl RunError {
    /// What a program matches on.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Request(_) | Self::Path(_) | Self::ImageNeeded | Self::ImageNotOffered(_) => {
                ErrorCode::InvalidRequest
            }
            Self::Limit(_) => ErrorCode::InvalidLimit,
            Self::UnknownLanguage(_) => ErrorCode::UnknownLanguage,
            Self::InterpreterMissing { .. } | Self::InterpreterOld { .. } | Self::NotInImage { .. } => {
                ErrorCode::InterpreterMissing
            }
            Self::Input { .. } => ErrorCode::InputUnreadable,
            Self::Output { .. } => ErrorCode::OutputUnwritable,
            Self::State { .. } | Self::NewerState { .. } | Self::Ledger(_) => ErrorCode::StateUnwritable,
            Self::Unsupported { .. } | Self::NetworkClosed => ErrorCode::Unsupported,
            Self::CheckFailed => ErrorCode::CheckFailed,
            Self::Required { .. } => ErrorCode::IsolationUnavailable,
            Self::ReviewOff | Self::Model(_) => ErrorCode::ReviewUnavailable,
            Self::Admission(error) => error.code(),
            Self::Audit(error) => error.code(),
            Self::Image(error) => error.code(),
            Self::Backend(error) => error.code(),
        }
    }

    /// When to come back, where that is all there is to do.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Admission(error) => Some(error.retry_after()),
            _ => None,
        }
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Request(_) => "`--help` of the command has an example, and /docs of a server every field".to_owned(),
            Self::Path(_) => "files go below /work: use a relative path of plain names".to_owned(),
            Self::Limit(_) => "see the defaults with `saggar run --help`".to_owned(),
            Self::UnknownLanguage(_) => format!("known languages: {}", crate::language::names()),
            Self::InterpreterMissing { language, .. } => format!(
                "install it, put it on PATH, or name it in the settings: [interpreters] {language} = \"/path/to/program\""
            ),
            Self::InterpreterOld { language, .. } => {
                format!(
                    "install a newer one, or name it in the settings: [interpreters] {language} = \"/path/to/program\""
                )
            }
            Self::ImageNeeded => "name one: --image REF, or `image` of [docker] in the settings".to_owned(),
            Self::ImageNotOffered(_) => "the owner offers images in `images` of [docker], and templates in `templates` of [e2b.backend] in the settings".to_owned(),
            Self::NotInImage { .. } => "choose an image that has it: --image REF".to_owned(),
            Self::Input { .. } => "check that the file exists and that you may read it".to_owned(),
            Self::Output { .. } => "check the folder's permissions and free space".to_owned(),
            Self::NewerState { .. } => "use the newer saggar, or set SAGGAR_HOME to another folder".to_owned(),
            Self::State { .. } => "set SAGGAR_HOME to a folder that you may write".to_owned(),
            Self::Unsupported { .. } => "`saggar --help` lists what this version has".to_owned(),
            Self::NetworkClosed => {
                "the owner of this machine allows it in the settings: [network] open = \"owner\" or \"everybody\""
                    .to_owned()
            }
            Self::CheckFailed => "this is a defect of saggar: please report it with the code".to_owned(),
            Self::Required { .. } => "`saggar doctor` says how to get it".to_owned(),
            Self::ReviewOff => REVIEW_EXAMPLE.to_owned(),
            Self::Model(error) => error.hint(),
            Self::Ledger(error) => error.hint().to_owned(),
            Self::Admission(error) => error.hint(),
            Self::Audit(error) => error.hint(),
            Self::Image(error) => error.hint().to_owned(),
            Self::Backend(error) => error.hint(),
        }
    }

    /// The wire form. The kernel's own words are part of the message: they say what a person must change.
    #[must_use]
    pub fn body(&self) -> ErrorBody {
        let mut message = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            let text = error.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            source = error.source();
        }
        ErrorBody { code: self.code(), message, hint: self.hint() }
    }
}

impl BackendError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Layer { .. } => ErrorCode::IsolationUnavailable,
            Self::Program { .. } => ErrorCode::ProgramMissing,
            Self::TooLarge | Self::Cwd(_) | Self::Writers(_) | Self::TooDeep { .. } => ErrorCode::InvalidRequest,
            Self::Place { source, .. } if is_full(source) => ErrorCode::InvalidRequest,
            Self::Host(_) => ErrorCode::ResourcesExhausted,
            Self::NoSessions { .. } | Self::NoImages { .. } | Self::Lacks { .. } | Self::NoDisk { .. } => {
                ErrorCode::Unsupported
            }
            Self::Docker(error) => error.code(),
            Self::E2b(error) => error.code(),
            Self::PlaceGone | Self::ProcessGone | Self::NoLayer(_) => ErrorCode::NotFound,
            Self::Spawn(_) | Self::KeeperGone | Self::NoWorker | Self::Step { .. } | Self::Place { .. } => {
                ErrorCode::SandboxFailed
            }
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::Step { step, .. } | Self::Layer { step, .. } if step == jail::NETWORK_STEP => {
                "the host must have /dev/net/tun and let you open it: modprobe tun; in Docker: --device /dev/net/tun"
                    .to_owned()
            }
            Self::Layer { step, .. } if step == jail::STACK_STEP => {
                "images need overlay: Linux 5.11 or newer with CONFIG_OVERLAY_FS, and mounts allowed in a user namespace"
                    .to_owned()
            }
            Self::Layer { layer, .. } => crate::doctor::remedy(*layer).to_owned(),
            Self::Program { .. } => {
                "programs are looked up in the sandbox's own PATH: /usr/local/bin, /usr/bin, /bin and the folders of found interpreters"
                    .to_owned()
            }
            Self::TooLarge => "put long arguments into a file and pass it with --file or on standard input".to_owned(),
            Self::Place { source, .. } if is_full(source) => "inputs count toward --disk and --inodes: raise them".to_owned(),
            Self::Host(_) => "raise `ulimit -n`, or run fewer programs at once".to_owned(),
            Self::NoSessions { .. } => "use --backend native".to_owned(),
            Self::NoImages { .. } => "use --backend docker".to_owned(),
            Self::Docker(error) => error.hint(),
            Self::E2b(error) => error.hint(),
            Self::Lacks { .. } => "`saggar doctor` says what this host lacks for it; on Docker, what root would install belongs in the image".to_owned(),
            Self::NoDisk { .. } => {
                "set SAGGAR_HOME to a folder on ext4, xfs, btrfs or tmpfs: an overlay cannot lie on an overlay, nor on a network's file system"
                    .to_owned()
            }
            Self::PlaceGone => "`saggar session list` shows those that live; create another".to_owned(),
            Self::ProcessGone => "`saggar session ps ID` shows those that run".to_owned(),
            Self::Cwd(_) => "make the folder first, or leave --cwd away".to_owned(),
            Self::Writers(_) => "let them finish, or end them with --kill".to_owned(),
            Self::TooDeep { .. } => "begin a new session and copy the files into it".to_owned(),
            Self::NoLayer(_) => "`saggar session snapshots` lists snapshots".to_owned(),
            Self::Spawn(_) | Self::KeeperGone | Self::NoWorker | Self::Step { .. } | Self::Place { .. } => {
                "`saggar doctor` tries every layer and says what fails".to_owned()
            }
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

fn said_of_writers(writers: &[String]) -> String {
    if writers.is_empty() {
        return "a file of the session is open for writing, such as one that is being transferred".to_owned();
    }
    format!("processes write to the session's disk: {}", writers.join(", "))
}
