//! A run: rounds of proposals, tried side by side and taken in by the order of their numbers.
//!
//! What a round asks depends on the rounds before it alone, never on who was faster. So a run that was killed goes on as
//! if it had not been: what it finds in its history it does not ask again, and the rest comes out as it would have.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::budget::{Spent, Stop};
use super::error::EvolveError;
use super::evaluate::Evaluating;
use super::events::Event;
use super::generator::{Answer, Ask, Form, Generator, GeneratorKind, Known, Repair, Silence, Tried};
use super::member::{Evaluation, Member, Proposal};
use super::prompt::{self, Material};
use super::result::Outcome;
use super::store::{self, End, Store};
use super::strategy::{Choice, Population};
use super::task::Spec;
use super::{patch, tree};
use crate::judge::Judge;

/// Answers in a row that were none, after which nobody is asked any more.
const MOST_FAILURES: usize = 5;
/// Of feedback in an event.
const SHORT: usize = 200;

/// Whoever wants to know what happens.
pub type Listener = Box<dyn FnMut(&Event) + Send>;

/// One run of a task.
pub struct Evolution {
    inner: Arc<Inner>,
    population: Population,
    /// What is in the history and not yet taken in.
    ahead: BTreeMap<u64, Member>,
    spent: Spent,
    start: Instant,
    listener: Listener,
    failures: usize,
    exhausted: bool,
}

/// Whether something has been told before, by a process that is gone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    Old,
    New,
}

/// What proposals and evaluations under way share.
struct Inner {
    spec: Spec,
    store: Store,
    generator: Box<dyn Generator>,
    evaluating: Evaluating,
}

impl Evolution {
    /// Ready to begin, or to go on where the history ends.
    pub fn new(
        spec: Spec,
        store: Store,
        generator: Box<dyn Generator>,
        judge: Arc<Judge>,
        listener: Listener,
    ) -> Result<Self, EvolveError> {
        let ahead = store.members()?.into_iter().map(|member| (member.iteration(), member)).collect();
        let population = Population::new(&spec.strategy, spec.seed, spec.generator.mutations.step);
        let evaluating = Evaluating::new(judge, &spec);
        Ok(Self {
            population,
            ahead,
            spent: Spent::default(),
            start: Instant::now(),
            listener,
            failures: 0,
            exhausted: false,
            inner: Arc::new(Inner { spec, store, generator, evaluating }),
        })
    }

    /// Goes on until a limit is reached, and says what came of it.
    pub async fn run(mut self) -> Result<Outcome, EvolveError> {
        let store = &self.inner.store;
        let resumed = self.ahead.keys().filter(|iteration| **iteration > 0).count() as u64;
        let started =
            Event::Started { id: store.about().id.clone(), folder: store.folder().display().to_string(), resumed };
        (self.listener)(&started);
        let stop = self.rounds().await;
        self.note_time()?;
        let stop = stop?;
        let last_word = self.inner.last_word(self.population.best().map(|best| best.code().to_owned())).await?;
        self.inner.store.put_end(&End { stop_reason: stop.name().to_owned(), last_word })?;
        self.note_time()?;
        let outcome = Outcome::of(&self.inner.store)?;
        (self.listener)(&Event::Ended(Box::new(outcome.clone())));
        Ok(outcome)
    }

    async fn rounds(&mut self) -> Result<Stop, EvolveError> {
        self.first().await?;
        let parallel = self.inner.spec.parallel as u64;
        let mut next = 1;
        loop {
            if let Some(stop) = self.stop()? {
                return Ok(stop);
            }
            // Rounds begin at the same numbers, whenever a run was cut off or made longer.
            let end = (next - 1) / parallel * parallel + parallel;
            let end = end.min(self.inner.spec.budget.iterations);
            next = self.round(next..=end).await?;
            self.note_time()?;
        }
    }

    fn stop(&self) -> Result<Option<Stop>, EvolveError> {
        let Spec { target, budget, .. } = &self.inner.spec;
        let is_there = self.population.best().is_some_and(|best| target.is_some_and(|target| best.rank() >= target));
        if is_there {
            return Ok(Some(Stop::Target));
        }
        if budget.cost_usd.is_some() && self.spent.usage.unpriced_calls > 0 {
            let why = "`max_cost_usd` cannot be held: what a call has cost is not known; put the model's price in [prices] of the settings";
            return Err(EvolveError::Task(why.to_owned()));
        }
        if self.exhausted {
            return Ok(Some(Stop::Exhausted));
        }
        Ok(budget.reached(&Spent { wall: self.wall(), ..self.spent }))
    }

