//! Model review: a second opinion on a program before it runs.
//!
//! The program is data between marks that it cannot know, the answer must have one form, and whatever is not a clear
//! yes is a no, unless the settings say that no answer shall do.

mod cache;
mod prompt;
mod reply;
mod settings;
mod subject;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use tokio::sync::Semaphore;
use types::{ExecRequest, Finding, Policy, Severity};

use crate::error::RunError;
use crate::llm::{ApiKey, ChatModel, ChatRequest, Client, Finish, Message, ModelError, ReplyFormat};
use crate::usage::{Books, Totals};
use cache::Cache;
use reply::{Remark, Reply, clean};
use subject::{Subject, Unreadable};

pub use reply::Verdict;
pub use settings::{OnError, ReviewSettings};
pub(crate) use subject::read_own_files;

/// Who asks, in the books.
pub(crate) const COMPONENT: &str = "review";
/// The most of a misfit answer that is said back to the model.
const MAX_SAID_BACK: usize = 4 << 10;

/// What a model's review came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Opinion {
    /// The rule that refuses the run, if it is refused.
    pub refused_by: Option<&'static str>,
    /// What the model said; `None` if there was no answer that fits.
    pub verdict: Option<Verdict>,
    /// How sure it was.
    pub confidence: Option<f64>,
    /// What it saw, and what we make of it.
    pub findings: Vec<Finding>,
    /// Who was asked.
    pub model: String,
    /// Whether the verdict was known from before.
    pub cached: bool,
    /// What it took.
    pub usage: Totals,
}

/// Asks a model about programs. One for each engine.
pub(crate) struct Reviewer {
    settings: ReviewSettings,
    state: PathBuf,
    cache: OnceLock<Option<Cache>>,
    /// Programs come in crowds, and every one of them could cost money.
    slots: Semaphore,
}

impl Reviewer {
    pub(crate) fn new(settings: ReviewSettings, state: &Path) -> Self {
        let slots = Semaphore::new(settings.parallel);
        Self { settings, state: state.to_path_buf(), cache: OnceLock::new(), slots }
    }

    /// Whether this request must be reviewed.
    pub(crate) fn is_wanted(&self, request: &ExecRequest) -> bool {
        request.review || self.settings.always
    }

    /// Asks about a request's program. An `Err` is a mistake in the settings or the request: such a review is never
    /// left out in silence, whatever `on_error` says.
    pub(crate) async fn review(&self, request: &ExecRequest, books: Books) -> Result<Opinion, RunError> {
        let model = self.model()?;
        let subject = match Subject::of(request)? {
            Ok(subject) => subject,
            // Not a failure of ours: whoever writes the program chooses this.
            Err(unreadable) => return Ok(self.unreadable(&unreadable)),
        };
        let key = self.fingerprint(&subject, request.policy);
        if let Some(reply) = self.cache().and_then(|cache| cache.get(&key)) {
            return Ok(Opinion { cached: true, ..self.judged(reply, Totals::default()) });
        }
        let client = Client::new(model, self.settings.patience(), books);
        let slot = self.slots.acquire().await;
        let asked = self.ask(&client, &subject).await;
        drop(slot);
        match asked {
            Ok(reply) => {
                if let Some(cache) = self.cache() {
                    // A verdict that is not kept is asked for again, which costs money and nothing else.
                    let _ = cache.put(&key, &reply);
                }
                Ok(self.judged(reply, client.totals()))
            }
            Err(NoAnswer::Model(error)) if error.is_setup() => Err(error.into()),
            Err(error) => Ok(self.failed(&error, client.totals())),
        }
    }

    fn model(&self) -> Result<Arc<dyn ChatModel>, ModelError> {
        let key = match self.settings.key_variable() {
            None => None,
            Some(variable) => {
                let key = ApiKey::from_environment(variable)?;
                Some(key.ok_or_else(|| ModelError::Key { variable: variable.to_owned() })?)
            }
        };
        self.settings.provider.open(&self.settings.model, self.settings.base_url(), key)
    }

