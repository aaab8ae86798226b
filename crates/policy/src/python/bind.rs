//! Binding names: what a body may make each name mean, found before the body is read.

use ruff_python_ast::{self as ast, ExceptHandler, Expr, Pattern, Stmt};
use ruff_text_size::Ranged;

use super::fold;
use super::reader::Reader;
use crate::value::Values;

/// Whether a statement runs in any case.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Runs {
    Always,
    Perhaps,
}

impl<'a> Reader<'a, '_, '_> {
    /// Binds everything that a body binds, in whatever order it runs: a function may use what comes after it.
    pub(super) fn bind_body(&mut self, body: &'a [Stmt], runs: Runs) {
        let quiet = std::mem::replace(&mut self.sink.quiet, true);
        for statement in body {
            self.bind_statement(statement, runs);
        }
        self.sink.quiet = quiet;
    }

    fn bind_statement(&mut self, statement: &'a Stmt, runs: Runs) {
        match statement {
            Stmt::Global(global) => {
                global.names.iter().for_each(|name| self.scopes.declare_global(name.as_str()));
            }
            Stmt::Nonlocal(outer) => {
                outer.names.iter().for_each(|name| self.scopes.declare_outer(name.as_str()));
            }
            Stmt::FunctionDef(function) => self.bind(function.name.as_str(), Values::default(), runs),
            Stmt::ClassDef(class) => self.bind(class.name.as_str(), Values::default(), runs),
            Stmt::Import(import) => self.bind_import(import, runs),
            Stmt::ImportFrom(import) => self.bind_import_from(import, runs),
            Stmt::Assign(assign) => {
                let values = self.eval(&assign.value);
                for target in &assign.targets {
                    self.bind_target(target, &values, runs);
                }
            }
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    let values = self.eval(value);
                    self.bind_target(&assign.target, &values, runs);
                }
            }
            Stmt::AugAssign(assign) => {
                let left = match &*assign.target {
                    Expr::Name(name) => self.name(name.id.as_str(), 0),
                    _ => Values::default(),
                };
                let right = self.eval(&assign.value);
                let values = fold::operate(&left, assign.op, &right);
                self.bind_target(&assign.target, &values, Runs::Perhaps);
            }
            Stmt::For(each) => {
                let items = self.eval(&each.iter);
                self.bind_target(&each.target, &items.items(), Runs::Perhaps);
                self.bind_body(&each.body, Runs::Perhaps);
                self.bind_body(&each.orelse, Runs::Perhaps);
            }
            Stmt::While(repeat) => {
                self.bind_body(&repeat.body, Runs::Perhaps);
                self.bind_body(&repeat.orelse, Runs::Perhaps);
            }
            Stmt::If(choice) => {
                self.bind_body(&choice.body, Runs::Perhaps);
                for clause in &choice.elif_else_clauses {
                    self.bind_body(&clause.body, Runs::Perhaps);
                }
            }
            Stmt::With(with) => {
                for item in &with.items {
                    let values = self.eval(&item.context_expr);
                    if let Some(target) = &item.optional_vars {
                        self.bind_target(target, &values, runs);
                    }
                }
                self.bind_body(&with.body, runs);
            }
            Stmt::Try(attempt) => {
                self.bind_body(&attempt.body, Runs::Perhaps);
                for ExceptHandler::ExceptHandler(handler) in &attempt.handlers {
                    if let Some(name) = &handler.name {
                        self.bind(name.as_str(), Values::default(), Runs::Perhaps);
                    }
                    self.bind_body(&handler.body, Runs::Perhaps);
                }
                self.bind_body(&attempt.orelse, Runs::Perhaps);
                self.bind_body(&attempt.finalbody, runs);
            }
            Stmt::Match(choice) => {
                let subject = self.eval(&choice.subject);
                for case in &choice.cases {
                    self.bind_pattern(&case.pattern, &subject);
                    self.bind_body(&case.body, Runs::Perhaps);
                }
            }
            _ => {}
        }
    }

    pub(super) fn bind_import(&mut self, import: &'a ast::StmtImport, runs: Runs) {
        for alias in &import.names {
            let module = alias.name.as_str();
            let at = alias.range().start().to_usize();
            self.sink.import(module, at);
            let first = module.split('.').next().unwrap_or(module);
            match &alias.asname {
                Some(name) => self.bind(name.as_str(), Values::path(module), runs),
                None => self.bind(first, Values::path(first), runs),
            }
        }
    }

    pub(super) fn bind_import_from(&mut self, import: &'a ast::StmtImportFrom, runs: Runs) {
        let module = import.module.as_ref().map(ast::Identifier::as_str);
        if let Some(module) = module {
            self.sink.import(module, import.range.start().to_usize());
        }
        for alias in &import.names {
            let (name, at) = (alias.name.as_str(), alias.range().start().to_usize());
            let bound = alias.asname.as_ref().map_or(name, ast::Identifier::as_str);
            let values = match module {
                // `from . import x` brings a module of the program's own package, or one that only looks so.
                None => {
                    self.sink.import(name, at);
                    Values::path(name)
                }
                Some(module) if name == "*" => {
                    if self.stars.len() < 8 && !self.stars.contains(&module) {
                        self.stars.push(module);
                    }
                    continue;
                }
                Some(module) => {
                    // `from os import path` imports a module too, and lists may name it.
                    self.attribute(&Values::path(module), name, (at, at))
                }
            };
            self.bind(bound, values, runs);
        }
    }

    /// Binds a name, a tuple of names, or an attribute.
    pub(super) fn bind_target(&mut self, target: &'a Expr, values: &Values, runs: Runs) {
        match target {
            Expr::Name(name) => self.bind(name.id.as_str(), values.clone(), runs),
            // Objects are not followed; what an attribute was ever set to, it may be anywhere.
            Expr::Attribute(attribute) => {
                self.escape(values);
                self.remember(attribute.attr.as_str(), values);
            }
            Expr::Starred(starred) => self.bind_target(&starred.value, values, runs),
            Expr::Tuple(ast::ExprTuple { elts, .. }) | Expr::List(ast::ExprList { elts, .. }) => {
                let star = elts.iter().position(Expr::is_starred_expr);
                let items = values.as_list().unwrap_or_default();
                for (number, element) in elts.iter().enumerate() {
                    let part: Values = match star {
                        // Whatever the others leave.
                        Some(star) if star == number => items.iter().cloned().collect::<Values>().somewhere(),
                        Some(star) if star < number => {
                            let place = (items.len() + number).checked_sub(elts.len());
                            place.and_then(|place| items.get(place)).cloned().into_iter().collect()
                        }
                        _ => items.get(number).cloned().into_iter().collect(),
                    };
                    let part = if items.is_empty() { values.under(None) } else { part };
                    self.bind_target(element, &part, runs);
                }
            }
            _ => {}
        }
    }

    /// `x["key"] = value`: objects are not followed, so what was put under a key may be under it anywhere.
    pub(super) fn bind_key(&mut self, target: &'a Expr, values: &Values) {
        if let Expr::Subscript(subscript) = target {
            self.escape(values);
            let quiet = std::mem::replace(&mut self.sink.quiet, true);
            let key = self.eval(&subscript.slice);
            self.sink.quiet = quiet;
            key.texts().for_each(|key| self.remember(key, values));
        }
    }

    /// The names of a pattern are parts of what it is held against.
    fn bind_pattern(&mut self, pattern: &'a Pattern, values: &Values) {
        match pattern {
            Pattern::MatchAs(case) => {
                if let Some(inner) = &case.pattern {
                    self.bind_pattern(inner, values);
                }
                if let Some(name) = &case.name {
                    self.bind(name.as_str(), values.clone(), Runs::Perhaps);
                }
            }
            Pattern::MatchSequence(case) => {
                for (number, part) in case.patterns.iter().enumerate() {
                    let item = values.as_list().and_then(|items| items.get(number)).cloned();
                    self.bind_pattern(part, &item.into_iter().collect());
                }
            }
            Pattern::MatchMapping(case) => {
                for (key, part) in case.keys.iter().zip(&case.patterns) {
                    let key = self.eval(key);
                    self.bind_pattern(part, &values.under(key.as_text()));
                }
                if let Some(rest) = &case.rest {
                    self.bind(rest.as_str(), values.clone(), Runs::Perhaps);
                }
            }
            Pattern::MatchStar(case) => {
                if let Some(name) = &case.name {
                    self.bind(name.as_str(), values.somewhere(), Runs::Perhaps);
                }
            }
            Pattern::MatchOr(case) => case.patterns.iter().for_each(|part| self.bind_pattern(part, values)),
            // What attributes of an object are is not followed.
            Pattern::MatchClass(case) => {
                let named = case.arguments.keywords.iter().map(|keyword| &keyword.pattern);
                let parts = case.arguments.patterns.iter().chain(named);
                parts.for_each(|part| self.bind_pattern(part, &Values::default()));
            }
            Pattern::MatchValue(_) | Pattern::MatchSingleton(_) => {}
        }
    }

    pub(super) fn bind(&mut self, name: &'a str, values: Values, runs: Runs) {
        if self.scopes.in_class() {
            self.escape(&values);
            self.remember(name, &values);
        }
        if self.scopes.is_elsewhere(name) {
            self.escape(&values);
        }
        if runs == Runs::Always && self.scopes.in_module() {
            self.scopes.make_certain(name);
        }
        self.scopes.bind(name, values);
    }

    pub(super) fn remember(&mut self, attribute: &str, values: &Values) {
        if values.is_empty() {
            return;
        }
        match self.attributes.get_mut(attribute) {
            Some(known) => known.join(values.clone()),
            None => drop(self.attributes.insert(attribute.to_owned(), values.clone())),
        }
    }
}
