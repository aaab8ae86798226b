//! Anthropic's Messages.

use hyper::header::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::endpoint::Endpoint;
use super::error::ModelError;
use super::key::ApiKey;
use super::wire::{self, Answer, MOST_TOKENS};
use super::{ChatModel, ChatReply, ChatRequest, Finish, Role, TokenUsage};
use crate::backend::BoxFuture;

/// The most that a model may write, where nobody says: this server wants to be told.
const MAX_TOKENS: u32 = 16_384;
/// The form of the conversation.
const VERSION: &str = "2023-06-01";

/// A model of Anthropic's.
#[derive(Debug, Clone)]
pub(super) struct Anthropic {
    model: String,
    endpoint: Endpoint,
    key: Option<ApiKey>,
}

impl Anthropic {
    pub(super) fn new(model: &str, base_url: &str, key: Option<ApiKey>) -> Result<Self, ModelError> {
        let endpoint = Endpoint::with_call(base_url, "messages")?.for_key(key.as_ref())?;
        Ok(Self { model: model.to_owned(), endpoint, key })
    }
}

impl ChatModel for Anthropic {
    fn name(&self) -> &str {
        &self.model
    }

    fn chat<'a>(&'a self, request: &'a ChatRequest) -> BoxFuture<'a, Result<ChatReply, ModelError>> {
        Box::pin(async move {
            let version = (HeaderName::from_static("anthropic-version"), HeaderValue::from_static(VERSION));
            let key = self.key.as_ref().and_then(ApiKey::plain).map(|key| (HeaderName::from_static("x-api-key"), key));
            let headers = std::iter::once(version).chain(key);
            let answer = wire::post(&self.endpoint, headers, &Asked::new(&self.model, request)).await?;
            wire::without_key(read(&answer, self.key.as_ref()), self.key.as_ref())
        })
    }
}

#[derive(Serialize)]
struct Asked<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    system: String,
    messages: Vec<AskedMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

#[derive(Serialize)]
struct AskedMessage<'a> {
    role: &'static str,
    content: &'a str,
}

impl<'a> Asked<'a> {
    fn new(model: &'a str, request: &'a ChatRequest) -> Self {
        let message = |message: &'a super::Message| {
            let role = match message.role {
                Role::System => return None,
                Role::User => "user",
                Role::Assistant => "assistant",
            };
            Some(AskedMessage { role, content: &message.text })
        };
        Self {
            model,
            max_tokens: request.max_tokens.unwrap_or(MAX_TOKENS),
            system: request.system(),
            messages: request.messages.iter().filter_map(message).collect(),
            temperature: request.temperature,
        }
    }
}

#[derive(Deserialize)]
struct Told {
    content: Vec<Part>,
    stop_reason: Option<String>,
    usage: Option<ToldUsage>,
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
}

#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "the server's own names")]
struct ToldUsage {
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

fn read(answer: &Answer, key: Option<&ApiKey>) -> Result<ChatReply, ModelError> {
    let told: Told = answer.read(key, "it has no content")?;
    let usage = told.usage.map(|usage| {
        // Cached ones are counted apart here.
        let cached = usage.cache_read_input_tokens.unwrap_or(0).min(MOST_TOKENS);
        let written = usage.cache_creation_input_tokens.unwrap_or(0).min(MOST_TOKENS);
        let prompt = (usage.input_tokens.min(MOST_TOKENS) + cached + written).min(MOST_TOKENS);
        TokenUsage { prompt, cached: cached.min(prompt), completion: usage.output_tokens.min(MOST_TOKENS) }
    });
    if told.stop_reason.as_deref() == Some("refusal") {
        return Err(ModelError::Declined { usage });
    }
    let finish = if told.stop_reason.as_deref() == Some("max_tokens") { Finish::Length } else { Finish::Whole };
    let texts: Vec<String> = told.content.into_iter().filter_map(|part| part.text).collect();
    if texts.is_empty() {
        return Err(ModelError::Garbled { why: "it has no text" });
    }
    Ok(ChatReply { text: texts.concat(), finish, usage })
}