    fn wall(&self) -> Duration {
        self.inner.store.before() + self.start.elapsed()
    }

    fn note_time(&self) -> Result<(), EvolveError> {
        self.inner.store.spent(self.start.elapsed())
    }

    /// Tries the starting program, if there is one.
    async fn first(&mut self) -> Result<(), EvolveError> {
        let Some(code) = self.inner.spec.program.clone() else { return Ok(()) };
        let (member, news) = match self.ahead.remove(&0) {
            Some(member) if member.evaluation.is_some() => (member, News::Old),
            known => {
                let proposal = Proposal {
                    iteration: 0,
                    island: 0,
                    parent: None,
                    others: Vec::new(),
                    asked: String::new(),
                    answer: String::new(),
                    by: "task".to_owned(),
                    shape: tree::shape(&code, self.inner.spec.is_python()),
                    code: Some(code),
                    error: None,
                    usage: engine::usage::Totals::default(),
                };
                if known.is_none() {
                    self.inner.store.put_proposal(&proposal, Duration::ZERO)?;
                }
                let evaluation = self.inner.tried(&proposal).await?;
                (Member { proposal, evaluation: Some(evaluation) }, News::New)
            }
        };
        self.take_in(member, news);
        Ok(())
    }

    /// One round: everybody is asked, then every new program is tried, then all of it is taken in, in order. Says which
    /// iteration is next.
    async fn round(&mut self, iterations: std::ops::RangeInclusive<u64>) -> Result<u64, EvolveError> {
        let known: Vec<Member> = iterations.clone().filter_map(|iteration| self.ahead.remove(&iteration)).collect();
        let mut proposals: BTreeMap<u64, Proposal> =
            known.iter().map(|member| (member.iteration(), member.proposal.clone())).collect();
        let mut evaluations: BTreeMap<u64, Evaluation> =
            known.into_iter().filter_map(|member| Some((member.proposal.iteration, member.evaluation?))).collect();
        let old: BTreeSet<u64> = evaluations.keys().copied().collect();
        self.propose(iterations.clone(), &mut proposals).await?;
        self.evaluate(&proposals, &mut evaluations).await?;
        let next = iterations.clone().find(|iteration| !proposals.contains_key(iteration));
        for (iteration, proposal) in proposals {
            self.failures = if proposal.code.is_some() { 0 } else { self.failures + 1 };
            let error = proposal.error.clone();
            let news = if old.contains(&iteration) { News::Old } else { News::New };
            self.take_in(Member { proposal, evaluation: evaluations.remove(&iteration) }, news);
            if self.failures >= MOST_FAILURES && !self.is_mutating() {
                return Err(EvolveError::Generator(error.unwrap_or_default()));
            }
        }
        Ok(next.unwrap_or(iterations.end() + 1))
    }

    fn is_mutating(&self) -> bool {
        self.inner.spec.generator.kind == GeneratorKind::Mutate
    }

    async fn propose(
        &mut self,
        iterations: std::ops::RangeInclusive<u64>,
        proposals: &mut BTreeMap<u64, Proposal>,
    ) -> Result<(), EvolveError> {
        let mut asked = JoinSet::new();
        let mut before = self.spent;
        for iteration in iterations {
            // Those before it in this round count, be they known or under way; what they cost counts later.
            let is_over = self.inner.spec.budget.reached(&Spent { wall: self.wall(), ..before }).is_some();
            before.iterations += 1;
            before.evaluations += 1;
            if proposals.contains_key(&iteration) {
                continue;
            }
            if is_over || self.exhausted {
                break;
            }
            let (choice, ask) = self.ask(iteration);
            let inner = Arc::clone(&self.inner);
            asked.spawn(async move { inner.propose(choice, ask).await });
        }
        while let Some(done) = asked.join_next().await {
            let done = done.map_err(|_| EvolveError::Judge(crate::judge::JudgeError::Interrupted))?;
            match done? {
                Some(proposal) => {
                    (self.listener)(&Event::Proposed {
                        iteration: proposal.iteration,
                        parent: proposal.parent,
                        island: proposal.island,
                        by: proposal.by.clone(),
                        error: proposal.error.clone(),
                        calls: proposal.usage.calls,
                        tokens: proposal.usage.prompt_tokens + proposal.usage.completion_tokens,
                        cost_usd: proposal.usage.cost_usd(),
                    });
                    proposals.insert(proposal.iteration, proposal);
                }
                None => self.exhausted = true,
            }
        }
        Ok(())
    }

