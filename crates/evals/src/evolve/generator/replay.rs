//! A recorded run as its own generator.

use std::path::Path;

use engine::BoxFuture;

use super::{Answer, Ask, Generator, Silence};
use crate::evolve::error::EvolveError;
use crate::evolve::store::{self, Store};

/// Answers as it was answered once, to the very same questions.
pub struct Replay(Store);

impl Replay {
    /// Opens what was recorded.
    pub fn open(folder: &Path) -> Result<Self, EvolveError> {
        Store::open(folder, store::Use::Read).map(Self)
    }
}

impl Generator for Replay {
    fn propose<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Answer> {
        let answer = match self.0.proposal(ask.iteration) {
            Ok(Some(recorded)) if recorded.asked == store::asked(ask) => {
                return Box::pin(async move {
                    Answer { recorded: Some(Box::new(recorded)), ..Answer::free("replay", Err(Silence::Exhausted)) }
                });
            }
            Ok(Some(_)) => Err(Silence::Fatal(EvolveError::Generator(format!(
                "iteration {} asks another question than the recorded run did: its task or its scores differ",
                ask.iteration
            )))),
            Ok(None) => Err(Silence::Exhausted),
            Err(error) => Err(Silence::Fatal(error)),
        };
        Box::pin(async move { Answer::free("replay", answer) })
    }

    fn can_repair(&self) -> bool {
        false
    }
}
