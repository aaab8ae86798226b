//! What the books add up to.

use serde::{Deserialize, Serialize};

/// Sums over calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
pub struct Totals {
    /// Every try, answered or not.
    pub calls: u64,
    /// Tries without an answer.
    pub failed: u64,
    /// Tokens sent, cached ones included.
    pub prompt_tokens: u64,
    /// Those of them that the server had seen before.
    pub cached_tokens: u64,
    /// Tokens written by the model.
    pub completion_tokens: u64,
    /// Calls whose cost is not known: no price, no usage in the answer, or an answer that never came whole.
    pub unpriced_calls: u64,
    /// US dollars of all calls whose cost is known.
    pub known_cost_usd: f64,
    /// Time spent waiting for answers.
    pub wall_ms: f64,
}

impl Totals {
    /// US dollars; `None` as soon as the cost of one call is not known.
    #[must_use]
    pub fn cost_usd(&self) -> Option<f64> {
        (self.unpriced_calls == 0).then_some(self.known_cost_usd)
    }

    /// Adds what others add up to.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.failed += other.failed;
        self.prompt_tokens += other.prompt_tokens;
        self.cached_tokens += other.cached_tokens;
        self.completion_tokens += other.completion_tokens;
        self.unpriced_calls += other.unpriced_calls;
        self.known_cost_usd += other.known_cost_usd;
        self.wall_ms += other.wall_ms;
    }
}

impl Serialize for Totals {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut fields = serializer.serialize_struct("Totals", 9)?;
        fields.serialize_field("calls", &self.calls)?;
        fields.serialize_field("failed", &self.failed)?;
        fields.serialize_field("prompt_tokens", &self.prompt_tokens)?;
        fields.serialize_field("cached_tokens", &self.cached_tokens)?;
        fields.serialize_field("completion_tokens", &self.completion_tokens)?;
        fields.serialize_field("cost_usd", &self.cost_usd())?;
        fields.serialize_field("known_cost_usd", &self.known_cost_usd)?;
        fields.serialize_field("unpriced_calls", &self.unpriced_calls)?;
        fields.serialize_field("wall_ms", &self.wall_ms)?;
        fields.end()
    }
}

/// The sums of one component and model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Who asked: `review`, `evolve`.
    pub component: String,
    /// Who was asked.
    pub model: String,
    /// How much.
    #[serde(flatten)]
    pub totals: Totals,
}

/// What models have cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageReport {
    /// By component and model, in that order.
    pub lines: Vec<Line>,
    /// Of all of them.
    pub total: Totals,
}

impl UsageReport {
    /// Adds the lines up.
    #[must_use]
    pub fn new(lines: Vec<Line>) -> Self {
        let mut total = Totals::default();
        for line in &lines {
            total.add(&line.totals);
        }
        Self { lines, total }
    }
}