    async fn evaluate(
        &mut self,
        proposals: &BTreeMap<u64, Proposal>,
        evaluations: &mut BTreeMap<u64, Evaluation>,
    ) -> Result<(), EvolveError> {
        let mut trying = JoinSet::new();
        let mut twins: Vec<(u64, u64)> = Vec::new();
        let mut here: BTreeMap<&str, u64> = BTreeMap::new();
        for proposal in proposals.values().filter(|proposal| proposal.code.is_some()) {
            let iteration = proposal.iteration;
            if let Some(twin) = here.get(proposal.shape.as_str()) {
                twins.push((iteration, *twin));
                continue;
            }
            here.insert(&proposal.shape, iteration);
            if evaluations.contains_key(&iteration) {
                continue;
            }
            if let Some(twin) = self
                .population
                .twin(&proposal.shape)
                .and_then(|twin| twin.evaluation.clone().map(|e| (twin.iteration(), e)))
            {
                let evaluation = Evaluation { duplicate_of: Some(twin.0), ..twin.1 };
                self.inner.store.put_evaluation(iteration, &evaluation, Duration::ZERO)?;
                evaluations.insert(iteration, evaluation);
                continue;
            }
            let (inner, proposal) = (Arc::clone(&self.inner), proposal.clone());
            trying
                .spawn(async move { inner.tried(&proposal).await.map(|evaluation| (proposal.iteration, evaluation)) });
        }
        while let Some(done) = trying.join_next().await {
            let done = done.map_err(|_| EvolveError::Judge(crate::judge::JudgeError::Interrupted))?;
            let (iteration, evaluation) = done?;
            evaluations.insert(iteration, evaluation);
        }
        for (iteration, twin) in twins {
            let Some(evaluation) = evaluations.get(&twin) else { continue };
            let first = evaluation.duplicate_of.unwrap_or(twin);
            let evaluation = Evaluation { duplicate_of: Some(first), ..evaluation.clone() };
            if let Entry::Vacant(place) = evaluations.entry(iteration) {
                self.inner.store.put_evaluation(iteration, &evaluation, Duration::ZERO)?;
                place.insert(evaluation);
            }
        }
        Ok(())
    }

    /// Makes a member part of the population, of what was spent and of what is told.
    fn take_in(&mut self, member: Member, news: News) {
        let iteration = member.iteration();
        self.spent.iterations += u64::from(iteration > 0);
        self.spent.usage.add(&member.proposal.usage);
        let told = member.evaluation.clone();
        self.population.learn(member);
        let Some(told) = told else { return };
        self.spent.evaluations += u64::from(told.duplicate_of.is_none());
        if news == News::Old {
            return;
        }
        let best = self.population.best();
        let trouble = told.trouble().chars().take(SHORT).collect();
        (self.listener)(&Event::Evaluated {
            iteration,
            score: told.score,
            passed: told.passed,
            total: told.total,
            duplicate_of: told.duplicate_of,
            accepted: best.is_some_and(|best| best.iteration() == iteration),
            best: best.map_or(told.score, Member::score),
            trouble,
        });
    }

    /// The question of an iteration, by what is known now.
    fn ask(&self, iteration: u64) -> (Choice, Ask) {
        let spec = &self.inner.spec;
        let choice = self.population.choose(iteration);
        let known = |iteration: u64| {
            self.population.get(iteration).map(|member| Known {
                iteration,
                score: member.score(),
                code: member.code().to_owned(),
                feedback: member.evaluation.as_ref().map(|told| told.feedback.clone()).unwrap_or_default(),
            })
        };
        let parent = choice.parent.and_then(known);
        let others: Vec<Known> = choice.others.iter().filter_map(|other| known(*other)).collect();
        // Independent tries know nothing of each other.
        let is_alone = matches!(spec.strategy, super::strategy::StrategySpec::BestOfN);
        let best = if is_alone { None } else { self.population.best().and_then(|best| known(best.iteration())) };
        // Mutators read no prompts, and there are thousands of them.
        let messages = if self.is_mutating() {
            Vec::new()
        } else {
            prompt::messages(&Material { spec, parent: parent.as_ref(), best: best.as_ref(), others: &others })
        };
        let ask = Ask {
            iteration,
            seed: spec.seed,
            language: spec.language.clone(),
            entry: spec.entry.clone(),
            task: spec.prompt.clone(),
            messages,
            parent,
            best,
            others,
            step: self.population.step(choice.island),
            repair: None,
            tried: if self.is_mutating() { BTreeMap::new() } else { self.tried() },
        };
        (choice, ask)
    }

