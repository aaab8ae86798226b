//! Which name means what, where.

use std::collections::{HashMap, HashSet};

use crate::value::{Value, Values};

/// What kind of place binds names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Module,
    Function,
    /// Its names are seen in its own body only, not in the functions there.
    Class,
}

struct Scope<'a> {
    kind: Kind,
    bound: Vec<&'a str>,
    globals: HashSet<&'a str>,
    /// Names of a function around this one.
    outer: Vec<&'a str>,
}

/// All names that can be seen. A look-up costs the same however deep the code is nested.
pub(crate) struct Scopes<'a> {
    stack: Vec<Scope<'a>>,
    /// For each name its meanings, outermost first, with the number of the scope.
    names: HashMap<&'a str, Vec<(usize, Values)>>,
    /// Names that the module binds in any case: what they mean elsewhere, they do not mean here.
    certain: HashSet<&'a str>,
}

impl<'a> Scopes<'a> {
    pub(crate) fn new() -> Self {
        let module = Scope { kind: Kind::Module, bound: Vec::new(), globals: HashSet::new(), outer: Vec::new() };
        Self { stack: vec![module], names: HashMap::new(), certain: HashSet::new() }
    }

    pub(crate) fn enter(&mut self, kind: Kind) {
        self.stack.push(Scope { kind, bound: Vec::new(), globals: HashSet::new(), outer: Vec::new() });
    }

    pub(crate) fn leave(&mut self) {
        let Some(scope) = self.stack.pop() else { return };
        let level = self.stack.len();
        for name in scope.bound {
            if let Some(meanings) = self.names.get_mut(name)
                && meanings.last().is_some_and(|(at, _)| *at == level)
            {
                meanings.pop();
            }
        }
    }

    pub(crate) fn in_class(&self) -> bool {
        self.stack.last().is_some_and(|scope| scope.kind == Kind::Class)
    }

    pub(crate) fn in_module(&self) -> bool {
        self.stack.len() == 1
    }

    /// `global x`: from here on the module's own.
    pub(crate) fn declare_global(&mut self, name: &'a str) {
        if let Some(scope) = self.stack.last_mut() {
            scope.globals.insert(name);
        }
    }

    /// `nonlocal x`: from here on that of a function around this one.
    pub(crate) fn declare_outer(&mut self, name: &'a str) {
        if let Some(scope) = self.stack.last_mut().filter(|scope| scope.outer.len() < 32) {
            scope.outer.push(name);
        }
    }

    /// Whether what is bound to this name here is found in another function.
    pub(crate) fn is_elsewhere(&self, name: &str) -> bool {
        self.stack.last().is_some_and(|scope| scope.outer.contains(&name))
    }

    /// Adds what a name may mean in this scope. Nothing known is still a binding: the name is this code's own.
    pub(crate) fn bind(&mut self, name: &'a str, mut values: Values) {
        if values.is_empty() {
            values.add(Value::Own);
        }
        let innermost = self.stack.len() - 1;
        let global = self.stack.last().is_some_and(|scope| scope.globals.contains(name));
        let level = if global { 0 } else { innermost };
        let meanings = self.names.entry(name).or_default();
        match meanings.iter_mut().rev().find(|(at, _)| *at <= level) {
            Some((at, known)) if *at == level => known.join(values),
            _ => {
                let place = meanings.iter().rposition(|(at, _)| *at < level).map_or(0, |at| at + 1);
                meanings.insert(place, (level, values));
                if let Some(scope) = self.stack.get_mut(level) {
                    scope.bound.push(name);
                }
            }
        }
    }

    /// Adds to what a name means wherever it was bound: `x.append(os)`.
    pub(crate) fn amend(&mut self, name: &str, values: Values) {
        if let Some((_, known)) = self.names.get_mut(name).and_then(|meanings| meanings.last_mut()) {
            known.join(values);
        }
    }

    /// The module binds this name whatever happens.
    pub(crate) fn make_certain(&mut self, name: &'a str) {
        self.certain.insert(name);
    }

    /// What a name may mean, and whether it may also be the builtin of that name.
    pub(crate) fn find(&self, name: &str) -> (Option<&Values>, bool) {
        let innermost = self.stack.len() - 1;
        let visible =
            |level: usize| level == innermost || self.stack.get(level).is_some_and(|scope| scope.kind != Kind::Class);
        let meanings = self.names.get(name).map(Vec::as_slice).unwrap_or_default();
        match meanings.iter().rev().find(|(level, _)| visible(*level)) {
            // Inside a function a name that is bound is local on every path; in a module or class it may not be bound yet.
            Some((level, values)) => {
                let certain = match self.stack.get(*level).map(|scope| scope.kind) {
                    Some(Kind::Function) => true,
                    Some(Kind::Module) => self.certain.contains(name),
                    Some(Kind::Class) | None => false,
                };
                (Some(values), !certain)
            }
            None => (None, true),
        }
    }
}
