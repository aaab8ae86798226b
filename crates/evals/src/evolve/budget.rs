//! When it is enough.

use std::time::Duration;

use engine::usage::Totals;

use super::task::Budget;

/// The limit that ends a run: each has the name of the task's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The score is there.
    Target,
    /// No more proposals.
    Iterations,
    /// No more programs are tried.
    Evaluations,
    /// No more time.
    Wall,
    /// No more tokens.
    Tokens,
    /// No more money.
    Cost,
    /// Who proposes has nothing more to propose.
    Exhausted,
}

impl Stop {
    /// As the history has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Target => "target_score",
            Self::Iterations => "max_iterations",
            Self::Evaluations => "max_evaluations",
            Self::Wall => "max_wall_ms",
            Self::Tokens => "max_tokens",
            Self::Cost => "max_cost_usd",
            Self::Exhausted => "generator_exhausted",
        }
    }
}

/// What has been spent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) iterations: u64,
    pub(crate) evaluations: u64,
    pub(crate) usage: Totals,
    pub(crate) wall: Duration,
}

impl Budget {
    /// The limit that has been reached, if any.
    pub(crate) fn reached(&self, spent: &Spent) -> Option<Stop> {
        let tokens = spent.usage.prompt_tokens + spent.usage.completion_tokens;
        if spent.iterations >= self.iterations {
            return Some(Stop::Iterations);
        }
        if self.evaluations.is_some_and(|most| spent.evaluations >= most) {
            return Some(Stop::Evaluations);
        }
        if self.wall.is_some_and(|most| spent.wall >= most) {
            return Some(Stop::Wall);
        }
        if self.tokens.is_some_and(|most| tokens >= most) {
            return Some(Stop::Tokens);
        }
        self.cost_usd.is_some_and(|most| spent.usage.known_cost_usd >= most).then_some(Stop::Cost)
    }
}
