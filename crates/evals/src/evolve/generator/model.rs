//! Chat models, one or several.

use std::sync::Arc;
use std::time::Duration;

use engine::llm::{ApiKey, ChatModel, ChatRequest, Client, ModelError, Patience};
use engine::usage::Books;
use engine::{BoxFuture, Engine};

use super::{Answer, Ask, Choose, Form, Generator, GeneratorSpec, ModelSpec, Silence};
use crate::evolve::error::EvolveError;
use crate::evolve::rng::Rng;

/// Who asks, in the books.
const COMPONENT: &str = "evolve";
/// What is drawn for choosing a model.
const MODELS: u64 = 2;

/// Chat models of one or several providers.
pub struct Models {
    all: Vec<(Arc<dyn ChatModel>, f64)>,
    choose: Choose,
    temperature: Option<f64>,
    max_tokens: Option<u32>,
    patience: Patience,
    books: Books,
}

impl Models {
    /// Nothing is asked yet; a key that is missing is told here.
    pub fn new(spec: &GeneratorSpec, engine: &Engine) -> Result<Self, EvolveError> {
        let one = || ModelSpec {
            model: spec.model.clone().unwrap_or_default(),
            provider: None,
            base_url: None,
            api_key_env: None,
            weight: 1.0,
        };
        let models = if spec.models.is_empty() { vec![one()] } else { spec.models.clone() };
        let models =
            models.iter().map(|model| Ok((open(model, spec)?, model.weight))).collect::<Result<_, ModelError>>()?;
        let timeout = Duration::from_millis(spec.timeout_ms.unwrap_or(180_000).clamp(1, 86_400_000));
        let retries = spec.retries.unwrap_or(3);
        Ok(Self {
            all: models,
            choose: spec.choose,
            temperature: spec.temperature,
            max_tokens: spec.max_tokens,
            patience: Patience {
                timeout,
                retries,
                deadline: timeout.saturating_mul(retries + 1) + Duration::from_mins(1),
                backoff: Duration::from_millis(spec.backoff_ms.unwrap_or(500)),
            },
            books: engine.books(COMPONENT)?,
        })
    }

    fn choose(&self, ask: &Ask) -> &Arc<dyn ChatModel> {
        let mut rng = Rng::of(ask.seed, ask.iteration, MODELS);
        let weights: Vec<f64> = match self.choose {
            Choose::Weights => self.all.iter().map(|(_, weight)| *weight).collect(),
            Choose::Bandit => self.worth(ask),
        };
        let index = match self.choose {
            Choose::Weights => rng.weighted(&weights).unwrap_or_default(),
            // The most promising, the first of equals.
            Choose::Bandit => {
                (0..weights.len()).rev().max_by(|a, b| weights[*a].total_cmp(&weights[*b])).unwrap_or_default()
            }
        };
        &self.all[index].0
    }

    /// UCB1: how often a model made programs better, and how little that is sure yet; less what it costs beside others.
    fn worth(&self, ask: &Ask) -> Vec<f64> {
        let tried = |model: &Arc<dyn ChatModel>| ask.tried.get(model.name()).copied().unwrap_or_default();
        let all: u64 = self.all.iter().map(|(model, _)| tried(model).count).sum();
        let mean_cost = |model: &Arc<dyn ChatModel>| {
            let tried = tried(model);
            tried.cost_usd / tried.count.max(1) as f64
        };
        let dearest = self.all.iter().map(|(model, _)| mean_cost(model)).fold(0.0, f64::max);
        let worth = |(model, _): &(Arc<dyn ChatModel>, f64)| {
            let tried = tried(model);
            if tried.count == 0 {
                return f64::INFINITY;
            }
            let count = tried.count as f64;
            let price = if dearest > 0.0 { 0.2 * mean_cost(model) / dearest } else { 0.0 };
            tried.better as f64 / count + (0.5 * (all as f64).ln() / count).sqrt() - price
        };
        self.all.iter().map(worth).collect()
    }
}

impl Generator for Models {
    fn propose<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let model = self.choose(ask);
            // One client for each question: what it has spent is this question's.
            let client = Client::new(Arc::clone(model), self.patience, self.books.clone());
            let request = ChatRequest {
                messages: ask.messages.clone(),
                temperature: self.temperature,
                max_tokens: self.max_tokens,
                // Servers that repeat themselves for a seed do so for each iteration apart.
                seed: Some(Rng::of(ask.seed, ask.iteration, MODELS).next() >> 33),
                ..ChatRequest::default()
            };
            let what = match client.chat(&request, client.deadline()).await {
                Ok(reply) => Ok(Form::Text(reply.text)),
                Err(error) if is_for_now(&error) => Err(Silence::Failed(error.to_string())),
                Err(error) => Err(Silence::Fatal(error.into())),
            };
            Answer { by: model.name().to_owned(), what, usage: client.totals(), recorded: None }
        })
    }
}

/// Whether the next question may fare better.
fn is_for_now(error: &ModelError) -> bool {
    match error {
        ModelError::GaveUp { last, .. } => is_for_now(last),
        ModelError::Declined { .. } | ModelError::Garbled { .. } | ModelError::TooLarge => true,
        other => other.is_passing() && !matches!(other, ModelError::Connect { .. }),
    }
}

fn open<'a>(model: &'a ModelSpec, spec: &'a GeneratorSpec) -> Result<Arc<dyn ChatModel>, ModelError> {
    let provider = model.provider.unwrap_or(spec.provider);
    // An address, or the name of a key, is one provider's.
    let general = |field: &'a Option<String>| field.as_deref().filter(|_| provider == spec.provider);
    let base_url = model.base_url.as_deref().or(general(&spec.base_url)).unwrap_or(provider.base_url());
    let named = model.api_key_env.as_deref().or(general(&spec.api_key_env));
    let variable = named.unwrap_or(provider.key_variable());
    let key = ApiKey::from_environment(variable)?;
    if key.is_none() && (named.is_some() || base_url == provider.base_url()) {
        return Err(ModelError::Key { variable: variable.to_owned() });
    }
    match provider.open(&model.model, base_url, key) {
        // Nobody has named a key for a server that others can listen to.
        Err(ModelError::Address { .. }) if named.is_none() => provider.open(&model.model, base_url, None),
        other => other,
    }
}
