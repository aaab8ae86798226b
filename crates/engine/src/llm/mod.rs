//! Chat models: one call is messages in, text and usage out.
//!
//! [`ChatModel`] is one try at one model. [`Client`] is what the rest of the house uses: it tries again where that can
//! help, and every try is in the books.

mod anthropic;
mod client;
mod endpoint;
mod error;
mod gemini;
mod key;
mod openai;
mod provider;
mod wire;

use crate::backend::BoxFuture;

pub use client::{Client, Patience};
pub use endpoint::{Endpoint, OPENAI};
pub use error::{ModelError, Said};
pub use key::ApiKey;
pub(crate) use key::presentable;
pub use openai::OpenAi;
pub use provider::Provider;
pub(crate) use wire::open;
pub use wire::trust;

/// A model that can be talked to.
pub trait ChatModel: Send + Sync {
    /// The name in the books.
    fn name(&self) -> &str;
    /// One try: no retries, no books. Bounded in time by whoever calls.
    fn chat<'a>(&'a self, request: &'a ChatRequest) -> BoxFuture<'a, Result<ChatReply, ModelError>>;
}

/// One question, with everything that was said before it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChatRequest {
    /// In order.
    pub messages: Vec<Message>,
    /// What the text must be.
    pub format: ReplyFormat,
    /// The model's own default if absent: some models refuse any other.
    pub temperature: Option<f64>,
    /// The most that the model may write; its own limit if absent.
    pub max_tokens: Option<u32>,
    /// For servers that can repeat themselves.
    pub seed: Option<u64>,
}

impl ChatRequest {
    /// What the model is told to be, for servers that want it apart.
    fn system(&self) -> String {
        let system = self.messages.iter().filter(|message| message.role == Role::System);
        system.map(|message| message.text.as_str()).collect::<Vec<_>>().join("\n\n")
    }
}

/// One thing that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// By whom.
    pub role: Role,
    /// What.
    pub text: String,
}

impl Message {
    /// What we tell the model to be.
    #[must_use]
    pub fn system(text: impl Into<String>) -> Self {
        Self { role: Role::System, text: text.into() }
    }

    /// What we ask.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, text: text.into() }
    }

    /// What the model said.
    #[must_use]
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: Role::Assistant, text: text.into() }
    }
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// We, about what the model is to do.
    System,
    /// We, with what it is to do it on.
    User,
    /// The model.
    Assistant,
}

/// What the reply must be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReplyFormat {
    /// Anything.
    #[default]
    Text,
    /// One JSON object, as far as the server can see to it.
    Json,
}

/// What a model said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatReply {
    /// The text.
    pub text: String,
    /// Whether that is all of it.
    pub finish: Finish,
    /// What it took; `None` if the server does not tell.
    pub usage: Option<TokenUsage>,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It had said everything.
    Whole,
    /// It reached the most that it may write.
    Length,
}

/// Tokens of one call, by the server's own count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Sent, cached ones included.
    pub prompt: u64,
    /// Those of the prompt that the server had seen before.
    pub cached: u64,
    /// Written by the model.
    pub completion: u64,
}
