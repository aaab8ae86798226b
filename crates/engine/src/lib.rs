//! The corridor behind every door: admit, review, acquire, run, record.

mod admission;
mod audit;
mod backend;
mod capture;
mod check;
mod command;
mod database;
mod doctor;
mod e2b_settings;
mod engine;
mod error;
mod exception;
mod feedback;
mod files;
#[doc(hidden)]
pub mod fuzz;
mod id;
mod image;
mod interpreter;
mod job_settings;
mod kept;
mod language;
mod layers;
pub mod llm;
mod metrics;
mod model_review;
mod network;
mod policy_settings;
mod pool;
mod queue;
mod review;
mod run;
mod server_settings;
mod session;
mod settings;
mod show_settings;
mod state;
mod station;
pub mod usage;
mod watch;

pub use admission::{AdmissionError, Pass};
pub use audit::{Audit, AuditError, Bad, ChainReport, Entry, Filter, Kind, Reader, Record};
pub use backend::{
    Backend, BoxFuture, Cancel, Capabilities, Command, Connection, Control, DiskArchive, DockerError, DockerReport,
    DockerSettings, E2bBackendSettings, E2bError, Ended, FileChange, FileContentStream, FileEntry, FileError,
    FileEvent, FileKind, Gone, GuestUser, ImageFacts, LayerId, Marks, Origin, Output, Packages, Place, PlaceFiles,
    PlaceSpec, PlaceUsage, Process, ProcessSpec, Reach, Sandbox, SandboxSpec, Snapshotted, Stdin, Stream, TerminalSize,
    Unpacked, WorkerKind, WorkerSpec, Writers,
};
pub use check::{Checked, check};
pub use database::{DatabaseError, open as open_database};
pub use doctor::{LanguageReport, LayerReport, Report, SessionsReport};
pub use e2b_settings::E2bSettings;
pub use engine::{Admission, Caller, Delivery, Engine, Harness, MOST_AT_ONCE, Standing};
pub use error::{BackendError, RunError};
pub use exception::parse_report;
pub use feedback::hint_for_exception;
pub use files::{Content, Executable, Input, Inputs, Made, Opened, OutFolder, OwnFiles, Receive, Received, Tree};
pub use id::new_id;
pub use image::{Base, Build, HeldImage, Image, ImageError, Images, Imported, Sources, System};
pub use interpreter::{About, Cell, CellEnd, CellFrame, CellOutput, Driver, Interpreter, InterpreterError, MOST_LINE};
pub use job_settings::{JobModel, JobSettings};
pub use kept::{Kept, KeptReport, Prune, Pruned};
pub use language::{Found, Recipe, for_file_name, program_of};
pub use layers::{Held, LayerError, LayerName, LayerRecord, Store};
pub use metrics::{BOUNDS, Counts, Gauges, Histogram, Metrics};
pub use model_review::{OnError, Opinion, ReviewSettings, Verdict};
pub use network::{NetworkSettings, Rules as NetworkRules, WhoMay};
pub use policy_settings::{PolicySettings, read_policy_file};
pub use pool::Foresight;
pub use run::Built;
pub use server_settings::{LogForm, ServerSettings, TlsFiles};
pub use session::{
    CellSpec, Change, CommandSpec, ContextInfo, Difference, Differences, FilePass, Heard, Listener, Onto, ProcessInfo,
    Running, Session, SessionError, SessionInfo, SessionSpec, SessionState, Snapshot, SnapshotSpec, Spoken,
    Surroundings, Watching, Way,
};
pub use settings::{
    AdmissionSettings, Allowance, AuditSettings, FusionSettings, PoolSettings, Settings, SettingsError,
};
pub use watch::{Facts, Step, Trace, Watched, Watcher};
