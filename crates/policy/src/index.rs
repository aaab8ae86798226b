//! Rules by what they match, so that a fact costs a look-up and not a walk through the table.

use std::collections::{HashMap, HashSet};

use types::Severity;

use crate::imports::whole_and_above;
use crate::rule::{Match, Names, Rule, Shape};

/// One kind of name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Import,
    Name,
    Call,
    Attribute,
    Method,
    Command,
}

/// The rules of one table.
pub(crate) struct Index<'r> {
    rules: &'r [Rule],
    names: HashMap<(Kind, &'r str), Vec<usize>>,
    /// Entries that end in `.*`, without it.
    below: HashMap<(Kind, &'r str), Vec<usize>>,
    texts: Vec<(String, usize)>,
    shapes: HashMap<Shape, usize>,
    /// The last parts of names that are critical.
    lasts: HashSet<&'r str>,
}

impl<'r> Index<'r> {
    pub(crate) fn new(rules: &'r [Rule]) -> Self {
        let mut index = Self {
            rules,
            names: HashMap::new(),
            below: HashMap::new(),
            texts: Vec::new(),
            shapes: HashMap::new(),
            lasts: HashSet::new(),
        };
        for (number, rule) in rules.iter().enumerate() {
            if let (Match::Name(names), Severity::Critical) = (&rule.matches, rule.severity) {
                index.lasts.extend(names.iter().filter_map(|name| name.rsplit('.').next()));
            }
            match &rule.matches {
                Match::Import(names) => index.add(Kind::Import, names, number),
                Match::Name(names) => index.add(Kind::Name, names, number),
                Match::Call(names) => index.add(Kind::Call, names, number),
                Match::Attribute(names) => index.add(Kind::Attribute, names, number),
                Match::Method(names) => index.add(Kind::Method, names, number),
                Match::Command(names) => index.add(Kind::Command, names, number),
                Match::Text(names) => {
                    index.texts.extend(names.iter().map(|text| (text.to_lowercase(), number)));
                }
                Match::Shape(shape) => {
                    index.shapes.insert(*shape, number);
                }
            }
        }
        index
    }

    fn add(&mut self, kind: Kind, names: &'r Names, rule: usize) {
        for name in names.iter() {
            let (map, name) = match name.strip_suffix(".*") {
                Some(name) => (&mut self.below, name),
                None => (&mut self.names, name),
            };
            map.entry((kind, name)).or_default().push(rule);
        }
    }

    /// Rules about this very name, or about everything below something that it is below.
    pub(crate) fn find(&self, kind: Kind, name: &str) -> Vec<&'r Rule> {
        if self.rules.is_empty() {
            return Vec::new();
        }
        let exact = self.names.get(&(kind, name)).into_iter().flatten();
        let above = (!self.below.is_empty()).then(|| whole_and_above(name).skip(1)).into_iter().flatten();
        let below = above.filter_map(|above| self.below.get(&(kind, above))).flatten();
        exact.chain(below).filter_map(|number| self.rules.get(*number)).collect()
    }

    /// Rules about this module or one that it is part of.
    pub(crate) fn find_module(&self, module: &str) -> Vec<&'r Rule> {
        if self.rules.is_empty() {
            return Vec::new();
        }
        whole_and_above(module)
            .filter_map(|name| self.names.get(&(Kind::Import, name)))
            .flatten()
            .filter_map(|n| self.rules.get(*n))
            .collect()
    }

    pub(crate) fn knows(&self, kind: Kind, name: &str) -> bool {
        self.names.contains_key(&(kind, name))
    }

    /// Whether a name may end like this that is critical.
    pub(crate) fn may_be_critical(&self, last: &str) -> bool {
        self.lasts.contains(last)
    }

    pub(crate) fn is_critical(&self, name: &str) -> bool {
        let rules = self.names.get(&(Kind::Name, name)).into_iter().flatten().filter_map(|n| self.rules.get(*n));
        rules.into_iter().any(|rule| rule.severity == Severity::Critical)
    }

    pub(crate) fn find_texts(&self, lower: &str) -> Vec<&'r Rule> {
        let found = self.texts.iter().filter(|(text, _)| lower.contains(text));
        found.filter_map(|(_, n)| self.rules.get(*n)).collect()
    }

    pub(crate) fn has_texts(&self) -> bool {
        !self.texts.is_empty()
    }

    pub(crate) fn find_shape(&self, shape: Shape) -> Option<&'r Rule> {
        self.shapes.get(&shape).and_then(|number| self.rules.get(*number))
    }
}
