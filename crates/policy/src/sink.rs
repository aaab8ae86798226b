//! Facts go in, findings come out.

use std::collections::{HashMap, HashSet};

use types::Finding;

use crate::imports::{ImportsOf, Lists, Word};
use crate::index::{Index, Kind};
use crate::language::Language;
use crate::position::Lines;
use crate::rule::{Rule, Shape};
use crate::text;

/// Of one rule in one piece of code. What blocks has blocked by then.
const MOST_OF_A_RULE: usize = 50;
/// Texts that are run as code, and bytes of them all.
const MOST_INNER: usize = 32;
const MOST_INNER_BYTES: usize = 16 << 10;
/// A longer name of a module is cut.
const MOST_MODULE: usize = 256;
/// Names in messages are cut: they come from the code.
const MOST_SHOWN: usize = 120;

/// Collects what a reader tells.
pub(crate) struct Sink<'a> {
    index: &'a Index<'static>,
    own: &'a Index<'a>,
    imports: Lists<'a>,
    ignore: HashSet<&'a str>,
    lines: &'a Lines<'a>,
    found: Vec<(usize, Finding)>,
    seen: HashSet<(*const Rule, usize)>,
    counts: HashMap<*const Rule, usize>,
    /// Code of some language that the code holds as a text and runs, with its place.
    inner: Vec<(Language, String, usize)>,
    /// Bytes of it that are read.
    pub(crate) room: usize,
    /// While names are only bound, nothing is told.
    pub(crate) quiet: bool,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(
        (index, own): (&'a Index<'static>, &'a Index<'a>),
        imports: &'a ImportsOf,
        ignore: &'a [String],
        lines: &'a Lines<'a>,
    ) -> Self {
        let (seen, counts) = (HashSet::new(), HashMap::new());
        let (imports, ignore) = (Lists::new(imports), ignore.iter().map(String::as_str).collect());
        Self {
            index,
            own,
            imports,
            ignore,
            lines,
            found: Vec::new(),
            seen,
            counts,
            inner: Vec::new(),
            room: MOST_INNER_BYTES,
            quiet: false,
        }
    }

    /// Findings in the order of the code.
    pub(crate) fn finish(mut self) -> Vec<Finding> {
        self.found.sort_by_key(|(at, _)| *at);
        self.found.into_iter().map(|(_, finding)| finding).collect()
    }

    /// A text is run as code of some language. So much of it is read, and the rest is not: it is told as too deep.
    pub(crate) fn inner(&mut self, language: Language, code: &str, at: usize) {
        let bytes: usize = self.inner.iter().map(|(_, code, _)| code.len()).sum();
        if self.quiet {
            return;
        }
        if self.inner.len() < MOST_INNER && bytes + code.len() <= self.room {
            self.inner.push((language, code.to_owned(), at));
        } else {
            self.shape(Shape::TooDeep, "", at);
        }
    }

    /// The texts that are run as code, with the line and column of each.
    pub(crate) fn take_inner(&mut self) -> Vec<(Language, String, (u32, u32))> {
        let inner = std::mem::take(&mut self.inner);
        inner.into_iter().map(|(language, code, at)| (language, code, self.lines.place(at))).collect()
    }

    /// A module is imported, by whatever means.
    pub(crate) fn import(&mut self, module: &str, at: usize) {
        if self.quiet || module.is_empty() {
            return;
        }
        // No module has a longer name, and each part of it is looked up with all that is before it.
        let module = &module[..module.floor_char_boundary(MOST_MODULE)];
        match self.imports.say(module) {
            Word::Denied => self.shape(Shape::Denied, module, at),
            Word::NotAllowed => self.shape(Shape::NotAllowed, module, at),
            Word::Nothing => {}
        }
        if !self.imports.names(module) {
            for rule in self.index.find_module(module) {
                self.add(rule, module, at);
            }
        }
        for rule in self.own.find_module(module) {
            self.add(rule, module, at);
        }
    }

    /// A name stands for `path`.
    pub(crate) fn name(&mut self, path: &str, at: usize) {
        self.tell(Kind::Name, path, at);
    }

    /// `path` is called.
    pub(crate) fn call(&mut self, path: &str, at: usize) {
        self.tell(Kind::Call, path, at);
    }

    pub(crate) fn attribute(&mut self, name: &str, at: usize) {
        self.tell(Kind::Attribute, name, at);
    }

    pub(crate) fn method(&mut self, name: &str, at: usize) {
        self.tell(Kind::Method, name, at);
    }

    pub(crate) fn command(&mut self, name: &str, at: usize) {
        self.tell(Kind::Command, name, at);
    }

    /// A text, whole or put together.
    pub(crate) fn text(&mut self, value: &str, at: usize) {
        if self.quiet || value.len() < 4 {
            return;
        }
        if text::is_destructive(value) {
            self.shape(Shape::Destructive, value, at);
        }
        if text::climbs(value) {
            self.shape(Shape::Traversal, value, at);
        }
        if self.own.has_texts() {
            let lower = value.to_lowercase();
            for rule in self.own.find_texts(&lower) {
                self.add(rule, value, at);
            }
        }
    }

    pub(crate) fn shape(&mut self, shape: Shape, seen: &str, at: usize) {
        if let Some(rule) = self.index.find_shape(shape) {
            self.add(rule, seen, at);
        }
    }

    /// Whether the table has a word for this path itself.
    pub(crate) fn knows(&self, path: &str) -> bool {
        self.index.knows(Kind::Name, path) || self.index.knows(Kind::Call, path)
    }

    /// Whether this path is one of the worst.
    pub(crate) fn is_critical(&self, path: &str) -> bool {
        self.index.is_critical(path)
    }

    /// Whether one of the worst may end like this.
    pub(crate) fn may_be_critical(&self, last: &str) -> bool {
        self.index.may_be_critical(last)
    }

    fn tell(&mut self, kind: Kind, name: &str, at: usize) {
        if self.quiet {
            return;
        }
        for rule in self.index.find(kind, name) {
            self.add(rule, name, at);
        }
        for rule in self.own.find(kind, name) {
            self.add(rule, name, at);
        }
    }

    fn add(&mut self, rule: &Rule, seen: &str, at: usize) {
        let key: *const Rule = rule;
        if self.quiet || self.ignore.contains(&*rule.id) || !self.seen.insert((key, at)) {
            return;
        }
        let count = self.counts.entry(key).or_default();
        *count += 1;
        if *count > MOST_OF_A_RULE {
            return;
        }
        let (line, column) = self.lines.place(at);
        self.found.push((at, finding(rule, seen, line, column)));
    }
}

/// What a rule says of something seen.
pub(crate) fn finding(rule: &Rule, seen: &str, line: u32, column: u32) -> Finding {
    let shown: String = seen.chars().take(MOST_SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    Finding {
        rule: rule.id.to_string(),
        severity: rule.severity,
        points: rule.points,
        line,
        column,
        message: rule.message.replace("{}", &shown),
        blocks: false,
        file: None,
    }
}