    fn tried(&self) -> BTreeMap<String, Tried> {
        let mut all: BTreeMap<String, Tried> = BTreeMap::new();
        for member in self.population.members() {
            let tried = all.entry(member.proposal.by.clone()).or_default();
            let before = member.proposal.parent.and_then(|parent| self.population.get(parent)).map(Member::rank);
            tried.count += 1;
            tried.better += u64::from(before.is_none_or(|before| member.rank() > before));
            tried.cost_usd += member.proposal.usage.known_cost_usd;
        }
        all
    }
}

/// An answer, and the program that it means or what is wrong with it.
struct Heard {
    said: Option<String>,
    made: Result<String, String>,
}

impl Inner {
    /// Asks, once more if the answer is none, and keeps what came of it; nothing if there will be no more answers.
    async fn propose(&self, choice: Choice, mut ask: Ask) -> Result<Option<Proposal>, EvolveError> {
        let start = Instant::now();
        let asked = store::asked(&ask);
        let answer = self.generator.propose(&ask).await;
        if let Some(recorded) = answer.recorded {
            self.store.put_proposal(&recorded, start.elapsed())?;
            return Ok(Some(*recorded));
        }
        let Answer { mut by, what, mut usage, .. } = answer;
        let Some(mut heard) = self.hear(what, &ask)? else { return Ok(None) };
        if let (Some(said), Err(reason), true) = (&heard.said, &heard.made, self.generator.can_repair()) {
            let repair = Repair { answer: said.clone(), reason: reason.clone() };
            ask.messages = prompt::again(std::mem::take(&mut ask.messages), &repair);
            ask.repair = Some(repair);
            let second = self.generator.propose(&ask).await;
            usage.add(&second.usage);
            by = second.by;
            match self.hear(second.what, &ask)? {
                Some(second) => heard = second,
                None => return Ok(None),
            }
        }
        let Heard { said, made } = heard;
        let (code, error) = match made {
            Ok(code) => (Some(code), None),
            Err(error) => (None, Some(error)),
        };
        let is_mutation = self.spec.generator.kind == GeneratorKind::Mutate;
        let proposal = Proposal {
            iteration: ask.iteration,
            island: choice.island,
            parent: choice.parent,
            others: choice.others,
            asked,
            // Of a mutation the program is all there is to say.
            answer: said.filter(|_| !is_mutation).unwrap_or_default(),
            by,
            shape: code.as_ref().map(|code| tree::shape(code, self.spec.is_python())).unwrap_or_default(),
            code,
            error,
            usage: engine::usage::Totals { wall_ms: 0.0, ..usage },
        };
        self.store.put_proposal(&proposal, start.elapsed())?;
        Ok(Some(proposal))
    }

    /// What an answer means; nothing if there will be no more.
    fn hear(&self, what: Result<Form, Silence>, ask: &Ask) -> Result<Option<Heard>, EvolveError> {
        let form = match what {
            Ok(form) => form,
            Err(Silence::Exhausted) => return Ok(None),
            Err(Silence::Failed(why)) => return Ok(Some(Heard { said: None, made: Err(why) })),
            Err(Silence::Fatal(error)) => return Err(error),
        };
        let parent = ask.parent.as_ref().map(|parent| parent.code.as_str()).unwrap_or_default();
        let made = patch::apply(&form, parent, self.spec.program.as_deref(), &self.spec.language);
        let most = self.spec.most_code;
        let made = made.and_then(|code| match code.len() {
            length if length > most => Err(format!("the program has {length} bytes, more than {most}")),
            _ => Ok(code),
        });
        Ok(Some(Heard { said: Some(form.text().to_owned()), made }))
    }

    /// The best program once more, in sandboxes that no other was in.
    async fn last_word(&self, best: Option<String>) -> Result<Option<Evaluation>, EvolveError> {
        match best {
            Some(code) => self.evaluating.evaluate_afresh(&code).await.map(Some),
            None => Ok(None),
        }
    }

    /// Tries a program and keeps what came of it.
    async fn tried(&self, proposal: &Proposal) -> Result<Evaluation, EvolveError> {
        let start = Instant::now();
        let evaluation = self.evaluating.evaluate(proposal.code.as_deref().unwrap_or_default()).await?;
        self.store.put_evaluation(proposal.iteration, &evaluation, start.elapsed())?;
        Ok(evaluation)
    }
}
