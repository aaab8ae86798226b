//! `[review]` of the settings.

use std::time::Duration;

use serde::Deserialize;

use crate::llm::{Patience, Provider};
use crate::settings::milliseconds;

/// `[review]` as written. Without it nothing is reviewed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewSettings {
    /// Who is asked.
    pub model: String,
    /// In whose words.
    #[serde(default)]
    pub provider: Provider,
    /// The provider's own server if absent; for `openai` any that is compatible.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The environment variable that holds the key. Without it `OPENAI_API_KEY` for OpenAI's own server (and so for other
    /// providers), and no key for any other: a key must not go to whom it is not meant for.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// For one try.
    #[serde(default = "ms::<60_000>", rename = "timeout_ms", deserialize_with = "milliseconds")]
    pub timeout: Duration,
    /// Further tries after the first.
    #[serde(default = "two")]
    pub retries: u32,
    /// For all tries, the second question included.
    #[serde(default = "ms::<180_000>", rename = "deadline_ms", deserialize_with = "milliseconds")]
    pub deadline: Duration,
    /// The first pause between tries; each further one may be twice as long.
    #[serde(default = "ms::<500>", rename = "backoff_ms", deserialize_with = "milliseconds")]
    pub backoff: Duration,
    /// What a review without an answer means.
    #[serde(default)]
    pub on_error: OnError,
    /// An approval that is less sure than this is none.
    #[serde(default = "half")]
    pub min_confidence: f64,
    /// Names that a program may call without being suspect for it.
    #[serde(default)]
    pub allowed_tools: Vec<String>,
    /// Whether every run is reviewed, asked for or not.
    #[serde(default)]
    pub always: bool,
    /// Reviews at once; others wait.
    #[serde(default = "eight")]
    pub parallel: usize,
}

/// What a review without an answer means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// The program does not run.
    #[default]
    Refuse,
    /// It runs, and a finding says that nobody looked.
    Allow,
}

impl ReviewSettings {
    /// What is wrong with them, if anything.
    pub(crate) fn wrong(&self) -> Option<&'static str> {
        if self.model.trim().is_empty() {
            return Some("`model` must not be empty");
        }
        if self.provider.open(&self.model, self.base_url(), None).is_err() {
            return Some("`base_url` must be like \"https://host/v1\", without user and password");
        }
        if !(0.0..=1.0).contains(&self.min_confidence) {
            return Some("`min_confidence` must be from 0 to 1");
        }
        let sane = Duration::from_millis(1)..=Duration::from_hours(24);
        if !sane.contains(&self.timeout) || !sane.contains(&self.deadline) || self.backoff > *sane.end() {
            return Some("`timeout_ms`, `deadline_ms` and `backoff_ms` must be above 0 and at most a day");
        }
        // Above, a semaphore would panic; nobody means it.
        if !(1..=1000).contains(&self.parallel) {
            return Some("`parallel` must be from 1 to 1000");
        }
        None
    }

    pub(crate) fn patience(&self) -> Patience {
        let Self { timeout, retries, deadline, backoff, .. } = *self;
        Patience { timeout, retries, deadline, backoff }
    }

    pub(crate) fn key_variable(&self) -> Option<&str> {
        let usual = (self.base_url() == self.provider.base_url()).then(|| self.provider.key_variable());
        self.api_key_env.as_deref().or(usual)
    }

    /// Where it is asked.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.base_url.as_deref().unwrap_or(self.provider.base_url())
    }
}

fn ms<const N: u64>() -> Duration {
    Duration::from_millis(N)
}

fn two() -> u32 {
    2
}

fn eight() -> usize {
    8
}

fn half() -> f64 {
    0.5
}
