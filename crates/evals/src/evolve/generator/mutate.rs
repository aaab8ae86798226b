//! The built-in mutators as a generator: no model, no key, no network.

use engine::BoxFuture;

use super::{Answer, Ask, Form, Generator, Mutations, Silence};
use crate::evolve::mutate;
use crate::evolve::rng::Rng;

/// What is drawn for mutations.
const MUTATING: u64 = 3;

/// Changes the parent's syntax tree.
pub struct Mutator(pub Mutations);

impl Generator for Mutator {
    fn propose<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Answer> {
        let mut rng = Rng::of(ask.seed, ask.iteration, MUTATING);
        let Some(parent) = &ask.parent else {
            return Box::pin(async { Answer::free("mutate", Err(Silence::Failed("there is no parent".to_owned()))) });
        };
        let others: Vec<&str> = ask.others.iter().map(|other| other.code.as_str()).collect();
        let what = mutate::mutate(&parent.code, &others, &self.0, ask.step, &mut rng);
        let what =
            what.map(Form::Code).ok_or_else(|| Silence::Failed("nothing in the program can be changed".to_owned()));
        Box::pin(async move { Answer::free("mutate", what) })
    }

    fn can_repair(&self) -> bool {
        false
    }
}
