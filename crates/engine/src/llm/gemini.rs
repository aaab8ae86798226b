//! Google's Gemini, by `generateContent`.

use hyper::header::HeaderName;
use serde::{Deserialize, Serialize};

use super::endpoint::Endpoint;
use super::error::ModelError;
use super::key::ApiKey;
use super::wire::{self, Answer, MOST_TOKENS};
use super::{ChatModel, ChatReply, ChatRequest, Finish, ReplyFormat, Role, TokenUsage};
use crate::backend::BoxFuture;

/// A Gemini model.
#[derive(Debug, Clone)]
pub(super) struct Gemini {
    model: String,
    endpoint: Endpoint,
    key: Option<ApiKey>,
}

impl Gemini {
    pub(super) fn new(model: &str, base_url: &str, key: Option<ApiKey>) -> Result<Self, ModelError> {
        // Its name is part of the address here.
        let name = model.strip_prefix("models/").unwrap_or(model);
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
        if !is_name {
            return Err(ModelError::Address { why: "the model's name cannot be part of it" });
        }
        let endpoint =
            Endpoint::with_call(base_url, &format!("models/{name}:generateContent"))?.for_key(key.as_ref())?;
        Ok(Self { model: model.to_owned(), endpoint, key })
    }
}

impl ChatModel for Gemini {
    fn name(&self) -> &str {
        &self.model
    }

    fn chat<'a>(&'a self, request: &'a ChatRequest) -> BoxFuture<'a, Result<ChatReply, ModelError>> {
        Box::pin(async move {
            let key =
                self.key.as_ref().and_then(ApiKey::plain).map(|key| (HeaderName::from_static("x-goog-api-key"), key));
            let answer = wire::post(&self.endpoint, key, &Asked::new(request)).await?;
            wire::without_key(read(&answer, self.key.as_ref()), self.key.as_ref())
        })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Asked<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content<'a>>,
    contents: Vec<Content<'a>>,
    generation_config: Config,
}

#[derive(Serialize)]
struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: [AskedPart<'a>; 1],
}

#[derive(Serialize)]
struct AskedPart<'a> {
    text: std::borrow::Cow<'a, str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
}

impl<'a> Asked<'a> {
    fn new(request: &'a ChatRequest) -> Self {
        let system = request.system();
        let content = |message: &'a super::Message| {
            let role = match message.role {
                Role::System => return None,
                Role::User => "user",
                Role::Assistant => "model",
            };
            Some(Content { role: Some(role), parts: [AskedPart { text: message.text.as_str().into() }] })
        };
        Self {
            system_instruction: (!system.is_empty())
                .then(|| Content { role: None, parts: [AskedPart { text: system.into() }] }),
            contents: request.messages.iter().filter_map(content).collect(),
            generation_config: Config {
                temperature: request.temperature,
                max_output_tokens: request.max_tokens,
                // It takes numbers of 31 bits.
                seed: request.seed.map(|seed| seed & 0x7fff_ffff),
                response_mime_type: (request.format == ReplyFormat::Json).then_some("application/json"),
            },
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    #[serde(default)]
    candidates: Vec<Candidate>,
    prompt_feedback: Option<serde_json::Value>,
    usage_metadata: Option<ToldUsage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<ToldContent>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct ToldContent {
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
    /// What the model has said to itself.
    #[serde(default)]
    thought: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_field_names, reason = "the server's own names")]
struct ToldUsage {
    prompt_token_count: u64,
    cached_content_token_count: u64,
    candidates_token_count: u64,
    thoughts_token_count: u64,
}

fn read(answer: &Answer, key: Option<&ApiKey>) -> Result<ChatReply, ModelError> {
    let told: Told = answer.read(key, "it has no candidates")?;
    let usage = told.usage_metadata.map(|usage| {
        let prompt = usage.prompt_token_count.min(MOST_TOKENS);
        let thought = usage.thoughts_token_count.min(MOST_TOKENS);
        TokenUsage {
            prompt,
            cached: usage.cached_content_token_count.min(prompt),
            completion: (usage.candidates_token_count.min(MOST_TOKENS) + thought).min(MOST_TOKENS),
        }
    });
    let Some(candidate) = told.candidates.into_iter().next() else {
        return Err(match told.prompt_feedback {
            Some(_) => ModelError::Declined { usage },
            None => ModelError::Garbled { why: "it has no candidates" },
        });
    };
    let finish = match candidate.finish_reason.as_deref() {
        Some("MAX_TOKENS") => Finish::Length,
        Some("SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII") => {
            return Err(ModelError::Declined { usage });
        }
        _ => Finish::Whole,
    };
    let parts = candidate.content.map(|content| content.parts).unwrap_or_default();
    let texts: Vec<String> = parts.into_iter().filter(|part| !part.thought).filter_map(|part| part.text).collect();
    if texts.is_empty() {
        return Err(ModelError::Garbled { why: "it has no text" });
    }
    Ok(ChatReply { text: texts.concat(), finish, usage })
}
