//! The built-in mutators as a generator: no model, no key, no network.

use engine::BoxFuture;

use super::{Answer, Ask, Form, Generator, Mutations, Silence};
use crate::evolve::rng::Rng;
use crate::evolve::{blocks, bundle, mutate, tree};

/// What is drawn for mutations.
const MUTATING: u64 = 3;

/// Changes the parent's syntax tree.
pub struct Mutator(pub Mutations);

impl Mutator {
    /// One file of a tree is changed: any that is Python, or of those with marks any.
    fn in_tree(&self, files: &[(&str, &str)], others: &[&str], step: f64, rng: &mut Rng) -> Option<String> {
        let has_marks = files.iter().any(|(_, text)| blocks::has_marks(text));
        let is_open = |(path, text): &(&str, &str)| tree::is_module(path) && (!has_marks || blocks::has_marks(text));
        let mut open: Vec<usize> = (0..files.len()).filter(|index| is_open(&files[*index])).collect();
        while !open.is_empty() {
            let place = open.swap_remove(rng.below(open.len()));
            let (path, text) = files[place];
            let others: Vec<&str> = others.iter().filter_map(|other| file(other, path)).collect();
            if let Some(made) = mutate::mutate(text, &others, &self.0, step, rng) {
                let all = files.iter().enumerate();
                return Some(bundle::join(
                    all.map(|(at, (path, text))| (*path, if at == place { &*made } else { *text })),
                ));
            }
        }
        None
    }
}

/// A file of a tree.
fn file<'a>(tree: &'a str, path: &str) -> Option<&'a str> {
    bundle::split(tree)?.into_iter().find(|(own, _)| *own == path).map(|(_, text)| text)
}

impl Generator for Mutator {
    fn propose<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Answer> {
        let mut rng = Rng::of(ask.seed, ask.iteration, MUTATING);
        let Some(parent) = &ask.parent else {
            return Box::pin(async { Answer::free("mutate", Err(Silence::Failed("there is no parent".to_owned()))) });
        };
        let others: Vec<&str> = ask.others.iter().map(|other| other.code.as_str()).collect();
        let what = match bundle::split(&parent.code) {
            Some(files) => self.in_tree(&files, &others, ask.step, &mut rng),
            None => mutate::mutate(&parent.code, &others, &self.0, ask.step, &mut rng),
        };
        let what =
            what.map(Form::Code).ok_or_else(|| Silence::Failed("nothing in the program can be changed".to_owned()));
        Box::pin(async move { Answer::free("mutate", what) })
    }

    fn can_repair(&self) -> bool {
        false
    }
}
