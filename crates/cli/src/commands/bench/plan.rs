//! How much is measured, and what of it.

use std::time::Duration;

use super::contender::Contender;
use super::work::Work;

/// How much is measured.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Rounds of the latency part; each asks everybody once.
    pub(super) rounds: usize,
    /// Rounds before them that do not count.
    pub(super) warm_up: usize,
    pub(super) throughput_rounds: usize,
    pub(super) throughput_time: Duration,
    /// Runs handed over at once.
    pub(super) growth: &'static [usize],
    /// Runs of the caller who comes first and of the one who comes second.
    pub(super) order: (usize, usize),
    pub(super) only: Selection,
}

impl Plan {
    /// About five minutes on two processors.
    pub(super) fn full(only: Selection) -> Self {
        Self {
            rounds: 300,
            warm_up: 5,
            throughput_rounds: 3,
            throughput_time: Duration::from_millis(1200),
            growth: &[1, 10, 100, 1000, 10_000],
            order: (9990, 10),
            only,
        }
    }

    /// To see that it works; its figures mean little.
    pub(super) fn quick(only: Selection) -> Self {
        Self {
            rounds: 3,
            warm_up: 1,
            throughput_rounds: 1,
            throughput_time: Duration::from_millis(150),
            growth: &[1, 10, 100],
            order: (90, 10),
            only,
        }
    }
}

/// A part of the bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Latency,
    Throughput,
    Memory,
    Growth,
}

impl Part {
    const ALL: [Self; 4] = [Self::Latency, Self::Throughput, Self::Memory, Self::Growth];

    const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Throughput => "throughput",
            Self::Memory => "memory",
            Self::Growth => "growth",
        }
    }
}

/// One `--only`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Only(Choice);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Part(Part),
    Contender(Contender),
    Work(Work),
}

impl Only {
    fn name(self) -> &'static str {
        match self.0 {
            Choice::Part(part) => part.name(),
            Choice::Contender(contender) => contender.name(),
            Choice::Work(work) => work.name(),
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        let parts = Part::ALL.into_iter().map(Choice::Part);
        let contenders = Contender::ALL.into_iter().map(Choice::Contender);
        parts.chain(contenders).chain(Work::ALL.into_iter().map(Choice::Work)).map(Self)
    }
}

/// Reads one `--only`.
pub(super) fn parse_only(text: &str) -> Result<Only, String> {
    Only::all().find(|only| only.name() == text).ok_or_else(|| {
        let names: Vec<&str> = Only::all().map(Only::name).collect();
        format!("it is one of {}", names.join(", "))
    })
}

/// What of it is measured: of each kind of name those that were given, or all if none was.
#[derive(Debug, Clone, Default)]
pub(super) struct Selection(Vec<Only>);

impl Selection {
    pub(super) fn new(only: Vec<Only>) -> Self {
        Self(only)
    }

    /// Whether nothing was left out on purpose.
    pub(super) fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn part(&self, part: Part) -> bool {
        self.has(Choice::Part(part), |choice| matches!(choice, Choice::Part(_)))
    }

    /// The bare program is always there: everything is told as a ratio to it.
    pub(super) fn contender(&self, contender: Contender) -> bool {
        contender == Contender::Plain
            || self.has(Choice::Contender(contender), |choice| matches!(choice, Choice::Contender(_)))
    }

    pub(super) fn work(&self, work: Work) -> bool {
        self.has(Choice::Work(work), |choice| matches!(choice, Choice::Work(_)))
    }

    /// As it was given, for the command that measures this again.
    pub(super) fn options(&self) -> String {
        self.0.iter().flat_map(|only| [" --only ", only.name()]).collect()
    }

    fn has(&self, wanted: Choice, same_kind: impl Fn(&Choice) -> bool) -> bool {
        let mut named = self.0.iter().map(|only| only.0).filter(same_kind).peekable();
        named.peek().is_none() || named.any(|choice| choice == wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_select_within_their_kind_only() {
        let only = ["latency", "bubblewrap", "cold"].map(|name| parse_only(name).unwrap());
        let selection = Selection::new(only.to_vec());
        assert!(selection.part(Part::Latency) && !selection.part(Part::Growth));
        assert!(selection.contender(Contender::Cold) && selection.contender(Contender::Plain));
        assert!(!selection.contender(Contender::Library));
        assert!(Work::ALL.into_iter().all(|work| selection.work(work)));
        assert!(Selection::default().is_everything() && Selection::default().part(Part::Memory));
        assert!(parse_only("podman").unwrap_err().contains("bubblewrap"));
    }

    #[test]
    fn no_two_things_share_a_name() {
        let mut names: Vec<&str> = Only::all().map(Only::name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
