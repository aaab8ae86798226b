//! Servers that speak OpenAI's chat completions: most do, under their own `base_url`.

use hyper::header::AUTHORIZATION;
use serde::{Deserialize, Serialize};

use super::endpoint::Endpoint;
use super::error::ModelError;
use super::key::ApiKey;
use super::wire::{self, Answer, MOST_TOKENS};
use super::{ChatModel, ChatReply, ChatRequest, Finish, Message, ReplyFormat, Role, TokenUsage};
use crate::backend::BoxFuture;

/// A model behind an OpenAI-compatible server.
#[derive(Debug, Clone)]
pub struct OpenAi {
    model: String,
    endpoint: Endpoint,
    key: Option<ApiKey>,
}

impl OpenAi {
    /// Nothing is sent yet. A key is not sent where others could read it: TLS or loopback only.
    pub fn new(model: impl Into<String>, endpoint: Endpoint, key: Option<ApiKey>) -> Result<Self, ModelError> {
        let endpoint = endpoint.for_key(key.as_ref())?;
        Ok(Self { model: model.into(), endpoint, key })
    }
}

impl ChatModel for OpenAi {
    fn name(&self) -> &str {
        &self.model
    }

    fn chat<'a>(&'a self, request: &'a ChatRequest) -> BoxFuture<'a, Result<ChatReply, ModelError>> {
        Box::pin(async move {
            let key = self.key.as_ref().and_then(ApiKey::header).map(|key| (AUTHORIZATION, key));
            let answer = wire::post(&self.endpoint, key, &Asked::new(&self.model, request)).await?;
            wire::without_key(read(&answer, self.key.as_ref()), self.key.as_ref())
        })
    }
}

#[derive(Serialize)]
struct Asked<'a> {
    model: &'a str,
    messages: Vec<AskedMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Format>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

#[derive(Serialize)]
struct AskedMessage<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct Format {
    #[serde(rename = "type")]
    kind: &'static str,
}

impl<'a> Asked<'a> {
    fn new(model: &'a str, request: &'a ChatRequest) -> Self {
        let message = |message: &'a Message| AskedMessage {
            role: match message.role {
                Role::System => "system",
                Role::User => "user",
                Role::Assistant => "assistant",
            },
            content: &message.text,
        };
        Self {
            model,
            messages: request.messages.iter().map(message).collect(),
            response_format: match request.format {
                ReplyFormat::Text => None,
                ReplyFormat::Json => Some(Format { kind: "json_object" }),
            },
            temperature: request.temperature,
            max_tokens: request.max_tokens,
            seed: request.seed,
        }
    }
}

#[derive(Deserialize)]
struct Told {
    choices: Vec<Choice>,
    usage: Option<ToldUsage>,
}

#[derive(Deserialize)]
struct Choice {
    message: ToldMessage,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct ToldMessage {
    content: Option<String>,
    refusal: Option<String>,
}

#[derive(Deserialize)]
struct ToldUsage {
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
}

fn read(answer: &Answer, key: Option<&ApiKey>) -> Result<ChatReply, ModelError> {
    let garbled = |why| ModelError::Garbled { why };
    let told: Told = answer.read(key, "it has no choices")?;
    let usage = told.usage.map(|usage| TokenUsage {
        prompt: usage.prompt_tokens.min(MOST_TOKENS),
        cached: usage
            .prompt_tokens_details
            .and_then(|details| details.cached_tokens)
            .unwrap_or(0)
            .min(usage.prompt_tokens)
            .min(MOST_TOKENS),
        completion: usage.completion_tokens.min(MOST_TOKENS),
    });
    let choice = told.choices.into_iter().next().ok_or_else(|| garbled("it has no choices"))?;
    if choice.message.refusal.is_some() || choice.finish_reason.as_deref() == Some("content_filter") {
        return Err(ModelError::Declined { usage });
    }
    let finish = if choice.finish_reason.as_deref() == Some("length") { Finish::Length } else { Finish::Whole };
    let text = choice.message.content.ok_or_else(|| garbled("it has no text"))?;
    Ok(ChatReply { text, finish, usage })
}
