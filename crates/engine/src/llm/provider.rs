//! Who serves models, and in which words they are asked there.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ChatModel;
use super::anthropic::Anthropic;
use super::endpoint::{Endpoint, OPENAI};
use super::error::ModelError;
use super::gemini::Gemini;
use super::key::ApiKey;
use super::openai::OpenAi;

/// Who serves models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// OpenAI, and every server that speaks its chat completions.
    #[default]
    #[serde(rename = "openai")]
    OpenAi,
    /// Anthropic's Messages.
    Anthropic,
    /// Google's Gemini.
    Gemini,
}

impl Provider {
    /// Its own server.
    #[must_use]
    pub const fn base_url(self) -> &'static str {
        match self {
            Self::OpenAi => OPENAI,
            Self::Anthropic => "https://api.anthropic.com/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta",
        }
    }

    /// The environment variable that usually holds a key for it.
    #[must_use]
    pub const fn key_variable(self) -> &'static str {
        match self {
            Self::OpenAi => "OPENAI_API_KEY",
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::Gemini => "GEMINI_API_KEY",
        }
    }

    /// A model there. Nothing is sent yet.
    pub fn open(self, model: &str, base_url: &str, key: Option<ApiKey>) -> Result<Arc<dyn ChatModel>, ModelError> {
        Ok(match self {
            Self::OpenAi => Arc::new(OpenAi::new(model, Endpoint::parse(base_url)?, key)?),
            Self::Anthropic => Arc::new(Anthropic::new(model, base_url, key)?),
            Self::Gemini => Arc::new(Gemini::new(model, base_url, key)?),
        })
    }
}
