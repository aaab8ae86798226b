//! Islands, each with a grid of elites: the best program of every size and every distance from the start.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::{Choice, OTHERS, tops};
use crate::evolve::member::Member;
use crate::evolve::rng::Rng;

/// How many islands there are, and how they live.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IslandsSpec {
    /// How many.
    pub count: usize,
    /// Cells along each side of the grid.
    pub bins: usize,
    /// How often parents are any elite of their island.
    pub explore: f64,
    /// How often they are one of its best; the rest come from anywhere.
    pub exploit: f64,
    /// Iterations between migrations; 0 for none.
    pub migration_every: u64,
    /// How many of an island's best are shown to the next one.
    pub migrants: usize,
}

impl Default for IslandsSpec {
    fn default() -> Self {
        Self { count: 4, bins: 10, explore: 0.2, exploit: 0.7, migration_every: 50, migrants: 1 }
    }
}

impl IslandsSpec {
    /// What is wrong with them, if anything.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if !(1..=1000).contains(&self.count) || !(1..=1000).contains(&self.bins) {
            return Err("`count` and `bins` of [islands] must be from 1 to 1000");
        }
        let share = 0.0..=1.0;
        if !share.contains(&self.explore) || !share.contains(&self.exploit) || self.explore + self.exploit > 1.0 {
            return Err("`explore` and `exploit` of [islands] must be shares, at most 1 together");
        }
        Ok(())
    }
}

type Cell = (usize, usize);
type Places = HashMap<u64, usize>;

#[derive(Debug)]
pub(super) struct Islands {
    spec: IslandsSpec,
    grids: Vec<BTreeMap<Cell, u64>>,
    start: Option<Start>,
}

/// What programs are compared with to find their cell.
#[derive(Debug)]
struct Start {
    length: usize,
    words: HashMap<String, usize>,
}

impl Islands {
    pub(super) fn new(spec: IslandsSpec) -> Self {
        let grids = vec![BTreeMap::new(); spec.count];
        Self { spec, grids, start: None }
    }

    /// Gives a program its cell, if it is better than who has it.
    pub(super) fn settle(&mut self, member: &Member, members: &[Member], places: &Places) {
        let cell = self.cell(member.code());
        // Where all begin, each island has it.
        let islands = if member.iteration() == 0 { 0..self.spec.count } else { island(&self.spec, member) };
        for island in islands {
            self.offer(island, cell, member, members, places);
        }
    }

    fn offer(&mut self, island: usize, cell: Cell, member: &Member, members: &[Member], places: &Places) {
        let Some(grid) = self.grids.get_mut(island) else { return };
        let holder = grid.get(&cell).and_then(|holder| places.get(holder)).map(|place| &members[*place]);
        if holder.is_none_or(|holder| member.rank() > holder.rank()) {
            grid.insert(cell, member.iteration());
        }
    }

    /// Shows the best of each island to the next.
    pub(super) fn migrate(&mut self, iteration: u64, members: &[Member], places: &Places) {
        let every = self.spec.migration_every;
        if every == 0 || iteration == 0 || !iteration.is_multiple_of(every) || self.spec.count < 2 {
            return;
        }
        let travellers: Vec<Vec<u64>> = (0..self.spec.count)
            .map(|island| tops(self.elites(island, members, places), None, self.spec.migrants))
            .collect();
        for (island, group) in travellers.iter().enumerate() {
            for member in group.iter().filter_map(|one| places.get(one)).map(|place| &members[*place]) {
                let cell = self.cell(member.code());
                self.offer((island + 1) % self.spec.count, cell, member, members, places);
            }
        }
    }

    fn elites<'a>(
        &'a self,
        island: usize,
        members: &'a [Member],
        places: &'a Places,
    ) -> impl Iterator<Item = &'a Member> {
        let grid = self.grids.get(island).into_iter().flatten();
        grid.filter_map(|(_, iteration)| places.get(iteration)).map(|place| &members[*place])
    }

    pub(super) fn choose(&self, iteration: u64, rng: &mut Rng, members: &[Member], places: &Places) -> Choice {
        let island = usize::try_from(iteration).unwrap_or_default() % self.spec.count;
        let here: Vec<u64> = self.elites(island, members, places).map(Member::iteration).collect();
        let draw = rng.fraction();
        let parent = if draw < self.spec.explore {
            rng.pick(&here).copied()
        } else if draw < self.spec.explore + self.spec.exploit {
            let best = tops(self.elites(island, members, places), None, 2);
            // The best, and now and then the next.
            best.get(usize::from(rng.fraction() < 0.2)).or(best.first()).copied()
        } else {
            let all: Vec<u64> = self.grids.iter().flat_map(|grid| grid.values().copied()).collect();
            rng.pick(&all).copied()
        };
        let parent = parent.or_else(|| rng.pick(&here).copied());
        let mut others = tops(self.elites(island, members, places), parent, OTHERS);
        // One from elsewhere, for what nobody here thinks of.
        let elsewhere: Vec<u64> = self.grids.iter().flat_map(|grid| grid.values().copied()).collect();
        if let Some(other) = rng.pick(&elsewhere).filter(|other| Some(**other) != parent && !others.contains(other)) {
            others.push(*other);
        }
        Choice { island, parent, others }
    }

    fn cell(&mut self, code: &str) -> Cell {
        self.start.get_or_insert_with(|| Start::of(code)).cell(code, self.spec.bins)
    }
}

/// The cell of a program in a grid of the usual size, for reports.
pub(crate) fn cell_of(start: &str, code: &str) -> (usize, usize) {
    Start::of(start).cell(code, IslandsSpec::default().bins)
}

impl Start {
    fn of(code: &str) -> Self {
        Self { length: code.len().max(1), words: words(code) }
    }

    /// By its length and by how much of the starting program is left, both beside the first program seen.
    fn cell(&self, code: &str, bins: usize) -> Cell {
        let most = (bins - 1) as f64;
        let ratio = (code.len().max(1) as f64 / self.length as f64).log2();
        let size = (most / 2.0 + ratio * 2.0).round().clamp(0.0, most);
        let own = words(code);
        let left = |(word, count): (&String, &usize)| (*count).min(self.words.get(word).copied().unwrap_or(0));
        let shared: usize = own.iter().map(left).sum();
        let all = own.values().sum::<usize>().max(self.words.values().sum()).max(1);
        let distance = ((1.0 - shared as f64 / all as f64) * bins as f64).clamp(0.0, most);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the number of bins")]
        let cell = (size as usize, distance as usize);
        cell
    }
}

fn island(spec: &IslandsSpec, member: &Member) -> std::ops::Range<usize> {
    let island = member.proposal.island.min(spec.count - 1);
    island..island + 1
}

fn words(code: &str) -> HashMap<String, usize> {
    let mut found = HashMap::new();
    for word in code.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty()) {
        *found.entry(word.to_owned()).or_insert(0) += 1;
    }
    found
}
