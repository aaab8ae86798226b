//! Who proposes programs, as a task says it.

use std::path::PathBuf;

use engine::llm::Provider;
use serde::{Deserialize, Serialize};

/// Who proposes programs, as written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GeneratorSpec {
    /// Of which kind.
    pub kind: GeneratorKind,
    /// Who is asked.
    pub model: Option<String>,
    /// In whose words.
    pub provider: Provider,
    /// The provider's own server if absent; for `openai` any that is compatible.
    pub base_url: Option<String>,
    /// The environment variable that holds the key; `OPENAI_API_KEY` or its like if absent.
    pub api_key_env: Option<String>,
    /// Several, in place of `model`.
    pub models: Vec<ModelSpec>,
    /// How one of several is chosen.
    pub choose: Choose,
    /// The model's own default if absent.
    pub temperature: Option<f64>,
    /// The most that the model may write in one answer.
    pub max_tokens: Option<u32>,
    /// For one call.
    pub timeout_ms: Option<u64>,
    /// Further tries of a call that failed.
    pub retries: Option<u32>,
    /// The first pause before another try.
    pub backoff_ms: Option<u64>,
    /// What answers should look like.
    pub edits: Edits,
    /// The program of kind `command`, and its arguments.
    #[serde(deserialize_with = "words")]
    pub command: Vec<String>,
    /// For kind `replay`: the run, by its id or folder.
    pub from: Option<String>,
    /// For kind `manual`: the folder of questions and answers.
    pub queue: Option<PathBuf>,
    /// For kind `mutate`: how often each mutator is used.
    pub mutations: Mutations,
}

/// A list of words, or one line of them.
fn words<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        Line(String),
        List(Vec<String>),
    }
    Ok(match Words::deserialize(deserializer)? {
        Words::Line(line) => line.split_whitespace().map(str::to_owned).collect(),
        Words::List(list) => list,
    })
}

/// Who proposes programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GeneratorKind {
    /// A chat model.
    #[default]
    Model,
    /// A program of the caller's own.
    Command,
    /// A recorded run.
    Replay,
    /// A person.
    Manual,
    /// Changes of the syntax tree.
    Mutate,
}

/// One of several models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// Who is asked.
    pub model: String,
    /// That of the generator if absent.
    #[serde(default)]
    pub provider: Option<Provider>,
    /// That of the generator if absent and the provider is the same.
    #[serde(default)]
    pub base_url: Option<String>,
    /// That of the generator if absent.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// How often, beside the others.
    #[serde(default = "one")]
    pub weight: f64,
}

fn one() -> f64 {
    1.0
}

/// How one of several models is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choose {
    /// By weight.
    #[default]
    Weights,
    /// By what their programs were worth so far, and what they cost.
    Bandit,
}

/// What answers should look like; every form is understood, whatever is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edits {
    /// The whole program.
    #[default]
    Full,
    /// Blocks of SEARCH and REPLACE.
    Diff,
}

/// How often each mutator is used, beside the others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mutations {
    /// Numbers.
    pub literals: f64,
    /// `+` to `-`, `<` to `<=`, `and` to `or`.
    pub operators: f64,
    /// Statements left out, doubled, swapped.
    pub statements: f64,
    /// Statements of other programs.
    pub transplants: f64,
    /// The first step of a number, relative to its size.
    pub step: f64,
}

impl Default for Mutations {
    fn default() -> Self {
        Self { literals: 6.0, operators: 1.0, statements: 1.0, transplants: 1.0, step: 0.2 }
    }
}
