//! What a model's tokens cost.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::llm::TokenUsage;

/// Where the built-in prices are from: not read at the maker's own page, so that a setting is better.
pub const BUILT_IN_SOURCE: &str = "OpenAI's price list (standard tier) as third parties quote it";
/// When they were looked up.
pub const BUILT_IN_AS_OF: &str = "2026-11";

/// US dollars for a million tokens: sent, sent and cached, written.
const BUILT_IN: &[(&str, f64, f64, f64)] = &[
    ("gpt-4.1", 2.00, 0.50, 8.00),
    ("gpt-4.1-mini", 0.40, 0.10, 1.60),
    ("gpt-4.1-nano", 0.10, 0.025, 0.40),
    ("gpt-4o", 2.50, 1.25, 10.00),
    ("gpt-4o-mini", 0.15, 0.075, 0.60),
    ("gpt-5", 1.25, 0.125, 10.00),
    ("gpt-5-mini", 0.25, 0.025, 2.00),
    ("gpt-5-nano", 0.05, 0.005, 0.40),
];

/// US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Sent.
    pub input: f64,
    /// Sent, and seen by the server before; as `input` if absent.
    pub cached: Option<f64>,
    /// Written by the model.
    pub output: f64,
}

impl Price {
    /// What a call has cost, in US dollars.
    #[must_use]
    pub fn of(&self, usage: &TokenUsage) -> f64 {
        let fresh = usage.prompt.saturating_sub(usage.cached) as f64 * self.input;
        let cached = usage.cached as f64 * self.cached.unwrap_or(self.input);
        (fresh + cached + usage.completion as f64 * self.output) / 1e6
    }

    fn is_sane(&self) -> bool {
        [Some(self.input), self.cached, Some(self.output)]
            .into_iter()
            .flatten()
            .all(|price| price.is_finite() && price >= 0.0)
    }
}

/// Prices by model: the owner's, then the built-in ones. A model that is in neither has no price.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Prices(BTreeMap<String, Price>);

impl Prices {
    /// The owner's own.
    #[must_use]
    pub fn new(own: BTreeMap<String, Price>) -> Self {
        Self(own)
    }

    /// A model whose price is no amount of money.
    pub(crate) fn absurd(&self) -> Option<&str> {
        self.0.iter().find(|(_, price)| !price.is_sane()).map(|(model, _)| model.as_str())
    }

    /// The price of a model. A dated name, such as `gpt-4o-mini-2024-07-18`, has the price of the plain one.
    #[must_use]
    pub fn of(&self, model: &str) -> Option<Price> {
        self.exact(model).or_else(|| self.exact(undated(model)?))
    }

    fn exact(&self, model: &str) -> Option<Price> {
        let built_in = || {
            let &(_, input, cached, output) = BUILT_IN.iter().find(|(name, ..)| *name == model)?;
            Some(Price { input, cached: Some(cached), output })
        };
        self.0.get(model).copied().or_else(built_in)
    }
}

fn undated(model: &str) -> Option<&str> {
    let (name, date) = model.split_at_checked(model.len().checked_sub("-2024-07-18".len())?)?;
    let shape = date.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
    shape.eq("-0000-00-00".bytes()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_have_their_own_price() {
        let price = Prices::default().of("gpt-4o-mini").unwrap();
        let usage = TokenUsage { prompt: 1_000_000, cached: 400_000, completion: 100_000 };
        assert!((price.of(&usage) - (0.6 * 0.15 + 0.4 * 0.075 + 0.1 * 0.60)).abs() < 1e-12);
    }

    #[test]
    fn the_owners_price_comes_first_and_an_unknown_model_has_none() {
        let own = Price { input: 1.0, cached: None, output: 2.0 };
        let prices = Prices::new([("gpt-4o".to_owned(), own), ("house/model".to_owned(), own)].into());
        assert_eq!(prices.of("gpt-4o"), Some(own));
        assert_eq!(prices.of("gpt-4o-2024-08-06"), Some(own));
        assert_eq!(prices.of("house/model"), Some(own));
        for unknown in ["", "gpt", "gpt-4o-mini-max", "other/gpt-4o", "-2024-08-06", "ä-2024-08-06"] {
            assert_eq!(prices.of(unknown), None, "{unknown}");
        }
    }
}