    fn fingerprint(&self, subject: &Subject, policy: Policy) -> [u8; 32] {
        let version = prompt::VERSION.to_string();
        let policy = format!("{policy:?}");
        let tools = self.settings.allowed_tools.join("\n");
        let circumstances = [version.as_str(), &self.settings.model, self.settings.base_url(), &policy, &tools];
        subject.fingerprint(circumstances.into_iter())
    }

    fn cache(&self) -> Option<&Cache> {
        self.cache.get_or_init(|| Cache::open(&self.state).ok()).as_ref()
    }

    /// One question, and one more if the answer does not fit.
    async fn ask(&self, client: &Client, subject: &Subject) -> Result<Reply, NoAnswer> {
        let until = client.deadline();
        let messages = prompt::messages(subject, &self.settings.allowed_tools);
        let mut request = ChatRequest { messages, format: ReplyFormat::Json, ..ChatRequest::default() };
        let first = client.chat(&request, until).await?;
        let misfit = match Reply::read(&first.text, subject.lines()) {
            Ok(reply) => return Ok(reply),
            Err(misfit) => misfit,
        };
        let why = match first.finish {
            Finish::Whole => misfit.to_string(),
            Finish::Length => format!("{misfit}; it was cut off at its greatest length, so be brief"),
        };
        let said: String = first.text.chars().take(MAX_SAID_BACK).collect();
        request.messages.extend([Message::assistant(said), prompt::repair(&why)]);
        let second = client.chat(&request, until).await?;
        Reply::read(&second.text, subject.lines()).map_err(NoAnswer::Misfit)
    }

    /// Whatever is not a clear yes is a no.
    fn judged(&self, reply: Reply, usage: Totals) -> Opinion {
        let Reply { verdict, confidence, findings } = reply;
        let sure = confidence >= self.settings.min_confidence;
        let (refused_by, message) = match verdict {
            Verdict::Approve if sure => (None, String::new()),
            Verdict::Approve => (
                Some("review.unsure"),
                format!("the model approves with confidence {confidence}, below {}", self.settings.min_confidence),
            ),
            Verdict::Unsure => (Some("review.unsure"), "the model cannot tell whether the program may run".to_owned()),
            Verdict::Reject => {
                (Some("review.rejected"), format!("the model rejects the program with confidence {confidence}"))
            }
        };
        let mut seen: Vec<Finding> =
            refused_by.map(|rule| ours(rule, Severity::High, message, true)).into_iter().collect();
        seen.extend(findings.into_iter().map(theirs));
        let (verdict, confidence) = (Some(verdict), Some(confidence));
        Opinion { refused_by, verdict, confidence, findings: seen, usage, ..self.nothing() }
    }

    fn unreadable(&self, why: &Unreadable) -> Opinion {
        let rule = "review.unreadable";
        let findings = vec![ours(rule, Severity::High, why.to_string(), true)];
        Opinion { refused_by: Some(rule), findings, ..self.nothing() }
    }

    fn failed(&self, error: &NoAnswer, usage: Totals) -> Opinion {
        let rule = "review.failed";
        let message = clean(&format!("there is no review: {error}"));
        let (refused_by, finding) = match self.settings.on_error {
            OnError::Refuse => (Some(rule), ours(rule, Severity::High, message, true)),
            OnError::Allow => (None, ours(rule, Severity::Medium, message, false)),
        };
        Opinion { refused_by, findings: vec![finding], usage, ..self.nothing() }
    }

    fn nothing(&self) -> Opinion {
        Opinion {
            refused_by: None,
            verdict: None,
            confidence: None,
            findings: Vec::new(),
            model: self.settings.model.clone(),
            cached: false,
            usage: Totals::default(),
        }
    }
}

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("the model's answer does not fit, and did not when it was asked again: {0}")]
    Misfit(#[source] reply::Misfit),
}

/// The verdict decides about a run, so findings have no points to add up.
fn ours(rule: &str, severity: Severity, message: String, blocks: bool) -> Finding {
    Finding { rule: rule.to_owned(), severity, points: 0, line: 1, column: 1, message, blocks, file: None }
}

fn theirs(Remark { line, severity, message }: Remark) -> Finding {
    Finding {
        rule: "review.finding".to_owned(),
        severity,
        points: 0,
        line,
        column: 1,
        message,
        blocks: false,
        file: None,
    }
}
