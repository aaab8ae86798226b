//! Binding names: what a body may make each name mean, found before the body is read.

use ruff_python_ast::{self as ast, ExceptHandler, Expr, Stmt};
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
                let items = items.as_list().map(|items| items.iter().cloned().collect()).unwrap_or_default();
                self.bind_target(&each.target, &items, Runs::Perhaps);
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
                choice.cases.iter().for_each(|case| self.bind_body(&case.body, Runs::Perhaps));
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
            Expr::Attribute(attribute) => self.remember(attribute.attr.as_str(), values),
            Expr::Starred(starred) => self.bind_target(&starred.value, &Values::default(), runs),
            Expr::Tuple(ast::ExprTuple { elts, .. }) | Expr::List(ast::ExprList { elts, .. }) => {
                for (number, element) in elts.iter().enumerate() {
                    let item = values.as_list().and_then(|items| items.get(number)).cloned();
                    self.bind_target(element, &item.into_iter().collect(), runs);
                }
            }
            _ => {}
        }
    }

    pub(super) fn bind(&mut self, name: &'a str, values: Values, runs: Runs) {
        if self.scopes.in_class() {
            self.remember(name, &values);
        }
        if runs == Runs::Always && self.scopes.in_module() {
            self.scopes.make_certain(name);
        }
        self.scopes.bind(name, values);
    }

    fn remember(&mut self, attribute: &'a str, values: &Values) {
        if !values.is_empty() {
            self.attributes.entry(attribute).or_default().join(values.clone());
        }
    }
}
