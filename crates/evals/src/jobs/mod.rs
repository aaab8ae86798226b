//! Work that takes long and that somebody else asks for: evolutions and patches on repositories, in the background of a
//! server.
//!
//! Who asks is not the owner of the host. His order carries everything that it needs, and names nothing of the host but
//! what the settings name for him: no command, no path, no server's address, no variable with a key. What an order asks
//! for and may not have is told before it is accepted.

mod error;
mod evolution;
mod patches;

use std::path::PathBuf;
use std::sync::Arc;

use engine::{Caller, Engine, JobSettings};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use error::JobError;
pub use evolution::EvolveOrder;
pub use patches::{Patches, SweOrder};

/// What somebody asks for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Order {
    /// Programs that are proposed, tried and improved.
    Evolve(EvolveOrder),
    /// Patches on repositories, graded.
    Swe(SweOrder),
}

/// What of the host an order may use.
pub struct Rules<'a> {
    /// By the settings.
    pub settings: &'a JobSettings,
    /// Runs that the host carries out at once.
    pub places: usize,
    /// Where an earlier job of the same caller is, by its name.
    pub earlier: &'a dyn Fn(&str) -> Option<PathBuf>,
}

/// An order that can be carried out.
pub enum Work {
    /// Programs that are proposed, tried and improved.
    Evolve(Box<evolution::Work>),
    /// Patches on repositories, graded.
    Swe(Box<patches::Work>),
}

/// Where work is done, for whom, and who hears of it.
#[derive(Clone)]
pub struct Site {
    /// The job's name.
    pub id: String,
    /// What it keeps is here. Work that was cut short goes on from what it finds.
    pub folder: PathBuf,
    /// Whose sandboxes.
    pub engine: Arc<Engine>,
    /// Who asked.
    pub caller: Caller,
    /// Hears of every step.
    pub listener: Arc<dyn Fn(Step) + Send + Sync>,
}

/// One thing that happened.
#[derive(Debug, Clone)]
pub struct Step {
    /// In a word.
    pub name: &'static str,
    /// In full.
    pub data: Value,
    /// How far it is now.
    pub progress: Progress,
}

/// How far a job is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Iterations or instances.
    pub done: u64,
    /// As many as there may be.
    pub total: u64,
    /// The best score so far, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<f64>,
}

impl Order {
    /// Reads what somebody has sent.
    pub fn read(json: &[u8]) -> Result<Self, JobError> {
        serde_json::from_slice(json).map_err(|error| JobError::Form(error.to_string()))
    }

    /// In a word.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Evolve(_) => "evolve",
            Self::Swe(_) => "swe",
        }
    }

    /// What there is to do; everything that can be wrong before it begins is told here.
    pub fn plan(&self, rules: &Rules<'_>) -> Result<Work, JobError> {
        Ok(match self {
            Self::Evolve(order) => Work::Evolve(Box::new(order.plan(rules)?)),
            Self::Swe(order) => Work::Swe(Box::new(order.plan(rules)?)),
        })
    }
}

impl Work {
    /// How far it is before it begins.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let total = match self {
            Self::Evolve(work) => work.total(),
            Self::Swe(work) => work.total(),
        };
        Progress { total, ..Progress::default() }
    }

    /// Does it, or what is left of it. To be dropped by whoever takes it back: nothing of it goes on then.
    pub async fn carry_out(&self, site: &Site) -> Result<Value, JobError> {
        let done = match self {
            Self::Evolve(work) => work.carry_out(site).await,
            Self::Swe(work) => work.carry_out(site).await,
        };
        // Whoever asked has no business with paths of this host.
        done.map_err(|error| error.without(&site.folder, "the job's folder"))
    }
}
