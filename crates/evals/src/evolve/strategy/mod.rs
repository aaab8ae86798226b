//! Whom the next program comes from.
//!
//! A population is a fold over what happened, in the order of iterations: the same history gives the same population,
//! however often it was interrupted. Nothing of it is stored.

mod islands;
mod pareto;

use std::collections::HashMap;

use serde::Serialize;

pub use islands::IslandsSpec;
pub(crate) use islands::cell_of;

use self::islands::Islands;
use super::member::Member;
use super::rng::Rng;

/// What is drawn for choosing parents.
const CHOOSING: u64 = 1;
/// How many others a prompt shows.
const OTHERS: usize = 3;
/// A step that is too small for anything starts over.
const LEAST_STEP: f64 = 1e-7;

/// Whom the next program comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StrategySpec {
    /// One line: the last program, or the best if the last was worse.
    Repair,
    /// Each from the start, none from another.
    BestOfN,
    /// Islands with a grid of elites each, and migration.
    Islands(IslandsSpec),
    /// Whoever is best at something.
    Pareto,
}

/// From what the next program is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) island: usize,
    pub(crate) parent: Option<u64>,
    pub(crate) others: Vec<u64>,
}

/// Everybody so far.
#[derive(Debug)]
pub(crate) struct Population {
    spec: StrategySpec,
    seed: u64,
    members: Vec<Member>,
    /// Places in `members`.
    places: HashMap<u64, usize>,
    shapes: HashMap<String, u64>,
    best: Option<u64>,
    last: Option<u64>,
    islands: Islands,
    first_step: f64,
    steps: HashMap<usize, f64>,
}

impl Population {
    pub(crate) fn new(spec: &StrategySpec, seed: u64, first_step: f64) -> Self {
        let islands = match spec {
            StrategySpec::Islands(islands) => islands.clone(),
            _ => IslandsSpec::default(),
        };
        Self {
            spec: spec.clone(),
            seed,
            members: Vec::new(),
            places: HashMap::new(),
            shapes: HashMap::new(),
            best: None,
            last: None,
            islands: Islands::new(islands),
            first_step,
            steps: HashMap::new(),
        }
    }

    /// Takes in what became of the next iteration.
    pub(crate) fn learn(&mut self, member: Member) {
        let iteration = member.iteration();
        if let Some(evaluation) = &member.evaluation {
            let shape = &member.proposal.shape;
            if evaluation.duplicate_of.is_none() {
                self.shapes.entry(shape.clone()).or_insert(iteration);
            }
            let is_better = self.best().and_then(|best| best.evaluation.as_ref()).is_none_or(|b| evaluation.beats(b));
            if is_better {
                self.best = Some(iteration);
            }
            self.adapt(&member);
            if matches!(self.spec, StrategySpec::Islands(_)) {
                self.islands.settle(&member, &self.members, &self.places);
            }
            self.last = Some(iteration);
        }
        self.places.insert(iteration, self.members.len());
        self.members.push(member);
        if matches!(self.spec, StrategySpec::Islands(_)) {
            self.islands.migrate(iteration, &self.members, &self.places);
        }
    }

    /// Steps of numbers grow where they help and shrink where they do not: one success in five keeps them.
    fn adapt(&mut self, member: &Member) {
        let Some(parent) = member.proposal.parent.and_then(|parent| self.get(parent)) else { return };
        let success = member.rank() > parent.rank();
        let step = self.steps.entry(member.proposal.island).or_insert(self.first_step);
        *step *= if success { 1.5 } else { 0.97 };
        if *step < LEAST_STEP {
            *step = self.first_step;
        }
        *step = step.min(1.0);
    }

    /// How far numbers are moved on an island.
    pub(crate) fn step(&self, island: usize) -> f64 {
        self.steps.get(&island).copied().unwrap_or(self.first_step)
    }

    pub(crate) fn get(&self, iteration: u64) -> Option<&Member> {
        self.places.get(&iteration).map(|place| &self.members[*place])
    }

    pub(crate) fn best(&self) -> Option<&Member> {
        self.get(self.best?)
    }

    /// The program that was tried before and is the same.
    pub(crate) fn twin(&self, shape: &str) -> Option<&Member> {
        self.get(*self.shapes.get(shape)?)
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// What the program of an iteration is made from, by what is known now.
    pub(crate) fn choose(&self, iteration: u64) -> Choice {
        let mut rng = Rng::of(self.seed, iteration, CHOOSING);
        match &self.spec {
            StrategySpec::Repair => self.repaired(),
            StrategySpec::BestOfN => Choice { parent: self.get(0).map(Member::iteration), ..Choice::default() },
            StrategySpec::Islands(_) => self.islands.choose(iteration, &mut rng, &self.members, &self.places),
            StrategySpec::Pareto => pareto::choose(&self.members, &mut rng),
        }
    }

    fn repaired(&self) -> Choice {
        let (last, best) = (self.last, self.best);
        let is_worse = match (last.and_then(|last| self.get(last)), self.best()) {
            (Some(last), Some(best)) => last.rank() < best.rank(),
            _ => false,
        };
        let parent = if is_worse { best } else { last };
        // What was tried last and went wrong is told too.
        let others = if is_worse { last.into_iter().collect() } else { Vec::new() };
        Choice { island: 0, parent, others }
    }
}

/// The best of these, without a parent, each program once.
fn tops<'a>(members: impl Iterator<Item = &'a Member>, without: Option<u64>, most: usize) -> Vec<u64> {
    let mut all: Vec<&Member> = members
        .filter(|member| Some(member.iteration()) != without)
        .filter(|member| member.evaluation.as_ref().is_some_and(|evaluation| evaluation.duplicate_of.is_none()))
        .collect();
    all.sort_by(|a, b| b.rank().total_cmp(&a.rank()).then(a.iteration().cmp(&b.iteration())));
    all.iter().take(most).map(|member| member.iteration()).collect()
}
